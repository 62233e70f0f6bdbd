"""Scoring in Ray Data: a class for ``Dataset.map_batches`` that loads its metric once per actor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from textmover.checkpoints.hub import DEFAULT_PRESET
from textmover.modules.tokens.text_arguments import is_missing, lists_texts
from textmover.modules.tokens.tokenizer import REPAIR
from textmover.scoring.engine.pair_results import VALUES
from textmover.scoring.scorer import Scorer
from textmover.types import InputError
from textmover.types.word_splitting import is_unicode


class RayScorer:
    """Add columns of scores to batches.

    Batches are dicts of NumPy arrays, pandas data frames or pyarrow tables; the type is preserved. This class does not
    import Ray; ``pip install 'textmover[ray]'`` installs the part of it that makes batches.

    Args:
        model: As for :meth:`~textmover.scoring.scorer.Scorer.from_pretrained`.
        hypothesis: Column of the texts to judge.
        references: One or more reference columns; a cell is a text or a list of texts. It may be missing (``None``,
            NaN, ``NA``) where another column, or the source, has a text.
        source: Column of the source texts, for a metric that uses them; with ``references=()`` it is used alone. A cell
            may be missing where there is a reference.
        prefix: Prefix of the new columns: ``score``, and ``precision``, ``recall`` and ``f`` if the metric has them.
        **options: As for :meth:`~textmover.scoring.scorer.Scorer.from_pretrained`.

    Raises:
        InputError: If the metric cannot be loaded, or fits idf weights on all texts of a call.

    Example:
        >>> how = {"fn_constructor_kwargs": {"model": "twmd"}, "concurrency": 2, "batch_size": 4096}
        >>> scored = dataset.map_batches(RayScorer, **how)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        hypothesis: str = "hypothesis",
        references: str | Sequence[str] = "reference",
        source: str | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        self._hypothesis = hypothesis
        self._references = (references,) if isinstance(references, str) else tuple(references)
        self._source = source
        if not self._references and source is None:
            raise InputError("Expected at least one column of references, but got none: name one.")
        self._prefix = prefix
        self._scorer = Scorer.from_pretrained(model, **options)
        if self._scorer.metric.fits_on_call:
            raise InputError(
                f"Expected a metric with fitted statistics, but {model or DEFAULT_PRESET} fits idf weights on each "
                "batch: fit them on a corpus with `textmover fit-idf`, and give the file as statistics=."
            )

    def __call__(self, batch: Any) -> Any:
        """Return the batch with float64 columns of scores appended."""
        names = list(batch.column_names if hasattr(batch, "column_names") else batch.keys())
        columns = [self._cells(batch, names, column) for column in (self._hypothesis, *self._references)]
        sources = None
        if self._source is not None:
            cells = enumerate(self._cells(batch, names, self._source), start=1)
            sources = [None if is_missing(cell) else _text(cell, self._source, row) for row, cell in cells]
        hypotheses = [_text(cell, self._hypothesis, row) for row, cell in enumerate(columns[0], start=1)]
        references = [
            [
                text
                for name, cell in zip(self._references, cells, strict=True)
                if not is_missing(cell) or (sources is None and all(map(is_missing, cells)))
                for text in _texts(cell, name, row)
            ]
            for row, cells in enumerate(zip(*columns[1:], strict=True), start=1)
        ]
        values = self._scorer.score(hypotheses, references if self._references else None, sources).values
        values = {f"{self._prefix}{name}": values[name] for name in VALUES if name in values}
        conflict = next((name for name in values if name in names), None)
        if conflict is not None:
            raise InputError(
                f"Expected a batch without a column {conflict!r}, which holds the scores, but it has one: give prefix=."
            )
        if hasattr(batch, "append_column"):
            import pyarrow

            for name, array in values.items():
                batch = batch.append_column(name, pyarrow.array(array))
            return batch
        return batch.assign(**values) if hasattr(batch, "assign") else {**batch, **values}

    def _cells(self, batch: Any, names: Iterable[str], column: str) -> Iterable[Any]:
        if column not in names:
            raise InputError(
                f"Expected a column {column!r}, but the batch has {', '.join(map(repr, names))}: name the right one "
                "with hypothesis=, references= or source=."
            )
        cells = batch[column]
        return cells.to_pylist() if hasattr(cells, "to_pylist") else cells


def _texts(cell: Any, column: str, row: int) -> list[str]:
    if lists_texts(cell) and isinstance(cell, (list, tuple, np.ndarray)):
        if len(cell) == 0:
            raise InputError(
                f"Expected a reference in column {column!r}, but row {row} of the batch has an empty list: leave such "
                "rows out."
            )
        return [_text(text, column, row) for text in cell]
    return [_text(cell, column, row)]


def _text(cell: Any, column: str, row: int) -> str:
    if not isinstance(cell, str):
        raise InputError(
            f"Expected a text in column {column!r}, but row {row} of the batch holds {cell!r}: leave such rows out, "
            "for instance with Dataset.filter."
        )
    if not is_unicode(cell):
        raise InputError(
            f"Expected Unicode text in column {column!r}, but row {row} of the batch has half a surrogate pair: "
            f"{REPAIR}."
        )
    return str(cell)  # converts NumPy's string type
