"""Shards: the unit of batching, of writing and of resuming."""
