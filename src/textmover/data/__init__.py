"""Training data: rated, marked and generated segments as Lightning data modules, and mixtures of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.lazy import names_of

if TYPE_CHECKING:
    from textmover.data.datamodule import RatingsDataModule
    from textmover.data.error_spans import MadeErrorsDataModule, MarkedDataModule
    from textmover.data.generated.acceptability import AcceptabilityDataModule
    from textmover.data.generated.contrasts import ContrastsDataModule, RewordedFile
    from textmover.data.generated.datamodule import PerturbedDataModule
    from textmover.data.generated.records_datamodule import RecordsDataModule
    from textmover.data.labelled import LabelColumns, LabelsDataModule
    from textmover.data.leakage import PairFile
    from textmover.data.mixture import MixtureDataModule
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

__getattr__ = names_of(__name__, __file__)
