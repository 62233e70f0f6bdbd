"""Marked errors as text, JSON Lines, TSV and page."""
