"""Matchings of two texts' tokens, one small class each."""
