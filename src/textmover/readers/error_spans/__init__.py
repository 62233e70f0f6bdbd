"""Tables of marked errors: tags of words and gaps, lists of spans, and marks in the text."""

from textmover.readers.error_spans.reading import MarkedColumns, MarkedDescription, marked_description, read_marked

__all__ = ["MarkedColumns", "MarkedDescription", "marked_description", "read_marked"]
