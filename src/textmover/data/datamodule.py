"""Human ratings as a Lightning data module: files in, training batches and held-back parts out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytorch_lightning as pl
from numpy.typing import NDArray

from textmover.data.batching import RatingLoader, Tokenize
from textmover.data.readers import Columns, read_segments
from textmover.data.split import HELD_BACK_SHARE, hold_out_groups, split_held_back
from textmover.types import InputError, Segment

__all__ = ["HELD_BACK", "HELD_OUT", "RatingsDataModule"]

logger = logging.getLogger(__name__)

HELD_BACK, HELD_OUT = "held-back", "held-out"
"""Names of the parts kept from training: by a hash of the reference, and by group."""


class RatingsDataModule(pl.LightningDataModule):
    """Rated segments from files, split for training and validation.

    A part of the references is held back by a hash of their text, so that it is the same for everyone and no
    reference stands on both sides. Whole groups can be held out beside it. The tokeniser is that of the module that is
    trained.

    Args:
        train: Files (or ``hub:owner/name``) with ratings to train on.
        validation: Files with ratings to validate on, in place of a held-back part.
        columns: What the columns mean.
        group: Group key to correlate within, such as ``lp``; None correlates over all segments.
        held_back: Share of the references to hold back, where no validation files are given.
        held_out: Groups to keep from training, as values by group key. Those of held-back references become a second
            validation part: texts of which training has seen neither the reference nor the kind.
        beside: Groups that stand beside the held-out ones in that part, as values by group key, where the question is
            whether a metric tells the unseen kinds from these.
        batch_size: Segments to a batch.
        validation_batch_size: Segments to a batch of validation.
        seed: Seed of the order of batches.
        workers: Processes that tokenise ahead; 0 tokenises in between.
        notice: What a reader of the results must know about these ratings; printed with them and put on the card.
    """

    def __init__(
        self,
        train: list[str],
        validation: list[str] | None = None,
        columns: Columns = Columns(),  # noqa: B008 - frozen
        group: str | None = None,
        held_back: float = HELD_BACK_SHARE,
        held_out: dict[str, list[str]] | None = None,
        beside: dict[str, list[str]] | None = None,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        seed: int = 0,
        workers: int = 0,
        notice: str | None = None,
    ) -> None:
        super().__init__()
        if columns.score is None:
            raise InputError("Expected `columns.score` to name the column of the ratings, but got null: name it.")
        if group is not None and group not in columns.groups:
            raise InputError(f"Expected `group` to be among `columns.groups`, but got {group!r}: add it there.")
        self.train_files, self.validation_files = list(train), list(validation or [])
        self.columns, self.group = columns, group
        self.held_back, self.held_out, self.beside = held_back, held_out or {}, beside or {}
        self.batch_size, self.validation_batch_size = batch_size, validation_batch_size
        self.seed, self.workers, self.notice = seed, workers, notice
        self.segments: list[Segment] = []
        """The segments to train on, once :meth:`setup` has run."""
        self.parts: dict[str, list[Segment]] = {}
        """The segments kept from training, by name of the part."""

    def setup(self, stage: str | None = None) -> None:
        """Read and split the files, once."""
        if self.segments:
            return
        segments = [segment for name in self.train_files for segment in read_segments(name, self.columns)]
        if self.validation_files:
            held_back = [segment for name in self.validation_files for segment in read_segments(name, self.columns)]
        else:
            segments, held_back = split_held_back(segments, self.held_back)
        self.parts = {HELD_BACK: held_back}
        if self.held_out:
            segments, _ = hold_out_groups(segments, self.held_out)
            self.parts[HELD_BACK], unseen = hold_out_groups(held_back, self.held_out)
            self.parts[HELD_OUT] = unseen + (hold_out_groups(held_back, self.beside)[1] if self.beside else [])
        for name, part in [("training", segments), *self.parts.items()]:
            if len(part) < 3:
                raise InputError(
                    f"Expected at least 3 segments in the {name} part, but got {len(part)} "
                    f"of {', '.join(self.train_files)}: give more ratings, or change `held_back`."
                )
        self.segments = segments
        sizes = ", ".join(f"{len(part)} {name}" for name, part in self.parts.items())
        logger.info("Ratings: %d to train on, %s", len(segments), sizes)

    def train_dataloader(self) -> RatingLoader:
        """Batches of like length, shuffled by seed and epoch."""
        return self._loader(self.segments, self.batch_size, shuffle=True)

    def val_dataloader(self) -> list[RatingLoader]:
        """One loader for each part, in the order of :attr:`parts`."""
        return [self._loader(part, self.validation_batch_size, shuffle=False) for part in self.parts.values()]

    def groups_of(self, segments: Sequence[Segment]) -> list[str]:
        """The group that each segment is correlated in."""
        return ["all" if self.group is None else segment.groups[self.group] for segment in segments]

    def ratings_of(self, segments: Sequence[Segment]) -> NDArray[np.float64]:
        """Human scores of segments, float64 ``[n]``."""
        return np.array([segment.score for segment in segments], dtype=np.float64)

    def training_texts(self, most: int) -> list[str]:
        """Up to ``most`` distinct texts to train on, evenly spread over the data."""
        texts = list(dict.fromkeys(text for one in self.segments for text in (one.hypothesis, *one.references)))
        step = max(1, len(texts) // max(1, most))
        return texts[::step][:most]

    def describe(self) -> Mapping[str, str]:
        """What the ratings are, for the model card."""
        return {
            "training files": ", ".join(self.train_files),
            "segments": str(len(self.segments)),
            **{f"{name} segments": str(len(part)) for name, part in self.parts.items()},
            **({"held out": str(self.held_out)} if self.held_out else {}),
        }

    def _loader(self, segments: Sequence[Segment], batch_size: int, *, shuffle: bool) -> RatingLoader:
        trainer = self.trainer
        if trainer is None:
            raise RuntimeError("Expected the data module to be used by a trainer, but it has none.")
        return RatingLoader(
            segments,
            self._tokenizer(trainer.lightning_module),
            batch_size,
            shuffle=shuffle,
            seed=self.seed,
            epoch=lambda: trainer.current_epoch,
            rank=trainer.global_rank,
            world=trainer.world_size,
            workers=self.workers if shuffle else 0,
        )

    @staticmethod
    def _tokenizer(module: Any) -> Tokenize:
        metric = getattr(module, "metric", None)
        if metric is None:
            raise TypeError(f"Expected the trained module to hold a `metric`, but {type(module).__name__} holds none.")
        return metric.tokenize
