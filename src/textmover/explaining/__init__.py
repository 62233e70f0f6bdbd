"""Explanations of scores: words, plans, and the steps from plan values to the score."""
