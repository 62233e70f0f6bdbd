"""Sentences about an explanation that all its views share."""

from __future__ import annotations

from textmover.report.explanation.values import ExplanationValues
from textmover.report.figures.svg import MINUS, signed

FLAGS = {
    "empty": "a side has nothing to match",
    "truncated": "a text is longer than the encoder allows and was cut: words behind the cut are not read",
    "unknown": "the encoder does not know some words or symbols: each matches only what is written the same",
    "unweighted": "all idf weights of a text are 0: every word weighs the same",
    "undefined": "a self-similarity is 0 or below: the value is 0",
    "long": "a text has so many words that the trees were compared in stretches",
    "not converged": "the plan did not converge: raise `max_iterations`, or the temperature",
}
"""Descriptions of flags, by their names in scores."""


def flag_notes(found: ExplanationValues) -> list[str]:
    """Sentences about what is out of the ordinary."""
    notes = {flag: FLAGS.get(flag, flag) for flag in found.flags}
    if "unknown" in notes and found.unknown_words:
        notes["unknown"] += f" ({', '.join(found.unknown_words)})"
    return list(notes.values())


def plan_words(name: str, *, several: bool) -> str:
    """Meaning of a plan's discs.

    Example:
        >>> plan_words("recall", several=True), plan_words("cost", several=False)
        ('moved in recall', 'moved')
    """
    return f"moved in {name}" if several else "moved"


def signed_terms(found: ExplanationValues) -> list[tuple[str, float]]:
    """Terms of the score: all words together, and each remainder by its name."""
    return [("words", found.by_words), *((one.name, one.value) for one in found.remainders)]


def decomposition(found: ExplanationValues, *, plain: bool = False) -> str:
    """Sum of words and remainders, such as ``"words 0.72 - baseline 0.13 = score 0.59"``.

    Args:
        found: The explanation.
        plain: Whether a hyphen stands for the minus sign, as in the numbers of a terminal.
    """
    minus, parts = "-" if plain else MINUS, []
    for place, (name, value) in enumerate(signed_terms(found)):
        sign = "" if place == 0 and value >= 0 else f"{minus} " if value < 0 else "+ "
        parts.append(f"{sign}{name} {signed(abs(value), 4)}")
    return f"{' '.join(parts)} = score {signed(found.score, 4).replace(MINUS, minus)}"
