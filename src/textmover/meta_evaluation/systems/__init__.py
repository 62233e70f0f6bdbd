"""Comparing and ranking systems by the scores of a metric."""
