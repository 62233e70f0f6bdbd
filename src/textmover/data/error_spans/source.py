"""Texts whose errors people marked, as a source to learn from: the targets of each token and gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.data.sources import Batch, Source, Tokenize
from textmover.data.split import text_hash
from textmover.types import SpecialToken, TokenBatch, compared_texts
from textmover.types.error_spans import SEVERITIES, ErrorSpan, MarkedSegment
from textmover.types.text_words import text_words
from textmover.types.tokens import token_offsets


@dataclass(frozen=True, kw_only=True)
class MarkedBatch(Batch):
    """Texts with their errors, each beside one text that it is compared with."""

    hypotheses: TokenBatch  # B rows
    references: TokenBatch  # B rows
    of_source: Tensor  # rows whose reference is the source, bool [B]
    wrong: Tensor  # 1 where a token is of a wrong span, NaN where it is special or padding, float32 [B, L]
    missing: Tensor  # 1 where words are missing before token k or behind the last, NaN within words, float32 [B, L + 1]
    severity: Tensor  # place in SEVERITIES of the worst error of a token, -1 where none is known, int64 [B, L]


@dataclass
class MarkedSource(Source[MarkedSegment]):
    """Texts whose errors are known."""

    batch = MarkedBatch
    mode: str = "reference"  # what the metric that learns from it compares hypotheses with
    fallback: bool = False  # whether the other side stands in for a missing one

    def compared(self, item: MarkedSegment) -> tuple[str, bool]:
        """The text that an item is compared with, and whether that is its source.

        A metric that reads both learns from the source of every other text, by a hash.
        """
        (found,) = compared_texts(self, [item.compared])
        if len(found) and found.source is not None:
            of_source = text_hash(f"source of {item.hypothesis}")[0] % 2 == 1
            return (found.source if of_source else found[0]), of_source
        return found.texts[0], not len(found)

    def texts(self, item: MarkedSegment) -> tuple[str, ...]:
        """The hypothesis and the text that it is compared with."""
        return item.hypothesis, self.compared(item)[0]

    def identity(self, item: MarkedSegment) -> tuple[Any, ...]:
        """The texts and the errors."""
        errors = [(one.start, one.end, one.severity) for one in item.errors]
        return (*self.texts(item), errors, item.words, item.graded)

    def columns(self, items: Sequence[MarkedSegment], tokenize: Tokenize) -> dict[str, Any]:
        """Texts and the targets of their tokens and gaps."""
        compared = [self.compared(one) for one in items]
        texts = [one.hypothesis for one in items]
        hypotheses = tokenize(texts)
        tokenizer = getattr(getattr(tokenize, "__self__", None), "tokenizer", None)  # of the metric that tokenises
        targets = token_targets(items, hypotheses, token_offsets(tokenizer, texts))
        return {
            "hypotheses": hypotheses,
            "references": tokenize([text for text, _ in compared]),
            "of_source": torch.tensor([of_source for _, of_source in compared], dtype=torch.bool),
            **dict(zip(("wrong", "missing", "severity"), targets, strict=True)),
        }


def token_targets(items: Sequence[MarkedSegment], tokens: TokenBatch, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the targets of tokens and of the gaps between them.

    A token is wrong where it shares a character with a wrong span. A gap is judged where a word begins behind it, or
    the last word ends before it: words are those that were tagged, or else those of
    :func:`~textmover.types.text_words.text_words`. A span that touches no word is missing words.

    Args:
        items: ``B`` texts with their errors.
        tokens: Their tokens, ``L`` at most.
        offsets: First character of each token and that behind its last, int64 ``[B, L, 2]``.

    Returns:
        ``wrong`` float32 ``[B, L]``, ``missing`` float32 ``[B, L + 1]`` and ``severity`` int64 ``[B, L]``, as in
        :class:`MarkedBatch`.
    """
    ordinary = (tokens.mask & (tokens.special == SpecialToken.NONE)).cpu().numpy()
    rows, length = ordinary.shape
    wrong = np.full((rows, length), np.nan, dtype=np.float32)
    missing = np.full((rows, length + 1), np.nan, dtype=np.float32)
    severity = np.full((rows, length), -1, dtype=np.int64)
    for row, item in enumerate(items):
        words = text_words(item.hypothesis) if item.words is None else item.words
        spans, gaps = _apart(item.errors, words)
        starts = {start: gap for gap, (start, _) in enumerate(words)}
        last = behind = 0
        for place in np.flatnonzero(ordinary[row]).tolist():
            start, end = offsets[row, place].tolist()
            start = end - len(item.hypothesis[start:end].lstrip())
            if start == end:  # white space alone
                continue
            own = [one for one in spans if one.start < end and start < one.end]
            wrong[row, place] = bool(own)
            if own and item.graded:
                severity[row, place] = max(SEVERITIES.index(one.severity) for one in own)
            if start in starts:  # once: pieces of one character share its place
                missing[row, place] = starts.pop(start) in gaps
            last, behind = place, end
        if words and words[-1][0] < behind and not tokens.truncated[row]:
            missing[row, last + 1] = len(words) in gaps
    return torch.from_numpy(wrong), torch.from_numpy(missing), torch.from_numpy(severity)


def _apart(errors: Sequence[ErrorSpan], words: Sequence[tuple[int, int]]) -> tuple[list[ErrorSpan], set[int]]:
    """Wrong spans, and the gaps between words that hold a span which touches none of them."""
    gaps = list(zip([0, *(end for _, end in words)], [*(start for start, _ in words), np.inf], strict=True))
    spans, lacking = [], set()
    for one in errors:
        of_gap = [gap for gap, (low, high) in enumerate(gaps) if low <= one.start and one.end <= high]
        lacking.update(of_gap[:1])
        spans += [] if of_gap else [one]
    return spans, lacking
