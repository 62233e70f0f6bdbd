"""How well a metric agrees with people: correlations and their uncertainty, on NumPy and SciPy alone."""

from textmover.meta_evaluation.bootstrap import Gain, Interval, bootstrap_gain, bootstrap_interval
from textmover.meta_evaluation.correlation import (
    Correlation,
    MeanCorrelation,
    correlations,
    grouped_correlations,
    mean_correlation,
)

__all__ = [
    "Correlation",
    "Gain",
    "Interval",
    "MeanCorrelation",
    "bootstrap_gain",
    "bootstrap_interval",
    "correlations",
    "grouped_correlations",
    "mean_correlation",
]
