"""Significance tests of correlations: bootstrap, permutation, Williams' test and significance clusters."""
