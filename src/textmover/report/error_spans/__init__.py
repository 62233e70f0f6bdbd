"""Reports of marked errors: text, JSON Lines, TSV and HTML page."""
