"""Severity of each perturbation: the fixed table of ``severity.yaml``, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from textmover.perturbations.editable_sentences import Word
from textmover.safe_reading import read_yaml
from textmover.types import check_choice


@dataclass(frozen=True)
class SeverityTable:
    """Severity of perturbations by type, degree and share of the text."""

    grades: Mapping[str, Mapping[int, tuple[float, float]]]  # type to degree to base and slope (by the share)
    ceilings: Mapping[str, float]  # type to its maximum severity
    function_word_weight: float  # weight of a function word in the share; a content word weighs 1

    @classmethod
    def load(cls, path: str | Path | None = None, *, further: bool = False) -> SeverityTable:
        """Read a table from YAML; ``further`` includes the types of ``further_types``."""
        path = Path(path) if path is not None else Path(__file__).with_name("severity.yaml")
        raw = read_yaml(path)
        try:
            entries = {**raw["types"], **(raw["further_types"] if further else {})}
            grades = {
                name: {
                    int(degree): (float(row["base"]), float(row["slope"])) for degree, row in entry["degrees"].items()
                }
                for name, entry in entries.items()
            }
            ceilings = {name: float(entry["ceiling"]) for name, entry in entries.items()}
            weight = float(raw["function_word_weight"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"Expected `{path}` to hold function_word_weight and types with ceiling and degrees of base and slope, "
                f"but got {type(error).__name__}: {error}"
            ) from error
        numbers = [weight, *ceilings.values(), *(base for rows in grades.values() for base, _ in rows.values())]
        if not all(0 <= number <= 1 for number in numbers):
            raise ValueError(f"Expected weights, ceilings and bases in `{path}` to be in [0, 1], but got {numbers}")
        return cls(grades, ceilings, weight)

    def degrees(self, type: str) -> tuple[int, ...]:
        """Return the degrees of a type, mildest first."""
        check_choice("type", type, self.grades)
        return tuple(sorted(self.grades[type]))

    def severity(self, type: str, degree: int, share: float = 0.0) -> float:
        """Return the severity in [0, 1] by the share of changed words, rounded to be the same on every machine."""
        check_choice("degree", degree, self.degrees(type))
        base, slope = self.grades[type][degree]
        return round(min(self.ceilings[type], base + slope * share), 3)

    def weight(self, words: Sequence[Word]) -> float:
        """Return the total weight of words."""
        light = sum(word.function for word in words)  # counted, not summed: float sums differ between Python versions
        return len(words) - light + self.function_word_weight * light


@cache
def shipped_table() -> SeverityTable:
    """Return the complete shipped table."""
    return SeverityTable.load(further=True)
