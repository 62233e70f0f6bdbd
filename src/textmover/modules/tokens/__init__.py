"""Texts as tokens: tokenizers, what takes part with which weight, and statistics of a corpus."""
