"""Evaluations of metrics against human judgements."""
