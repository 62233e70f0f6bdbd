"""Paraphrase pairs for contrastive learning, with in-batch and mined negatives."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textmover.data.datamodule import HELD_BACK, SourcesDataModule
from textmover.data.labelled import TASKS, LabelColumns, TaskName, filled_columns, label_names, read_labelled
from textmover.data.leakage import PairFile, segment_pairs, without_files
from textmover.data.split import (
    HELD_BACK_SHARE,
    connected_components,
    normalise_reference,
    sample_by_hash,
    split_held_back,
)
from textmover.data.training_sources import Batch, Source, Tokenize, check_least
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import rows_where
from textmover.types import InputError, Segment, TokenBatch, plural

logger = logging.getLogger(__name__)

Mining = Literal["overlap", "metric"]

CHUNK = 256  # texts whose neighbours are computed at a time

UNJUDGED = "Nobody judged the negatives: every other text of a batch counts as one"

# Notices for readers of the results, by mining method.
NOTICES = {
    None: f"{UNJUDGED}.",
    "overlap": f"{UNJUDGED}, and so do mined texts, which share the most words with a text.",
    "metric": f"{UNJUDGED}, and so do mined texts, which the metric found most similar to a text before training.",
}


@dataclass(frozen=True)
class Paraphrase:
    """Two texts with the same meaning."""

    texts: tuple[str, ...]
    cluster: int  # id of all texts connected by paraphrases, directly or indirectly
    negatives: tuple[Paraphrase, ...] = ()  # of other clusters, with similar first texts


@dataclass(frozen=True, kw_only=True)
class ParaphraseBatch(Batch):
    """Batch of paraphrase pairs, with ``k`` mined negatives for each pair."""

    hypotheses: TokenBatch  # B first texts
    references: TokenBatch  # B second texts
    negatives: TokenBatch | None  # mined negatives, pair by pair, B·k rows
    clusters: Tensor  # of each pair and its mined negatives, int64 [B, 1 + k]


@dataclass
class ParaphraseSource(Source[Paraphrase]):
    """Source of paraphrase pairs."""

    batch = ParaphraseBatch
    negatives: int = 0  # mined for each training pair
    mining: Mining = "overlap"  # for `metric`, the training module mines them

    def identity(self, item: Paraphrase) -> tuple[Any, ...]:
        """Return the texts and their cluster; negatives may be mined later."""
        return (*item.texts, item.cluster)

    def columns(self, items: Sequence[Paraphrase], tokenize: Tokenize) -> dict[str, Any]:
        """Return the tokenised pairs and negatives, with their clusters."""
        negatives = [negative.texts[0] for item in items for negative in item.negatives]
        return {
            "hypotheses": tokenize([item.texts[0] for item in items]),
            "references": tokenize([item.texts[1] for item in items]),
            "negatives": tokenize(negatives) if negatives else None,
            "clusters": torch.tensor([[one.cluster for one in (item, *item.negatives)] for item in items]),
        }

    def take_negatives(self, chosen: Sequence[Sequence[int]]) -> None:
        """Set the negatives of each training pair: the pairs at the given indices."""
        pairs = list(self.items)
        self.items[:] = [
            replace(item, negatives=tuple(pairs[index] for index in places))
            for item, places in zip(pairs, chosen, strict=True)
        ]


class ParaphrasesDataModule(SourcesDataModule):
    """Paraphrase pairs for contrastive learning, with the other texts of a batch as negatives.

    Pairs connected by shared texts, directly or through others, form a cluster. A cluster is held back as a whole, and
    its pairs are not negatives of each other, even if the connecting pairs are excluded from training.

    Args:
        train: Files, or ``hub:owner/name/configuration``.
        task: Task that defines the columns of the files; only pairs of its paraphrase class are used.
        columns: Roles of the columns, if they differ from those of the task. Without a task, all rows are paraphrases.
        split: Split of a hub data set; plain files have none.
        where: Rows to use, as values by group key; all if ``None``.
        without: Files of text pairs, such as test sets, to exclude from training, in either order.
        negatives: Mined negatives per pair, in addition to those of its batch.
        mining: Mining method: largest word ``overlap`` (cosine of tf-idf vectors), or highest similarity by the
            ``metric`` before training.
        held_back: Share of the clusters to hold back.
        most: Maximum number of training pairs, chosen by a hash of their texts.
        batch_size: Pairs per batch over all processes; larger batches are harder.
        validation_batch_size: Pairs per validation batch, among which each partner has to be found.
        seed: Seed of batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
        notice: Caveat for readers of the results, in addition to the origin of the negatives.
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
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"train": train}, notice)
        self.columns = filled_columns(task, columns, where)
        if len(self.columns.texts) != 2:
            raise InputError(f"Expected two columns of texts, but got {', '.join(self.columns.texts)}: name two.")
        if task is not None and TASKS[task].paraphrase is None:
            able = ", ".join(name for name, entry in TASKS.items() if entry.paraphrase)
            raise InputError(f"Expected a task with paraphrases ({able}), but got {task!r}: name only `columns`.")
        if task is None and columns.label is not None:
            raise InputError(
                "Expected a `task` that defines the labels of `columns.label`, but got none: name the task, or select "
                "rows with `where`."
            )
        check_least(2, batch_size=batch_size, validation_batch_size=validation_batch_size)
        self.task, self.splits = task, (split,)
        self.where, self.without = where or {}, list(without or [])
        self.negatives, self.mining, self.held_back, self.most = negatives, mining, held_back, most

    def read(self) -> list[Source[Any]]:
        """Read and split the files, and mine negatives by overlap."""
        about = {"training files": ", ".join(self.files), "negatives": "the other texts of each batch"}
        segments = [pair for name in self.files for pair in self._read(name)]
        # Over all pairs: pairs excluded below still connect paraphrases.
        clusters = connected_components([tuple(map(normalise_reference, pair.references)) for pair in segments])
        cluster_of = dict(zip(map(id, segments), clusters, strict=True))
        training, held_back = split_held_back(segments, self.held_back)
        about["held back"] = f"{self.held_back:.0%} by a hash, with all paraphrases of their paraphrases"
        (training,), left_out = without_files([training], self.without, segment_pairs, "pair")
        about |= left_out
        training = sample_by_hash(training, self.most, lambda pair: pair.references)
        items, held_back_items = (
            [Paraphrase(pair.references, cluster_of[id(pair)]) for pair in part] for part in (training, held_back)
        )
        for name, part in (("training", items), (HELD_BACK, held_back_items)):
            n_clusters = len({pair.cluster for pair in part})
            if len(part) < 3 or n_clusters < 2:
                raise InputError(
                    f"Expected at least 3 pairs in 2 clusters of paraphrases in the {name} part, but got {len(part)} "
                    f"in {plural(n_clusters, 'cluster')} of {', '.join(self.files)}: give more, or change `held_back`."
                )
        mined = self.mining if self.negatives else None
        if mined is not None:
            about["mined negatives"] = f"{self.negatives} to a pair, by {mined}"
        source = self._source(ParaphraseSource, "paraphrases", items, {HELD_BACK: held_back_items}, about=about)
        source.negatives, source.mining = self.negatives, self.mining
        source.notice = " ".join(filter(None, [self.notice, NOTICES[mined]]))
        if mined == "overlap":
            vectors = tf_idf([item.texts[0] for item in items])
            source.take_negatives(nearest_others(vectors, [item.cluster for item in items], self.negatives))
        logger.info("Paraphrases: %s to train on, %d held back", plural(len(training), "pair"), len(held_back))
        return [source]

    def _read(self, name: str) -> list[Segment]:
        """Return the pairs of a file with both texts as references, so that pairs with a common text stay together."""
        if self.task is None:
            first, second = self.columns.texts
            columns = Columns(first, second, score=None, groups=self.columns.groups)
            rows = rows_where(read_segments(name, columns, split=self.splits[0]), self.where, name)
            pairs = [(row.hypothesis, row.references[0]) for row in rows]
        else:
            names = label_names(self.task, None)
            items, _ = read_labelled(name, self.columns, names, split=self.splits[0])
            paraphrase_class = names.classes.index(str(TASKS[self.task].paraphrase))
            labelled = rows_where(items, self.where, name)
            pairs = [(row.texts[0], row.texts[1]) for row in labelled if row.label == paraphrase_class]
        return [Segment(first, (first, second)) for first, second in pairs]


def nearest_others(vectors: Any, clusters: Sequence[int], count: int) -> list[list[int]]:
    """Return for each unit vector of ``[n, D]``, dense or sparse, the nearest ones of other clusters, nearest first.

    Example:
        >>> nearest_others(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), [0, 1, 2], 2)
        [[1, 2], [0, 2], [1, 0]]
    """
    labels = np.asarray(clusters)
    if len(labels) - np.bincount(labels).max(initial=0) < count:
        raise InputError(
            f"Expected at least {plural(count, 'text')} of other paraphrases for each text to mine negatives from, but "
            "got fewer: give more pairs, or lower `negatives`."
        )
    neighbours: list[list[int]] = []
    for start in range(0, len(labels), CHUNK):
        product = vectors[start : start + CHUNK] @ vectors.T
        similarities: NDArray[np.float64] = np.asarray(product.todense() if hasattr(product, "todense") else product)
        similarities = np.where(labels[start : start + CHUNK, None] == labels, -np.inf, similarities)
        neighbours += [_largest(row, count) for row in similarities]
    return neighbours


def _largest(row: NDArray[np.float64], count: int) -> list[int]:
    """Return the indices of the largest values of a row in descending order, ties by index, without a full sort."""
    if not count:
        return []
    indices = np.flatnonzero(row > 0)  # most texts share no word
    if len(indices) < count:
        indices = np.flatnonzero(row > -np.inf)
    values = row[indices]
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    indices, values = indices[values >= threshold], values[values >= threshold]
    return [int(index) for index in indices[np.argsort(-values, kind="stable")[:count]]]


def tf_idf(texts: Sequence[str], words_of: Callable[[str], Sequence[str]] = re.compile(r"\w+").findall) -> Any:
    """Return unit tf-idf vectors of the words of texts, a sparse matrix ``[n, V]``."""
    from scipy.sparse import csr_array

    words = [Counter(words_of(text.casefold())) for text in texts]
    frequency = Counter(word for counted in words for word in counted)
    columns_of_word = {word: index for index, word in enumerate(frequency)}
    rows = np.repeat(np.arange(len(texts)), [len(counted) for counted in words])
    columns = np.array([columns_of_word[word] for counted in words for word in counted], dtype=np.int64)
    # A word of all texts keeps a small weight, so that texts with only such words have neighbours too.
    idf = [n * np.log((1 + len(texts)) / frequency[word]) for counted in words for word, n in counted.items()]
    values = np.array(idf, dtype=np.float64)
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=len(texts)))
    return csr_array((values / lengths[rows], (rows, columns)), shape=(len(texts), max(1, len(columns_of_word))))
