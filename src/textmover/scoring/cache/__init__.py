"""Caches of hidden states, in memory and on disk."""
