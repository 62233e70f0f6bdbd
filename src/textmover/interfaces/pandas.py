"""Score the rows of a data frame; importing this module registers the accessor ``df.textmover``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textmover.interfaces.evaluate import columns_of
from textmover.modules.tokens.text_arguments import is_missing, lists_texts
from textmover.scoring.scorer import Model, as_scorer
from textmover.types import InputError, SourcedReferences

try:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
except ModuleNotFoundError as error:
    raise InputError("Expected the package pandas for data frames: pip install pandas") from error

__all__ = ["FrameAccessor", "score_frame"]


def score_frame(
    frame: pd.DataFrame,
    hypothesis: str = "hypothesis",
    reference: str | Sequence[str] = "reference",
    model: Model = None,
    *,
    source: str | None = None,
    full: bool = False,
    **options: Any,
) -> pd.Series | pd.DataFrame:
    """Score each row.

    Args:
        frame: A data frame; it is not changed.
        hypothesis: Column of the texts to judge.
        reference: Column or columns of references; a cell may hold a text or a list of texts. With several columns,
            empty cells are ignored if the row has another reference.
        model: Scorer, metric, preset, checkpoint folder or hub id; ``None`` is the default metric. Pass a scorer to
            score several frames, so that the metric is loaded once.
        source: Column of source texts, for a metric that uses them; with ``reference=[]`` they are used alone.
        full: Also return precision, recall and F, if the metric has them, as a data frame.
        **options: As for :meth:`textmover.Scorer.from_pretrained`.

    Returns:
        A series ``score``, or with ``full`` a data frame ``score``, ``precision``, ``recall``, ``f1``, with the index
        of the frame. ``attrs["signature"]`` holds the signature of the scores.

    Raises:
        InputError: If a column is missing, or a cell has no text (NaN, NA, None); the message names column and row.

    Example:
        >>> frame = pd.DataFrame({"output": ["A cat sat."], "gold": ["A cat sat."]}, index=["first"])
        >>> score_frame(frame, "output", "gold", "twmd").round(3).to_dict()
        {'first': 1.0}
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"Expected a pandas data frame, but got {type(frame).__name__}: convert it, for instance by `to_pandas()`."
        )
    is_column = pd.api.types.is_scalar(reference) or (isinstance(reference, tuple) and reference in frame.columns)
    columns: list[Any] = [reference] if is_column else list(reference)
    if not columns and source is None:
        raise InputError("Expected a column of references, but got none.")
    for name in (hypothesis, *columns, *([] if source is None else [source])):
        count = list(frame.columns).count(name)
        if count != 1:
            listed = ", ".join(repr(column) for column in frame.columns)
            raise InputError(f"Expected one column {name!r} in the data frame, but got {count} among {listed}.")
    hypotheses = [_text(cell, hypothesis, label) for label, cell in frame[hypothesis].items()]
    rows = frame[columns].itertuples(index=False, name=None)
    sources = [None] * len(frame) if source is None else list(frame[source])
    references = [
        _compared(row, columns, text, source, label)
        for label, row, text in zip(frame.index, rows, sources, strict=True)
    ]

    texts = None if source is None else [compared.source for compared in references]
    scores = as_scorer(model, **options).score(hypotheses, references, texts)
    values = {"score": scores.scores, **(columns_of(scores) if full else {})}
    scored = pd.DataFrame(values, index=frame.index, dtype="float64")
    result = scored if full else scored["score"]
    result.attrs["signature"] = str(scores.signature)
    return result


@pd.api.extensions.register_dataframe_accessor("textmover")
class FrameAccessor:
    """Accessor ``df.textmover``: score the rows of a data frame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def score(
        self,
        hypothesis: str = "hypothesis",
        reference: str | Sequence[str] = "reference",
        model: Model = None,
        *,
        source: str | None = None,
        full: bool = False,
        **options: Any,
    ) -> pd.Series | pd.DataFrame:
        """Score each row; see :func:`score_frame`."""
        return score_frame(self._frame, hypothesis, reference, model, source=source, full=full, **options)


def _compared(
    row: Sequence[Any], columns: Sequence[str], text: Any, source: str | None, label: object
) -> SourcedReferences:
    """Return the references from all nonempty cells of a row, with its source, which may be used alone."""
    texts: list[str] = []
    for cell, column in zip(row, columns, strict=True):
        if isinstance(cell, str):
            texts.append(cell)
        elif lists_texts(cell):
            texts += [_text(text_of_list, column, label) for text_of_list in cell]
        elif not is_missing(cell):
            raise _no_text(cell, column, label)
    if source is None:
        if not texts:
            raise _no_text(row[0], " or ".join(columns), label)
        return SourcedReferences(texts)
    first, second = (one and f"column {one!r} of row {label!r}" for one in (" or ".join(columns), source))
    source_text = None if is_missing(text) else _text(text, source, label)
    return SourcedReferences(texts, source_text, (first, second))


def _text(cell: Any, column: str, label: object) -> str:
    if not isinstance(cell, str):
        raise _no_text(cell, column, label)
    return cell


def _no_text(cell: Any, column: str, label: object) -> InputError:
    got, way_out = f"a {type(cell).__name__}", "give a text"
    if pd.api.types.is_scalar(cell):
        got, way_out = repr(cell), "convert numbers with `astype(str)`, and bytes with `str.decode('utf-8')`"
    elif lists_texts(cell) and not list(cell):
        got, way_out = "an empty list", "add a text, or drop the row"
    if is_missing(cell):
        way_out = "drop such rows with `dropna`, or fill them, for instance with an empty text, which is scored as such"
    return InputError(f"Expected a text in column {column!r} of row {label!r}, but got {got}: {way_out}.")
