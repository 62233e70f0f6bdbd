"""Correlations of scores with ratings: of single lists, rows, bootstrap draws and permutations."""
