"""The engine: distinct texts encoded once, pairs matched in batches of like length."""
