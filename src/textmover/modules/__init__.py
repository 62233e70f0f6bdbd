"""The parts of a metric as ``torch.nn`` modules, and the model that joins them."""

from textmover.modules.config import MetricConfig
from textmover.modules.metric_model import MetricModel

__all__ = ["MetricConfig", "MetricModel"]
