"""Human judgement sets: tables with descriptions, formats of well-known sets, and existing metric scores."""

from collections.abc import Callable, Mapping

from textmover.readers.judgements.darr import read_darr
from textmover.readers.judgements.description import SetDescription, built_in_descriptions, load_description
from textmover.readers.judgements.metric_scores import ReadyScores, read_scores
from textmover.readers.judgements.rows import repeated_rows
from textmover.readers.judgements.table_sets import read_judgements
from textmover.readers.judgements.tac_and_coco import read_coco_captions, read_tac
from textmover.types import Judgements

__all__ = [
    "ReadyScores",
    "SetDescription",
    "built_in_descriptions",
    "load_description",
    "read_coco_captions",
    "read_darr",
    "read_judgements",
    "read_scores",
    "read_tac",
    "repeated_rows",
]

READERS: Mapping[str, tuple[Callable[..., Judgements], tuple[str, ...]]] = {
    "tac": (read_tac, ("path",)),
    "darr": (read_darr, ("preferences", "texts")),
    "coco-captions": (read_coco_captions, ("captions", "references", "ratings")),
}
"""Readers of sets that are not tables, with their file and folder arguments."""
