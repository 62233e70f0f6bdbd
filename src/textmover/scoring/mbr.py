"""Minimum Bayes risk decoding: choose the candidate that is best on average against all candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.text_arguments import listed_texts, normalize_references
from textmover.modules.tokens.text_flags import FALLBACK, fell_back, side_flags
from textmover.readers.candidates import Candidates
from textmover.readers.segments import as_number
from textmover.scoring.scorer_statistics import check_fitted, check_sources
from textmover.types import InputError, SegmentMetric, Shown, Signature, SourcedReferences, View, compared_texts, plural
from textmover.types.display import fixed
from textmover.types.segments import copied_sources

if TYPE_CHECKING:
    from textmover.modules.base_metric import ConfiguredMetric
    from textmover.scoring.scorer import Scorer

BLOCK = 4096
"""Texts per block: enough for full batches, and a bound on memory."""

TIE = 1e-6
"""Largest relative difference of expected utilities that counts as a tie: the exactness of scores."""

SYMMETRIC = frozenset({"sbert", "sbert-pooled", "wordset-cka", "emd"})
"""Matchings whose value does not change if the two texts are swapped."""

MIRRORED = frozenset({"twmd", "trwmd", "bertscore"})
"""Matchings whose precision and recall are exchanged if the two texts are swapped, so that F1 does not change."""


@dataclass(frozen=True, repr=False)
class Choice(Shown):
    """Choice for a segment.

    Attributes:
        index: Index of the chosen candidate, from 0; the first one in a tie.
        text: The chosen candidate.
        utility: Its expected utility.
        utilities: Expected utility of each of the ``N`` candidates, float64 ``[N]``.
        matrix: Utility of each candidate against each of the ``M`` texts it was compared with, float64 ``[N, M]``;
            ``None`` unless requested.
    """

    index: int
    text: str
    utility: float
    utilities: np.ndarray
    matrix: np.ndarray | None

    def view(self) -> View:
        """Show the chosen candidate."""
        utility = fixed(self.utility, 4)
        return View(f"candidate {self.index + 1} of {len(self.utilities)}, utility {utility}: {self.text}")


@dataclass(frozen=True, repr=False)
class MbrResult(Shown):
    """Choices for ``n`` segments.

    Attributes:
        choices: The choices, in input order.
        signature: Everything that they depend on.
        counts: Number of flagged segments by flag: ``"empty"``, ``"truncated"``, …
    """

    choices: tuple[Choice, ...]
    signature: Signature
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.choices)

    def view(self) -> View:
        """Show the first choices."""
        rows = [(n, choice.index + 1, choice.utility, choice.text) for n, choice in enumerate(self.choices, start=1)]
        return View(plural(len(self), "choice"), ("segment", "candidate", "utility", "text"), rows)

    @property
    def texts(self) -> list[str]:
        """The chosen texts."""
        return [choice.text for choice in self.choices]

    @property
    def indices(self) -> np.ndarray:
        """Indices of the chosen candidates, int64 ``[n]``."""
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
    pair of distinct texts is scored once; duplicate texts count once per copy.

    Args:
        scorer: The metric. If it fits idf weights per call, it fits them on all these texts.
        candidates: For each of ``n`` segments one or more candidates :math:`H`; their numbers may differ.
        references: For each segment, the texts :math:`R` to compare with; ``None`` compares with the candidates.
        weights: For each segment, a weight of at least 0 of each text in :math:`R`, such as a probability.
        include_self: Whether a candidate is also compared with itself. The default ``None`` includes it with weights
            (an expectation), and excludes it without, as COMET's ``comet-mbr`` does. Duplicates of a candidate count as
            other candidates. A single candidate is always compared with itself.
        matrices: Whether to return all utilities.
        sources: For each segment, the source text, for a metric whose ``mode`` is ``source`` or ``both``. With
            ``source`` the score against the source is the utility, and candidates are not compared with each other;
            with ``both`` it is combined with the expected utility.

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
    scorer = scorer.for_call(*texts_of(sets))
    check_fitted(scorer.metric)
    counts: Counter[str] = Counter()
    with scorer._progress_bar(len(sets), "choosing") as advance:
        choices = tuple(
            choose_each(scorer, sets, include_self=include_self, matrices=matrices, on_progress=advance, counts=counts)
        )
    scorer.warn(counts)
    arguments = {"references": references, "weights": weights, "sources": sources}
    provided = {name: value is not None for name, value in arguments.items()}
    signature = mbr_signature(scorer, include_self=include_self, **provided)
    return MbrResult(choices, signature, dict(counts))


def choose_each(
    scorer: Scorer,
    sets: Iterable[Candidates],
    *,
    include_self: bool | None = None,
    matrices: bool = False,
    on_progress: Callable[[int], None] | None = None,
    counts: Counter[str] | None = None,
) -> Iterator[Choice]:
    """Choose for one segment after the other, in constant memory."""
    scorer = scorer.frozen()
    symmetric = is_symmetric(scorer.metric)
    for block in blocks(sets):
        plans = [_Plan.of(group, include_self=include_self, matrix=matrices, symmetric=symmetric) for group in block]
        sides = compared_texts(scorer.metric, [group.compared for group in block])
        plans = [plan if one.source is None else plan.add_source(one) for plan, one in zip(plans, sides, strict=True)]
        with scorer.engine() as engine:
            scores, flagged = engine.score_within(
                [plan.texts for plan in plans], [plan.pairs for plan in plans], on_progress
            )
        if counts is not None:
            extra_counts = _side_counts(block, sides, scorer.metric)
            few = [group for group in block if len(group.texts) < 2 + symmetric and not include_self]
            extra_counts["few candidates"] = sum(not (one.references or one.weights or one.source) for one in few)
            extra_counts[FALLBACK] = int(fell_back(scorer.metric, sides).sum())
            counts.update(flagged | extra_counts)
        for plan, values in zip(plans, scores, strict=True):
            yield plan.choice(values, scorer.metric)


def _side_counts(
    block: Sequence[Candidates], sides: Sequence[SourcedReferences], metric: SegmentMetric
) -> Counter[str]:
    """Count segments by flags of candidates beside the source, and their references or else the other candidates."""
    counts: Counter[str] = Counter()
    for group, side in zip(block, sides, strict=True):
        texts = list(dict.fromkeys(group.texts))
        others = [side if group.references or not side else texts[:n] + texts[n + 1 :] for n in range(len(texts))]
        flags = side_flags(texts, [SourcedReferences(one, side.source) for one in others], metric)
        counts.update(name for name, marked in flags.items() if marked.any())
    return counts


def texts_of(sets: Sequence[Candidates]) -> tuple[list[str], list[SourcedReferences]]:
    """Return candidates, as hypotheses to fit idf weights on, and the texts that they are compared with."""
    return [text for group in sets for text in group.texts], [group.compared for group in sets]


def mbr_signature(
    scorer: Scorer, *, include_self: bool | None, references: bool, weights: bool, sources: bool
) -> Signature:
    """Return the signature of choices: the metric's, extended by how utilities are averaged."""
    compared = "references" if references else "all" if _with_self(include_self, weights) else "others"
    mode = getattr(scorer.metric, "mode", "reference")
    compared = "source" if mode == "source" else f"{compared}{'+source' if sources and mode == 'both' else ''}"
    return scorer.signature.extended(mbr=f"{compared}{'-weighted' if weights else ''}")


def is_symmetric(metric: SegmentMetric) -> bool:
    """Return whether scores do not depend on the order of the two texts: no direction, and no convergence tolerance."""
    if not isinstance(metric, MetricModel) or metric.weighting.roles_differ:
        return False
    config = metric.config
    if config.matching in SYMMETRIC:
        return config.order_penalty == 0
    symmetric_score = config.score == "f" and config.alpha == 0.5 and config.error_norm == 1
    return config.matching in MIRRORED and symmetric_score and config.tolerance is None


@dataclass(frozen=True)
class _Plan:
    """Pairs of a segment's distinct texts to score, and how scores are averaged to expected utilities."""

    texts: list[str]
    pairs: np.ndarray
    """Index of the hypothesis and of the reference of each pair to score in ``texts``, int64 ``[P, 2]``."""
    rows: np.ndarray  # index of each candidate in `texts`, int64 `[N]`
    columns: np.ndarray  # index of each text to compare with, int64 `[M]`
    weights: np.ndarray  # weight of each text to compare with, float64 `[M]`
    without_self: bool  # whether candidates are not compared with themselves; only without references
    symmetric: bool  # whether each score counts for both directions
    matrix: bool
    with_source: int = 0
    """Number of pairs with the source, which come last; there are no other pairs if there are no references."""

    @classmethod
    def of(cls, group: Candidates, *, include_self: bool | None, matrix: bool, symmetric: bool) -> _Plan:
        self_compared = group.references is None
        compared = group.texts if group.references is None else group.references
        index = {text: number for number, text in enumerate(dict.fromkeys((*group.texts, *compared)))}
        rows, columns = (np.array([index[text] for text in texts]) for texts in (group.texts, compared))
        weights = np.ones(len(compared)) if group.weights is None else np.array(group.weights, dtype=np.float64)
        weights = weights / weights.max()
        without_self = self_compared and not _with_self(include_self, group.weights is not None)
        if not self_compared:
            firsts, seconds = np.unique(rows), np.unique(columns)
            pairs = np.stack(np.meshgrid(firsts, seconds, indexing="ij"), axis=-1).reshape(-1, 2)
            return cls(list(index), pairs, rows, columns, weights, without_self, False, matrix)
        size = len(index)
        masses = np.bincount(columns, weights, size)
        alone = _sums_without_each(masses) == 0
        with_itself = (np.bincount(rows) > 1) | alone | (not without_self or matrix)
        grid = np.triu(np.ones((size, size), dtype=bool), 1) if symmetric else ~np.eye(size, dtype=bool)
        pairs = np.argwhere(grid | np.diag(with_itself))
        return cls(list(index), pairs, rows, columns, weights, without_self, symmetric, matrix)

    def add_source(self, compared: SourcedReferences) -> _Plan:
        """Return the plan with the source compared too, or alone if there are no references."""
        firsts = np.unique(self.rows)
        added = np.stack([firsts, np.full(len(firsts), len(self.texts))], axis=1)
        pairs = np.concatenate([self.pairs, added]) if compared else added
        texts = [*self.texts, *compared.texts[len(compared) :]]
        return replace(self, texts=texts, pairs=pairs, with_source=len(added))

    @property
    def copied(self) -> np.ndarray:
        """Candidates that copy the source, bool ``[N]``."""
        source = self.texts[-1] if self.with_source else None
        return copied_sources([self.texts[row] for row in self.rows], [source] * len(self.rows))

    def choice(self, scores: np.ndarray, metric: SegmentMetric) -> Choice:
        size = len(self.texts)
        table = np.zeros((size, size))
        own_pairs = len(self.pairs) - self.with_source
        table[self.pairs[:, 0], self.pairs[:, 1]] = scores
        if self.symmetric:
            table[self.pairs[:own_pairs, 1], self.pairs[:own_pairs, 0]] = scores[:own_pairs]
        utilities = self._expected(table) if own_pairs else np.full(len(self.rows), np.nan)
        if self.with_source:
            sides = torch.from_numpy(np.stack([utilities, table[self.rows, -1]])).to(metric.device, torch.float32)
            combined = cast("ConfiguredMetric", metric).combine(sides[0], sides[1]).detach().cpu().double().numpy()
            utilities = np.where(self.copied & (not self.copied.all()), np.nan, combined)
        best = np.nanmax(utilities) if metric.higher_is_better else np.nanmin(utilities)
        index = int(np.flatnonzero(np.abs(utilities - best) <= TIE * max(1.0, abs(best)))[0])
        matrix = table[np.ix_(self.rows, self.columns)] if self.matrix else None
        return Choice(index, self.texts[self.rows[index]], float(utilities[index]), utilities, matrix)

    def _expected(self, table: np.ndarray) -> np.ndarray:
        """Return the expected utility of each candidate, given the utilities of all pairs of distinct texts."""
        masses = np.bincount(self.columns, self.weights, len(self.texts))
        if not self.without_self:
            return (table @ masses / masses.sum())[self.rows]
        self_utility = np.diag(table)[self.rows]
        copies = masses[self.rows] - self.weights  # weight of the other copies of each candidate
        elsewhere = table.copy()
        np.fill_diagonal(elsewhere, 0.0)
        value, total = (elsewhere @ masses)[self.rows], _sums_without_each(masses)[self.rows] + copies
        return np.where(total > 0, (value + copies * self_utility) / np.where(total > 0, total, 1.0), self_utility)


def _sums_without_each(values: np.ndarray) -> np.ndarray:
    """Return the sum of all other values for each value; computed without subtraction, so exact zeros stay 0."""
    before = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    behind = np.concatenate([np.cumsum(values[::-1])[-2::-1], [0.0]])
    return before + behind


def _with_self(include_self: bool | None, weights: bool) -> bool:
    return weights if include_self is None else include_self


def blocks(sets: Iterable[Candidates]) -> Iterator[list[Candidates]]:
    """Yield blocks of segments with at least ``BLOCK`` texts in total, except the last one."""
    block: list[Candidates] = []
    texts = 0
    for group in sets:
        block.append(group)
        texts += len(group.texts) + len(group.references or ())
        if texts >= BLOCK:
            yield block
            block, texts = [], 0
    if block:
        yield block


def _checked_sets(candidates: Any, references: Any, weights: Any, sources: Any) -> list[Candidates]:
    if isinstance(candidates, str):
        raise TypeError("Expected candidates to be a list of texts for each segment, but got one text: [[text, …], …].")
    groups = [_group(one, "candidates", place) for place, one in enumerate(listed_texts(candidates, "candidates"), 1)]
    lists: dict[str, list[Any]] = {}
    for name, argument in (("references", references), ("weights", weights), ("sources", sources)):
        lists[name] = [None] * len(groups) if argument is None else listed_texts(argument, name)
        if len(lists[name]) != len(groups):
            raise InputError(
                f"Expected {name} for every segment ({len(groups)}), but got {len(lists[name])}: give a list for each."
            )
    sets = []
    for place, (texts, compared, masses, source) in enumerate(zip(groups, *lists.values(), strict=True), 1):
        compared = None if references is None else _group(compared, "references", place)
        masses = None if weights is None else tuple(map(as_number, listed_texts(masses, "weights")))
        position, of_source = f"segment {place}", "" if sources is None else f"segment {place}"
        sets.append(
            Candidates(texts, compared, masses, place=position, source=source, source_place=of_source).checked()
        )
    # Check that all are texts, and valid Unicode.
    all_texts = [(*group.texts, *(group.references or ())) for group in sets]
    normalize_references([group.texts[0] for group in sets], all_texts, sources)
    return sets


def _group(given: object, name: str, place: int) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(
            f"Expected {name} to be a list of texts for each segment, but got one text for segment {place}: put it "
            "into a list, [[text, …], …]."
        )
    return tuple(listed_texts(given, name))
