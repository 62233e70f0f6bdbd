"""Error spans of texts: probabilities of tokens are aggregated to words, and words are joined to spans."""
