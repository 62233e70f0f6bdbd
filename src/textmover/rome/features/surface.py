"""Features that look at the characters and words of two texts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from textmover.rome.features.text_features import ReadText
from textmover.rome.features.words import is_word
from textmover.types import InputError


def length_ratio(hypothesis: ReadText, reference: ReadText) -> float:
    """Words of the shorter text to those of the longer one, 0 to 1; 1 for two texts without words.

    Example:
        >>> length_ratio(ReadText("", ("one", "!"), None), ReadText("", ("one", "two"), None))
        0.5
    """
    counts = sorted(sum(map(is_word, one.words)) for one in (hypothesis, reference))
    return counts[0] / counts[1] if counts[1] else 1.0


def chrf(hypothesis: ReadText, reference: ReadText) -> float:
    """The chrF of the hypothesis, 0 to 1 (Popović 2015).

    Raises:
        InputError: If sacrebleu is not installed.
    """
    return float(_chrf().sentence_score(hypothesis.text, [reference.text]).score) / 100


@cache
def _chrf() -> Any:
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise InputError(
            'Expected sacrebleu for the feature chrf, but it is not installed: pip install "textmover[lexical]".'
        ) from error
    return CHRF()


SURFACE: Mapping[str, Callable[[ReadText, ReadText], float]] = MappingProxyType(
    {"length-ratio": length_ratio, "chrf": chrf}
)
"""Features by name, from hypothesis and reference."""
