"""Scoring engine: encodes each distinct text once and matches pairs in batches of similar length."""
