"""Tests of correlations: bootstrap, permutation, Williams' test and clusters."""
