"""Parts of a metric as ``torch.nn`` modules, and the model that combines them."""

from typing import TYPE_CHECKING

from textmover.lazy import names_of
from textmover.modules.config import MetricConfig

if TYPE_CHECKING:
    from textmover.modules.matching.matchings import Matching, register_matching
    from textmover.modules.metric_model import MetricModel
    from textmover.modules.tokens.weighting import Side

__all__ = ["Matching", "MetricConfig", "MetricModel", "Side", "register_matching"]

__getattr__ = names_of(__name__, __file__)
