"""Data: readers, splits, perturbations and the Lightning data module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.lazy import names_of

if TYPE_CHECKING:
    from textmover.data.acceptable import AcceptabilityDataModule
    from textmover.data.datamodule import MixtureDataModule, RatingsDataModule
    from textmover.data.glue import LabelColumns
    from textmover.data.judgements import (
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
    from textmover.data.labelled import LabelsDataModule
    from textmover.data.overlap import PairFile
    from textmover.data.paraphrases import ParaphrasesDataModule
    from textmover.data.perturbed import PerturbedDataModule
    from textmover.data.readers import Columns, read_lines, read_segments
    from textmover.data.told_records import RecordsDataModule

__all__ = [
    "AcceptabilityDataModule",
    "Columns",
    "LabelColumns",
    "LabelsDataModule",
    "MixtureDataModule",
    "PairFile",
    "ParaphrasesDataModule",
    "PerturbedDataModule",
    "RatingsDataModule",
    "ReadyScores",
    "RecordsDataModule",
    "SetDescription",
    "built_in_descriptions",
    "load_description",
    "read_coco_captions",
    "read_darr",
    "read_judgements",
    "read_lines",
    "read_scores",
    "read_segments",
    "read_tac",
]

__getattr__ = names_of(
    __name__,
    {
        "AcceptabilityDataModule": "textmover.data.acceptable",
        "Columns": "textmover.data.readers",
        "LabelColumns": "textmover.data.glue",
        "LabelsDataModule": "textmover.data.labelled",
        "MixtureDataModule": "textmover.data.datamodule",
        "PairFile": "textmover.data.overlap",
        "ParaphrasesDataModule": "textmover.data.paraphrases",
        "PerturbedDataModule": "textmover.data.perturbed",
        "RatingsDataModule": "textmover.data.datamodule",
        "ReadyScores": "textmover.data.judgements",
        "RecordsDataModule": "textmover.data.told_records",
        "SetDescription": "textmover.data.judgements",
        "built_in_descriptions": "textmover.data.judgements",
        "load_description": "textmover.data.judgements",
        "read_coco_captions": "textmover.data.judgements",
        "read_darr": "textmover.data.judgements",
        "read_judgements": "textmover.data.judgements",
        "read_lines": "textmover.data.readers",
        "read_scores": "textmover.data.judgements",
        "read_segments": "textmover.data.readers",
        "read_tac": "textmover.data.judgements",
    },
)
