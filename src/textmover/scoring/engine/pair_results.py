"""Collect values and flags of pairs batch by batch; progress, warnings and NaN checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from textmover.modules.encoder.known_encoders import languages_of
from textmover.modules.tokens.text_flags import FALLBACK, other_script
from textmover.types import InputError, PairScores, plural

VALUES = ("score", "precision", "recall", "f")


class PairTable:
    """Values and flags of pairs; they stay on their device until first read, so that a GPU is synchronised once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._rows: list[np.ndarray] = []
        self._batches: list[PairScores] = []
        self._flags: dict[str, np.ndarray] = {}

    def put(self, rows: Sequence[int], scores: PairScores) -> None:
        """Add the scores of a batch."""
        self._rows.append(np.asarray(rows, dtype=np.int64))
        self._batches.append(scores)

    def mark(self, flags: Mapping[str, np.ndarray], rows: Sequence[int] | slice = slice(None)) -> None:
        """Set flags of the pairs ``rows``, by default of all pairs."""
        for name, marked in flags.items():
            self._flags.setdefault(name, np.zeros(self.size, dtype=bool))[rows] = marked

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Values by name, float64 ``[size]``; NaN where a batch has no such value."""
        named = [{**{name: getattr(batch, name) for name in VALUES}, **batch.components} for batch in self._batches]
        return self._gathered(named, np.nan, np.float64)

    @property
    def flags(self) -> dict[str, np.ndarray]:
        """Flags by name, bool ``[size]``; False where a batch has no such flag."""
        return self._gathered([batch.flags for batch in self._batches], False, bool) | self._flags

    def _gathered(self, named: Sequence[Mapping[str, Any]], missing: Any, dtype: type) -> dict[str, np.ndarray]:
        gathered: dict[str, np.ndarray] = {}
        for name in dict.fromkeys(name for tensors in named for name in tensors):
            batches = zip(self._rows, named, strict=True)
            found = [(rows, tensors[name]) for rows, tensors in batches if tensors.get(name) is not None]
            if found:
                rows, values = zip(*found, strict=True)
                gathered[name] = np.full(self.size, missing, dtype=dtype)
                gathered[name][np.concatenate(rows)] = torch.cat(values).cpu().numpy()
        return gathered


WARNINGS = {
    "empty": "had an empty or unreadable hypothesis or reference, and scored as texts with nothing in common",
    "unweighted": "had a text whose idf weights are all 0: uniform weights stood in for them",
    "truncated": "had a text that is longer than the encoder allows and was cut",
    "unknown": "had a text with more than a tenth of its tokens unknown to the encoder",
    "script": "had a text in a script that the metric does not support",
    "language": "had a text that does not look English (the metric was made for English)",
    "look-alikes": "had signs that only look like plain text (ligatures, soft hyphens, Cyrillic among Latin letters)",
    "repetition": "had a hypothesis that repeats one phrase",
    "same output": "had a hypothesis that recurs in many segments with different references",
    "copied": "had a hypothesis that is its source, copied",
    "untranslated": "had a hypothesis in the language of its source",
    "off target": "had a hypothesis in another language than its reference",
    FALLBACK: "lacked a reference or a source: the other stood in for it",
    "unreferenced": "had no reference, so that errors were marked from the source alone",
    "few candidates": "had one candidate, or two that tie under this metric, so the first was chosen",
    "undefined": "had a self-similarity of 0 or below, which scores 0",
    "long": "had a text whose trees were compared in stretches: it is longer than `most_nodes` words",
    "not converged": "did not converge: raise `max_iterations`, or the temperature",
}

MULTILINGUAL = languages_of("multilingual-e5-small")  # languages that `textmover-multilingual` supports

READERS = {
    "letters": "use `--model textmover-multilingual`",
    "ends": '`--long-texts window` (in Python `long_texts="window"`) reads all',
    "symbols": "for symbols use `--model twmd --encoder roberta-base` (in Python `encoder=`)",
}
"""Options with which a metric reads texts that the present one cannot."""

WAYS_OUT = {
    "empty": "`score --format tsv` flags each",
    **dict.fromkeys(("unknown", "script", "language", "untranslated", "off target"), "such results mean little"),
    "look-alikes": "the encoder reads other words, so write plain letters",
    "repetition": "check the system that wrote them; such loops can score high",
    "same output": "check whether the system gives a stock answer (`score --format tsv` flags each)",
    "few candidates": "give three or more",
    "unreferenced": "such marks are unreliable (MLQE-PE: MCC .25 of words, .10 of gaps)",
    "copied": "references alone judge a copy; without any, its score says nothing unless `target_language` is set",
}
"""Advice that follows the warning of a flag."""


def pair_flags(hypotheses: Mapping[str, np.ndarray], references: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Combine the flags of texts to flags of pairs; repetition counts in hypotheses only."""
    return {name: marked if name == "repetition" else marked | references[name] for name, marked in hypotheses.items()}


Counts = Mapping[str, int | Mapping[str, int]]  # flagged segments by flag, either one number or one per system
MOST_NAMED = 6  # number of systems that a warning lists


def unusual(
    kind: str,
    number: int | Mapping[str, int],
    examples: Sequence[str] = (),
    languages: Sequence[str] = (),
    metric: Any = None,
) -> str:
    """Return a warning: the number of flagged segments, examples, and advice, such as a metric that reads them.

    Example:
        >>> unusual("truncated", 2)
        '2 segments had a text that is longer than the encoder allows and was cut'
        >>> unusual("unweighted", {"A": 1, "B": 2})
        'A (1), B (2): 3 segments had a text whose idf weights are all 0: uniform weights stood in for them'
    """
    systems = [f"{name} ({count:,})" for name, count in number.items()] if isinstance(number, Mapping) else []
    prefix = ", ".join(systems[:MOST_NAMED]) + f" and {len(systems) - MOST_NAMED} more" * (len(systems) > MOST_NAMED)
    count = sum(number.values()) if isinstance(number, Mapping) else number
    message = f"{prefix}{': ' if prefix else ''}{plural(count, 'segment')} {WARNINGS.get(kind, kind)}"
    if (mode := getattr(metric, "mode", "both")) != "both":  # name the missing side
        sides = ("source", "reference") if mode == "source" else ("reference", "source")
        message = message.replace("reference or a source: the other", "{}: the {}".format(*sides))
    suffix = f", such as {', '.join(examples)}" if examples else ""
    advice = [WAYS_OUT[kind]] if kind in WAYS_OUT else []
    if metric is None and kind == "off target":
        message += ", or than the target language if one is set (then it scores as an empty text)"
    if language := getattr(metric, "target_language", None):
        message = message.replace("than its", f"than {language}, which scores as an empty text, or than its")
        advice = [one.partition("; without any")[0] for one in advice]
    if kind == "truncated" and (limit := getattr(getattr(metric, "tokenizer", None), "max_length", None)):
        message += f" after {limit} tokens"
        advice += [READERS["ends"]] if hasattr(getattr(metric, "encoder", None), "window") else []
    if kind in ("unknown", "script", "language"):
        lettered = [text for text in examples if any(map(str.isalpha, text))]
        if len(languages) < 2 and (not examples or any(not other_script(text, MULTILINGUAL) for text in lettered)):
            advice.append(READERS["letters"])
        if len(lettered) < len(examples):
            advice.append(READERS["symbols"])
    return f"{message}{suffix}{': ' if advice else ''}{'; '.join(advice)}"


class Progress:
    """Progress of a window: reports newly finished segments, estimated from the share of the work that is done."""

    def __init__(self, segments: int, on_progress: Callable[[int], None] | None) -> None:
        self._segments, self._on_progress = segments, on_progress
        self._reported = 0

    def reach(self, share: float) -> None:
        """Report progress up to ``share`` of the work."""
        finished = int(self._segments * share)
        if self._on_progress is not None and finished > self._reported:
            self._on_progress(finished - self._reported)
            self._reported = finished


def check_finite(values: Mapping[str, np.ndarray], owners: np.ndarray) -> None:
    """Raise an error for NaN and infinite values of pairs; ``owners`` are their segments, counted from 0."""
    for name, array in values.items():
        invalid = np.flatnonzero(~np.isfinite(array))
        if len(invalid):
            raise InputError(
                f"Expected finite values from the metric, but its {name} of segment {owners[invalid[0]] + 1} is "
                f"{array[invalid[0]]}: the checkpoint's weights are damaged, or its arithmetic overflowed."
            )
