"""Surface-overlap metrics computed by sacrebleu and rouge-score, as baselines."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import metadata
from typing import Any

import numpy as np
import torch

from textmover.scoring.engine.threads import worker_count
from textmover.types import InputError, SegmentScores, Signature, needs_extra
from textmover.types.word_splitting import legible

SACREBLEU, ROUGE = "sacrebleu", "rouge-score"

STEP = 64  # segments per task of a worker process, and between progress reports
WORTH_PROCESSES = 1000  # minimum number of scores that pays for worker processes, which take about two seconds to start

ScoreOne = Callable[[str, Sequence[str]], float]


@dataclass(frozen=True)
class LexicalMetric:
    """A surface-overlap metric of a package, with its signature entries."""

    package: str
    make: Callable[[], ScoreOne]
    settings: Mapping[str, str]
    higher_is_better: bool = True


def _sacrebleu(name: str, **options: Any) -> ScoreOne:
    from sacrebleu import metrics

    metric = getattr(metrics, name)(**options)
    return lambda hypothesis, references: float(metric.sentence_score(hypothesis, list(references)).score)


def _rouge(kind: str) -> ScoreOne:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([kind], use_stemmer=True)
    return lambda hypothesis, references: float(scorer.score_multi(list(references), hypothesis)[kind].fmeasure)


_CHRF = {"case": "mixed", "eff": "yes", "nc": "6", "beta": "2", "space": "no"}

LEXICAL: Mapping[str, LexicalMetric] = {
    "sentbleu": LexicalMetric(
        SACREBLEU,
        partial(_sacrebleu, "BLEU", effective_order=True),
        {"case": "mixed", "eff": "yes", "tok": "13a", "smooth": "exp"},
    ),
    "chrf": LexicalMetric(SACREBLEU, partial(_sacrebleu, "CHRF", word_order=0, beta=2), {**_CHRF, "nw": "0"}),
    "chrf++": LexicalMetric(SACREBLEU, partial(_sacrebleu, "CHRF", word_order=2, beta=2), {**_CHRF, "nw": "2"}),
    "ter": LexicalMetric(
        SACREBLEU,
        partial(_sacrebleu, "TER"),
        {"case": "lc", "tok": "tercom", "norm": "no", "punct": "yes", "asian": "no"},
        higher_is_better=False,
    ),
    **{
        name: LexicalMetric(ROUGE, partial(_rouge, kind), {"stemmer": "porter", "f": "1"})
        for name, kind in (("rouge-1", "rouge1"), ("rouge-2", "rouge2"), ("rouge-l", "rougeL"))
    },
}
"""Metrics by name: sentence BLEU, chrF, chrF++ and TER of sacrebleu, in percent, and F1 of ROUGE in [0, 1].

With several references BLEU pools the n-grams of all; chrF, TER and ROUGE use the best one.
"""


def lexical_scores(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    on_progress: Callable[[int], None] | None = None,
    pool: Executor | None = None,
) -> SegmentScores:
    """Score each hypothesis separately with a metric of :data:`LEXICAL`, in this process or a :func:`lexical_pool`.

    The signature holds the settings and the package's version. ``on_progress`` gets the number of segments finished
    since its last call.

    Example:
        >>> found = lexical_scores("chrf", ["a cat sat there"], [["there sat a cat", "a cat sat here"]])
        >>> found.scores.round(2), found.signature.entries["refs"]
        (array([74.04]), '2')
    """
    metric = LEXICAL.get(name)
    if metric is None:
        raise InputError(f"Expected the name of a metric to be {', '.join(LEXICAL)}, but got {name!r}: choose one.")
    missing = next((position for position, texts in enumerate(references, start=1) if not texts), None)
    if missing is not None:
        raise InputError(f"Expected references to compute {name}, but number {missing} has none: leave {name} out.")
    with needs_extra("lexical", f"the package {metric.package} to compute {name}"):  # its metadata and its dependencies
        version = metadata.version(metric.package)
        metric.make()
    starts = range(0, len(hypotheses), STEP)
    parts = ([hypotheses[at : at + STEP] for at in starts], [references[at : at + STEP] for at in starts])
    names = [name] * len(starts)
    scores: list[float] = []
    for part_scores in map(_part, names, *parts) if pool is None else pool.map(_part, names, *parts):
        scores += part_scores
        if on_progress is not None:
            on_progress(len(part_scores))
    counts = sorted({len(texts) for texts in references})
    reference_count = str(counts[0]) if len(counts) == 1 else "var"
    entries = {"metric": name, "package": f"{metric.package}-{version}", "refs": reference_count, **metric.settings}
    values = {"score": np.array(scores, dtype=np.float64)}
    empty = np.array([not legible(text) for text in hypotheses], dtype=bool)
    return SegmentScores.from_values(values, Signature(entries), {"empty": empty} if empty.any() else {})


@contextlib.contextmanager
def lexical_pool(scores: int, processes: int | None = None) -> Iterator[Executor | None]:
    """Yield a pool of worker processes for :func:`lexical_scores`, or ``None`` if there is too little work.

    Both packages are pure Python, so threads would not run in parallel.

    Note:
        Workers are spawned, which imports the main script again: guard its code with
        ``if __name__ == "__main__"``.
    """
    processes = worker_count(torch.device("cpu")) if processes is None else processes
    if processes < 2 or scores < WORTH_PROCESSES:
        yield None
        return
    # A forked child would inherit locks held by threads that do not exist in it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_enter_pool) as pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            raise InputError(
                f"Expected {processes} processes to compute overlap metrics, but one of them ended: call textmover "
                'behind `if __name__ == "__main__":`, or free memory.'
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _enter_pool() -> None:
    """Ignore interrupts, which the parent handles, and exit when the parent exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()


@lru_cache(maxsize=1)
def _scorer(name: str) -> ScoreOne:
    return LEXICAL[name].make()


def _part(name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    score = _scorer(name)
    return [score(hypothesis, texts) for hypothesis, texts in zip(hypotheses, references, strict=True)]
