"""Error detection head: error probabilities of tokens and gaps from the evidence of a matching."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from textmover.modules.encoder.encoder_identity import tensors_sha256
from textmover.modules.error_spans.evidence import GAP_EVIDENCE, TOKEN_EVIDENCE, Evidence, Spelling, evidence, spellings
from textmover.types import SEVERITIES, TokenEmbeddings

if TYPE_CHECKING:
    from textmover.modules.metric_model import MetricModel

START_TEMPERATURE = 0.05  # initial temperature of the shares in an untrained head
RULE_TEMPERATURE = 0.02  # temperature of the shares without a head
RULE_THRESHOLDS = 0.6, 0.4  # probabilities from which the rule marks words and gaps
NO_ERROR = -20.0  # log-odds of a certainly correct token or gap


class ErrorLogits(NamedTuple):
    """Log-odds of errors in ``B`` hypotheses."""

    wrong: Tensor  # log-odds that each token is wrong, [B, N]
    missing: Tensor  # log-odds that words are missing in the gap before each token or after the last, [B, N + 1]
    present: Tensor  # ordinary tokens, bool [B, N]; values of others are undefined
    between: Tensor  # gaps next to an ordinary token, bool [B, N + 1]
    first: Tensor  # first of two equal tokens of which the later one is a surplus error, bool [B, N]
    severity: Tensor | None = None  # logits of each severity if the token is wrong, [B, N, 3]; None without a head


class ErrorHead(nn.Module):
    """Error detection head: convolutions over the evidence and projected vectors of neighbouring tokens.

    Two convolutions of width 3 read the evidence, the token's vector and that of its partners. A gap is classified by
    the hidden states of its two neighbours and its own evidence. Log-odds are calibrated on held-back texts with a
    scale and an offset each for tokens and gaps, references and sources; thresholds maximise the MCC on these texts.
    """

    scales: Tensor
    thresholds: Tensor
    graded: Tensor
    fitted: Tensor
    words: Tensor

    def __init__(self, dimension: int) -> None:
        super().__init__()
        width, projected = 96, 32  # widths of the hidden layers and of the projected vectors
        self.log_temperature = nn.Parameter(torch.tensor(START_TEMPERATURE).log())
        self.own, self.partner = nn.Linear(dimension, projected), nn.Linear(dimension, projected)
        self.near = nn.Conv1d(len(TOKEN_EVIDENCE) + 2 * projected, width, 3, padding=1)
        self.far = nn.Conv1d(width, width, 3, padding=1)
        self.wrong = nn.Linear(width, 1)
        self.severity = nn.Linear(width, len(SEVERITIES))
        self.gap = nn.Linear(2 * width + len(GAP_EVIDENCE), width)
        self.missing = nn.Linear(width, 1)
        # Scale and offset, and threshold, by references or sources (first axis) and tokens or gaps (second axis).
        self.register_buffer("scales", torch.tensor([1.0, 0.0]).repeat(2, 2, 1))
        self.register_buffer("thresholds", torch.full((2, 2), 0.5))
        self.register_buffer("graded", torch.tensor(0.0))  # 1 where severities were learned
        self.register_buffer("fitted", torch.tensor(0.0))  # 1 once calibrated, after training
        self.register_buffer("words", torch.tensor(1.0))  # 0 if its evidence has edits of tokens instead of words

    def forward(
        self, hypotheses: TokenEmbeddings, others: TokenEmbeddings, spelling: Spelling | None = None
    ) -> ErrorLogits:
        """Return uncalibrated log-odds of errors in hypotheses compared with other texts."""
        if spelling is not None and not self.words:
            spelling = spelling.by_tokens()
        features = evidence(hypotheses, others, self.log_temperature.exp(), spelling)
        present = features.present[:, :, None]
        vectors = [self.own(features.own), self.partner(features.partners)]
        hidden = torch.cat([features.tokens, *vectors], dim=2) * present
        for layer in (self.near, self.far):
            hidden = nn.functional.gelu(layer(hidden.transpose(1, 2)).transpose(1, 2)) * present
        gap_inputs = torch.cat([pad(hidden, (0, 0, 1, 0)), pad(hidden, (0, 0, 0, 1)), features.gaps], dim=2)
        missing = self.missing(nn.functional.gelu(self.gap(gap_inputs)))[:, :, 0]
        return _logits(features, self.wrong(hidden)[:, :, 0], missing, self.severity(hidden))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Load weights, including those of older heads, whose evidence has edits of tokens."""
        if f"{prefix}fitted" in state_dict:
            state_dict.setdefault(f"{prefix}words", torch.tensor(0.0))
        super()._load_from_state_dict(state_dict, prefix, *others)

    @torch.no_grad()
    def take_calibration(
        self, kind: int, scale: float, offset: float, threshold: float, side: int | None = None
    ) -> None:
        """Set scale, offset and threshold of tokens (0) or gaps (1) for references (0), sources (1), or both (None)."""
        sides = slice(None) if side is None else side
        self.scales[sides, kind] = torch.tensor([scale, offset])
        self.thresholds[sides, kind] = threshold
        self.fitted.fill_(1.0)


def plan_rule(found: Evidence) -> ErrorLogits:
    r"""Return log-odds without training: a token is wrong if its partners are dissimilar or do not return its share.

    :math:`p_j = 1 - \sqrt{\max(\bar S_j, 0)\,\sum_i A_{ij} B_{ij}}` with :math:`\bar S_j = \sum_i A_{ij} S_{ij}`. For a
    gap, it is the largest distance of a skipped token of the other text to its closest token.
    """
    mean, returned = (found.tokens[:, :, TOKEN_EVIDENCE.index(name)] for name in ("mean", "returned"))
    wrong = 1 - (mean.clamp(min=0) * returned.clamp(min=0)).clamp(min=1e-9).sqrt()
    missing = found.gaps[:, :, GAP_EVIDENCE.index("most uncovered between")].clamp(min=0)
    return _logits(found, wrong.logit(eps=1e-6), missing.logit(eps=1e-6))


def _logits(found: Evidence, wrong: Tensor, missing: Tensor, severity: Tensor | None = None) -> ErrorLogits:
    """Return log-odds; those of pairs with equal texts are of no error."""
    wrong, missing = (one.masked_fill(found.equal[:, None], NO_ERROR) for one in (wrong, missing))
    return ErrorLogits(wrong, missing, found.present, found.between, found.first, severity)


def error_logits(metric: MetricModel, hypotheses: TokenEmbeddings, others: TokenEmbeddings) -> ErrorLogits:
    """Return uncalibrated log-odds of errors by a metric's head, or by the rule if it has no head."""
    with torch.autocast(others.vectors.device.type, enabled=False):
        if metric.error_head is None:
            return plan_rule(evidence(hypotheses, others, RULE_TEMPERATURE))
        return metric.error_head(hypotheses, others, spellings(metric.tokenizer))


def by_rule(metric: MetricModel) -> MetricModel:
    """Return a shallow copy of a metric without its head, which therefore marks errors by the rule."""
    headless = copy.copy(metric)
    headless._modules = {**metric._modules, "error_head": None}
    return headless


class ErrorCalibration(NamedTuple):
    """Calibration of log-odds: scale and offset of tokens and gaps, thresholds, and whether severities were learned."""

    scales: tuple[tuple[float, float], tuple[float, float]]
    thresholds: tuple[float, float]
    graded: bool


def error_calibration(metric: MetricModel, side: int) -> ErrorCalibration:
    """Return the calibration against references (0) or sources (1)."""
    head = metric.error_head
    if head is None:
        return ErrorCalibration(((1.0, 0.0), (1.0, 0.0)), RULE_THRESHOLDS, graded=False)
    words, gaps = head.scales[side].tolist()
    word, gap = head.thresholds[side].tolist()
    return ErrorCalibration((tuple(words), tuple(gaps)), (word, gap), graded=bool(head.graded > 0))


def errors_entry(metric: MetricModel) -> str:
    """Return the signature entry: the rule with its temperature, or the head with a hash of its weights."""
    if metric.error_head is None:
        return f"rule-T{RULE_TEMPERATURE:g}"
    return f"head@{tensors_sha256(metric.error_head.state_dict())[:8]}"
