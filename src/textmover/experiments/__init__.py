"""Evaluations, robustness tests, hyper-parameter searches and experiments of papers."""
