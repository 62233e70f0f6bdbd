"""Rank correct and wrong translations from twenty languages, and evaluate English metrics on other languages.

    pip install -e ".[multilingual]"
    python benchmarks/many_languages.py [--output docs/results]

Sixty sentences (``translations.yaml``) have a correct translation and four wrong ones: a changed number, a negation,
another language, and a copy of the source. The first table counts correctly ordered pairs (compared with reference,
source, source with the target language given, or both) and flagged copies. The second compares
``textmover-multilingual`` with other metrics by agreement on the reference-based sets of its card.
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
TARGET = "source, target_language='en'"
SIDES = ("reference", "source", TARGET, "both")


class Order(NamedTuple):
    """Score margin of the correct over a wrong translation of a sentence."""

    language: str
    kind: str
    source: str
    wrong: str
    margin: float
    flagged: bool


def translations(path: Path) -> list[tuple[str, str, str, dict[str, str]]]:
    """Return language, source, reference and translations by kind of each item."""
    data = harness.read_yaml(path)
    by_meaning: dict[str, list[tuple[str, str]]] = {}
    for language, sentences in data["sentences"].items():
        for meaning, text in sentences.items():
            by_meaning.setdefault(meaning, []).append((language, text))
    items = []
    for meaning, sentences in by_meaning.items():
        texts = data["meanings"][meaning]
        for index, (language, source) in enumerate(sentences):
            other = sentences[(index + 1) % len(sentences)][1]
            wrong = {"another language": other, "source copied": source}
            hypotheses = {name: texts[name] for name in ("right", "number", "negation")} | wrong
            items.append((language, source, texts["reference"], hypotheses))
    return items


def orders(scorer: Scorer, items: list[tuple[str, str, str, dict[str, str]]], side: str) -> Iterator[Order]:
    rows = [(language, source, ref, *one) for language, source, ref, texts in items for one in texts.items()]
    languages, sources, references, kinds, hypotheses = zip(*rows, strict=True)
    result = scorer.score(
        hypotheses, references if side in ("reference", "both") else None, sources if side != "reference" else None
    )
    copied = result.flags.get("copied", np.zeros(len(rows), dtype=bool))
    right = np.nan
    for row, kind in enumerate(kinds):
        if kind == "right":
            right = result.scores[row]
        else:
            margin = right - result.scores[row]
            yield Order(languages[row], kind, sources[row], hypotheses[row], margin, bool(copied[row]))


def order_rows(
    scorers: dict[str, tuple[Scorer, Scorer]], items: list[Any]
) -> tuple[list[harness.Row], list[harness.Row]]:
    """Return the fraction of ordered pairs by metric and side, and the pairs that :data:`METRIC` orders wrongly.

    Each metric has two scorers, without and with the target language.
    """
    rows, wrong = [], []
    for name, pair in scorers.items():
        for side in SIDES:
            results = list(orders(pair[side == TARGET], items, side))
            shares = {kind: np.mean([order.margin > 0 for order in results if order.kind == kind]) for kind in KINDS}
            shares["all"] = np.mean([order.margin > 0 for order in results])
            flagged = sum(order.flagged for order in results if order.kind == COPIED)
            cells = {name: f"{value:.3f}" for name, value in shares.items()}
            rows.append({"metric": name, "compared with": side, **cells, "copies flagged": str(flagged)})
            if name == METRIC:
                failed = (order for order in results if order.margin <= 0)
                shown = ({key: str(getattr(order, key)) for key in SHOWN} for order in failed)
                wrong += [{"metric": name, "compared with": side, **row} for row in shown]
    return rows, wrong


def agreement(sets: dict[str, Judged]) -> Iterator[harness.Row]:
    for title, judged in sets.items():
        values = {name: lexical_scores(name, *judged.texts).scores for name in LEXICAL}
        values |= {name: judged.scores(Scorer.from_pretrained(name)) for name in OTHERS}
        for name, scores in values.items():
            by_group = judged.by_group(scores)
            single = ", ".join(f"{key} {r.pearson:.3f}" for key, r in by_group.items() if len(by_group) > 1)
            mean = f"{judged.mean(scores).pearson:.3f}"
            yield {"judgements": title, "metric": name, "Pearson": mean, "by pair": single}


def main() -> None:
    options = harness.parser(__doc__, model=METRIC, output=Path).parse_args()
    configs = harness.ROOT / "configs"
    sets = harness.read_yaml(configs / "ladder/multilingual.yaml")["sets"]
    sets_with_references = Judged.read_all({name: one for name, one in sets.items() if "compare" not in one})
    start = harness.read_yaml(configs / f"released/{METRIC}.yaml")["start"]
    metrics = {"untrained": {"name": "twmd", **start}, METRIC: {"name": options.model}}
    ordered, wrong = order_rows(
        {
            name: (Scorer.from_pretrained(**fields), Scorer.from_pretrained(**fields, target_language="en"))
            for name, fields in metrics.items()
        },
        translations(Path(__file__).with_name("translations.yaml")),
    )
    tables = {"order": ordered, "order_failures": wrong, "agreement": list(agreement(sets_with_references))}
    for name, rows in tables.items():
        if not rows:
            continue
        harness.print_rows(rows, texts=None)
        if options.output is not None:
            harness.write_rows(options.output / f"multilingual_{name}.csv", rows)


if __name__ == "__main__":
    main()
