"""Sets of judgements that are no tables: which there are, and which files they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textmover.readers.judgements.documents import read_coco_captions, read_tac
from textmover.readers.judgements.preferences import read_darr
from textmover.types import Judgements

READERS: Mapping[str, tuple[Callable[..., Judgements], tuple[str, ...]]] = {
    "tac": (read_tac, ("path",)),
    "darr": (read_darr, ("preferences", "texts")),
    "coco-captions": (read_coco_captions, ("captions", "references", "ratings")),
}
"""Readers of sets that are no tables, with their arguments that are files or folders."""
