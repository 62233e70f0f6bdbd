"""Pairs of texts that mean the same, to be told from the other texts of a batch and from mined ones."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.label_tasks import TASKS, LabelColumns, TaskName, label_names
from textmover.data.labelled import filled_columns, read_labelled
from textmover.data.overlap import PairFile, read_pairs, rows_where, without_pairs
from textmover.data.sources import Batch, Source, Tokenize, check_least, check_reading
from textmover.data.split import HELD_BACK_SHARE, normalise_reference, split_held_back, taken_by_hash
from textmover.readers.segments import Columns, read_segments
from textmover.types import InputError, Segment, TokenBatch

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

Mining = Literal["overlap", "metric"]

CHUNK = 256
"""Texts whose neighbours are looked for at a time."""

UNJUDGED = "Nobody judged the negatives: every other text of a batch counts as one"

NOTICES = {
    None: f"{UNJUDGED}.",
    "overlap": f"{UNJUDGED}, and beside them texts that were mined because they share the most words with a text.",
    "metric": f"{UNJUDGED}, and beside them texts that were mined because the metric, before this training, takes them "
    "for the most alike.",
}
"""Notices for the reader, by the way of mining."""


@dataclass(frozen=True)
class Paraphrase:
    """Two texts that mean the same.

    Attributes:
        texts: The texts.
        cluster: Number of the texts that mean the same as these, as far as paraphrases of paraphrases tell.
        negatives: Texts of other clusters that look much alike.
        negative_clusters: Their clusters.
    """

    texts: tuple[str, str]
    cluster: int
    negatives: tuple[str, ...] = ()
    negative_clusters: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ParaphraseBatch(Batch):
    """Pairs of paraphrases.

    Attributes:
        hypotheses: Tokens of the first texts, ``B`` rows.
        references: Tokens of the second texts, ``B`` rows.
        negatives: Tokens of ``k`` mined texts for each pair, pair after pair, ``B·k`` rows; ``None`` without any.
        clusters: Cluster of each pair and of the texts mined for it, int64 ``[B, 1 + k]``: texts of one cluster are no
            negatives of one another.
    """

    hypotheses: TokenBatch
    references: TokenBatch
    negatives: TokenBatch | None
    clusters: Tensor


@dataclass
class ParaphraseSource(Source[Paraphrase]):
    """Pairs of paraphrases.

    Attributes:
        negatives: Mined negatives of each pair to train on.
        mining: How they are mined; ``metric`` leaves it to the training module, which has one.
    """

    negatives: int = 0
    mining: Mining = "overlap"

    def texts(self, item: Paraphrase) -> tuple[str, ...]:
        """Both texts."""
        return item.texts

    def identity(self, item: Paraphrase) -> tuple[Any, ...]:
        """The texts and their cluster; negatives may be mined later."""
        return (*item.texts, item.cluster)

    def collate(
        self, items: Sequence[Paraphrase], positions: Sequence[int], joint: int, tokenize: Tokenize
    ) -> ParaphraseBatch:
        """Pairs to a batch."""
        negatives = [text for item in items for text in item.negatives]
        return ParaphraseBatch(
            hypotheses=tokenize([item.texts[0] for item in items]),
            references=tokenize([item.texts[1] for item in items]),
            negatives=tokenize(negatives) if negatives else None,
            clusters=torch.tensor([(item.cluster, *item.negative_clusters) for item in items]),
            positions=torch.tensor(positions),
            source=self.name,
            joint=joint,
        )

    def take_negatives(self, chosen: Sequence[Sequence[int]]) -> None:
        """Give each pair to train on its negatives: first texts of other pairs.

        Args:
            chosen: For each pair the places of the pairs that they are of.
        """
        firsts = [(item.texts[0], item.cluster) for item in self.items]
        self.items[:] = [
            replace(
                item,
                negatives=tuple(firsts[place][0] for place in places),
                negative_clusters=tuple(firsts[place][1] for place in places),
            )
            for item, places in zip(self.items, chosen, strict=True)
        ]


class ParaphrasesDataModule(SourcesDataModule):
    """Pairs known to be paraphrases, for contrastive learning with the other texts of a batch as negatives.

    Pairs that are connected by a text they share, directly or through others, are one cluster: they go the same way
    when a part is held back, and are no negatives of each other, also where the pairs that connect them are not trained
    on.

    Args:
        train: Files, or ``hub:owner/name/configuration``.
        task: Task whose columns the files have; only the pairs of its paraphrase class are taken.
        columns: What the columns mean, where they are not those of the task. Without a task all rows are paraphrases.
        split: Split of a hub data set; plain files have none.
        where: Rows to take, as values by group key; all if ``None``.
        without: Files of text pairs, such as test sets, that must not be trained on, in either order.
        negatives: Mined negatives of each pair, beside those of its batch.
        mining: How they are mined: the texts with the largest word ``overlap`` (cosine of tf-idf vectors), or those
            that the ``metric`` before training finds most alike.
        held_back: Share of the clusters to hold back.
        most: Pairs to train on at most, chosen by a hash of their texts.
        batch_size: Pairs to a batch, those of all processes together: the more, the harder.
        validation_batch_size: Pairs to a batch of validation, among which a partner has to be found.
        seed: Seed of the order of batches; if None, that of the mixture that it is part of, and 0 by itself.
        workers: Processes that tokenise ahead; 0 tokenises in between.
        notice: What a reader of the results must know, beside where the negatives come from.
    """

    def __init__(
        self,
        train: list[str],
        task: TaskName | None = None,
        columns: LabelColumns = LabelColumns(),  # noqa: B008 - frozen
        split: str = "train",
        where: dict[str, list[str]] | None = None,
        without: list[PairFile] | None = None,
        negatives: int = 0,
        mining: Mining = "overlap",
        held_back: float = HELD_BACK_SHARE,
        most: int | None = None,
        batch_size: int = 32,
        validation_batch_size: int = 32,
        seed: int | None = None,
        workers: int = 0,
        notice: str | None = None,
    ) -> None:
        super().__init__(seed, workers)
        check_reading("train", train, batch_size, validation_batch_size)
        self.columns = filled_columns(task, columns, (where,))
        if len(self.columns.texts) != 2:
            raise InputError(f"Expected two columns of texts, but got {', '.join(self.columns.texts)}: name two.")
        if task is not None and TASKS[task].paraphrase is None:
            able = ", ".join(name for name, one in TASKS.items() if one.paraphrase)
            raise InputError(f"Expected a task with paraphrases ({able}), but got {task!r}: name only `columns`.")
        if task is None and columns.label is not None:
            raise InputError(
                "Expected no `columns.label` without a `task`, which says what its labels mean: name the task, or "
                "choose the rows with `where`."
            )
        check_least(2, batch_size=batch_size, validation_batch_size=validation_batch_size)
        self.task, self.train_files, self.split = task, list(train), split
        self.where, self.without = where or {}, list(without or [])
        self.negatives, self.mining, self.held_back, self.most = negatives, mining, held_back, most
        self.batch_size, self.validation_batch_size, self.notice = batch_size, validation_batch_size, notice

    def read(self) -> list[Source[Any]]:
        """Read and split the files, and mine negatives by overlap."""
        about = {"training files": ", ".join(self.train_files), "negatives": "the other texts of each batch"}
        segments = [one for name in self.train_files for one in self._read(name)]
        # Of all pairs: those left out below still say that texts mean the same.
        numbered = {id(segment): pair for segment, pair in zip(segments, _paraphrases(segments), strict=True)}
        training, held_back = split_held_back(segments, self.held_back)
        about["held back"] = f"{self.held_back:.0%} by a hash, with all paraphrases of their paraphrases"
        if self.without:
            kept = without_pairs(training, set().union(*map(read_pairs, self.without)))
            names = ", ".join(file.path for file in self.without)
            about["without the pairs of"] = f"{names} ({len(training) - len(kept)} pairs left out)"
            training = kept
        training = taken_by_hash(training, self.most, lambda one: one.references)
        items, kept_back = ([numbered[id(one)] for one in part] for part in (training, held_back))
        for name, part in (("training", items), (HELD_BACK, kept_back)):
            clusters = len({one.cluster for one in part})
            if len(part) < 3 or clusters < 2:
                raise InputError(
                    f"Expected at least 3 pairs in the {name} part, of which some are no paraphrases of the others, "
                    f"but got {len(part)} in {clusters} cluster{'s' * (clusters != 1)} of "
                    f"{', '.join(self.train_files)}: give more, or change `held_back`."
                )
        mined = self.mining if self.negatives else None
        if mined is not None:
            about["mined negatives"] = f"{self.negatives} to a pair, by {mined}"
        source = ParaphraseSource(
            "paraphrases",
            items,
            {HELD_BACK: kept_back},
            batch_size=self.batch_size,
            validation_batch_size=self.validation_batch_size,
            about=about,
            notice=" ".join(filter(None, [self.notice, NOTICES[mined]])),
            negatives=self.negatives,
            mining=self.mining,
        )
        if mined == "overlap":
            source.take_negatives(mine_by_overlap(source.items, self.negatives))
        logger.info("Paraphrases: %d pairs to train on, %d held back", len(training), len(held_back))
        return [source]

    def _read(self, name: str) -> list[Segment]:
        """The pairs of a file, each text a reference: those that share one are split alike."""
        if self.task is None:
            first, second = self.columns.texts
            columns = Columns(first, second, score=None, groups=self.columns.groups)
            rows = rows_where(read_segments(name, columns, split=self.split), self.where, name)
            pairs = [(one.hypothesis, one.references[0]) for one in rows]
        else:
            names = label_names(self.task, None)
            items: Any = read_labelled(name, self.columns, names, split=self.split)[0]
            chosen: Any = rows_where(items, self.where, name)  # items have groups, as segments do
            meant = names.classes.index(str(TASKS[self.task].paraphrase))
            pairs = [one.texts for one in chosen if one.label == meant]
        return [Segment(first, (first, second)) for first, second in pairs]


def mine_by_overlap(items: Sequence[Paraphrase], count: int) -> list[list[int]]:
    """For each pair the others whose first texts share the most words with its own.

    Args:
        items: The pairs.
        count: How many others.

    Example:
        >>> texts = ["a red cat sat", "a red cat ran", "no dog"]
        >>> mine_by_overlap([Paraphrase((text, text), number) for number, text in enumerate(texts)], 1)
        [[1], [0], [0]]
    """
    vectors = _tf_idf([item.texts[0] for item in items])
    return nearest_others(vectors, [item.cluster for item in items], count)


def nearest_others(vectors: Any, clusters: Sequence[int], count: int) -> list[list[int]]:
    """For each vector the nearest ones by dot product that are of other clusters, the nearest first.

    Args:
        vectors: Rows of unit length ``[n, D]``, a NumPy array or a SciPy sparse matrix.
        clusters: Cluster of each row.
        count: How many.

    Example:
        >>> nearest_others(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), [0, 1, 2], 2)
        [[1, 2], [0, 2], [1, 0]]
    """
    own = np.asarray(clusters)
    if len(own) - np.bincount(own).max(initial=0) < count:
        raise InputError(
            f"Expected at least {count} texts of other paraphrases for each text to mine negatives from, but got "
            "fewer: give more pairs, or lower `negatives`."
        )
    found: list[list[int]] = []
    for start in range(0, len(own), CHUNK):
        product = vectors[start : start + CHUNK] @ vectors.T
        alike: NDArray[np.float64] = np.asarray(product.todense() if hasattr(product, "todense") else product)
        alike = np.where(own[start : start + CHUNK, None] == own, -np.inf, alike)
        found += [_largest(row, count) for row in alike]
    return found


def _largest(row: NDArray[np.float64], count: int) -> list[int]:
    """Places of the largest values of a row, descending, of equal ones the first; the others stay unsorted."""
    if not count:
        return []
    places = np.flatnonzero(row > 0)  # most texts have no word in common
    if len(places) < count:
        places = np.flatnonzero(row > -np.inf)
    values = row[places]
    least = np.partition(values, len(values) - count)[len(values) - count]
    places, values = places[values >= least], values[values >= least]
    return [int(place) for place in places[np.argsort(-values, kind="stable")[:count]]]


def _tf_idf(texts: Sequence[str]) -> Any:
    """Unit tf-idf vectors of the texts' words, a sparse matrix ``[n, V]``."""
    from scipy.sparse import csr_array

    words = [Counter(re.findall(r"\w+", text.casefold())) for text in texts]
    frequency = Counter(word for counted in words for word in counted)
    places = {word: place for place, word in enumerate(frequency)}
    rows = np.repeat(np.arange(len(texts)), [len(counted) for counted in words])
    columns = np.array([places[word] for counted in words for word in counted], dtype=np.int64)
    # A word of all texts still counts a little, so that texts of nothing else have neighbours too.
    idf = [n * np.log((1 + len(texts)) / frequency[word]) for counted in words for word, n in counted.items()]
    values = np.array(idf, dtype=np.float64)
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=len(texts)))
    return csr_array((values / lengths[rows], (rows, columns)), shape=(len(texts), max(1, len(places))))


def _paraphrases(pairs: Sequence[Segment]) -> list[Paraphrase]:
    """Pairs with the number of their cluster: the first pair that they are connected with."""
    parent = list(range(len(pairs)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    known: dict[str, int] = {}
    for place, pair in enumerate(pairs):
        for text in pair.references:
            low, high = sorted((root(known.setdefault(normalise_reference(text), place)), root(place)))
            parent[high] = low
    return [Paraphrase((one.references[0], one.references[1]), root(place)) for place, one in enumerate(pairs)]
