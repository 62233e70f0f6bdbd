"""Data: readers, splits, perturbations and the Lightning data module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.lazy import names_of

if TYPE_CHECKING:
    from textmover.data.datamodule import RatingsDataModule
    from textmover.data.error_spans import MadeErrorsDataModule, MarkedDataModule
    from textmover.data.generated.acceptability import AcceptabilityDataModule
    from textmover.data.generated.contrasts import ContrastsDataModule, RewordedFile
    from textmover.data.generated.perturbed import PerturbedDataModule
    from textmover.data.generated.record_ratings import RecordsDataModule
    from textmover.data.label_tasks import LabelColumns
    from textmover.data.labelled import LabelsDataModule
    from textmover.data.mixture import MixtureDataModule
    from textmover.data.overlap import PairFile
    from textmover.data.paraphrases import ParaphrasesDataModule
    from textmover.readers.error_spans import MarkedColumns, read_marked
    from textmover.readers.judgements import (
        ReadyScores,
        SetDescription,
        built_in_descriptions,
        load_description,
        read_coco_captions,
        read_darr,
        read_judgements,
        read_scores,
        read_tac,
    )
    from textmover.readers.segments import Columns, read_lines, read_segments

__all__ = [
    "AcceptabilityDataModule",
    "Columns",
    "ContrastsDataModule",
    "LabelColumns",
    "LabelsDataModule",
    "MadeErrorsDataModule",
    "MarkedColumns",
    "MarkedDataModule",
    "MixtureDataModule",
    "PairFile",
    "ParaphrasesDataModule",
    "PerturbedDataModule",
    "RatingsDataModule",
    "ReadyScores",
    "RecordsDataModule",
    "RewordedFile",
    "SetDescription",
    "built_in_descriptions",
    "load_description",
    "read_coco_captions",
    "read_darr",
    "read_judgements",
    "read_lines",
    "read_marked",
    "read_scores",
    "read_segments",
    "read_tac",
]

__getattr__ = names_of(
    __name__,
    {
        "AcceptabilityDataModule": "textmover.data.generated.acceptability",
        "Columns": "textmover.readers.segments",
        "ContrastsDataModule": "textmover.data.generated.contrasts",
        "LabelColumns": "textmover.data.label_tasks",
        "LabelsDataModule": "textmover.data.labelled",
        "MadeErrorsDataModule": "textmover.data.error_spans",
        "MarkedColumns": "textmover.readers.error_spans",
        "MarkedDataModule": "textmover.data.error_spans",
        "MixtureDataModule": "textmover.data.mixture",
        "PairFile": "textmover.data.overlap",
        "ParaphrasesDataModule": "textmover.data.paraphrases",
        "PerturbedDataModule": "textmover.data.generated.perturbed",
        "RatingsDataModule": "textmover.data.datamodule",
        "ReadyScores": "textmover.readers.judgements",
        "RecordsDataModule": "textmover.data.generated.record_ratings",
        "RewordedFile": "textmover.data.generated.contrasts",
        "SetDescription": "textmover.readers.judgements",
        "built_in_descriptions": "textmover.readers.judgements",
        "load_description": "textmover.readers.judgements",
        "read_coco_captions": "textmover.readers.judgements",
        "read_darr": "textmover.readers.judgements",
        "read_judgements": "textmover.readers.judgements",
        "read_lines": "textmover.readers.segments",
        "read_marked": "textmover.readers.error_spans",
        "read_scores": "textmover.readers.judgements",
        "read_segments": "textmover.readers.segments",
        "read_tac": "textmover.readers.judgements",
    },
)
