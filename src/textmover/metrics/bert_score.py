"""BERTScore behind the interface that torchmetrics gives it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.checkpoints.statistics_files import unfitted_statistics
from textmover.metrics.bert_score_matches import TokenMatches, idf_values, match_tokens
from textmover.metrics.bert_score_model import bert_score_model, load_bert_score, unavailable
from textmover.metrics.scorer_metric import ScorerMetric, split_options
from textmover.modules.config import DEFAULT_ENCODER
from textmover.modules.tokens.text_arguments import listed_texts, normalize_references
from textmover.scoring import Scorer
from textmover.scoring.scorer import as_scorer
from textmover.types import InputError, SegmentMetric

SIDES = ("precision", "recall", "f1")

SCORED = dict.fromkeys(SIDES, torch.float64)
"""States of segments that are scored at once."""

MATCHED = {"similarities": torch.float32, "tokens": torch.int32, "lengths": torch.long, "references": torch.long}
"""States of segments whose weights are not known yet: the fields of :class:`TokenMatches`."""


class TextMoverBERTScore(ScorerMetric):
    r"""BERTScore with the arguments and outputs of ``torchmetrics.text.BERTScore``.

    ``compute`` gives ``{"precision", "recall", "f1"}`` of each segment in the order of their positions (see
    :class:`~textmover.metrics.ordered.OrderedStates`), float32 ``[n]``, and with ``return_hash`` also ``"hash"``. With
    several references each value is the best over them.

    Texts are scored as they come in, and three numbers per segment are kept. With ``idf`` the weights depend on the
    references of all processes, those of all distinct positions, as often as they occur: then each weighted token's
    similarity to its best partner and its id are kept, eight bytes a token, and ``compute`` weighs them.

    Where torchmetrics gives no finite value, that of :class:`Scorer` is given: 0 for a text without tokens, uniform
    weights for one whose idf weights are all 0.

    Args:
        model_name_or_path: Encoder by name or folder, the default one if ``None``; or a :class:`Scorer` or metric
            module with ``matching="bertscore"``, which is used as it is and referred to, as in ``TextMoverScore``.
        num_layers: Layer that is read, counted from 0, the embeddings; negative ones from the end. The last if
            ``None``.
        all_layers: Not available.
        model: Not available.
        user_tokenizer: Not available.
        user_forward_fn: Not available.
        verbose: Accepted without effect.
        idf: Weigh tokens by their inverse document frequency in the references.
        device: Where the encoder runs; a GPU, if there is one, if ``None``.
        max_length: Longest text in tokens, special ones included; what the encoder allows if ``None``.
        batch_size: Accepted without effect: no score depends on it.
        num_threads: Accepted without effect.
        return_hash: Add the model's name, layer and idf as torchmetrics writes them; ``scorer.signature`` says all.
        lang: Accepted without effect, since no baseline is fetched.
        rescale_with_baseline: Map values by :math:`(x - b)/(1 - b)`. Without ``baseline_path``, fit :math:`b` with
            ``metric.scorer.fit(texts)`` before the first update.
        baseline_path: Table of bert-score's (``.csv`` or ``.tsv``), or a file that ``Scorer.save_statistics`` or
            ``textmover fit-baseline`` wrote for the same metric.
        baseline_url: Not available.
        truncation: Cut longer texts; they are refused otherwise.
        special_tokens: ``"drop"``, if ``None``: as in torchmetrics, tokens match ordinary tokens or nothing
            (similarity 0). ``"targets"``: as in bert-score, they may match special tokens as well.
        **kwargs: Options of torchmetrics (``sync_on_compute``, …), and others of :meth:`Scorer.from_pretrained` where
            the encoder is given by name: ``precision``, ``revision``, ``long_texts="window"``, …

    Raises:
        TypeError: If an argument is given that is not available.
        InputError: If the encoder or the baseline cannot be loaded, or the metric is not BERTScore.

    Example:
        >>> from textmover import TextMoverBERTScore
        >>> metric = TextMoverBERTScore()  # doctest: +SKIP
        >>> metric(["A cat sat there."], ["There sat a cat."])["f1"]  # doctest: +SKIP
        tensor(0.8922)

    Reference:
        Zhang et al. 2020 (BERTScore).
    """

    def __init__(
        self,
        model_name_or_path: str | Path | Scorer | SegmentMetric | None = None,
        num_layers: int | None = None,
        all_layers: bool = False,
        model: Any = None,
        user_tokenizer: Any = None,
        user_forward_fn: Any = None,
        verbose: bool = False,
        idf: bool = False,
        device: str | torch.device | None = None,
        max_length: int | None = None,
        batch_size: int = 64,
        num_threads: int = 0,
        return_hash: bool = False,
        lang: str = "en",
        rescale_with_baseline: bool = False,
        baseline_path: str | Path | None = None,
        baseline_url: str | None = None,
        truncation: bool = False,
        *,
        special_tokens: Literal["drop", "targets"] | None = None,
        **kwargs: Any,
    ) -> None:
        unavailable(locals())
        if not isinstance(idf, bool):
            raise InputError(f"Expected `idf` to be True or False, but got {idf!r}.")
        model_name_or_path = DEFAULT_ENCODER if model_name_or_path is None else model_name_or_path
        own, options = split_options(kwargs)
        if device is not None:
            options["device"] = device
        chosen: dict[str, Any] = {
            "num_layers": num_layers,
            "max_length": max_length,
            "truncation": truncation,
            "special_tokens": special_tokens,
            "rescale_with_baseline": rescale_with_baseline,
            "baseline_path": baseline_path,
        }
        if isinstance(model_name_or_path, (str, Path)):
            scorer = load_bert_score(model_name_or_path, **chosen, options=options)
            name, layer = str(model_name_or_path), str(num_layers)
        else:
            given = {key: value for key, value in chosen.items() if value is not None and value is not False}
            scorer = as_scorer(model_name_or_path, **{**given, **options})
            entries = scorer.metric.signature.entries
            name, layer = entries.get("encoder", ""), entries.get("layer", "")
        bert_score_model(scorer, idf=idf)
        super().__init__(scorer, MATCHED if idf else SCORED, **own)
        self.idf = idf
        self.hash = f"{name}_L{layer}_{'idf' if idf else 'no-idf'}" if return_hash else None

    def update(  # type: ignore[override]
        self,
        preds: str | Sequence[str],
        target: str | Sequence[str] | Sequence[Sequence[str]],
        positions: Sequence[int] | Tensor | None = None,
    ) -> None:
        """Score further hypotheses.

        Args:
            preds: One hypothesis or several.
            target: For each, its reference or references.
            positions: Place of each segment among all; numbered as distributed samplers do where not given.

        Raises:
            InputError: If the counts differ, a hypothesis has no reference, a text is too long and not to be cut, or
                the baseline has not been fitted.
        """
        if not self.idf:
            found = self.scorer.score(preds, target)
            values = (found.precision, found.recall, found.f)
            columns = {name: torch.from_numpy(one) for name, one in zip(SIDES, values, strict=True)}
            self.keep(columns, len(found), positions)
            return
        if self.scorer.metric.needs_fit:
            raise InputError(
                f"Expected the metric's corpus statistics ({', '.join(unfitted_statistics(self.scorer.metric))}) to be "
                "fitted, but they are not: call `metric.scorer.fit(texts)`, or give a file of them."
            )
        hypotheses = listed_texts(preds, "hypotheses")
        references = normalize_references(hypotheses, target)
        model = bert_score_model(self.scorer, idf=self.idf)
        matches = match_tokens(self.scorer, model, hypotheses, references)
        self.keep(matches._asdict(), len(hypotheses), positions)

    def compute(self) -> dict[str, Any]:
        """Precision, recall and F1 of all segments in order, float32; torchmetrics makes single ones scalars."""
        rows, _ = self.order()
        if self.idf:
            recall, precision, f = self._weighted(rows).unbind(dim=1)
            result: dict[str, Any] = dict(zip(SIDES, (precision, recall, f), strict=True))
        else:
            result = {name: self.column(name)[rows] for name in SIDES}
        result = {name: values.to(self.device, torch.float32) for name, values in result.items()}
        return result if self.hash is None else {**result, "hash": self.hash}

    def _weighted(self, rows: Tensor) -> Tensor:
        """Recall, precision and F of the segments at the given rows, ``[n, 3]``, with the idf of their references."""
        model = bert_score_model(self.scorer, idf=self.idf)
        # On the CPU, since not every device has float64.
        matches = TokenMatches(*(self.column(name).cpu() for name in TokenMatches._fields)).select(rows.cpu())
        values, unweighted = idf_values(matches, model.config.alpha)
        if model.baseline is not None:
            values = model.baseline(values)
        owners = torch.repeat_interleave(torch.arange(len(rows)), matches.references)
        if bool(unweighted.any()):
            self.scorer.warn({"unweighted": len(torch.unique(owners[unweighted]))})
        reduce = "mean" if model.multi_reference == "mean" else "amax"
        combined = torch.zeros(len(rows), 3, dtype=values.dtype)
        return combined.scatter_reduce_(0, owners[:, None].expand(-1, 3), values, reduce, include_self=False)
