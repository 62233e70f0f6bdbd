"""Pairs of texts that mean the same, to be told from the other texts of a batch and from mined ones."""

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
from textmover.data.mixture_sources import Batch, Source, Tokenize, check_least
from textmover.data.split import HELD_BACK_SHARE, connected, normalise_reference, split_held_back, taken_by_hash
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import rows_where
from textmover.types import InputError, Segment, TokenBatch, plural

logger = logging.getLogger(__name__)

Mining = Literal["overlap", "metric"]

CHUNK = 256  # texts whose neighbours are looked for at a time

UNJUDGED = "Nobody judged the negatives: every other text of a batch counts as one"

# Notices for the reader, by the way of mining.
NOTICES = {
    None: f"{UNJUDGED}.",
    "overlap": f"{UNJUDGED}, and beside them texts that were mined because they share the most words with a text.",
    "metric": f"{UNJUDGED}, and beside them texts that were mined because the metric, before this training, takes them "
    "for the most alike.",
}


@dataclass(frozen=True)
class Paraphrase:
    """Two texts that mean the same."""

    texts: tuple[str, ...]
    cluster: int  # number of all texts that mean the same, as far as paraphrases of paraphrases tell
    negatives: tuple[str, ...] = ()  # texts of other clusters that look much alike
    negative_clusters: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ParaphraseBatch(Batch):
    """Pairs of paraphrases, with ``k`` mined texts for each pair."""

    hypotheses: TokenBatch  # B first texts
    references: TokenBatch  # B second texts
    negatives: TokenBatch | None  # mined texts, pair after pair, B·k rows
    clusters: Tensor  # of each pair and the texts mined for it, int64 [B, 1 + k]


@dataclass
class ParaphraseSource(Source[Paraphrase]):
    """Pairs of paraphrases."""

    batch = ParaphraseBatch
    negatives: int = 0  # mined for each pair to train on
    mining: Mining = "overlap"  # `metric` leaves it to the training module, which has one

    def identity(self, item: Paraphrase) -> tuple[Any, ...]:
        """The texts and their cluster; negatives may be mined later."""
        return (*item.texts, item.cluster)

    def columns(self, items: Sequence[Paraphrase], tokenize: Tokenize) -> dict[str, Any]:
        """Texts of pairs and their negatives, with the clusters of both."""
        negatives = [text for item in items for text in item.negatives]
        return {
            "hypotheses": tokenize([item.texts[0] for item in items]),
            "references": tokenize([item.texts[1] for item in items]),
            "negatives": tokenize(negatives) if negatives else None,
            "clusters": torch.tensor([(item.cluster, *item.negative_clusters) for item in items]),
        }

    def take_negatives(self, chosen: Sequence[Sequence[int]]) -> None:
        """Give each pair to train on its negatives: the first texts of the pairs at the chosen places."""
        others = [[self.items[place] for place in places] for places in chosen]
        self.items[:] = [
            replace(
                item,
                negatives=tuple(other.texts[0] for other in of_item),
                negative_clusters=tuple(other.cluster for other in of_item),
            )
            for item, of_item in zip(self.items, others, strict=True)
        ]


class ParaphrasesDataModule(SourcesDataModule):
    """Pairs known to be paraphrases, for contrastive learning with the other texts of a batch as negatives.

    Pairs that are connected by a text they share, directly or through others, are one cluster: they are held back
    together, and are no negatives of each other, even where the pairs that connect them are not trained on.

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
        seed: Seed of the order of batches; if None, that of its mixture, or 0.
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
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"train": train}, notice)
        self.columns = filled_columns(task, columns, where)
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
        self.task, self.split = task, split
        self.where, self.without = where or {}, list(without or [])
        self.negatives, self.mining, self.held_back, self.most = negatives, mining, held_back, most

    def read(self) -> list[Source[Any]]:
        """Read and split the files, and mine negatives by overlap."""
        about = {"training files": ", ".join(self.files), "negatives": "the other texts of each batch"}
        segments = [one for name in self.files for one in self._read(name)]
        # Of all pairs: those left out below still say that texts mean the same.
        clusters = connected([tuple(map(normalise_reference, one.references)) for one in segments])
        cluster_of = dict(zip(map(id, segments), clusters, strict=True))
        training, held_back = split_held_back(segments, self.held_back)
        about["held back"] = f"{self.held_back:.0%} by a hash, with all paraphrases of their paraphrases"
        if self.without:
            (training,), left_out = without_files([training], self.without, segment_pairs)
            names = ", ".join(file.path for file in self.without)
            about["without the pairs of"] = f"{names} ({plural(left_out, 'pair')} left out)"
        training = taken_by_hash(training, self.most, lambda one: one.references)
        items, kept_back = (
            [Paraphrase(one.references, cluster_of[id(one)]) for one in part] for part in (training, held_back)
        )
        for name, part in (("training", items), (HELD_BACK, kept_back)):
            found = len({one.cluster for one in part})
            if len(part) < 3 or found < 2:
                raise InputError(
                    f"Expected at least 3 pairs in the {name} part, of which some are no paraphrases of the others, "
                    f"but got {len(part)} in {plural(found, 'cluster')} of {', '.join(self.files)}: give more, or "
                    "change `held_back`."
                )
        mined = self.mining if self.negatives else None
        if mined is not None:
            about["mined negatives"] = f"{self.negatives} to a pair, by {mined}"
        source = self._source(ParaphraseSource, "paraphrases", items, {HELD_BACK: kept_back}, about=about)
        source.negatives, source.mining = self.negatives, self.mining
        source.notice = " ".join(filter(None, [self.notice, NOTICES[mined]]))
        if mined == "overlap":
            source.take_negatives(mine_by_overlap(source.items, self.negatives))
        logger.info("Paraphrases: %s to train on, %d held back", plural(len(training), "pair"), len(held_back))
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
            items, _ = read_labelled(name, self.columns, names, split=self.split)
            meant = names.classes.index(str(TASKS[self.task].paraphrase))
            labelled = rows_where(items, self.where, name)
            pairs = [(one.texts[0], one.texts[1]) for one in labelled if one.label == meant]
        return [Segment(first, (first, second)) for first, second in pairs]


def mine_by_overlap(items: Sequence[Paraphrase], count: int) -> list[list[int]]:
    """For each pair the places of the others whose first texts share the most words with its own."""
    vectors = tf_idf([item.texts[0] for item in items])
    return nearest_others(vectors, [item.cluster for item in items], count)


def nearest_others(vectors: Any, clusters: Sequence[int], count: int) -> list[list[int]]:
    """For each unit vector ``[n, D]``, dense or sparse, the nearest ones of other clusters, the nearest first.

    Example:
        >>> nearest_others(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), [0, 1, 2], 2)
        [[1, 2], [0, 2], [1, 0]]
    """
    own = np.asarray(clusters)
    if len(own) - np.bincount(own).max(initial=0) < count:
        raise InputError(
            f"Expected at least {plural(count, 'text')} of other paraphrases for each text to mine negatives from, but "
            "got fewer: give more pairs, or lower `negatives`."
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


def tf_idf(texts: Sequence[str], words_of: Callable[[str], Sequence[str]] = re.compile(r"\w+").findall) -> Any:
    """Unit tf-idf vectors of the texts' words, a sparse matrix ``[n, V]``."""
    from scipy.sparse import csr_array

    words = [Counter(words_of(text.casefold())) for text in texts]
    frequency = Counter(word for counted in words for word in counted)
    places = {word: place for place, word in enumerate(frequency)}
    rows = np.repeat(np.arange(len(texts)), [len(counted) for counted in words])
    columns = np.array([places[word] for counted in words for word in counted], dtype=np.int64)
    # A word of all texts still counts a little, so that texts of nothing else have neighbours too.
    idf = [n * np.log((1 + len(texts)) / frequency[word]) for counted in words for word, n in counted.items()]
    values = np.array(idf, dtype=np.float64)
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=len(texts)))
    return csr_array((values / lengths[rows], (rows, columns)), shape=(len(texts), max(1, len(places))))
