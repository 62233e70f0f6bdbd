"""Explanations of scores: words, plans and the steps from their values to the score."""
