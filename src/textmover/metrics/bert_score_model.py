"""The metric behind :class:`~textmover.metrics.bert_score.TextMoverBERTScore`, made from torchmetrics' arguments."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.checkpoints.loading import metric_named
from textmover.modules.matching.matchings import Greedy
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.weighting import Side
from textmover.scoring import Scorer
from textmover.types import InputError, MatchResult, check_choice

TABLE_ENDINGS = (".csv", ".tsv")
"""Endings of the tables of baselines that bert-score comes with."""

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


class FlooredGreedy(Greedy):
    """Greedy matching in which the best partner of a token is never worse than orthogonal.

    torchmetrics leaves zero vectors in the places of special tokens, so that each token has a partner of similarity 0.
    """

    bounds = (0.0, 1.0)

    def signature_entries(self) -> dict[str, str]:
        """Those of greedy matching, and the floor."""
        return {**super().signature_entries(), "floor": "0"}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return super().forward(similarity.clamp(min=0), reference, hypothesis, with_plan=with_plan)


def unavailable(arguments: Mapping[str, Any]) -> None:
    """Refuse those of torchmetrics' arguments that have no meaning here."""
    for name, way_out in UNAVAILABLE.items():
        value = arguments[name]
        if value is not None and value is not False:
            raise TypeError(f"Expected `{name}` to be left out, but got {value!r}: {way_out}.")


def load_bert_score(
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
    """A scorer of BERTScore on an encoder; see :class:`~textmover.metrics.bert_score.TextMoverBERTScore`."""
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
    model = bert_score_model(scorer, idf=False)
    if special_tokens == "drop":
        # Before the baseline, which is another one without the floor.
        model.matching = FlooredGreedy(model.config)
    if baseline_path is None:
        return scorer
    if Path(baseline_path).suffix in TABLE_ENDINGS:
        _read_baseline(model, Path(baseline_path))
        return scorer
    return scorer.load_statistics(baseline_path)


def bert_score_model(scorer: Scorer, *, idf: bool) -> MetricModel:
    """The greedy metric of a scorer."""
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
