"""Training: Lightning modules, optimisation and callbacks."""

from textmover.training.callbacks import AtomicCheckpoints, RandomState
from textmover.training.optimization import OptimizerConfig
from textmover.training.ratings import RatingsModule

__all__ = ["AtomicCheckpoints", "OptimizerConfig", "RandomState", "RatingsModule"]
