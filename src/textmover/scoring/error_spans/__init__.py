"""Errors of texts: from the probabilities of tokens to words, and from words to spans."""
