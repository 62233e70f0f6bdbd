"""Paired tests of textmover and of sacrebleu on the same segment scores: docs/results/sacrebleu_tests.csv.

    python benchmarks/compare_with_sacrebleu.py [--shared DATA_FOLDER] [--samples 1000] [--trials 10000]
        [--seed 12345]

sacrebleu's machinery (``sacrebleu.significance.PairedTest``) is handed a metric whose corpus score is the sum of ready
segment scores, so that it draws samples and counts as it does for BLEU. The systems are those of WMT17 cs-en that share
at least twelve rated segments (no two systems of the rated sample share more than the first two), and of WebNLG 2017 on
the 198 texts that all nine have, each beside the next by its mean. Scores are those of the preset `twmd`.
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
    columns = Columns(score=None, groups=("lp", "system", "seg_id"))
    outputs: dict[tuple[str, str], dict[int, Segment]] = {}
    for one in read_segments(folder / "wmt_da" / "newstest2017_da_toen.tsv", columns):
        pair, systems, segment = one.groups.values()
        for name in systems.split("+"):  # systems with the same output
            if languages is None or pair in languages:
                outputs.setdefault((pair, name), {})[int(segment)] = one
    found = []
    for (pair, one), (other_pair, other) in itertools.combinations(outputs, 2):
        both = sorted(outputs[pair, one].keys() & outputs[other_pair, other].keys())
        if pair == other_pair and len(both) >= least:
            texts = {name: [outputs[pair, name][item].hypothesis for item in both] for name in (one, other)}
            references = [list(outputs[pair, one][item].references) for item in both]
            found.append(Systems(f"WMT17 {pair}", texts, references))
    return sorted(found, key=lambda systems: -len(systems.references))


def webnlg(folder: Path) -> Systems:
    """The systems of WebNLG 2017 on the texts that all of them have."""
    path = folder / "webnlg2017_human" / "webnlg2017_human.jsonl"
    by: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1]):
        by[row["system"]][row["sample"]] = row
    shared = sorted(set.intersection(*(set(one) for one in by.values())))
    texts = {name: [by[name][item]["hypothesis"] for item in shared] for name in sorted(by)}
    return Systems("WebNLG 2017", texts, [by[min(by)][item]["references"] for item in shared])


def scored(scorer: Scorer, systems: Systems) -> dict[str, np.ndarray]:
    """Segment scores of each system; the same output has the same score, whatever stands beside it in a batch."""
    pairs = {
        name: list(zip(texts, map(tuple, systems.references), strict=True)) for name, texts in systems.texts.items()
    }
    distinct = list(dict.fromkeys(pair for own in pairs.values() for pair in own))
    found = scorer.score([text for text, _ in distinct], [list(several) for _, several in distinct]).scores
    known = dict(zip(distinct, found, strict=True))
    return {name: np.array([known[pair] for pair in own]) for name, own in pairs.items()}


def compared(place: str, scores: Mapping[str, np.ndarray], samples: int, trials: int, seed: int) -> list[Row]:
    """Two rows, bootstrap and randomisation, for each system and the one next to it by mean score."""
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
    """p-values of sacrebleu's test against the first system, with segment scores in place of BLEU's statistics."""
    from sacrebleu.metrics.base import Score, Signature
    from sacrebleu.significance import PairedTest

    class Sum:
        """The sum of segment scores as a corpus metric, with what the tests ask of one."""

        def _extract_corpus_statistics(self, hypotheses: Sequence[str], _: object) -> list[list[float]]:
            return [[float(one)] for one in hypotheses]

        def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
            return Score("sum", float(np.sum([one[0] for one in stats])))

        def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
            return Score("sum", stats[0])

        def get_signature(self) -> Signature:
            return Signature({"num_refs": 1})

    systems = [(name, [repr(float(one)) for one in values]) for name, values in scores.items()]
    with patch.dict(os.environ, SACREBLEU_SEED=str(seed)):  # the only way in which sacrebleu takes a seed
        empty = [[""] * len(systems[0][1])]
        _, found = PairedTest(systems, {"sum": Sum()}, empty, test_type=test, n_samples=samples, n_jobs=1)()
    return [one.p_value for one in found["sum"][1:]]


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
