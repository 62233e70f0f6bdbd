"""Searches for hyper-parameters of a training recipe."""
