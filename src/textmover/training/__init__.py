"""Training: Lightning modules, optimisation and callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.lazy import names_of

if TYPE_CHECKING:
    from textmover.training.callbacks import AtomicCheckpoints, RandomState, WeightAverage
    from textmover.training.classification import ClassificationModule
    from textmover.training.lora import LoraConfig
    from textmover.training.multitask import MultiTaskModule, TaskOptions
    from textmover.training.optimization import OptimizerConfig
    from textmover.training.ratings import RatingsModule
    from textmover.training.reports.agreement import judge
    from textmover.training.reports.learning_curves import LearningCurves

__all__ = [
    "AtomicCheckpoints",
    "ClassificationModule",
    "LearningCurves",
    "LoraConfig",
    "MultiTaskModule",
    "OptimizerConfig",
    "RandomState",
    "RatingsModule",
    "TaskOptions",
    "WeightAverage",
    "judge",
]

__getattr__ = names_of(
    __name__,
    {
        "AtomicCheckpoints": "textmover.training.callbacks",
        "ClassificationModule": "textmover.training.classification",
        "LearningCurves": "textmover.training.reports.learning_curves",
        "LoraConfig": "textmover.training.lora",
        "MultiTaskModule": "textmover.training.multitask",
        "OptimizerConfig": "textmover.training.optimization",
        "RandomState": "textmover.training.callbacks",
        "RatingsModule": "textmover.training.ratings",
        "TaskOptions": "textmover.training.multitask",
        "WeightAverage": "textmover.training.callbacks",
        "judge": "textmover.training.reports.agreement",
    },
)
