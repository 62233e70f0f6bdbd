"""BERTScore behind the interface that torchmetrics gives it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.checkpoints.loading import metric_named
from textmover.checkpoints.statistics_files import unfitted_statistics
from textmover.metrics.bert_score_matches import FlooredGreedy, TokenMatches, idf_values, match_tokens
from textmover.metrics.scorer_metric import ScorerMetric, split_options
from textmover.modules.config import DEFAULT_ENCODER
from textmover.modules.matching.matchings import Greedy
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.text_arguments import listed_texts, normalize_references
from textmover.scoring import Scorer
from textmover.scoring.scorer import as_scorer
from textmover.types import InputError, SegmentMetric, check_choice

SIDES = ("precision", "recall", "f1")

SCORED = dict.fromkeys(SIDES, torch.float64)  # states of segments that are scored at once

MATCHED = {"similarities": torch.float32, "tokens": torch.int32, "lengths": torch.long, "references": torch.long}
"""States of segments whose weights are not known yet: the fields of :class:`TokenMatches`."""

TABLE_ENDINGS = (".csv", ".tsv")  # endings of the tables of baselines that bert-score comes with

WITH_IDF: dict[str, tuple[Any, ...]] = {
    "weights": ("uniform",),
    "normalize": (False,),
    "centering": ("none", "dimension", "sentence", "corpus"),
    "ngram": (1,),
    "subwords": ("all", "first"),
    "hypothesis_special_tokens": ("drop", "targets"),
    "reference_special_tokens": ("drop", "targets"),
    "multi_reference": ("best", "mean"),
}
"""Fields of a metric whose values can be kept token by token until idf weights are known."""

UNAVAILABLE = {
    "all_layers": "make one metric per layer with `num_layers`",
    "model": "give a metric or a Scorer as `model_name_or_path`",
    "user_tokenizer": "give a folder that holds encoder and tokenizer as `model_name_or_path`",
    "user_forward_fn": "give a metric, such as a subclass of MetricModel, as `model_name_or_path`",
    "baseline_url": "fetch the file and give it as `baseline_path`",
}
"""Arguments of torchmetrics that have no meaning here, and the way out."""


class TextMoverBERTScore(ScorerMetric):
    r"""BERTScore with the arguments and outputs of ``torchmetrics.text.BERTScore``.

    ``compute`` gives ``{"precision", "recall", "f1"}`` of each segment in the order of their positions (see
    :class:`~textmover.metrics.ordered_states.OrderedStates`), float32 ``[n]``, and with ``return_hash`` ``"hash"``.
    With several references each value is the best over them.

    Texts are scored as they come in, and three numbers per segment are kept. With ``idf`` the weights depend on the
    references of all processes, those of all distinct positions, as often as they occur: then each weighted token's
    similarity to its best partner and its id are kept, eight bytes a token, and ``compute`` weighs them.

    Where torchmetrics gives no finite value, that of :class:`Scorer` is given: 0 for a text without tokens, uniform
    weights for one whose idf weights are all 0.

    ``all_layers``, ``model``, ``user_tokenizer``, ``user_forward_fn`` and ``baseline_url`` are not available.
    ``verbose``, ``batch_size``, ``num_threads`` and ``lang`` are accepted without effect: no score depends on batches,
    and no baseline is fetched.

    Args:
        model_name_or_path: Encoder by name or folder, the default one if ``None``; or a :class:`Scorer` or metric
            module with ``matching="bertscore"``, which is used as it is and referred to, as in ``TextMoverScore``.
        num_layers: Layer that is read, counted from 0, the embeddings; negative ones from the end. The last if
            ``None``.
        idf: Weigh tokens by their inverse document frequency in the references.
        device: Where the encoder runs; a GPU, if there is one, if ``None``.
        max_length: Longest text in tokens, special ones included; what the encoder allows if ``None``.
        return_hash: Add the model's name, layer and idf as torchmetrics writes them; ``scorer.signature`` says all.
        rescale_with_baseline: Map values by :math:`(x - b)/(1 - b)`. Without ``baseline_path``, fit :math:`b` with
            ``metric.scorer.fit(texts)`` before the first update.
        baseline_path: Table of bert-score's (``.csv`` or ``.tsv``), or a file that ``Scorer.save_statistics`` or
            ``textmover fit-baseline`` wrote for the same metric.
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
        _refuse_unavailable(locals())
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
            scorer = _load_scorer(model_name_or_path, **chosen, options=options)
            name, layer = str(model_name_or_path), str(num_layers)
        else:
            given = {key: value for key, value in chosen.items() if value is not None and value is not False}
            scorer = as_scorer(model_name_or_path, **{**given, **options})
            entries = scorer.metric.signature.entries
            name, layer = entries.get("encoder", ""), entries.get("layer", "")
        _greedy_model(scorer, idf=idf)
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
        model = _greedy_model(self.scorer, idf=self.idf)
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
        model = _greedy_model(self.scorer, idf=self.idf)
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


def _refuse_unavailable(arguments: Mapping[str, Any]) -> None:
    for name, way_out in UNAVAILABLE.items():
        value = arguments[name]
        if value is not None and value is not False:
            raise TypeError(f"Expected `{name}` to be left out, but got {value!r}: {way_out}.")


def _load_scorer(
    encoder: str | Path,
    *,
    num_layers: int | None,
    max_length: int | None,
    truncation: bool,
    special_tokens: Literal["drop", "targets"] | None,
    rescale_with_baseline: bool,
    baseline_path: str | Path | None,
    options: dict[str, Any],
) -> Scorer:
    special_tokens = "drop" if special_tokens is None else special_tokens
    check_choice("special_tokens", special_tokens, ("drop", "targets"))
    metric = metric_named(encoder)
    if metric is not None:
        raise InputError(
            f"Expected `model_name_or_path` to be an encoder by name or folder, but got {metric}, which is a metric: "
            + (
                "this class is BERTScore already, so leave it out for the default encoder, or name another."
                if str(encoder).startswith("bertscore-")
                else f"TextMoverScore({str(encoder)!r}) takes any metric."
            )
        )
    if baseline_path is not None and not rescale_with_baseline:
        raise InputError(
            "Expected rescale_with_baseline=True with `baseline_path`, but got False: set it, or leave the path out."
        )
    scorer = Scorer.from_pretrained(
        "bertscore-f1",
        encoder=str(encoder),
        layer=-1 if num_layers is None else num_layers,
        max_length=max_length,
        hypothesis_special_tokens=special_tokens,
        reference_special_tokens=special_tokens,
        rescale=rescale_with_baseline,
        **{"long_texts": "truncate" if truncation else "error", **options},
    )
    model = _greedy_model(scorer, idf=False)
    if special_tokens == "drop":
        # Before the baseline, which is another one without the floor.
        model.matching = FlooredGreedy(model.config)
    if baseline_path is not None and Path(baseline_path).suffix in TABLE_ENDINGS:
        _read_baseline(model, Path(baseline_path))
    elif baseline_path is not None:
        scorer.load_statistics(baseline_path)
    return scorer


def _greedy_model(scorer: Scorer, *, idf: bool) -> MetricModel:
    model = scorer.metric
    if not isinstance(model, MetricModel) or not isinstance(model.matching, Greedy):
        what = model.config.matching if isinstance(model, MetricModel) else type(model).__name__
        raise InputError(
            f"Expected a metric with matching='bertscore', but got {what}: TextMoverScore takes any metric."
        )
    if not idf and model.fits_on_call:
        raise InputError(
            f"Expected idf weights that all updates share, but got idf_from={model.config.idf_from!r} and no table: "
            "choose idf=True and weights='uniform', or fit the metric with `Scorer.fit(texts)`."
        )
    for name, choices in WITH_IDF.items() if idf else ():
        value = getattr(model.config, name)
        if value not in choices:
            raise InputError(
                f"Expected `{name}` to be {' or '.join(map(repr, choices))} with idf=True, but got {value!r}: choose "
                "another, or set idf=False."
            )
    return model


def _read_baseline(model: MetricModel, path: Path) -> None:
    """Take the baseline of the model's layer from a table of bert-score: ``LAYER,P,R,F`` in rows from layer 0 on."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = [[float(cell) for cell in row] for row in list(csv.reader(stream))[1:] if row]
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {path} to be a table of baselines with the columns LAYER,P,R,F, but got {type(error).__name__}: "
            f"{error}. Take one of bert-score's, or a file that `Scorer.save_statistics` wrote."
        ) from error
    layer = model.encoder.layers[-1]
    found = [row for row in rows if len(row) == 4 and row[0] == layer]
    if len(found) != 1 or model.baseline is None:
        raise InputError(
            f"Expected {path} to have one row LAYER,P,R,F for layer {layer}, but got {len(found)}: choose another "
            "layer with `num_layers`, or the table of this encoder."
        )
    _, precision, recall, f = found[0]
    state = {"values": torch.tensor([recall, precision, f], dtype=torch.float64), "count": torch.tensor(1)}
    model.baseline.load_state_dict(state)
