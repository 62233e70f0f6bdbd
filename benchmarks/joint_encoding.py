"""Compare three ways of encoding a hypothesis and its reference, with the same training and evaluation.

* ``separate``: the metric of ``configs/wmt_da.yaml``: texts are encoded separately, then their tokens are matched;
* ``joint``: both texts form one sequence, so that tokens attend to the other text. The token vectors are split by text;
  the rest is as in ``separate``: corpus centring, matching, normalisation by self-similarity of these vectors,
  calibration;
* ``regression``: both texts form one sequence; a linear layer maps the [CLS] vector to a score, as in BLEURT.

Everything else is the same: encoder, frozen embeddings, data, order of batches, losses, optimiser, precision.
Correlations are those of the last epoch on the recipe's held-out references, averaged over groups; they do not select
an epoch::

    python benchmarks/joint_encoding.py --seeds 1 2 3 --output runs/joint_encoding.csv

A finished run is written as a row of the table and is skipped later; other learning rates make other rows.

Reference:
    Sellam et al. 2020 (BLEURT), section 3, for the regression; Devlin et al. 2019 (BERT) for pairs in one sequence.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import harness
import numpy as np
import torch
from pytorch_lightning.callbacks import LambdaCallback
from torch import Tensor, nn

from textmover.checkpoints.averaging import token_pairs
from textmover.data import Columns, RatingsDataModule
from textmover.modules.classifier import JoinedTexts, PairTemplate, join_texts, joint_vectors, kept_tokens
from textmover.modules.config import MetricConfig
from textmover.modules.devices import evaluating
from textmover.modules.encoder_parts import EncoderParts
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.training import OptimizerConfig, RatingsModule
from textmover.training.tasks.ratings import STATISTICS
from textmover.types import InputError, PairScores, SpecialToken, TextFeatures, TokenBatch, TokenEmbeddings

RECIPE = harness.ROOT / "configs" / "wmt_da.yaml"
Way = Literal["separate", "joint", "regression"]
WAYS = get_args(Way)
FITTING_PAIRS = 1000
"""Number of training pairs used to fit the mean of jointly encoded tokens."""


class JointMetric(MetricModel):
    r"""Transport metric whose tokens attend to the other text, :math:`\mathrm{Sim}(X_{|Y}, Y_{|X})`.

    A pair is one sequence, reference first (:func:`~textmover.modules.classifier.join_texts`). The ordinary tokens of
    both texts are matched, without [CLS] and [SEP]. The corpus mean is over all tokens of such sequences.
    Self-similarities use a text's vectors in this pair, so they depend on the other text, and identical texts do not
    score exactly 1.
    """

    def __init__(self, config: MetricConfig, parts: EncoderParts) -> None:
        super().__init__(config, parts)
        if not isinstance(parts.tokenizer, Tokenizer):
            raise InputError("Expected a pretrained encoder to read pairs with, but got static vectors: name another.")
        self.template, self.limit = PairTemplate.of(parts.tokenizer), parts.tokenizer.max_length

    def text_features(self, batch: TokenBatch) -> TokenEmbeddings | None:
        return None

    def read(self, hypotheses: TokenBatch, references: TokenBatch) -> tuple[JoinedTexts, Tensor]:
        """Return each pair as one sequence, with token vectors ``[B, L, D]``, float32."""
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

    def pair_features(self, hypotheses: TokenBatch, references: TokenBatch) -> tuple[TokenEmbeddings, TokenEmbeddings]:
        joined, vectors = self.read(hypotheses, references)
        if self.training:
            self.centering.track(vectors, joined.mask)
        texts = (references, hypotheses)
        lengths = [(text.mask & (text.special == SpecialToken.NONE)).sum(dim=1) for text in texts]
        first, second = kept_tokens(lengths[0], lengths[1], self.limit - self.template.size)
        start = torch.full_like(first, len(self.template.opening))
        second_start = start + first + len(self.template.middle)
        hyp, ref = _tokens(vectors, hypotheses, second_start, second), _tokens(vectors, references, start, first)
        return self._features(*hyp), self._features(*ref)


def _tokens(vectors: Tensor, batch: TokenBatch, start: Tensor, count: Tensor) -> tuple[Tensor, TokenBatch]:
    """Extract the ordinary tokens of one text of each pair from the joint sequences."""
    positions = torch.arange(int(count.max()), device=count.device).expand(len(count), -1)
    mask = positions < count[:, None]
    indices = (start[:, None] + positions).clamp(max=vectors.shape[1] - 1)
    ordinary = batch.mask & (batch.special == SpecialToken.NONE)
    order = (~ordinary).int().argsort(dim=1, stable=True)[:, : mask.shape[1]]
    fields = {
        name: getattr(batch, name).gather(1, order) * mask
        for name in ("input_ids", "special", "traits")
        if getattr(batch, name) is not None
    }
    tokens = replace(batch, mask=mask, padded=None, **fields)
    return vectors.gather(1, indices[:, :, None].expand(-1, -1, vectors.shape[2])), tokens


class RegressionMetric(JointMetric):
    r"""Linear regression on a pair's [CLS] vector, as in BLEURT: :math:`\hat y = \mu + \sigma\,(w^\top v + b)`.

    Mean :math:`\mu` and standard deviation :math:`\sigma` of the ratings are constants, so that the output starts on
    the scale of the ratings.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, config: MetricConfig, parts: EncoderParts) -> None:
        super().__init__(config.override(centering="none", calibrate=False), parts)
        self.output = nn.Linear(parts.encoder.dimension * self.layers.width_factor, 1)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("deviation", torch.ones(()))

    def head_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield from self.layers.named_parameters()
        yield from self.output.named_parameters()

    def pair_scores(self, hypotheses: TextFeatures | TokenBatch, references: TextFeatures | TokenBatch) -> PairScores:
        """Score the pairs (hypothesis ``i``, reference ``i``) of two token batches, with gradients."""
        if not isinstance(hypotheses, TokenBatch) or not isinstance(references, TokenBatch):
            raise TypeError(f"Expected token batches, but got {type(hypotheses).__name__}.")
        _, vectors = self.read(hypotheses, references)
        with torch.autocast(vectors.device.type, enabled=False):
            return PairScores(self.mean + self.deviation * self.output(vectors[:, 0]).squeeze(1))

    forward = pair_scores

    @torch.no_grad()
    def fit_calibration(self, pairs: Iterable[tuple[TokenBatch, TokenBatch]], ratings: Tensor) -> None:
        """Store mean and standard deviation of ratings ``[n]``; ``pairs`` is ignored."""
        self.mean.copy_(ratings.mean())
        self.deviation.copy_(ratings.std())


class PairModule(RatingsModule):
    """Rating training with one of the three encodings of pairs."""

    def __init__(self, way: Way, **fields: Any) -> None:
        super().__init__(**fields)
        if way != "separate":
            kind = JointMetric if way == "joint" else RegressionMetric
            self.metric = kind(self.metric.config, self.metric.parts).train()

    def on_fit_start(self) -> None:
        """Fit the corpus mean on joint pairs instead of single texts."""
        metric: Any = self.metric
        if isinstance(metric, JointMetric) and metric.needs_fit:
            segments = [one for source in self.data.sources.values() for one in source.items]
            with self._autocast():
                metric.fit_pairs(token_pairs(self.metric, segments[:: -(-len(segments) // FITTING_PAIRS)]))
        super().on_fit_start()


class Setting(NamedTuple):
    """Settings of a run, except way and seed."""

    data: Sequence[str] = ()
    encoder: str = ""
    epochs: int = 3
    learning_rate: float = 1e-4

    def key(self, way: str, seed: int) -> harness.Row:
        own = {"way": way, "seed": seed, **self._asdict(), "data": " ".join(self.data)}
        return {name: str(value) for name, value in own.items()}


RESULTS = (*STATISTICS, "seconds")
COLUMNS = ("way", "seed", *RESULTS, "learning_rate", "epochs", "encoder", "data")


def read_data(setting: Setting, seed: int) -> RatingsDataModule:
    fields = harness.read_yaml(RECIPE)["data"]["init_args"]
    files = fields.pop("train")
    fields |= {"columns": Columns(**fields["columns"]), "seed": seed}
    return harness.ratings(list(setting.data or files), **fields)


def build_module(way: Way, setting: Setting) -> PairModule:
    fields = harness.read_yaml(RECIPE)["model"]["init_args"]
    fields["optimizer"] = OptimizerConfig(**{**fields["optimizer"], "learning_rate": setting.learning_rate})
    fields["overrides"] |= {"encoder": setting.encoder} if setting.encoder else {}
    return PairModule(way, **fields)


def train(way: Way, setting: Setting, seed: int) -> tuple[harness.Row, list[float]]:
    """Train and evaluate one way with one seed; return correlations with seconds, and the loss of each step."""
    start = time.perf_counter()
    data = read_data(setting, seed)
    torch.manual_seed(seed)
    module = build_module(way, setting)
    losses: list[float] = []
    watch = LambdaCallback(on_train_batch_end=lambda trainer, module, out, *_: losses.append(float(out["loss"])))
    harness.trainer(max_epochs=setting.epochs, deterministic=True, callbacks=[watch]).fit(module, data)
    (judgement,) = module.validation.values()
    results = {name: f"{judgement.values[name]:.4f}" for name in STATISTICS}
    return {**results, "seconds": f"{time.perf_counter() - start:.0f}"}, losses


def summary(rows: Sequence[harness.Row]) -> str:
    """Format mean and standard deviation of each result over seeds."""
    lines = []
    for way in dict.fromkeys(row["way"] for row in rows):
        runs = np.array([[float(row[name]) for name in RESULTS] for row in rows if row["way"] == way])
        spread = runs.std(axis=0, ddof=int(len(runs) > 1))
        lines.append([way, len(runs), *(f"{a:.4f} ± {b:.4f}" for a, b in zip(runs.mean(axis=0), spread, strict=True))])
    return harness.table(["way", "runs", *RESULTS], lines)


def main() -> None:
    options = harness.parser(
        __doc__, data=[], seeds=[1], epochs=3, encoder="", learning_rate=1e-4,
        output=Path("runs/joint_encoding.csv"), ways=dict.fromkeys(WAYS),
    ).parse_args()  # fmt: skip
    harness.quiet()
    setting = Setting(*(getattr(options, name) for name in Setting._fields))
    # Fail before training if the output cannot be written.
    harness.write_rows(options.output, harness.read_rows(options.output), COLUMNS)
    rows = []
    for seed, way in itertools.product(dict.fromkeys(options.seeds), dict.fromkeys(options.ways)):
        key = setting.key(way, seed)
        rows.append(harness.cached_row(options.output, COLUMNS, key, lambda: train(way, setting, seed)[0]))  # noqa: B023
        print(" ".join(rows[-1][name] for name in ("way", "seed", *RESULTS)), file=sys.stderr, flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main()
