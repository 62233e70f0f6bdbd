"""Where ``textmover evaluate`` keeps scores: a table for each set, which other commands and ``--scores`` read back."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from textmover.experiments.evaluation.sets import SetFiles, scores_table
from textmover.files import check_output, write_output
from textmover.meta_evaluation import MetricScores
from textmover.types import InputError, Judgements

logger = logging.getLogger(__name__)

SUFFIX = ".scores.tsv"
"""What the file of a set's scores ends in."""


def scores_files(options: argparse.Namespace, files: Sequence[SetFiles]) -> list[Path]:
    """Where the scores of each set go, checked before the work.

    Args:
        options: The command's options.
        files: Those of each set.

    Raises:
        InputError: If a place cannot be written to.
    """
    inputs = [path for one in files for path in one.paths.values()]
    if len(files) == 1:
        return [check_output(options.output or f"{files[0].stem}{SUFFIX}", inputs)]
    folder = Path(options.output or ".")
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"Expected `--output` to be a folder for {len(files)} sets, but got the file {folder}: name a folder."
        )
    return [check_output(folder / f"{one.stem}{SUFFIX}", inputs) for one in files]


def write_scores(judgements: Judgements, rows: Sequence[MetricScores], path: Path) -> None:
    """Write the scores of a set, and say in how many texts white space had to be replaced."""
    text, altered = scores_table(judgements, rows)
    write_output(text, path)
    if altered:
        logger.warning("%s: a tab or line break in %d of the texts was written as a space.", path, altered)
