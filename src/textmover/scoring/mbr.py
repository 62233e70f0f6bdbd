"""Minimum Bayes risk decoding: of several candidates, the one that is best on average against all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.reliability_flags import FALLBACK, copied_sources, fell_back
from textmover.modules.tokens.text_arguments import listed_texts, normalize_references
from textmover.readers.candidates import Candidates
from textmover.readers.segments import as_number
from textmover.scoring.scorer_statistics import check_fitted, check_sources
from textmover.types import InputError, SegmentMetric, Shown, Signature, SourcedReferences, View, compared_texts, plural

if TYPE_CHECKING:
    from textmover.modules.base_metric import ConfiguredMetric
    from textmover.scoring.scorer import Scorer

BLOCK = 4096
"""Texts that are taken in at a time: enough for full batches, and few enough to hold whatever their number."""

TIE = 1e-6
"""Largest difference of two expected utilities, of one that is 1, that counts as a tie: what scores are exact to."""

SYMMETRIC = frozenset({"sbert", "sbert-pooled", "wordset-cka", "emd"})
"""Matchings whose value stays as it is where the texts are swapped."""

MIRRORED = frozenset({"twmd", "trwmd", "bertscore"})
"""Matchings whose precision and recall change places where the texts are swapped, so that F1 stays as it is."""


@dataclass(frozen=True, repr=False)
class Choice(Shown):
    """Choice for a segment.

    Attributes:
        index: Place of the chosen candidate, from 0; the first of those that are equally good.
        text: The chosen candidate.
        utility: Its expected utility.
        utilities: Expected utility of each of the ``N`` candidates, float64 ``[N]``.
        matrix: Utility of each candidate against each of the ``M`` texts that it was compared with, float64
            ``[N, M]``; ``None`` where it was not asked for.
    """

    index: int
    text: str
    utility: float
    utilities: np.ndarray
    matrix: np.ndarray | None

    def view(self) -> View:
        """Show the chosen candidate."""
        return View(f"candidate {self.index + 1} of {len(self.utilities)}, utility {self.utility:.4f}: {self.text}")


@dataclass(frozen=True, repr=False)
class MbrResult(Shown):
    """Choices for ``n`` segments.

    Attributes:
        choices: The choices, in input order.
        signature: What they depend on.
        counts: How many segments were out of the ordinary: ``"empty"``, ``"truncated"``, …
    """

    choices: tuple[Choice, ...]
    signature: Signature
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.choices)

    def view(self) -> View:
        """Show the first choices."""
        rows = [(n, one.index + 1, one.utility, one.text) for n, one in enumerate(self.choices, start=1)]
        return View(plural(len(self), "choice"), ("segment", "candidate", "utility", "text"), rows)

    @property
    def texts(self) -> list[str]:
        """The chosen texts."""
        return [choice.text for choice in self.choices]

    @property
    def indices(self) -> np.ndarray:
        """Places of the chosen candidates, int64 ``[n]``."""
        return np.array([choice.index for choice in self.choices], dtype=np.int64)

    @property
    def utilities(self) -> np.ndarray:
        """Expected utilities of the chosen candidates, float64 ``[n]``."""
        return np.array([choice.utility for choice in self.choices], dtype=np.float64)


def choose(
    scorer: Scorer,
    candidates: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]] | None = None,
    weights: Sequence[Sequence[float]] | None = None,
    *,
    include_self: bool | None = None,
    matrices: bool = False,
    sources: Sequence[str] | None = None,
) -> MbrResult:
    r"""Choose the candidate of each segment with the highest expected utility.

    .. math:: \hat y = \arg\max_{h \in H} \frac{\sum_{r \in R} w_r\, u(h, r)}{\sum_{r \in R} w_r}

    with the metric as the utility :math:`u` (a distance is minimised). Each distinct text is encoded once, and each
    pair of distinct texts is scored once; a text that comes several times counts several times.

    Args:
        scorer: The metric. One that fits idf weights on the texts of a call fits them on all these texts.
        candidates: For each of ``n`` segments one or more candidates :math:`H`; their numbers may differ.
        references: For each, the texts :math:`R` that they are compared with; the candidates themselves if ``None``.
        weights: For each, a weight of at least 0 of each text in :math:`R`, such as a probability.
        include_self: Whether a candidate is also compared with itself. If ``None``: with weights it is, as an
            expectation wants it; without, it is compared with the others, as COMET's ``comet-mbr`` does. Copies of it
            at other places are others. A candidate that has no others is compared with itself.
        matrices: Whether to give all utilities.
        sources: For each, the text that its candidates translate, for a metric whose ``mode`` is ``source``: then the
            score against it is the utility, and no candidate is compared with another; or ``both``: then it is combined
            with the expected utility.

    Example:
        >>> from textmover import Scorer
        >>> scorer = Scorer.from_pretrained("twmd")  # doctest: +SKIP
        >>> choose(scorer, [["a cat sat", "a cat sat there", "dogs bark"]]).texts  # doctest: +SKIP
        ['a cat sat']

    Reference:
        Eikema and Aziz 2022, Sampling-Based Approximations to Minimum Bayes Risk Decoding.
    """
    sets = _checked_sets(candidates, references, weights, sources)
    if sources is not None:
        check_sources(scorer.metric)
    if include_self is not None and references is not None:
        raise InputError(
            "Expected `include_self` only where candidates are compared with one another, but got `references`: leave "
            "one out."
        )
    scorer = scorer.for_call(*_texts_of(sets))
    check_fitted(scorer.metric)
    counts: Counter[str] = Counter()
    with scorer._progress_bar(len(sets), "choosing") as advance:
        found = tuple(
            choose_each(scorer, sets, include_self=include_self, matrices=matrices, on_progress=advance, counts=counts)
        )
    scorer.warn(counts)
    given = {"references": references, "weights": weights, "sources": sources}
    there = {name: one is not None for name, one in given.items()}
    signature = mbr_signature(scorer, include_self=include_self, **there)
    return MbrResult(found, signature, dict(counts))


def choose_each(
    scorer: Scorer,
    sets: Iterable[Candidates],
    *,
    include_self: bool | None = None,
    matrices: bool = False,
    on_progress: Callable[[int], None] | None = None,
    counts: Counter[str] | None = None,
) -> Iterator[Choice]:
    """Choose for one segment after the other, in memory that does not grow with their number."""
    scorer = scorer.frozen()
    symmetric = is_symmetric(scorer.metric)
    for block in _blocks(sets):
        plans = [_Plan.of(one, include_self=include_self, matrix=matrices, symmetric=symmetric) for one in block]
        sides = compared_texts(scorer.metric, [one.compared for one in block])
        plans = [plan if one.source is None else plan.beside(one) for plan, one in zip(plans, sides, strict=True)]
        with scorer.engine() as engine:
            scores, unusual = engine.score_within(
                [plan.texts for plan in plans], [plan.pairs for plan in plans], on_progress
            )
        if counts is not None:
            found = {"copied": sum(bool(plan.copied.any()) for plan in plans)}
            few = [one for one in block if len(one.texts) < 2 + symmetric and not include_self]
            found["few candidates"] = sum(not (one.references or one.weights or one.source) for one in few)
            found[FALLBACK] = int(fell_back(scorer.metric, sides).sum())
            counts.update(unusual + Counter(found))
        for plan, values in zip(plans, scores, strict=True):
            yield plan.choice(values, scorer.metric)


def fit_on_candidates(scorer: Scorer, sets: Sequence[Candidates]) -> None:
    """Fit the idf weights of a metric on candidates, and on what they are compared with as its references."""
    scorer.fit_on_call(*_texts_of(sets))


def _texts_of(sets: Sequence[Candidates]) -> tuple[list[str], list[SourcedReferences]]:
    return [text for one in sets for text in one.texts], [one.compared for one in sets]


def mbr_signature(
    scorer: Scorer, *, include_self: bool | None, references: bool, weights: bool, sources: bool
) -> Signature:
    """Signature of choices: the metric's, and how its values are averaged."""
    compared = "references" if references else "all" if _with_self(include_self, weights) else "others"
    mode = getattr(scorer.metric, "mode", "reference")
    compared = "source" if mode == "source" else f"{compared}{'+source' if sources and mode == 'both' else ''}"
    return scorer.signature.extended(mbr=f"{compared}{'-weighted' if weights else ''}")


def is_symmetric(metric: SegmentMetric) -> bool:
    """Return whether swapping two texts provably keeps their score: no direction, and no tolerance to stop at."""
    if not isinstance(metric, MetricModel) or metric.weighting.roles_differ:
        return False
    config = metric.config
    if config.matching in SYMMETRIC:
        return config.order_penalty == 0
    alike = config.score == "f" and config.alpha == 0.5 and config.tolerance is None
    return config.matching in MIRRORED and alike


@dataclass(frozen=True)
class _Plan:
    """Pairs of a segment's distinct texts to score, and their sums to expected utilities."""

    texts: list[str]
    pairs: np.ndarray
    """Places in the texts of the hypothesis and the reference of each pair that is scored, int64 ``[P, 2]``."""
    rows: np.ndarray  # place of each candidate, int64 `[N]`
    columns: np.ndarray  # place of each text that they are compared with, int64 `[M]`
    weights: np.ndarray  # weight of each of these, float64 `[M]`
    left_out: bool  # true if a candidate is not compared with itself; possible among the candidates alone
    symmetric: bool  # true if each score stands for both directions
    matrix: bool
    with_source: int = 0
    """Pairs of a candidate and the source, the last ones, or all where there is nothing else to compare with."""

    @classmethod
    def of(cls, given: Candidates, *, include_self: bool | None, matrix: bool, symmetric: bool) -> _Plan:
        among = given.references is None
        compared = given.texts if given.references is None else given.references
        place = {text: number for number, text in enumerate(dict.fromkeys((*given.texts, *compared)))}
        rows, columns = (np.array([place[text] for text in texts]) for texts in (given.texts, compared))
        weights = np.ones(len(compared)) if given.weights is None else np.array(given.weights, dtype=np.float64)
        weights = weights / weights.max()
        left_out = among and not _with_self(include_self, given.weights is not None)
        if not among:
            firsts, seconds = np.unique(rows), np.unique(columns)
            pairs = np.stack(np.meshgrid(firsts, seconds, indexing="ij"), axis=-1).reshape(-1, 2)
            return cls(list(place), pairs, rows, columns, weights, left_out, False, matrix)
        size = len(place)
        masses = np.bincount(columns, weights, size)
        alone = _sums_without_each(masses) == 0
        with_itself = (np.bincount(rows) > 1) | alone | (not left_out or matrix)
        grid = np.triu(np.ones((size, size), dtype=bool), 1) if symmetric else ~np.eye(size, dtype=bool)
        pairs = np.argwhere(grid | np.diag(with_itself))
        return cls(list(place), pairs, rows, columns, weights, left_out, symmetric, matrix)

    def beside(self, compared: SourcedReferences) -> _Plan:
        """The plan that compares each candidate with the source too, or, without references, with nothing else."""
        firsts = np.unique(self.rows)
        added = np.stack([firsts, np.full(len(firsts), len(self.texts))], axis=1)
        pairs = np.concatenate([self.pairs, added]) if compared else added
        texts = [*self.texts, *compared.texts[len(compared) :]]
        return replace(self, texts=texts, pairs=pairs, with_source=len(added))

    @property
    def copied(self) -> np.ndarray:
        """Candidates that are the source, bool ``[N]``."""
        source = self.texts[-1] if self.with_source else None
        return copied_sources([self.texts[row] for row in self.rows], [source] * len(self.rows))

    def choice(self, scores: np.ndarray, metric: SegmentMetric) -> Choice:
        size = len(self.texts)
        table = np.zeros((size, size))
        among = len(self.pairs) - self.with_source
        table[self.pairs[:, 0], self.pairs[:, 1]] = scores
        if self.symmetric:
            table[self.pairs[:among, 1], self.pairs[:among, 0]] = scores[:among]
        utilities = self._expected(table) if among else np.full(len(self.rows), np.nan)
        if self.with_source:
            sides = torch.from_numpy(np.stack([utilities, table[self.rows, -1]])).to(metric.device, torch.float32)
            combined = cast("ConfiguredMetric", metric).combine(sides[0], sides[1]).detach().cpu().double().numpy()
            utilities = np.where(self.copied & (not self.copied.all()), np.nan, combined)
        best = np.nanmax(utilities) if metric.higher_is_better else np.nanmin(utilities)
        index = int(np.flatnonzero(np.abs(utilities - best) <= TIE * max(1.0, abs(best)))[0])
        matrix = table[np.ix_(self.rows, self.columns)] if self.matrix else None
        return Choice(index, self.texts[self.rows[index]], float(utilities[index]), utilities, matrix)

    def _expected(self, table: np.ndarray) -> np.ndarray:
        """Expected utility of each candidate, from the utilities of all pairs of distinct texts."""
        masses = np.bincount(self.columns, self.weights, len(self.texts))
        if not self.left_out:
            return (table @ masses / masses.sum())[self.rows]
        own = np.diag(table)[self.rows]
        copies = masses[self.rows] - self.weights  # what its own text weighs at other places
        elsewhere = table.copy()
        np.fill_diagonal(elsewhere, 0.0)
        value, total = (elsewhere @ masses)[self.rows], _sums_without_each(masses)[self.rows] + copies
        return np.where(total > 0, (value + copies * own) / np.where(total > 0, total, 1.0), own)


def _sums_without_each(values: np.ndarray) -> np.ndarray:
    """Sum of all other values for each, without the error of a difference: 0 where all others are."""
    before = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    behind = np.concatenate([np.cumsum(values[::-1])[-2::-1], [0.0]])
    return before + behind


def _with_self(include_self: bool | None, weights: bool) -> bool:
    return weights if include_self is None else include_self


def _blocks(sets: Iterable[Candidates]) -> Iterator[list[Candidates]]:
    """Segments that together have some thousand texts; one at the least."""
    block: list[Candidates] = []
    texts = 0
    for one in sets:
        block.append(one)
        texts += len(one.texts) + len(one.references or ())
        if texts >= BLOCK:
            yield block
            block, texts = [], 0
    if block:
        yield block


def _checked_sets(candidates: Any, references: Any, weights: Any, sources: Any) -> list[Candidates]:
    if isinstance(candidates, str):
        raise TypeError("Expected candidates to be a list of texts for each segment, but got one text: [[text, …], …].")
    groups = [_group(one, "candidates", place) for place, one in enumerate(listed_texts(candidates, "candidates"), 1)]
    others: dict[str, list[Any]] = {}
    for name, given in (("references", references), ("weights", weights), ("sources", sources)):
        others[name] = [None] * len(groups) if given is None else listed_texts(given, name)
        if len(others[name]) != len(groups):
            raise InputError(
                f"Expected {name} for every segment ({len(groups)}), but got {len(others[name])}: give a list for each."
            )
    found = []
    for place, (texts, compared, masses, source) in enumerate(zip(groups, *others.values(), strict=True), 1):
        compared = None if references is None else _group(compared, "references", place)
        masses = None if weights is None else tuple(map(as_number, listed_texts(masses, "weights")))
        at = f"segment {place}"
        found.append(Candidates(texts, compared, masses, place=at, source=source, source_place=at).checked())
    # Each is a text, and Unicode.
    everything = [(*one.texts, *(one.references or ())) for one in found]
    normalize_references([one.texts[0] for one in found], everything, sources)
    return found


def _group(given: object, name: str, place: int) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(
            f"Expected {name} to be a list of texts for each segment, but got one text for segment {place}: put it "
            "into a list, [[text, …], …]."
        )
    return tuple(listed_texts(given, name))
