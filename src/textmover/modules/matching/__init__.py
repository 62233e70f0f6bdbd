"""Matchings between the tokens of two texts, one small class each."""
