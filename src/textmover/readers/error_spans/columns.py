"""Columns of tables in which people marked errors."""

from __future__ import annotations

from dataclasses import dataclass

from textmover.readers.segments import check_names, listed_columns


@dataclass(frozen=True)
class MarkedColumns:
    """Roles of the columns of a table of marked errors.

    Errors are read from ``marked`` if it is named, else from ``spans`` if that is, else from ``words`` and ``tags``.

    Attributes:
        hypothesis: Column of the texts that were judged; not read where there is ``marked``.
        references: Column of the reference, or several of them; none if empty.
        source: Column of the text that was translated or described; ``None`` where there is none.
        words: Column of the Moses tokens of the hypothesis.
        tags: Column of ``2n + 1`` tags ``OK`` or ``BAD`` of ``n`` words: gap, word, gap, …, gap.
        spans: Column of lists of errors, ``[{"start": 4, "end": 7, "severity": "major"}]``, ordered by place.
        marked: Column of the texts that were judged with an error in ``<v>…</v>``, one row an error, as Google
            publishes MQM. Overlapping errors become one of the worst severity; one that is marked in the source alone
            is missing words behind the text.
        severity: Column of the severity of that error; neutral ones are none.
        segment: Columns that rows share where they are about one text by one rater.
        groups: Columns kept as group keys, such as language pair or system.

    Raises:
        InputError: If a name is empty.
    """

    hypothesis: str = "hypothesis"
    references: str | tuple[str, ...] = "reference"
    source: str | None = None
    words: str = "hypothesis_tokens"
    tags: str = "tags"
    spans: str | None = None
    marked: str | None = None
    severity: str = "severity"
    segment: tuple[str, ...] = ("system", "doc", "seg_id", "rater")
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the names."""
        check_names(self.fields)

    @property
    def reference_columns(self) -> tuple[str, ...]:
        """The reference columns, also where there is only one."""
        return listed_columns(self.references)

    @property
    def compared(self) -> bool:
        """Return whether a reference or a source is named."""
        return bool(self.reference_columns) or self.source is not None

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Pairs of field and column name, those of fields that are not read left out."""
        if self.marked is not None:
            names = {"marked": (self.marked,), "severity": (self.severity,), "segment": self.segment}
        elif self.spans is not None:
            names = {"hypothesis": (self.hypothesis,), "spans": (self.spans,)}
        else:
            names = {"hypothesis": (self.hypothesis,), "words": (self.words,), "tags": (self.tags,)}
        names |= {"references": self.reference_columns, "groups": self.groups}
        names |= {} if self.source is None else {"source": (self.source,)}
        return tuple((field, name) for field, several in names.items() for name in several)
