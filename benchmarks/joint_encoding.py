"""Three ways of reading a hypothesis and its reference, trained and judged alike: does joint encoding earn its place?

* ``separate``: the metric of ``configs/wmt_da.yaml``: each text read by itself, then transport between their tokens;
* ``joint``: both texts in one sequence, so that tokens see each other; the token vectors of the two texts are taken
  apart again, and the rest is that of ``separate``: corpus centring, the same matching, normalisation by the
  self-similarities of these vectors, calibration;
* ``regression``: both texts in one sequence, and one linear output of the vector of [CLS], as in BLEURT (``--pooling
  mean``: of the mean of all token vectors).

Everything else is the recipe's and the same for all: encoder, frozen embeddings, data, order of the batches, losses,
optimiser, precision. Correlations are those of the last epoch on the references that the recipe holds back, each the
mean over its groups; no epoch is picked by them::

    python benchmarks/joint_encoding.py --seeds 1 2 3 --output runs/joint_encoding.csv

A run that has ended is a row of the table at once, and is not run again; ``--learning_rate joint=5e-5`` gives one way
another rate, and rows of their own.

Reference:
    Sellam et al. 2020 (BLEURT), section 3, for the regression; Devlin et al. 2019 (BERT) for pairs in one sequence.
"""

from __future__ import annotations

import logging
import math
import statistics
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import harness
import pytorch_lightning as pl
import torch
import yaml
from torch import Tensor, nn

from textmover.checkpoints.averaging import token_pairs
from textmover.data import Columns, RatingsDataModule
from textmover.modules.assembly import Parts
from textmover.modules.classifier import JoinedTexts, PairTemplate, Pooling, join_texts, joint_vectors, kept_tokens
from textmover.modules.config import MetricConfig
from textmover.modules.devices import evaluating
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.training import OptimizerConfig, RatingsModule
from textmover.training.tasks.ratings import STATISTICS
from textmover.types import InputError, PairScores, Segment, SpecialToken, TextFeatures, TokenBatch, TokenEmbeddings

RECIPE = harness.ROOT / "configs" / "wmt_da.yaml"
WAYS = ("separate", "joint", "regression")
RATE = 1e-4
FITTING_PAIRS = 1000
"""Pairs of the training part that the mean of jointly read tokens is fitted on; single texts have twice as many."""
STEPS_TOLD = 50
"""Steps between two lines of progress."""

Way = Literal["separate", "joint", "regression"]
Row = harness.Row


class JointMetric(MetricModel):
    r"""A transport metric whose tokens have seen those of the other text, :math:`\mathrm{Sim}(X_{|Y}, Y_{|X})`.

    A pair is one sequence, the reference first (:func:`~textmover.modules.classifier.join_texts`); what is matched are
    the ordinary tokens of either stretch, without [CLS] and [SEP], which belong to none of them. The corpus mean is
    that of all tokens of such sequences. Self-similarities are those of a text's vectors in this pair: unlike those of
    texts that are encoded alone, they change with the other text, and a text does not score 1 with itself.
    """

    def __init__(self, config: MetricConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        if not isinstance(parts.tokenizer, Tokenizer):
            raise InputError("Expected a pretrained encoder to read pairs with, but got static vectors: name another.")
        self.template, self.limit = PairTemplate.of(parts.tokenizer), parts.tokenizer.max_length

    def text_features(self, batch: TokenBatch) -> TokenEmbeddings | None:
        """``None``: both texts have to be read together."""
        return None

    def read(self, hypotheses: TokenBatch, references: TokenBatch) -> tuple[JoinedTexts, Tensor]:
        """Pairs as one sequence each, with their token vectors ``[B, L, D]``, float32."""
        joined = join_texts(references, hypotheses, self.template, self.limit)
        return joined, joint_vectors(self, joined)

    @torch.no_grad()
    def fit_pairs(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]]) -> None:
        """Fit the corpus mean on all tokens of pairs of hypotheses and references."""
        with evaluating(self):
            for hypotheses, references in pairs:
                joined, vectors = self.read(hypotheses.to(self.device), references.to(self.device))
                if self.centering.statistic is not None:
                    self.centering.statistic.add(vectors, joined.mask)

    def _pair_features(self, hypotheses: TokenBatch, references: TokenBatch) -> tuple[TokenEmbeddings, TokenEmbeddings]:
        joined, vectors = self.read(hypotheses, references)
        if self.training:
            self.centering.track(vectors, joined.mask)
        texts = (references, hypotheses)
        own = [(one.mask & (one.special == SpecialToken.NONE)).sum(dim=1) for one in texts]
        first, second = kept_tokens(own[0], own[1], self.limit - self.template.size)
        start = torch.full_like(first, len(self.template.opening))
        behind = start + first + len(self.template.middle)
        one, other = _stretch(vectors, hypotheses, behind, second), _stretch(vectors, references, start, first)
        return self._features(*one), self._features(*other)


def _stretch(vectors: Tensor, batch: TokenBatch, start: Tensor, count: Tensor) -> tuple[Tensor, TokenBatch]:
    """The ordinary tokens of one text of each pair, taken out of the joint sequences."""
    places = torch.arange(int(count.max()), device=count.device).expand(len(count), -1)
    mask = places < count[:, None]
    taken = (start[:, None] + places).clamp(max=vectors.shape[1] - 1)
    ordinary = batch.mask & (batch.special == SpecialToken.NONE)
    order = (~ordinary).int().argsort(dim=1, stable=True)[:, : mask.shape[1]]
    fields = {
        name: getattr(batch, name).gather(1, order) * mask
        for name in ("input_ids", "special", "traits")
        if getattr(batch, name) is not None
    }
    tokens = replace(batch, mask=mask, padded=None, **fields)
    return vectors.gather(1, taken[:, :, None].expand(-1, -1, vectors.shape[2])), tokens


class RegressionMetric(JointMetric):
    r"""One linear output of a pair's vector, in the manner of BLEURT: :math:`\hat y = \mu + \sigma\,(w^\top v + b)`.

    Mean and deviation of the ratings, :math:`\mu` and :math:`\sigma`, are constants, so that the output starts on the
    scale of the ratings.

    Reference:
        Sellam et al. 2020 (BLEURT), section 3.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, config: MetricConfig, parts: Parts, pooling: Pooling) -> None:
        super().__init__(config.override(centering="none", calibrate=False), parts)
        self.pooling = pooling
        self.output = nn.Linear(parts.encoder.dimension * self.layers.width_factor, 1)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("deviation", torch.ones(()))

    def head_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Named parameters of layer mix and output."""
        yield from self.layers.named_parameters()
        yield from self.output.named_parameters()

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Scores of the pairs (hypothesis ``i``, reference ``i``), token batches both, with gradients."""
        if not isinstance(hypotheses, TokenBatch) or not isinstance(references, TokenBatch):
            raise TypeError(f"Expected token batches, but got {type(hypotheses).__name__}.")
        joined, vectors = self.read(hypotheses, references)
        with torch.autocast(vectors.device.type, enabled=False):
            kept = joined.mask[:, :, None]
            pooled = vectors[:, 0] if self.pooling == "cls" else (vectors * kept).sum(dim=1) / kept.sum(dim=1)
            return PairScores(self.mean + self.deviation * self.output(pooled).squeeze(1))

    forward = pair_scores

    @torch.no_grad()
    def fit_calibration(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]], ratings: Tensor) -> None:
        """Take mean and deviation of ratings ``[n]``; the pairs are not read."""
        self.mean.copy_(ratings.mean())
        self.deviation.copy_(ratings.std())


class PairModule(RatingsModule):
    """Training on ratings whose metric reads pairs in one of the ways."""

    def __init__(self, way: Way, pooling: Pooling, **fields: Any) -> None:
        super().__init__(**fields)
        own = self.metric.config, self.metric.parts
        if way != "separate":
            self.metric = JointMetric(*own) if way == "joint" else RegressionMetric(*own, pooling)
            self.metric.train()

    def on_fit_start(self) -> None:
        """Fit the mean of jointly read tokens on pairs, where the recipe would read texts one by one."""
        metric: Any = self.metric
        if isinstance(metric, JointMetric) and metric.needs_fit:
            segments = [one for source in self.data.sources.values() for one in source.items]
            with self._autocast():
                metric.fit_pairs(token_pairs(self.metric, evenly(segments, FITTING_PAIRS)))
        super().on_fit_start()


@dataclass(frozen=True)
class Setting:
    """What a run is made of, beside way and seed."""

    data: tuple[str, ...]
    encoder: str | None
    epochs: int
    limit: int | None
    pooling: Pooling
    rates: dict[str, float]

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise InputError(f"Expected --epochs to be at least 1, but got {self.epochs}: 3 is usual.")
        if self.limit is not None and self.limit < 3:
            raise InputError(f"Expected --limit to be at least 3 segments, but got {self.limit}: raise it.")

    def key(self, way: str, seed: int) -> Row:
        """What the row of a run is known by."""
        common = {"epochs": str(self.epochs), "limit": str(self.limit or ""), "encoder": self.encoder or ""}
        own = {"learning_rate": str(self.rates[way]), "pooling": self.pooling if way == "regression" else ""}
        return {"way": way, "seed": str(seed), **own, **common, "data": " ".join(self.data)}


RESULTS = ("pearson", "spearman", "kendall", "seconds")
COLUMNS = ("way", "seed", *RESULTS, "learning_rate", "pooling", "epochs", "limit", "encoder", "data")


class Outcome(NamedTuple):
    """Correlations on the held-back part by name, loss of each step, seconds with fitting and validation included."""

    correlations: dict[str, float]
    losses: list[float]
    seconds: float


class Progress(pl.Callback):
    """Keeps losses and times of the steps, and tells them on the way."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.losses: list[float] = []
        self.times: list[float] = []
        self._start = 0.0

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        self._start = time.perf_counter()

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, out: Any, batch: Any, batch_idx: int) -> None:
        self.losses.append(float(out["loss"]))  # waits for the device, too
        self.times.append(time.perf_counter() - self._start)
        if len(self.losses) % STEPS_TOLD == 0:
            self.tell(f"step {len(self.losses)} of {trainer.estimated_stepping_batches}")

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        found = "".join(f", {name} Pearson {one.values['pearson']:.4f}" for name, one in module.validation.items())
        self.tell(f"epoch {trainer.current_epoch + 1} of {trainer.max_epochs}", found)

    def tell(self, place: str, found: str = "") -> None:
        about = f"loss {statistics.mean(self.losses[-STEPS_TOLD:]):.3f}, {statistics.median(self.times):.3f} s a step"
        print(f"{self.label}: {place}, {about}{found}", file=sys.stderr, flush=True)


def evenly(segments: Sequence[Segment], most: int | None) -> list[Segment]:
    """Up to so many segments, evenly spread; all if ``None``."""
    if most is None or len(segments) <= most:
        return list(segments)
    return [segments[place * len(segments) // most] for place in range(most)]


def recipe() -> dict[str, Any]:
    """The recipe that all ways follow."""
    return yaml.safe_load(RECIPE.read_text(encoding="utf-8"))


def read_data(setting: Setting, seed: int) -> RatingsDataModule:
    """The ratings, split as the recipe says, cut to the limit."""
    fields = recipe()["data"]["init_args"]
    files = list(setting.data or fields["train"])
    data = RatingsDataModule(**{**fields, "train": files, "columns": Columns(**fields["columns"]), "seed": seed})
    data.setup()
    for source in data.sources.values():
        source.items = evenly(source.items, setting.limit)
    return data


def build_module(way: Way, setting: Setting) -> PairModule:
    """The recipe's training module, its metric reading in one of the ways."""
    fields = recipe()["model"]["init_args"]
    fields["optimizer"] = OptimizerConfig(**{**fields["optimizer"], "learning_rate": setting.rates[way]})
    fields["overrides"] |= {} if setting.encoder is None else {"encoder": setting.encoder}
    return PairModule(way, setting.pooling, **fields)


def train(way: Way, setting: Setting, seed: int) -> Outcome:
    """Train and judge one way with one seed."""
    start = time.perf_counter()
    data = read_data(setting, seed)
    torch.manual_seed(seed)
    module = build_module(way, setting)
    progress = Progress(f"{way}, seed {seed}")
    trainer = pl.Trainer(
        max_epochs=setting.epochs,
        devices=1,
        deterministic=True,
        callbacks=[progress],
        num_sanity_val_steps=0,
        use_distributed_sampler=False,  # the data module deals out the batches itself
        **dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False),
    )
    trainer.fit(module, data)
    (judgement,) = module.validation.values()
    seconds = time.perf_counter() - start
    return Outcome({name: judgement.values[name] for name in STATISTICS}, progress.losses, seconds)


def run_missing(path: Path, ways: Sequence[Way], seeds: Sequence[int], setting: Setting) -> list[Row]:
    """Run what the table lacks, seed after seed; returns the rows of all wanted runs."""
    if min(seeds) < 0:
        raise InputError(f"Expected --seeds to be at least 0, but got {min(seeds)}: choose another.")
    if path.is_file() and not path.read_text(encoding="utf-8").startswith(",".join(COLUMNS)):
        raise InputError(f"Expected {path} to be a table of this script, but it has other columns: name another.")
    # A place that cannot be written is found out before anything is trained.
    harness.write_rows(path, COLUMNS, harness.read_rows(path))

    def run(way: Way, seed: int) -> Row:
        outcome = train(way, setting, seed)
        values = {name: f"{value:.4f}" for name, value in outcome.correlations.items()}
        return {**values, "seconds": f"{outcome.seconds:.0f}"}

    return [
        harness.kept_row(path, COLUMNS, setting.key(way, seed), partial(run, way, seed))
        for seed in dict.fromkeys(seeds)
        for way in dict.fromkeys(ways)
    ]


def summary(rows: Sequence[Row]) -> str:
    """Mean of each result over the seeds, with its standard deviation, as a table."""
    lines = [f"{'way':12} {'runs':>4} " + " ".join(f"{name:>15}" for name in RESULTS)]
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row for row in rows if row["way"] == way]
        cells = []
        for name in RESULTS:
            values, digits = [float(row[name]) for row in own], 0 if name == "seconds" else 4
            spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.{digits}f}{spread}")
        lines.append(f"{way:12} {len(own):4d} " + " ".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def learning_rates(entries: Sequence[str]) -> dict[str, float]:
    """The rate of each way, from numbers for all and ``way=number`` for one; later ones win.

    Example:
        >>> learning_rates(["1e-4", "joint=5e-5"])
        {'separate': 0.0001, 'joint': 5e-05, 'regression': 0.0001}
    """
    rates = dict.fromkeys(WAYS, RATE)
    for entry in entries:
        way, equals, number = entry.rpartition("=")
        try:
            rates |= dict.fromkeys((way,) if equals else WAYS, float(number))
        except ValueError:
            raise InputError(f"Expected --learning_rate to be numbers, but got {entry!r}: 1e-4 is usual.") from None
    unknown = sorted(set(rates) - set(WAYS))
    if unknown or not all(0 < rate < math.inf for rate in rates.values()):
        raise InputError(
            f"Expected --learning_rate to be numbers above 0 of the ways {', '.join(WAYS)}, but got "
            f"{' '.join(entries)}: write joint=5e-5, for instance."
        )
    return rates


def main(arguments: Sequence[str] | None = None) -> int:
    parser = harness.parser(
        __doc__, data=[], seeds=[1], epochs=3, limit=int, pooling=("cls", "mean"), encoder=str,
        output=Path("runs/joint_encoding.csv"),
    )  # fmt: skip
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--learning_rate", nargs="+", default=[], metavar="RATE", help="of all, or way=rate")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for name in ("pytorch_lightning", "lightning_fabric", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        rates = learning_rates(options.learning_rate)
        setting = Setting(tuple(options.data), options.encoder, options.epochs, options.limit, options.pooling, rates)
        print(summary(run_missing(options.output, options.ways, options.seeds, setting)))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
