"""The parts of a metric as ``torch.nn`` modules, and the model that joins them."""

from textmover.modules.config import MetricConfig
from textmover.modules.matching.matchings import Matching, register_matching
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.weighting import Side

__all__ = ["Matching", "MetricConfig", "MetricModel", "Side", "register_matching"]
