"""Paired tests of textmover and of sacrebleu on the same segment scores: docs/results/sacrebleu_tests.csv.

    python benchmarks/compare_with_sacrebleu.py [--shared DATA_FOLDER] [--samples 1000] [--trials 10000]
        [--seed 12345]

sacrebleu's machinery (``sacrebleu.significance.PairedTest``) is handed a metric whose corpus score is the sum of ready
segment scores, so that it draws samples and counts as it does for BLEU. The systems are those of WMT17 cs-en that share
at least twelve rated segments (no two systems of the rated sample share more than the first two), and of WebNLG 2017 on
the 198 texts that all nine have, each beside the next by its mean. Scores are those of the preset `twmd`.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import harness
import numpy as np

from textmover import Scorer
from textmover.meta_evaluation import SystemComparison, paired_bootstrap, paired_randomisation

LANGUAGES, LEAST = ("cs-en",), 12
"""Language pairs of WMT17, and the rated segments that two of its systems have to share."""

Texts = dict[str, list[str]]


class Systems(NamedTuple):
    """Systems on the same segments: where they are from, their texts by name, and the references of each segment."""

    place: str
    texts: Texts
    references: list[list[str]]


class Row(NamedTuple):
    """Two systems: what our test says, and sacrebleu's p-value."""

    place: str
    first: str
    second: str
    segments: int
    ours: SystemComparison
    theirs: float

    @property
    def same(self) -> bool:
        """Whether the decision is the same at the level of 0.05."""
        return (self.ours.p_value <= 0.05) == (self.theirs <= 0.05)


def main() -> None:
    """Print the table."""
    options = harness.parser(__doc__, shared=harness.SHARED, samples=1000, trials=10_000, seed=12345).parse_args()
    scorer = Scorer.from_pretrained("twmd")
    rows: list[Row] = []
    for systems in (*wmt17(options.shared), webnlg(options.shared)):
        rows += compared(systems.place, scored(scorer, systems), options.samples, options.trials, options.seed)
    sys.stdout.write(f"Signature: {scorer.signature}\n\n{table(rows)}\n")
    if not all(row.same for row in rows):
        raise SystemExit("Expected the same decisions, but some differ: see the table.")


def wmt17(folder: Path, languages: Sequence[str] | None = LANGUAGES, least: int = LEAST) -> list[Systems]:
    """Each two systems of a language pair of WMT17 on the rated segments that both have, most segments first."""
    path = folder / "wmt_da" / "newstest2017_da_toen.tsv"
    outputs: dict[tuple[str, str], dict[int, tuple[str, str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            for name in row["system"].split("+"):  # systems with the same output
                if languages is None or row["lp"] in languages:
                    segment = (row["hypothesis"], row["reference"])
                    outputs.setdefault((row["lp"], name), {})[int(row["seg_id"])] = segment
    found = []
    for (pair, one), (other_pair, other) in itertools.combinations(outputs, 2):
        both = sorted(outputs[pair, one].keys() & outputs[other_pair, other].keys())
        if pair == other_pair and len(both) >= least:
            texts = {name: [outputs[pair, name][item][0] for item in both] for name in (one, other)}
            found.append(Systems(f"WMT17 {pair}", texts, [[outputs[pair, one][item][1]] for item in both]))
    return sorted(found, key=lambda systems: -len(systems.references))


def webnlg(folder: Path) -> Systems:
    """The systems of WebNLG 2017 on the texts that all of them have."""
    path = folder / "webnlg2017_human" / "webnlg2017_human.jsonl"
    by: dict[str, dict[int, dict[str, Any]]] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            by.setdefault(row["system"], {})[row["sample"]] = row
    shared = sorted(set.intersection(*(set(one) for one in by.values())))
    texts = {name: [by[name][item]["hypothesis"] for item in shared] for name in sorted(by)}
    return Systems("WebNLG 2017", texts, [by[min(by)][item]["references"] for item in shared])


def scored(scorer: Scorer, systems: Systems) -> dict[str, np.ndarray]:
    """Segment scores of each system; the same output has the same score, whatever stands beside it in a batch."""
    pairs = [
        (text, tuple(references))
        for texts in systems.texts.values()
        for text, references in zip(texts, systems.references, strict=True)
    ]
    places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    distinct = scorer.score([text for text, _ in places], [list(several) for _, several in places]).scores
    scores = np.asarray(distinct)[[places[pair] for pair in pairs]]
    return dict(zip(systems.texts, np.split(scores, len(systems.texts)), strict=True))


def compared(place: str, scores: Mapping[str, np.ndarray], samples: int, trials: int, seed: int) -> list[Row]:
    """Two rows, bootstrap and randomisation, for each system and the one next to it by mean score."""
    ordered = sorted(scores, key=lambda name: -scores[name].mean())
    rows = []
    for first, second in zip(ordered[1:], ordered[:-1], strict=True):
        pair = {name: scores[name] for name in (first, second)}
        number = len(pair[first])
        bootstrap = paired_bootstrap(*pair.values(), samples=samples, seed=seed)
        randomisation = paired_randomisation(*pair.values(), samples=trials, seed=seed)
        rows.append(Row(place, first, second, number, bootstrap, *sacrebleu_p(pair, "bs", samples, seed)))
        rows.append(Row(place, first, second, number, randomisation, *sacrebleu_p(pair, "ar", trials, seed)))
    return rows


def sacrebleu_p(
    scores: Mapping[str, Sequence[float] | np.ndarray], test: Literal["bs", "ar"], samples: int, seed: int
) -> list[float]:
    """p-values of sacrebleu's test against the first system, with segment scores in place of BLEU's statistics."""
    from sacrebleu.metrics.base import Metric, Score, Signature
    from sacrebleu.significance import PairedTest

    class Sum(Metric):
        """The sum of segment scores as a corpus metric: sacrebleu hands over sums of what is drawn."""

        _SIGNATURE_TYPE = Signature

        def __init__(self) -> None:
            self.num_refs, self._ref_cache = 1, []

        def _extract_corpus_statistics(self, hypotheses: Sequence[str], _: object) -> list[list[float]]:
            return [[float(one)] for one in hypotheses]

        def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
            return Score("sum", float(np.sum([one[0] for one in stats])))

        def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
            return Score("sum", stats[0])

        def _compute_segment_statistics(self, *_: object) -> list[float]:
            raise NotImplementedError

        def _preprocess_segment(self, text: str) -> str:
            return text

        def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, object]:
            return {}

        def get_signature(self) -> Signature:
            return self._SIGNATURE_TYPE({"num_refs": 1})

    systems = [(name, [repr(float(one)) for one in values]) for name, values in scores.items()]
    with patch.dict(os.environ, SACREBLEU_SEED=str(seed)):  # the only way in which sacrebleu takes a seed
        empty = [[""] * len(systems[0][1])]
        _, found = PairedTest(systems, {"sum": Sum()}, empty, test_type=test, n_samples=samples, n_jobs=1)()
    return [one.p_value for one in found["sum"][1:]]


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, both tests of two systems in one."""
    headers = (
        "data", "systems", "n", "means", "difference (95 % interval)", "bootstrap p: ours", "sacrebleu",
        "randomisation p: ours", "sacrebleu", "decisions",
    )  # fmt: skip
    cells = []
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        ours = one.ours
        decisions = ", ".join("better" if row.ours.p_value <= 0.05 else "no difference" for row in (one, other))
        line = [
            one.place, f"{one.second} − {one.first}", str(one.segments), f"{ours.system:.4f}, {ours.baseline:.4f}",
            f"{ours.difference:+.4f} ({ours.low:+.4f} to {ours.high:+.4f})", f"{ours.p_value:.4f}", f"{one.theirs:.4f}",
            f"{other.ours.p_value:.4f}", f"{other.theirs:.4f}", decisions if one.same and other.same else "DIFFER",
        ]  # fmt: skip
        cells.append([cell.replace("-0.", "−0.") for cell in line])
    return harness.table(headers, cells, texts=2)


if __name__ == "__main__":
    main()
