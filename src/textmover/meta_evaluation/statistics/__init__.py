"""Correlations of scores with ratings: of one list, of many rows, of draws and of swaps."""
