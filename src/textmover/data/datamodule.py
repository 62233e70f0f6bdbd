"""Lightning data modules: files to training batches and evaluation parts, from one source or a mixture."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NoReturn, TypeVar

import pytorch_lightning as pl

from textmover.data import leakage
from textmover.data.batching import PartLoader, TrainingLoader
from textmover.data.leakage import PairFile
from textmover.data.rating_scales import Annotators, Scales, beyond_range, on_one_scale, over_annotators, split_by_range
from textmover.data.split import BY_REFERENCE, HELD_BACK_SHARE, hold_out_groups, partition, share_note, split_held_back
from textmover.data.training_sources import RatedSource, Source, Tokenize, check_judged, check_least, evenly_spread
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import check_split, named_tables, rows_where
from textmover.types import InputError, Segment
from textmover.types.argument_checks import CheckedArguments

logger = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Source[Any])
Unusable = Literal["refuse", "leave-out"]

SPLITS = {"split": ("train",), "validation_split": ("validation", "validation_matched")}
"""Default values of the arguments that name splits of a hub data set."""

HELD_BACK, HELD_OUT = "held-back", "held-out"  # evaluation parts: by a hash of the reference, and by group


class SourcesDataModule(CheckedArguments, pl.LightningDataModule):
    """Base of all data modules: sources, training batches and validation parts.

    Texts are tokenised by the metric of the trained module.

    Args:
        seed: Seed of batch order and other random choices; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
        batch_sizes: Items per training batch over all processes, and items per validation batch.
        files: Files and tables to read, by the name of their option.
        notice: Caveat about the data for readers of the results.
    """

    def __init__(
        self,
        seed: int | None = None,
        workers: int = 0,
        batch_sizes: tuple[int, int] = (16, 64),
        files: Mapping[str, Any] = {},
        notice: str | None = None,
    ) -> None:
        super().__init__()
        check_least(0, seed=seed or 0)
        self._tables = {name: one for field in files for name, one in named_tables(files[field], field).items()}
        self.files = list(self._tables)
        self.splits: tuple[str, ...] = ()  # of the files, and of the validation files if there are any
        self.validation_files: list[str] = []
        self.batch_size, self.validation_batch_size = batch_sizes
        check_least(1, batch_size=self.batch_size, validation_batch_size=self.validation_batch_size)
        self._seed, self.workers, self.notice = seed, workers, notice
        self.sources: dict[str, Source[Any]] = {}  # by name, after :meth:`setup`
        self.resume_other_data = False  # whether to allow resuming with other data or another batch size
        self.earlier: dict[str, str] = {}  # for the model card: other data that a resumed run was trained on before

    @property
    def seed(self) -> int:
        """Seed of batch order and other random choices."""
        return self._seed or 0

    def draw_with(self, seed: int) -> None:
        """Set the seed if none was given; call before :meth:`setup`."""
        if self._seed is None:
            self._seed = seed

    @abstractmethod
    def read(self) -> list[Source[Any]]:
        """Read the sources from their files."""

    @classmethod
    def load_from_checkpoint(cls, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Raise an error: checkpoints hold no data, and Lightning would run code of the file."""
        raise InputError(
            "Expected the arguments of a data module, but got a checkpoint, which holds none of them: build the data "
            "module as for training."
        )

    def setup(self, stage: str | None = None) -> None:
        """Read the files on the first call."""
        if not self.sources:
            files = (self.files, self.validation_files)
            for (name, defaults), split, paths in zip(SPLITS.items(), self.splits, files, strict=False):
                check_split(name, split, paths, defaults)
            self.sources = {source.name: source for source in self.read()}

    @property
    def judged(self) -> list[tuple[Source[Any], str]]:
        """Source and name of each validation part, in the order of the validation loaders."""
        return [(source, part) for source in self.sources.values() for part in source.parts]

    def label(self, source: Source[Any], part: str) -> str:
        """Return the prefix of logged results of a part: its name, preceded by the source name if there are several."""
        return part if len(self.sources) == 1 else f"{source.name}/{part}"

    def batch_counts(self, batches: Sequence[int]) -> Sequence[int]:
        """Return the batches per epoch of each source, given its available batches."""
        return batches

    def train_dataloader(self) -> TrainingLoader:
        """Return a loader of batches of similar length, shuffled by seed and epoch."""
        trainer = self._trainer()
        return TrainingLoader(
            list(self.sources.values()),
            self._tokenizer(),
            mix=self.batch_counts,
            seed=self.seed,
            epoch=partial(getattr, trainer, "current_epoch"),  # unlike a lambda, it pickles
            rank=trainer.global_rank,
            world=trainer.world_size,
            workers=self.workers,
        )

    def val_dataloader(self) -> list[PartLoader]:
        """Return a loader for each part, in the order of :attr:`judged`."""
        trainer, tokenize = self._trainer(), self._tokenizer()
        return [
            PartLoader(source, part, tokenize, rank=trainer.global_rank, world=trainer.world_size)
            for source, part in self.judged
        ]

    def training_texts(self, most: int) -> list[str]:
        """Return up to ``most`` distinct training texts, evenly spread over the data."""
        sources = self.sources.values()
        texts = list(dict.fromkeys(text for source in sources for item in source.items for text in source.texts(item)))
        return evenly_spread(texts, most)

    def describe(self) -> dict[str, str]:
        """Describe the data for the model card."""
        named = [(f"{name}, " * (len(self.sources) > 1), one.describe()) for name, one in self.sources.items()]
        return {f"{name}{key}": value for name, about in named for key, value in about.items()} | self.earlier

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Digests of everything that determines the batches, to check resumed runs."""
        sources, facts = self.sources.values(), {"seed": str(self.seed)}
        for source, count in zip(sources, self.batch_counts([source.batches for source in sources]), strict=True):
            facts |= {f"{source.name}: {key}": value for key, value in source.fingerprint(count).items()}
        return facts

    @property
    def notices(self) -> list[str]:
        """Caveats about the data for readers of the results."""
        return [source.notice.strip() for source in self.sources.values() if source.notice]

    def _source(self, kind: type[Kind], name: str, items: list[Any], parts: dict[str, list[Any]], **about: Any) -> Kind:
        sizes = {"batch_size": self.batch_size, "validation_batch_size": self.validation_batch_size}
        return kind(name, items, parts, **{**sizes, "notice": self.notice, **about})

    def _check_sizes(self, unit: str, parts: Mapping[str, Sequence[Any]], way_out: str, *, least: int = 3) -> None:
        for name, part in parts.items():
            if len(part) < least:
                files = f" of {', '.join(self.files)}" if self.files else ""
                raise InputError(
                    f"Expected at least {least} {unit} in the {name} part, but got {len(part)}{files}: {way_out}, or "
                    "change `held_back`."
                )

    def _trainer(self) -> pl.Trainer:
        if self.trainer is None:
            raise RuntimeError("Expected the data module to be used by a trainer, but it has none.")
        return self.trainer

    def _tokenizer(self) -> Tokenize:
        module: Any = self._trainer().lightning_module
        metric = getattr(module, "metric", None)
        if metric is None:
            got = type(module).__name__
            raise TypeError(f"Expected a module with a `metric`, but got {got}: train a module of textmover.training.")
        return metric.tokenize


class RatingsDataModule(SourcesDataModule):
    """Rated segments from files, split for training and validation.

    A share of the references is held back by a hash of their text, so that the split is reproducible and no reference
    is on both sides. Whole groups can also be held out.

    Args:
        train: Training ratings: a data frame, a list of row dicts, a dict of column lists, or a list of files
            (``hub:owner/name`` for hub data sets) and such tables.
        validation: Validation ratings in the same forms; they replace the held-back part.
        columns: Roles of the columns.
        split: Split of a hub data set for training; plain files have none.
        validation_split: Split of a hub data set for validation.
        where: Training rows, as values by group key; all if ``None``.
        validation_where: Validation rows, as values by group key.
        without: Files of text pairs, such as test sets, to exclude from training and held-back data, in either order.
        scales: ``same`` checks that the files' ratings are on one scale, by their extremes. ``as-is`` takes them
            unchecked. ``per-file`` standardises each file.
        group: Group key to correlate within, such as ``lp``; None correlates over all segments.
        held_back: Share of the references to hold back if there are no validation files.
        held_out: Groups to exclude from training, as values by group key. Those with held-back references become a
            second validation part, with unseen references and unseen groups.
        beside: Groups to add to that part, as values by group key, to test whether a metric distinguishes the
            held-out groups from these.
        batch_size: Segments per batch over all processes.
        validation_batch_size: Segments per validation batch.
        batch_group: Group key with a single value in each batch; None mixes all segments.
        seed: Seed of batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
        notice: Caveat about these ratings for readers of the results; printed with them and added to the model card.
        held_back_by: Values that may not be on both sides: ``reference``, ``source``, and group keys such as a prompt.
        annotator: Group key of the annotator; ratings of a text are averaged. ``None`` keeps a segment for each row.
        annotators: Whether to take the ``mean`` of raw ratings or of ratings ``standardised`` per annotator.
        unusable: Whether rows without text, reference or rating raise an error or are excluded and counted.
        rating_range: Lowest and highest rating; rows outside are unusable.
    """

    def __init__(
        self,
        train: list[str] | Any,
        validation: list[str] | Any | None = None,
        columns: Columns = Columns(),  # noqa: B008 - frozen
        split: str = "train",
        validation_split: str = "validation",
        where: dict[str, list[str]] | None = None,
        validation_where: dict[str, list[str]] | None = None,
        without: list[PairFile] | None = None,
        scales: Scales = "same",
        group: str | None = None,
        held_back: float = HELD_BACK_SHARE,
        held_out: dict[str, list[str]] | None = None,
        beside: dict[str, list[str]] | None = None,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        batch_group: str | None = None,
        seed: int | None = None,
        workers: int = 0,
        notice: str | None = None,
        held_back_by: list[str] | tuple[str, ...] = BY_REFERENCE,
        annotator: str | None = None,
        annotators: Annotators = "mean",
        unusable: Unusable = "refuse",
        rating_range: list[float] | None = None,
    ) -> None:
        validation_tables = {} if validation is None else named_tables(validation, "validation")
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"train": train}, notice)
        if columns.score is None:
            raise InputError("Expected `columns.score` to name the column of the ratings, but got null: name it.")
        _check_roles(columns)
        for name, keys in (
            ("group", [group]), ("batch_group", [batch_group]),
            ("where", where or ()), ("validation_where", validation_where or ()), ("annotator", [annotator]),
            ("held_back_by", set(held_back_by) - {"reference", "source"}),
        ):  # fmt: skip
            for key in keys:
                if key is not None and key not in columns.groups:
                    raise InputError(f"Expected `{name}` to be among `columns.groups`, but got {key!r}: add it there.")
        if not held_back_by or annotator in held_back_by or ("source" in held_back_by and columns.source is None):
            raise InputError(
                "Expected `held_back_by` to name `reference`, a column of `columns.groups` other than `annotator`, or "
                f"`source` (if `columns.source` is set), but got {list(held_back_by)}: name another."
            )
        self.held_back_by, self.annotator, self.annotators = tuple(held_back_by), annotator, annotators
        if rating_range is not None and (len(rating_range) != 2 or not rating_range[0] < rating_range[1]):
            raise InputError(f"Expected `rating_range` to be the lowest and highest rating, but got {rating_range}.")
        self.unusable, self.rating_range = unusable, rating_range
        self.validation_files = list(validation_tables)
        self._tables |= validation_tables
        self.splits = split, validation_split
        self.columns, self.where, self.validation_where = columns, where or {}, validation_where or {}
        self.without, self.scales = list(without or []), scales
        self.group, self.batch_group = group, batch_group
        self.held_back, self.held_out, self.beside = held_back, held_out or {}, beside or {}

    @property
    def segments(self) -> list[Segment]:
        """Training segments, after :meth:`setup`."""
        return [item for source in self.sources.values() for item in source.items]

    @property
    def parts(self) -> dict[str, list[Segment]]:
        """Held-out segments, by name of the part."""
        return next((source.parts for source in self.sources.values()), {})

    def read(self) -> list[Source[Any]]:
        """Read and split the files."""
        segments, held_back, about = self._training_part()
        parts = {HELD_BACK: held_back}
        if self.held_out:
            segments, _ = hold_out_groups(segments, self.held_out)
            parts[HELD_BACK], unseen = hold_out_groups(held_back, self.held_out)
            parts[HELD_OUT] = unseen + (hold_out_groups(held_back, self.beside)[1] if self.beside else [])
            about["held out"] = str(self.held_out)
        self._check_sizes("segments", {"training": segments, **parts}, "give more ratings")
        sizes = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
        logger.info("Ratings: %s to train on, %s", f"{len(segments):,}", sizes)
        by_split = zip((self.files, self.validation_files), self.splits, strict=True)
        read = [(self._tables.get(path, path), split) for files, split in by_split for path in files]
        unread = leakage.unread_columns(read, self.columns)
        for name, part in parts.items():
            overlaps = leakage.shared_with_training(segments, part, unread)
            about |= leakage.warn_of_shared(name, overlaps, given=bool(self.validation_files))
        source = self._source(RatedSource, "ratings", segments, parts, about=about, group=self.group)
        if self.batch_group is not None:
            source.batch_groups = [segment.groups[self.batch_group] for segment in segments]
        check_judged(source, self.validation_files or self.files)
        return [source]

    def _training_part(self) -> tuple[list[Segment], list[Segment], dict[str, str]]:
        """Return training segments, held-back segments and their description for the model card."""
        about = {"training files": ", ".join(self.files)}
        rated = {name: self._read(name, self.where, self.splits[0]) for name in self.files}
        validation = {name: self._read(name, self.validation_where, self.splits[1]) for name in self.validation_files}
        pooled = [item for part in rated.values() for item in part]  # files may share references
        held_back_segments = [] if validation else split_held_back(pooled, self.held_back, self.held_back_by)[1]
        held_ids = {id(item) for item in held_back_segments}
        training = {name: [item for item in part if id(item) not in held_ids] for name, part in rated.items()}
        scaled = on_one_scale(rated, self.scales, training)
        parts = partition((item for name in rated for item in scaled[name]), (id(item) in held_ids for item in pooled))
        # The held-back part selects the best epoch, so exclude the pairs there too.
        (segments, held_back), left_out = leakage.without_files(parts, self.without, leakage.segment_pairs)
        if validation:
            about["validation files"] = ", ".join(self.validation_files)
            held_back = [item for part in on_one_scale(validation, self.scales).values() for item in part]
        else:
            about["held back"] = share_note(self.held_back, self.held_back_by, segments, held_back)
        return segments, held_back, {**about, **left_out}

    def _read(self, name: str, where: Mapping[str, Sequence[str]], split: str) -> list[Segment]:
        left_out: list[InputError] = []
        segments = read_segments(self._tables.get(name, name), self.columns, split=split, left_out=left_out)
        segments, out_of_range = split_by_range(segments, self.rating_range)
        left_out += (beyond_range(segment, name, self.rating_range) for segment in out_of_range)
        if left_out and self.unusable == "refuse":
            problem = str(left_out[0]).removesuffix(".")
            raise type(left_out[0])(f"{problem}, or set `unusable` to leave-out.")
        if left_out:
            logger.warning("Rows left out: %d of %s. The first: %s", len(left_out), name, left_out[0])
        segments = rows_where(segments, where, name)
        return segments if self.annotator is None else over_annotators(segments, self.annotator, self.annotators)


def _check_roles(columns: Columns) -> None:
    """Refuse a column that is named for two roles, such as the ratings as references."""
    roles: dict[str, str] = {}
    for field, name in columns.fields:
        if field != "groups" and roles.setdefault(name, field) != field:
            raise InputError(
                f"Expected `columns` to name a column each, but got {name!r} as `{roles[name]}` and as `{field}`: "
                "correct one of them."
            )
