"""Comparison and ranking of systems by the scores of a metric."""
