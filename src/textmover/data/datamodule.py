"""Lightning data modules: files in, training batches and kept-back parts out; of one source, or of several mixed."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeVar

import pytorch_lightning as pl

from textmover.data.batching import PartLoader, TrainingLoader
from textmover.data.leakage import PairFile, segment_pairs, unread_columns, warn_of_shared, without_files
from textmover.data.mixture_sources import RatedSource, Source, Tokenize, check_judged, check_least
from textmover.data.rating_scales import Annotators, Scales, beyond_range, on_one_scale, over_annotators, split_by_range
from textmover.data.split import BY_REFERENCE, HELD_BACK_SHARE, hold_out_groups, parted, share_note, split_held_back
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import named_tables, rows_where
from textmover.types import InputError, Segment, plural
from textmover.types.arguments import CheckedArguments

logger = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Source[Any])
Unusable = Literal["refuse", "leave-out"]

HELD_BACK, HELD_OUT = "held-back", "held-out"  # parts kept from training: by a hash of the reference, and by group


class SourcesDataModule(CheckedArguments, pl.LightningDataModule):
    """Base of all data modules: sources, training batches, and parts to judge on.

    The tokeniser is that of the module that is trained.

    Args:
        seed: Seed of the order of batches, and of what else is drawn; if None, that of its mixture, or 0.
        workers: Processes that tokenise ahead; 0 tokenises in between.
        batch_sizes: Items to a batch, those of all processes together, and items to a batch of validation.
        files: Files to read, by the name of the option that gives them.
        notice: What a reader of the results must know about the data.
    """

    def __init__(
        self,
        seed: int | None = None,
        workers: int = 0,
        batch_sizes: tuple[int, int] = (16, 64),
        files: dict[str, list[str]] | None = None,
        notice: str | None = None,
    ) -> None:
        super().__init__()
        check_least(0, seed=seed or 0)
        for field, names in (files or {}).items():
            if not names:
                raise InputError(f"Expected `{field}` to name at least one file, but got none: name one.")
        self.batch_size, self.validation_batch_size = batch_sizes
        check_least(1, batch_size=self.batch_size, validation_batch_size=self.validation_batch_size)
        self._seed, self.workers, self.notice = seed, workers, notice
        self.files = [name for names in (files or {}).values() for name in names]
        self.sources: dict[str, Source[Any]] = {}  # by name, once :meth:`setup` has run
        self.resume_other_data = False  # whether a run may resume a checkpoint of other data or another batch size

    @property
    def seed(self) -> int:
        """Seed of the order of batches, and of what else is drawn."""
        return self._seed or 0

    def draw_with(self, seed: int) -> None:
        """Take a seed where none was given, before :meth:`setup`."""
        if self._seed is None:
            self._seed = seed

    @abstractmethod
    def read(self) -> list[Source[Any]]:
        """Read the sources from their files."""

    @classmethod
    def load_from_checkpoint(cls, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Refuse: checkpoints hold no data, and Lightning would run code of the file."""
        raise InputError(
            "Expected the arguments of a data module, but got a checkpoint, which holds none of them: build the data "
            "module as for training."
        )

    def setup(self, stage: str | None = None) -> None:
        """Read the files, once."""
        if not self.sources:
            self.sources = {source.name: source for source in self.read()}

    @property
    def judged(self) -> list[tuple[Source[Any], str]]:
        """Source and name of each part that validation judges, in the order of the validation loaders."""
        return [(source, part) for source in self.sources.values() for part in source.parts]

    def label(self, source: Source[Any], part: str) -> str:
        """Prefix under which results of a part are logged: its name, with its source's if there are several."""
        return part if len(self.sources) == 1 else f"{source.name}/{part}"

    def batch_counts(self, batches: Sequence[int]) -> Sequence[int]:
        """Batches of each source to an epoch, given how many it has."""
        return batches

    def train_dataloader(self) -> TrainingLoader:
        """Batches of like length, shuffled by seed and epoch."""
        trainer = self._trainer()
        return TrainingLoader(
            list(self.sources.values()),
            self._tokenizer(),
            mix=self.batch_counts,
            seed=self.seed,
            epoch=lambda: trainer.current_epoch,
            rank=trainer.global_rank,
            world=trainer.world_size,
            workers=self.workers,
        )

    def val_dataloader(self) -> list[PartLoader]:
        """One loader for each part, in the order of :attr:`judged`."""
        trainer, tokenize = self._trainer(), self._tokenizer()
        return [
            PartLoader(source, part, tokenize, rank=trainer.global_rank, world=trainer.world_size)
            for source, part in self.judged
        ]

    def training_texts(self, most: int) -> list[str]:
        """Up to ``most`` distinct texts to train on, evenly spread over the data."""
        sources = self.sources.values()
        texts = list(dict.fromkeys(text for one in sources for item in one.items for text in one.texts(item)))
        step = max(1, len(texts) // max(1, most))
        return texts[::step][:most]

    def describe(self) -> dict[str, str]:
        """Describe the data for the model card."""
        if len(self.sources) == 1:
            return next(iter(self.sources.values())).describe()
        return {f"{name}, {key}": value for name, one in self.sources.items() for key, value in one.describe().items()}

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Print of all that decides which items the batches hold, for a run that is resumed."""
        sources, found = self.sources.values(), {"seed": str(self.seed)}
        for one, count in zip(sources, self.batch_counts([one.batches for one in sources]), strict=True):
            found |= {f"{one.name}: {key}": fact for key, fact in one.fingerprint(count).items()}
        return found

    @property
    def notices(self) -> list[str]:
        """Notices about the data that a reader of the results needs."""
        return [source.notice.strip() for source in self.sources.values() if source.notice]

    def _source(self, kind: type[Kind], name: str, items: list[Any], parts: dict[str, list[Any]], **about: Any) -> Kind:
        sizes = {"batch_size": self.batch_size, "validation_batch_size": self.validation_batch_size}
        return kind(name, items, parts, **{**sizes, "notice": self.notice, **about})

    def _check_sizes(self, unit: str, parts: Mapping[str, Sequence[Any]], way_out: str) -> None:
        for name, part in parts.items():
            if len(part) < 3:
                raise InputError(
                    f"Expected at least 3 {unit} in the {name} part, but got {len(part)} of {', '.join(self.files)}: "
                    f"{way_out}, or change `held_back`."
                )

    def _trainer(self) -> pl.Trainer:
        if self.trainer is None:
            raise RuntimeError("Expected the data module to be used by a trainer, but it has none.")
        return self.trainer

    def _tokenizer(self) -> Tokenize:
        module: Any = self._trainer().lightning_module
        metric = getattr(module, "metric", None)
        if metric is None:
            raise TypeError(f"Expected the trained module to hold a `metric`, but {type(module).__name__} holds none.")
        return metric.tokenize


class RatingsDataModule(SourcesDataModule):
    """Rated segments from files, split for training and validation.

    A part of the references is held back by a hash of their text, so that it is the same for everyone and no
    reference stands on both sides. Whole groups can be held out beside it.

    Args:
        train: Ratings to train on: a data frame, a list of rows as dicts, columns as a dict of lists, or a list of
            files (or ``hub:owner/name``) and such tables.
        validation: Ratings to validate on, likewise, in place of a held-back part.
        columns: What the columns mean.
        split: Split of a hub data set to train on; plain files have none.
        validation_split: Split of a hub data set to validate on.
        where: Rows to train on, as values by group key; all if ``None``.
        validation_where: Rows of the validation files, likewise.
        without: Files of text pairs, such as test sets, that must neither be trained on nor held back, in either order.
        scales: Whether the files' ratings are on the ``same`` scale (whose ends are compared), are to be taken
            ``as-is``, or are standardised ``per-file``.
        group: Group key to correlate within, such as ``lp``; None correlates over all segments.
        held_back: Share of the references to hold back, where no validation files are given.
        held_out: Groups to keep from training, as values by group key. Those of held-back references become a second
            validation part: texts of which training has seen neither the reference nor the kind.
        beside: Groups that stand beside the held-out ones in that part, as values by group key, where the question is
            whether a metric tells the unseen kinds from these.
        batch_size: Segments to a batch, those of all processes together.
        validation_batch_size: Segments to a batch of validation.
        batch_group: Group key of which each batch holds one value only; None lets all segments meet.
        seed: Seed of the order of batches; if None, that of its mixture, or 0.
        workers: Processes that tokenise ahead; 0 tokenises in between.
        notice: What a reader of the results must know about these ratings; printed with them and put on the card.
        held_back_by: What may not stand on both sides: ``reference``, ``source``, and group keys such as a prompt.
        annotator: Group key of who rated, whose ratings of a text are averaged; ``None`` keeps a segment for each row.
        annotators: Whether their ``mean`` is taken, or that of ratings ``standardised`` for each of them.
        unusable: Whether rows without a text, a reference or a rating are refused, or left out and counted.
        rating_range: Lowest and highest rating; rows beyond them cannot be used.
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
        tables = named_tables(train, "train")
        validation_tables = {} if validation is None else named_tables(validation, "validation")
        super().__init__(seed, workers, (batch_size, validation_batch_size), {"train": list(tables)}, notice)
        if columns.score is None:
            raise InputError("Expected `columns.score` to name the column of the ratings, but got null: name it.")
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
                f"`source` beside `columns.source`, but got {list(held_back_by)}: name another."
            )
        self.held_back_by, self.annotator, self.annotators = tuple(held_back_by), annotator, annotators
        if rating_range is not None and (len(rating_range) != 2 or not rating_range[0] < rating_range[1]):
            raise InputError(f"Expected `rating_range` to be the lowest and highest rating, but got {rating_range}.")
        self.unusable, self.rating_range = unusable, rating_range
        self.validation_files = list(validation_tables)
        self._tables = {**tables, **validation_tables}
        self.splits = split, validation_split
        self.columns, self.where, self.validation_where = columns, where or {}, validation_where or {}
        self.without, self.scales = list(without or []), scales
        self.group, self.batch_group = group, batch_group
        self.held_back, self.held_out, self.beside = held_back, held_out or {}, beside or {}

    @property
    def segments(self) -> list[Segment]:
        """The segments to train on, once :meth:`setup` has run."""
        return [item for source in self.sources.values() for item in source.items]

    @property
    def parts(self) -> dict[str, list[Segment]]:
        """The segments kept from training, by name of the part."""
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
        unread = unread_columns(read, self.columns)
        for name, part in parts.items():
            shared = warn_of_shared(name, segments, part, unread)
            about |= {f"{name}, not apart": shared} if shared else {}
        source = self._source(RatedSource, "ratings", segments, parts, about=about, group=self.group)
        if self.batch_group is not None:
            source.batch_groups = [one.groups[self.batch_group] for one in segments]
        check_judged(source, self.validation_files or self.files)
        return [source]

    def _training_part(self) -> tuple[list[Segment], list[Segment], dict[str, str]]:
        """The segments to train on, those held back, and their description on the card."""
        about = {"training files": ", ".join(self.files)}
        rated = {name: self._read(name, self.where, self.splits[0]) for name in self.files}
        validation = {name: self._read(name, self.validation_where, self.splits[1]) for name in self.validation_files}
        together = [one for part in rated.values() for one in part]  # references may be shared between files
        kept = [] if validation else split_held_back(together, self.held_back, self.held_back_by)[1]
        apart = {id(one) for one in kept}
        training = {name: [one for one in part if id(one) not in apart] for name, part in rated.items()}
        scaled = on_one_scale(rated, self.scales, training)
        parts = parted((one for name in rated for one in scaled[name]), (id(one) in apart for one in together))
        # The part that is held back chooses the epoch, so pairs of other files have no place in it either.
        (segments, held_back), left_out = without_files(parts, self.without, segment_pairs)
        if validation:
            about["validation files"] = ", ".join(self.validation_files)
            held_back = [one for part in on_one_scale(validation, self.scales).values() for one in part]
        else:
            about["held back"] = share_note(self.held_back, self.held_back_by, segments, held_back)
        if self.without:
            names = ", ".join(file.path for file in self.without)
            about["without the pairs of"] = f"{names} ({plural(left_out, 'segment')} left out)"
            logger.info("Ratings: %s left out that are pairs of %s", plural(left_out, "segment"), names)
        return segments, held_back, about

    def _read(self, name: str, where: Mapping[str, Sequence[str]], split: str) -> list[Segment]:
        left_out: list[InputError] | None = None if self.unusable == "refuse" else []
        segments = read_segments(self._tables.get(name, name), self.columns, split=split, left_out=left_out)
        segments, beyond = split_by_range(segments, self.rating_range)
        problems = [beyond_range(one, name, self.rating_range) for one in beyond]
        if problems and left_out is None:
            raise problems[0]
        left_out = [*(left_out or ()), *problems]
        if left_out:
            logger.warning("Rows left out: %d of %s. The first: %s", len(left_out), name, left_out[0])
        segments = rows_where(segments, where, name)
        return segments if self.annotator is None else over_annotators(segments, self.annotator, self.annotators)
