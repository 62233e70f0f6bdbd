"""Flags of texts whose scores should not be trusted: cut, unknown tokens, other scripts, one phrase repeated."""

from __future__ import annotations

import functools
import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np

from textmover.types import TokenBatch

MOST = 0.1
"""Largest share of unknown tokens, or of letters in other scripts, of a text that is not flagged."""

PHRASE, TIMES, FEWEST = 16, 3, 12
"""Longest phrase whose repetition is noticed, least times that it is said, and shortest such text, in words."""

MANY = 5
"""Different references to one hypothesis from which on it is flagged."""

SCRIPTS = {
    "Latin": r"A-Za-zÀ-ÖØ-öø-ʯ\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff\uab30-\uab64\ufb00-\ufb06"
    r"\uff21-\uff3a\uff41-\uff5a",
    "Greek": r"\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": r"\u0400-\u052f\u1c80-\u1c88\ua640-\ua69f",
    "Hebrew": r"\u0590-\u05ff\ufb1d-\ufb4f",
    "Arabic": r"\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Devanagari": r"\u0900-\u097f\ua8e0-\ua8ff",
    "Thai": r"\u0e00-\u0e7f",
    "Hangul": r"\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "Kana": r"\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "Han": r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
}
"""Letters of each script, as ranges of a regular expression."""

WRITTEN_IN = {
    "ar": "Arabic", "bg": "Cyrillic", "el": "Greek", "fa": "Arabic", "he": "Hebrew", "hi": "Devanagari",
    "ja": "Han Kana", "ko": "Hangul Han", "ru": "Cyrillic", "th": "Thai", "uk": "Cyrillic", "zh": "Han",
}  # fmt: skip
"""Scripts of languages, by their codes; all others are written in Latin letters."""

SHARED = r"ªºµ²³¹¼-¾ʰ-˿\u2070-\u209c\u2100-\u218b\u2460-\u24ff\u2776-\u2793"
"""Letters and numbers that texts in any script have."""


def text_flags(batch: TokenBatch, languages: Sequence[str]) -> dict[str, np.ndarray]:
    """Flags of texts by name, bool ``[B]``; a batch on the CPU, and languages of the metric, none for all."""
    none = np.zeros(len(batch), dtype=bool)
    ordinary = batch.mask & (batch.special == 0)
    known = ordinary if batch.unknown is None else ordinary & (batch.unknown == 0)
    lacking = np.array([len(words) for words in batch.unknown_words or ()])
    return {
        "truncated": np.array(batch.truncated, dtype=bool),
        "unknown": none if batch.unknown_words is None else lacking > MOST * (lacking + known.sum(dim=1).numpy()),
        "script": np.array(
            [not one.isascii() and other_script(one, languages) != "" for one in batch.texts], dtype=bool
        ),
        "repetition": _repeats(batch, ordinary.numpy()) if batch.mask.shape[1] >= FEWEST else none,
    }


def other_script(text: str, languages: Sequence[str]) -> str:
    """Script of more than a tenth of the letters of a text that none of the languages is written in; else nothing.

    Example:
        >>> other_script("Доброе утро", ("en",)), other_script("Zoë has no 早", ("en",)), other_script("早", ("zh",))
        ('Cyrillic', 'Han', '')
    """
    if not languages:
        return ""
    letters, others = _letters(tuple(languages))
    found = "".join(others.findall(text))
    if not found or len(found) <= MOST * len(letters.findall(text)):
        return ""
    most = Counter(found).most_common(1)[0][0]
    known = (script for script, ranges in SCRIPTS.items() if re.match(f"[{ranges}]", most))
    return next(known, unicodedata.name(most, "unknown").split()[0].title())


@functools.cache
def _letters(languages: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of a letter, and of letters in scripts that none of the languages is written in."""
    scripts = {script for one in languages for script in WRITTEN_IN.get(one, "Latin").split()}
    ours = "".join(SCRIPTS[script] for script in scripts)
    return re.compile(rf"[^\W\d_{SHARED}]"), re.compile(rf"[^\W\d_{SHARED}{ours}]+")


def _repeats(batch: TokenBatch, ordinary: np.ndarray) -> np.ndarray:
    """Return which texts repeat one phrase; only texts that say half of their tokens again are looked at."""
    ids = batch.input_ids if batch.unknown is None else batch.input_ids.where(batch.unknown == 0, -batch.unknown)
    keys = np.sort(np.where(ordinary, ids.numpy(), -1 - np.arange(ids.shape[1])), axis=1)
    lengths, again = ordinary.sum(axis=1), np.count_nonzero(keys[:, 1:] == keys[:, :-1], axis=1)
    found = (lengths >= FEWEST) & (2 * again >= lengths)
    found[found] = [repeats_phrase(batch.texts[row]) for row in np.flatnonzero(found)]
    return found


def repeats_phrase(text: str) -> bool:
    """Return whether half of the words, or of the letters of a few words, are those that stand one phrase before them.

    Example:
        >>> repeats_phrase("I do not know. " * 4), repeats_phrase("Thank you!!!!!!!!!!!!")
        (True, False)
    """
    words = re.findall(r"[^\W_]+", text.lower())
    units = words if len(words) >= FEWEST else "".join(words)
    return len(units) >= FEWEST and any(
        max(2 * (TIMES - 1) * phrase, len(units)) <= 2 * sum(map(operator.eq, units[phrase:], units))
        for phrase in range(1, min(PHRASE, len(units) // TIMES) + 1)
    )


def copied_sources(hypotheses: Sequence[str], sources: Sequence[str | None]) -> np.ndarray:
    """Return which hypotheses are their source, but for spaces, bool ``[n]``."""
    pairs = zip(hypotheses, sources, strict=True)
    return np.array([other is not None and one.split() == other.split() for one, other in pairs], dtype=bool)


def same_outputs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """Return which hypotheses stand for many different references, bool ``[n]``; empty ones are not counted.

    Example:
        >>> same_outputs(["yes"] * 5 + ["no"], [[name] for name in "abcdef"]).tolist()
        [True, True, True, True, True, False]
    """
    found = np.zeros(len(hypotheses), dtype=bool)
    if len(hypotheses) - len(set(hypotheses)) >= MANY - 1:
        pairs = set(zip(hypotheses, map(tuple, references), strict=True))
        answers = Counter(text for text, _ in pairs if text.strip())
        many = {text for text, number in answers.items() if number >= MANY}
        found[:] = [text in many for text in hypotheses]
    return found
