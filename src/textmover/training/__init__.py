"""Training: Lightning modules, optimisation and callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.lazy import names_of

if TYPE_CHECKING:
    from textmover.modules.encoder.lora import LoraConfig
    from textmover.training.callbacks import AtomicCheckpoints, RandomState, WeightAverage
    from textmover.training.modules import ClassificationModule, MultiTaskModule, RatingsModule, TaskOptions
    from textmover.training.optimization import OptimizerConfig
    from textmover.training.reports.fit_report import judge
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

__getattr__ = names_of(__name__, __file__)
