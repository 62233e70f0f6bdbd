"""BERTScore with the torchmetrics interface."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.checkpoints.loading import metric_named
from textmover.metrics.bert_score_matches import FlooredGreedy, TokenMatches, idf_values, match_tokens
from textmover.metrics.scorer_metric import ScorerMetric, split_options
from textmover.modules.config import DEFAULT_ENCODER
from textmover.modules.matching.matchings import Greedy
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.text_arguments import listed_texts, normalize_references
from textmover.scoring import Scorer
from textmover.scoring.scorer import as_scorer
from textmover.scoring.scorer_statistics import check_fitted
from textmover.types import InputError, SegmentMetric, check_choice

SIDES = ("precision", "recall", "f1")

SCORED = dict.fromkeys(SIDES, torch.float64)  # states without idf: values of scored segments

MATCHED = {"similarities": torch.float32, "tokens": torch.int32, "lengths": torch.long, "references": torch.long}
"""States with idf, whose weights are not known yet: the fields of :class:`TokenMatches`."""

TABLE_ENDINGS = (".csv", ".tsv")  # suffixes of the baseline tables that bert-score ships

WITH_IDF: dict[str, tuple[Any, ...]] = {
    "weights": ("uniform",),
    "normalize": (False,),
    "centering": ("none", "dimension", "sentence", "corpus"),
    "ngram": (1,),
    "subwords": ("all", "first"),
    "hypothesis_special_tokens": ("drop", "targets"),
    "reference_special_tokens": ("drop", "targets"),
    "multi_reference": ("best", "mean"),
    "error_norm": (1.0,),
    "same_token_loss": (1.0,),
}
"""Values of configuration fields for which similarities can be stored per token until idf weights are known."""

UNAVAILABLE = {
    "all_layers": "make one metric per layer with `num_layers`",
    "model": "give a metric or a Scorer as `model_name_or_path`",
    "user_tokenizer": "give a folder that holds encoder and tokenizer as `model_name_or_path`",
    "user_forward_fn": "give a metric, such as a subclass of MetricModel, as `model_name_or_path`",
    "baseline_url": "fetch the file and give it as `baseline_path`",
}
"""Arguments of torchmetrics that are not supported, and their alternatives."""


class TextMoverBERTScore(ScorerMetric):
    r"""BERTScore with the arguments and outputs of ``torchmetrics.text.BERTScore``.

    ``compute`` returns ``{"precision", "recall", "f1"}`` of each segment in the order of their positions (see
    :class:`~textmover.metrics.ordered_states.OrderedStates`), float32 ``[n]``, and with ``return_hash`` ``"hash"``.
    With several references each value is the best over them.

    Each update scores its texts and stores three numbers per segment. With ``idf``, the weights depend on the
    references of all processes, counted once per position and duplicates included. Then each weighted token's id and
    its similarity to its best partner are stored, eight bytes a token, and ``compute`` applies the weights.

    Where torchmetrics returns NaN, this class returns what :class:`Scorer` does: 0 for a text without tokens, and
    uniform weights for a text whose idf weights are all 0.

    ``all_layers``, ``model``, ``user_tokenizer``, ``user_forward_fn`` and ``baseline_url`` are not supported.
    ``verbose``, ``batch_size``, ``num_threads`` and ``lang`` are accepted but ignored: scores do not depend on batches,
    and no baseline is downloaded.

    Args:
        model_name_or_path: Name or folder of the encoder, ``None`` for the default one; or a :class:`Scorer` or metric
            module with ``matching="bertscore"``, which is referenced and not copied, as in ``TextMoverScore``.
        num_layers: Layer of the encoder: 0 is the embeddings; negative ones count from the end, ``None`` is the last.
        idf: Weight tokens by their inverse document frequency in the references.
        device: Device of the encoder; ``None`` selects a GPU if there is one.
        max_length: Maximum number of tokens per text, special tokens included; ``None`` is the encoder's limit.
        return_hash: Add torchmetrics' hash of the model's name, layer and idf; ``scorer.signature`` is complete.
        rescale_with_baseline: Map values by :math:`(x - b)/(1 - b)`. Without ``baseline_path``, fit :math:`b` with
            ``metric.scorer.fit(texts)`` before the first update.
        baseline_path: Baseline table of bert-score (``.csv`` or ``.tsv``), or a file written by
            ``Scorer.save_statistics`` or ``textmover fit-baseline`` for the same metric.
        truncation: Truncate longer texts; otherwise they raise an error.
        special_tokens: ``"drop"`` (default): as in torchmetrics, tokens match ordinary tokens or nothing (similarity
            0). ``"targets"``: as in bert-score, they may match special tokens too.
        **kwargs: Options of torchmetrics (``sync_on_compute``, …), and, if the encoder is given by name, of
            :meth:`Scorer.from_pretrained`: ``precision``, ``revision``, ``long_texts="window"``, …

    Raises:
        TypeError: If an unsupported argument is given.
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
        torchmetrics_options, options = split_options(kwargs)
        if device is not None:
            options["device"] = device
        arguments: dict[str, Any] = {
            "num_layers": num_layers,
            "max_length": max_length,
            "truncation": truncation,
            "special_tokens": special_tokens,
            "rescale_with_baseline": rescale_with_baseline,
            "baseline_path": baseline_path,
        }
        if isinstance(model_name_or_path, (str, Path)):
            scorer = _load_scorer(model_name_or_path, **arguments, options=options)
            name, layer = str(model_name_or_path), str(num_layers)
        else:
            set_arguments = {key: value for key, value in arguments.items() if value is not None and value is not False}
            scorer = as_scorer(model_name_or_path, **{**set_arguments, **options})
            entries = scorer.metric.signature.entries
            name, layer = entries.get("encoder", ""), entries.get("layer", "")
        _greedy_model(scorer, idf=idf)
        super().__init__(scorer, MATCHED if idf else SCORED, **torchmetrics_options)
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
            positions: Position of each segment among all; by default segments are numbered as by distributed samplers.

        Raises:
            InputError: If the counts differ, a hypothesis has no reference, a text is too long and ``truncation`` is
                off, or the baseline is not fitted.
        """
        if not self.idf:
            scores = self.scorer.score(preds, target)
            values = (scores.precision, scores.recall, scores.f)
            columns = {name: torch.from_numpy(array) for name, array in zip(SIDES, values, strict=True)}
            self.keep(columns, len(scores), positions)
            return
        check_fitted(self.scorer.metric)
        hypotheses = listed_texts(preds, "hypotheses")
        references = normalize_references(hypotheses, target)
        model = _greedy_model(self.scorer, idf=self.idf)
        matches = match_tokens(self.scorer, model, hypotheses, references)
        self.keep(matches._asdict(), len(hypotheses), positions)

    def compute(self) -> dict[str, Any]:
        """Return precision, recall and F1 of all segments in order, float32; torchmetrics makes single ones scalars."""
        rows, _ = self.order()
        if self.idf:
            recall, precision, f = self._weighted(rows).unbind(dim=1)
            result: dict[str, Any] = dict(zip(SIDES, (precision, recall, f), strict=True))
        else:
            result = {name: self.column(name)[rows] for name in SIDES}
        result = {name: values.to(self.device, torch.float32) for name, values in result.items()}
        return result if self.hash is None else {**result, "hash": self.hash}

    def _weighted(self, rows: Tensor) -> Tensor:
        """Return recall, precision and F of the segments at ``rows``, ``[n, 3]``, with the idf of their references."""
        model = _greedy_model(self.scorer, idf=self.idf)
        # On the CPU, since some devices lack float64.
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
        # Before loading the baseline, which depends on the floor.
        model.matching = FlooredGreedy(model.config)
    if baseline_path is not None and Path(baseline_path).suffix in TABLE_ENDINGS:
        _read_baseline(model, Path(baseline_path))
    elif baseline_path is not None:
        scorer.load_statistics(baseline_path)
    return scorer


def _greedy_model(scorer: Scorer, *, idf: bool) -> MetricModel:
    model = scorer.metric
    if not isinstance(model, MetricModel) or not isinstance(model.matching, Greedy):
        kind = model.config.matching if isinstance(model, MetricModel) else type(model).__name__
        raise InputError(
            f"Expected a metric with matching='bertscore', but got {kind}: TextMoverScore takes any metric."
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
    """Load the baseline of the model's layer from a table of bert-score: rows ``LAYER,P,R,F`` from layer 0 on."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = [[float(cell) for cell in row] for row in list(csv.reader(stream))[1:] if row]
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {path} to be a table of baselines with the columns LAYER,P,R,F, but got {type(error).__name__}: "
            f"{error}. Take one of bert-score's, or a file that `Scorer.save_statistics` wrote."
        ) from error
    layer = model.encoder.layers[-1]
    matches = [row for row in rows if len(row) == 4 and row[0] == layer]
    if len(matches) != 1 or model.baseline is None:
        raise InputError(
            f"Expected {path} to have one row LAYER,P,R,F for layer {layer}, but got {len(matches)}: choose another "
            "layer with `num_layers`, or the table of this encoder."
        )
    _, precision, recall, f = matches[0]
    state = {"values": torch.tensor([recall, precision, f], dtype=torch.float64), "count": torch.tensor(1)}
    model.baseline.load_state_dict(state)
