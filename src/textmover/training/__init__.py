"""Training: Lightning modules, optimisation and callbacks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textmover.training.callbacks import AtomicCheckpoints, RandomState
    from textmover.training.classification import ClassificationModule
    from textmover.training.multitask import MultiTaskModule, TaskOptions
    from textmover.training.optimization import OptimizerConfig
    from textmover.training.ratings import RatingsModule

__all__ = [
    "AtomicCheckpoints",
    "ClassificationModule",
    "MultiTaskModule",
    "OptimizerConfig",
    "RandomState",
    "RatingsModule",
    "TaskOptions",
]

_HOMES = {
    "AtomicCheckpoints": "textmover.training.callbacks",
    "ClassificationModule": "textmover.training.classification",
    "MultiTaskModule": "textmover.training.multitask",
    "OptimizerConfig": "textmover.training.optimization",
    "RandomState": "textmover.training.callbacks",
    "RatingsModule": "textmover.training.ratings",
    "TaskOptions": "textmover.training.multitask",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: the one module that a run trains."""
    if name not in _HOMES:
        raise AttributeError(f"module 'textmover.training' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
