"""Commands that train, search and export."""
