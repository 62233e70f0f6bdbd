"""Compare paired tests of textmover and sacrebleu on the same segment scores: docs/results/sacrebleu_tests.csv.

    python benchmarks/compare_with_sacrebleu.py [--shared DATA_FOLDER] [--samples 1000] [--trials 10000]
        [--seed 12345]

``sacrebleu.significance.PairedTest`` receives a metric whose corpus score is the sum of existing segment scores, so it
samples and counts as for BLEU. Systems: pairs of WMT17 cs-en that share at least twelve rated segments, and WebNLG 2017
on the 198 texts that all nine systems have, each compared with the next by mean score. Scores: preset `twmd`.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import harness
import numpy as np

from textmover import Scorer
from textmover.data import Columns, read_segments
from textmover.meta_evaluation import SystemComparison, paired_bootstrap, paired_randomisation
from textmover.types import Segment

LANGUAGES, LEAST = ("cs-en",), 12
"""Language pairs of WMT17, and the minimum number of rated segments that two systems share."""

Texts = dict[str, list[str]]


class Systems(NamedTuple):
    """Systems on the same segments: data set, texts by system, and references of each segment."""

    place: str
    texts: Texts
    references: list[list[str]]


class Row(NamedTuple):
    """Comparison of two systems: our test result and sacrebleu's p-value."""

    place: str
    first: str
    second: str
    segments: int
    ours: SystemComparison
    theirs: float

    @property
    def same(self) -> bool:
        """Return whether both decisions agree at level 0.05."""
        return (self.ours.p_value <= 0.05) == (self.theirs <= 0.05)


def main() -> None:
    options = harness.parser(__doc__, shared=harness.SHARED, samples=1000, trials=10_000, seed=12345).parse_args()
    scorer = Scorer.from_pretrained("twmd")
    rows: list[Row] = []
    for systems in (*wmt17(options.shared), webnlg(options.shared)):
        rows += compared(systems.place, scored(scorer, systems), options.samples, options.trials, options.seed)
    sys.stdout.write(f"Signature: {scorer.signature}\n\n{table(rows)}\n")
    if not all(row.same for row in rows):
        raise SystemExit("Expected the same decisions, but some differ: see the table.")


def wmt17(folder: Path, languages: Sequence[str] | None = LANGUAGES, least: int = LEAST) -> list[Systems]:
    """Return all pairs of WMT17 systems of a language pair on shared rated segments, most segments first."""
    columns = Columns(score=None, groups=("lp", "system", "seg_id"))
    outputs: dict[tuple[str, str], dict[int, Segment]] = {}
    for row in read_segments(folder / "wmt_da" / "newstest2017_da_toen.tsv", columns):
        pair, systems, segment = row.groups.values()
        for name in systems.split("+"):  # systems with the same output
            if languages is None or pair in languages:
                outputs.setdefault((pair, name), {})[int(segment)] = row
    results = []
    for (pair, first), (other_pair, second) in itertools.combinations(outputs, 2):
        shared = sorted(outputs[pair, first].keys() & outputs[other_pair, second].keys())
        if pair == other_pair and len(shared) >= least:
            texts = {name: [outputs[pair, name][item].hypothesis for item in shared] for name in (first, second)}
            references = [list(outputs[pair, first][item].references) for item in shared]
            results.append(Systems(f"WMT17 {pair}", texts, references))
    return sorted(results, key=lambda systems: -len(systems.references))


def webnlg(folder: Path) -> Systems:
    """Return the systems of WebNLG 2017 on the texts that all of them have."""
    path = folder / "webnlg2017_human" / "webnlg2017_human.jsonl"
    by_system: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1]):
        by_system[row["system"]][row["sample"]] = row
    shared = sorted(set.intersection(*(set(items) for items in by_system.values())))
    texts = {name: [by_system[name][item]["hypothesis"] for item in shared] for name in sorted(by_system)}
    return Systems("WebNLG 2017", texts, [by_system[min(by_system)][item]["references"] for item in shared])


def scored(scorer: Scorer, systems: Systems) -> dict[str, np.ndarray]:
    """Return segment scores of each system; equal pairs are scored once, so batching cannot change them."""
    pairs = {
        name: list(zip(texts, map(tuple, systems.references), strict=True)) for name, texts in systems.texts.items()
    }
    distinct = list(dict.fromkeys(pair for system_pairs in pairs.values() for pair in system_pairs))
    scores = scorer.score([text for text, _ in distinct], [list(references) for _, references in distinct]).scores
    score_of = dict(zip(distinct, scores, strict=True))
    return {name: np.array([score_of[pair] for pair in system_pairs]) for name, system_pairs in pairs.items()}


def compared(place: str, scores: Mapping[str, np.ndarray], samples: int, trials: int, seed: int) -> list[Row]:
    """Return two rows, bootstrap and randomisation, for each system and the next one by mean score."""
    ordered = sorted(scores, key=lambda name: -scores[name].mean())
    rows = []
    for first, second in zip(ordered[1:], ordered[:-1], strict=True):
        pair = {name: scores[name] for name in (first, second)}
        for test, kind, draws in ((paired_bootstrap, "bs", samples), (paired_randomisation, "ar", trials)):
            ours = test(*pair.values(), samples=draws, seed=seed)
            rows.append(Row(place, first, second, len(pair[first]), ours, *sacrebleu_p(pair, kind, draws, seed)))
    return rows


def sacrebleu_p(
    scores: Mapping[str, Sequence[float] | np.ndarray], test: Literal["bs", "ar"], samples: int, seed: int
) -> list[float]:
    """Return p-values of sacrebleu's test against the first system, on segment scores instead of BLEU statistics."""
    from sacrebleu.metrics.base import Score, Signature
    from sacrebleu.significance import PairedTest

    class Sum:
        """Sum of segment scores as a corpus metric, with the methods that the tests call."""

        def _extract_corpus_statistics(self, hypotheses: Sequence[str], _: object) -> list[list[float]]:
            return [[float(value)] for value in hypotheses]

        def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
            return Score("sum", float(np.sum([value[0] for value in stats])))

        def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
            return Score("sum", stats[0])

        def get_signature(self) -> Signature:
            return Signature({"num_refs": 1})

    systems = [(name, [repr(float(value)) for value in values]) for name, values in scores.items()]
    with patch.dict(os.environ, SACREBLEU_SEED=str(seed)):  # sacrebleu reads its seed only from the environment
        empty = [[""] * len(systems[0][1])]
        _, results = PairedTest(systems, {"sum": Sum()}, empty, test_type=test, n_samples=samples, n_jobs=1)()
    return [value.p_value for value in results["sum"][1:]]


def table(rows: Sequence[Row]) -> str:
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
