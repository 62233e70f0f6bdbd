"""The head that marks errors: from the evidence of a matching to probabilities of tokens and gaps."""

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

START_TEMPERATURE = 0.05  # temperature of the shares that tokens send to their partners, where the head begins
RULE_TEMPERATURE = 0.02  # the same without a head
RULE_THRESHOLDS = 0.6, 0.4  # probabilities from which the rule marks words and gaps
NO_ERROR = -20.0  # log-odds of a right token or gap


class ErrorLogits(NamedTuple):
    """Log-odds of errors in ``B`` hypotheses."""

    wrong: Tensor  # of each token to be wrong, [B, N]
    missing: Tensor  # of each gap, before a token or behind the last, to lack words, [B, N + 1]
    present: Tensor  # ordinary tokens, bool [B, N]; others mean nothing
    between: Tensor  # gaps beside an ordinary token, bool [B, N + 1]
    first: Tensor  # tokens that stand twice where one is too many, and the later one is the error, bool [B, N]
    severity: Tensor | None = None  # of each severity, should the token be wrong, [B, N, 3], where they were learned


class ErrorHead(nn.Module):
    """Marks errors: evidence and projected vectors of each token, seen together with those of its neighbours.

    Two convolutions over three tokens each read the evidence, the token's vector and its partners'. Gaps are read off
    the two tokens beside them and their own evidence. Log-odds are calibrated on held-back texts, by a scale and an
    offset for tokens and gaps against references and against sources; thresholds are those of the largest MCC there.
    """

    scales: Tensor
    thresholds: Tensor
    graded: Tensor
    fitted: Tensor
    words: Tensor

    def __init__(self, dimension: int) -> None:
        super().__init__()
        width, projected = 96, 32  # of the hidden layers, and of vectors before them
        self.log_temperature = nn.Parameter(torch.tensor(START_TEMPERATURE).log())
        self.own, self.partner = nn.Linear(dimension, projected), nn.Linear(dimension, projected)
        self.near = nn.Conv1d(len(TOKEN_EVIDENCE) + 2 * projected, width, 3, padding=1)
        self.far = nn.Conv1d(width, width, 3, padding=1)
        self.wrong = nn.Linear(width, 1)
        self.severity = nn.Linear(width, len(SEVERITIES))
        self.gap = nn.Linear(2 * width + len(GAP_EVIDENCE), width)
        self.missing = nn.Linear(width, 1)
        # Of references and sources, tokens and gaps: scale and offset, and the probability from which they are marked.
        self.register_buffer("scales", torch.tensor([1.0, 0.0]).repeat(2, 2, 1))
        self.register_buffer("thresholds", torch.full((2, 2), 0.5))
        self.register_buffer("graded", torch.tensor(0.0))  # 1 where severities were learned
        self.register_buffer("fitted", torch.tensor(0.0))  # 1 once calibrated, after training
        self.register_buffer("words", torch.tensor(1.0))  # 0 where edits of tokens, not of words, are its evidence

    def forward(
        self, hypotheses: TokenEmbeddings, others: TokenEmbeddings, spelling: Spelling | None = None
    ) -> ErrorLogits:
        """Log-odds of the tokens and gaps of hypotheses against other texts, before calibration."""
        if spelling is not None and not self.words:
            spelling = spelling.by_tokens()
        found = evidence(hypotheses, others, self.log_temperature.exp(), spelling)
        present = found.present[:, :, None]
        vectors = [self.own(found.own), self.partner(found.partners)]
        hidden = torch.cat([found.tokens, *vectors], dim=2) * present
        for layer in (self.near, self.far):
            hidden = nn.functional.gelu(layer(hidden.transpose(1, 2)).transpose(1, 2)) * present
        beside = torch.cat([pad(hidden, (0, 0, 1, 0)), pad(hidden, (0, 0, 0, 1)), found.gaps], dim=2)
        missing = self.missing(nn.functional.gelu(self.gap(beside)))[:, :, 0]
        wrong, severity = self.wrong(hidden)[:, :, 0], self.severity(hidden)
        logits = ErrorLogits(wrong, missing, found.present, found.between, found.first, severity)
        return _none_if_equal(logits, found)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Take weights, also of heads from before edits of words."""
        if f"{prefix}fitted" in state_dict:
            state_dict.setdefault(f"{prefix}words", torch.tensor(0.0))
        super()._load_from_state_dict(state_dict, prefix, *others)

    @torch.no_grad()
    def take_calibration(
        self, kind: int, scale: float, offset: float, threshold: float, side: int | None = None
    ) -> None:
        """Take scale, offset and threshold of tokens (0) or gaps (1) against references (0), sources (1), or both."""
        sides = slice(None) if side is None else side
        self.scales[sides, kind] = torch.tensor([scale, offset])
        self.thresholds[sides, kind] = threshold
        self.fitted.fill_(1.0)


def plan_rule(found: Evidence) -> ErrorLogits:
    r"""Log-odds without training: a token is wrong so far as its partners neither are like it nor give it back.

    :math:`p_j = 1 - \sqrt{\max(\bar S_j, 0)\,\sum_i A_{ij} B_{ij}}` with :math:`\bar S_j = \sum_i A_{ij} S_{ij}`, and
    for a gap the largest such value of a token of the other text that the gap passes over.
    """
    mean, returned = (found.tokens[:, :, TOKEN_EVIDENCE.index(name)] for name in ("mean", "returned"))
    wrong = 1 - (mean.clamp(min=0) * returned.clamp(min=0)).clamp(min=1e-9).sqrt()
    missing = found.gaps[:, :, GAP_EVIDENCE.index("most uncovered between")].clamp(min=0)
    logits = ErrorLogits(wrong.logit(eps=1e-6), missing.logit(eps=1e-6), found.present, found.between, found.first)
    return _none_if_equal(logits, found)


def _none_if_equal(logits: ErrorLogits, found: Evidence) -> ErrorLogits:
    """Log-odds where texts of the same tokens have no errors, however long they are."""
    wrong, missing = (one.masked_fill(found.equal[:, None], NO_ERROR) for one in (logits.wrong, logits.missing))
    return logits._replace(wrong=wrong, missing=missing)


def error_logits(metric: MetricModel, hypotheses: TokenEmbeddings, others: TokenEmbeddings) -> ErrorLogits:
    """Log-odds of errors before calibration, by a metric's head, or by the rule where it has none."""
    with torch.autocast(others.vectors.device.type, enabled=False):
        if metric.error_head is None:
            return plan_rule(evidence(hypotheses, others, RULE_TEMPERATURE))
        return metric.error_head(hypotheses, others, spellings(metric.tokenizer))


def by_rule(metric: MetricModel) -> MetricModel:
    """Return a metric that shares all with another but its head, so that it marks by the rule."""
    found = copy.copy(metric)
    found._modules = {**metric._modules, "error_head": None}
    return found


class ErrorCalibration(NamedTuple):
    """From log-odds to marks: scale and offset of tokens and gaps, thresholds, and whether severities were learned."""

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
    """Entry of the signature: the rule with its temperature, or the head with a hash of its weights."""
    if metric.error_head is None:
        return f"rule-T{RULE_TEMPERATURE:g}"
    return f"head@{tensors_sha256(metric.error_head.state_dict())[:8]}"
