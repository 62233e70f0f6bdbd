"""Shards: the unit of batching, writing and resuming."""
