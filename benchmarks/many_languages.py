"""The order of right and wrong translations from twenty languages, and what metrics of English make of other languages.

    pip install -e ".[multilingual]"
    python benchmarks/many_languages.py [--output docs/results]

Sixty sentences (``translations.yaml``) have a right translation and four wrong ones: with another number, turned
around, into another language, and the sentence itself. Told is how many pairs of a right and a wrong one are in order,
with the source, with a reference, or with both, and how many copies are flagged. Then ``textmover-multilingual`` stands
beside other metrics by their agreement with references of the sets on its card.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
from ladder import Judged

from textmover import Scorer
from textmover.scoring.lexical import lexical_scores

METRIC = "textmover-multilingual"
OTHERS = ("twmd", "textmover-general", METRIC)
LEXICAL = ("sentbleu", "chrf")
COPIED = "source copied"
KINDS = ("number", "negation", "another language", COPIED)
SHOWN = ("kind", "language", "source", "wrong")
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
    told = harness.read_yaml(path)
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


def order_rows(scorers: dict[str, Scorer], items: list[Any]) -> tuple[list[harness.Row], list[harness.Row]]:
    """Shares of pairs in order by metric and side; and the pairs that the last metric has the wrong way."""
    rows, wrong = [], []
    for name, scorer in scorers.items():
        for side in SIDES:
            found = list(orders(scorer, items, side))
            shares = {kind: np.mean([one.margin > 0 for one in found if one.kind == kind]) for kind in KINDS}
            shares["all"] = np.mean([one.margin > 0 for one in found])
            flagged = sum(one.flagged for one in found if one.kind == COPIED)
            told = {name: f"{value:.3f}" for name, value in shares.items()}
            rows.append({"metric": name, "compared with": side, **told, "copies flagged": str(flagged)})
            if name == METRIC:
                failed = (one for one in found if one.margin <= 0)
                shown = ({key: str(getattr(one, key)) for key in SHOWN} for one in failed)
                wrong += [{"metric": name, "compared with": side, **one} for one in shown]
    return rows, wrong


def agreement(sets: dict[str, Judged]) -> Iterator[harness.Row]:
    for title, judged in sets.items():
        values = {name: lexical_scores(name, *judged.texts).scores for name in LEXICAL}
        values |= {name: judged.scores(Scorer.from_pretrained(name)) for name in OTHERS}
        for name, scores in values.items():
            found = judged.by_group(scores)
            single = ", ".join(f"{key} {one.pearson:.3f}" for key, one in found.items() if len(found) > 1)
            mean = f"{judged.mean(scores).pearson:.3f}"
            yield {"judgements": title, "metric": name, "Pearson": mean, "by pair": single}


def main() -> None:
    options = harness.parser(__doc__, model=METRIC, output=Path).parse_args()
    configs = harness.ROOT / "configs"
    sets = harness.read_yaml(configs / "ladder/multilingual.yaml")["sets"]
    wanted = Judged.read_all({name: one for name, one in sets.items() if "compare" not in one})
    start = harness.read_yaml(configs / f"released/{METRIC}.yaml")["start"]
    scorers = {"untrained": Scorer.from_pretrained("twmd", **start), METRIC: Scorer.from_pretrained(options.model)}
    ordered, wrong = order_rows(scorers, translations(Path(__file__).with_name("translations.yaml")))
    found = {"order": ordered, "order_failures": wrong, "agreement": list(agreement(wanted))}
    for name, rows in found.items():
        if not rows:
            continue
        harness.print_rows(rows, texts=None)
        if options.output is not None:
            harness.write_rows(options.output / f"multilingual_{name}.csv", rows)


if __name__ == "__main__":
    main()
