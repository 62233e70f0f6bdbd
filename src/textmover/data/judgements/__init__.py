"""Sets of human judgements: tables read by a description, the shapes of well-known sets, and ready scores."""

from textmover.data.judgements.captions import read_coco_captions
from textmover.data.judgements.description import SetDescription, built_in_descriptions, load_description
from textmover.data.judgements.preferences import read_darr
from textmover.data.judgements.ready_scores import ReadyScores, read_scores
from textmover.data.judgements.rows import repeated_rows
from textmover.data.judgements.summaries import read_tac
from textmover.data.judgements.table_sets import read_judgements

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
