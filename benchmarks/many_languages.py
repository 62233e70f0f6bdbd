"""The order of right and wrong translations from twenty languages, and what metrics of English make of other languages.

    pip install -e ".[multilingual]"
    python benchmarks/many_languages.py

Sixty sentences (``translations.yaml``) have a right translation and four wrong ones: with another number, turned
around, into another language, and the sentence itself. Told is how many pairs of a right and a wrong one are in order,
with the source, with a reference, or with both, and how many copies are flagged. Beside the agreement that the card of
``textmover-multilingual`` tells, that of other metrics with the references of the same sets is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
import yaml
from ladder import Judged

from textmover import Scorer
from textmover.meta_evaluation.statistics.correlation import grouped_correlations, mean_correlation
from textmover.scoring.lexical import lexical_scores

METRIC = "textmover-multilingual"
UNTRAINED = {"encoder": "multilingual", "layer": 8, "mode": "both", "fallback": True}
OTHERS = ("twmd", "textmover-general")
LEXICAL = ("sentbleu", "chrf")
KINDS = ("number", "negation", "another language", "source copied")
SIDES = ("reference", "source", "both")


class Order(NamedTuple):
    """A right and a wrong translation of a sentence, with their scores."""

    language: str
    kind: str
    source: str
    wrong: str
    margin: float
    flagged: bool


def translations(path: Path) -> list[tuple[str, str, str, dict[str, str]]]:
    """Language, sentence and reference of each item, and its translations by their kind."""
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    by_meaning: dict[str, list[tuple[str, str]]] = {}
    for language, sentences in told["sentences"].items():
        for meaning, text in sentences.items():
            by_meaning.setdefault(meaning, []).append((language, text))
    found = []
    for meaning, sentences in by_meaning.items():
        given = told["meanings"][meaning]
        for place, (language, source) in enumerate(sentences):
            other = sentences[(place + 1) % len(sentences)][1]
            wrong = {"another language": other, "source copied": source}
            hypotheses = {name: given[name] for name in ("right", "number", "negation")} | wrong
            found.append((language, source, given["reference"], hypotheses))
    return found


def orders(scorer: Scorer, items: list[tuple[str, str, str, dict[str, str]]], side: str) -> Iterator[Order]:
    """Every pair of a right and a wrong translation."""
    rows = [(language, source, reference, *one) for language, source, reference, more in items for one in more.items()]
    languages, sources, references, kinds, hypotheses = zip(*rows, strict=True)
    found = scorer.score(hypotheses, None if side == "source" else references, None if side == "reference" else sources)
    copied = found.flags.get("copied", np.zeros(len(rows), dtype=bool))
    right = np.nan
    for place, kind in enumerate(kinds):
        if kind == "right":
            right = found.scores[place]
        else:
            margin = right - found.scores[place]
            yield Order(languages[place], kind, sources[place], hypotheses[place], margin, bool(copied[place]))


def order_tables(scorers: dict[str, Scorer], items: list[Any]) -> tuple[str, str]:
    """Shares of pairs in order by metric, side and kind; and the pairs that the last metric has the wrong way."""
    rows, wrong = [], []
    for name, scorer in scorers.items():
        for side in SIDES:
            found = list(orders(scorer, items, side))
            cells = [[one.margin > 0 for one in found if one.kind == kind] for kind in KINDS]
            copies = [one.flagged for one in found if one.kind == "source copied"]
            total = np.mean([one for cell in cells for one in cell])
            rows.append([name, side, *(f"{np.mean(cell):.0%}" for cell in cells), f"{total:.1%}", sum(copies)])
            if name == METRIC:
                wrong += [[side, one.kind, one.language, one.source, one.wrong] for one in found if one.margin <= 0]
    headers = ("metric", "compared with", *KINDS, "all", "copies flagged, of 60")
    return harness.table(headers, rows, texts=2), harness.table(
        ("compared with", "kind", "language", "sentence", "wrong translation"), wrong, texts=None
    )


def agreement(sets: dict[str, Judged]) -> Iterator[list[str]]:
    """A row of mean and single correlations for each set and other metric."""
    for title, judged in sets.items():
        texts = [one.hypothesis for one in judged.segments], [one.references for one in judged.segments]
        values = {name: lexical_scores(name, *texts).scores for name in LEXICAL}
        values |= {name: judged.scores(Scorer.from_pretrained(name)) for name in OTHERS}
        for name, scores in values.items():
            found = grouped_correlations(scores, judged.human, judged.groups)
            single = ", ".join(f"{key} {one.pearson:.3f}" for key, one in found.items() if len(found) > 1)
            yield [title, name, f"{mean_correlation(found).pearson:.3f}", single]


def main() -> None:
    """Print the tables."""
    options = harness.parser(__doc__, model=METRIC).parse_args()
    sets = yaml.safe_load((harness.ROOT / "configs/ladder/multilingual.yaml").read_text())["sets"]
    wanted = {name: Judged.read(one) for name, one in sets.items() if "compare" not in one and not one.get("test")}
    harness.print_table(("judgements", "metric", "Pearson", "by pair"), agreement(wanted), texts=None)
    scorers = {"untrained": Scorer.from_pretrained("twmd", **UNTRAINED), METRIC: Scorer.from_pretrained(options.model)}
    print(*order_tables(scorers, translations(Path(__file__).with_name("translations.yaml"))), sep="\n\n")


if __name__ == "__main__":
    main()
