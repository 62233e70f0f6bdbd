"""Shared types of the project: texts, tokens, features, scores, signatures and the metric protocol.

Nothing here computes a score. A *segment* is a hypothesis with its references and, if rated, its human score. A
*metric* scores segments through the :class:`SegmentMetric` protocol, the only interface that training, torchmetrics,
the engine and the command line use.
"""

from typing import TYPE_CHECKING

from textmover.lazy import names_of
from textmover.types.argument_checks import BOUNDS, ENCODER_BOUNDS, check_choice, check_share, check_whole
from textmover.types.display import Shown, View, fixed, flagged, isolated, plural
from textmover.types.error_spans import (
    MQM_COSTS,
    SEVERITIES,
    ErrorSpan,
    MarkedSegment,
    MarkedTexts,
    Severity,
    TextErrors,
)
from textmover.types.metric import (
    CompositeMetric,
    EncoderRunner,
    MatchResult,
    PairScores,
    ParsedText,
    Parser,
    RowRunner,
    RunnableEncoder,
    SegmentMetric,
    Statistic,
    TrainableMetric,
)
from textmover.types.segments import (
    InputError,
    Judgements,
    NoReferenceError,
    Segment,
    SegmentScores,
    Signature,
    SourcedReferences,
    compared_sides,
    compared_texts,
    needs_extra,
)

if TYPE_CHECKING:
    from textmover.types.tokens import (
        PackedEmbeddings,
        PackedFeatures,
        SpecialToken,
        TextFeatures,
        TokenBatch,
        TokenEmbeddings,
        TokenTrait,
    )

__all__ = [
    "BOUNDS",
    "ENCODER_BOUNDS",
    "MQM_COSTS",
    "SEVERITIES",
    "CompositeMetric",
    "EncoderRunner",
    "ErrorSpan",
    "InputError",
    "Judgements",
    "MarkedSegment",
    "MarkedTexts",
    "MatchResult",
    "NoReferenceError",
    "PackedEmbeddings",
    "PackedFeatures",
    "PairScores",
    "ParsedText",
    "Parser",
    "RowRunner",
    "RunnableEncoder",
    "Segment",
    "SegmentMetric",
    "SegmentScores",
    "Severity",
    "Shown",
    "Signature",
    "SourcedReferences",
    "SpecialToken",
    "Statistic",
    "TextErrors",
    "TextFeatures",
    "TokenBatch",
    "TokenEmbeddings",
    "TokenTrait",
    "TrainableMetric",
    "View",
    "check_choice",
    "check_share",
    "check_whole",
    "compared_sides",
    "compared_texts",
    "fixed",
    "flagged",
    "isolated",
    "needs_extra",
    "plural",
]

# The remaining types hold tensors and are imported on first use, since they import torch.
__getattr__ = names_of(__name__, __file__)
