"""Idf tables of one call: fitted apart from the metric, and handed on with it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import cast

from torch import nn

from textmover.modules.metric_model import MetricModel
from textmover.rome.metric import RomeMetric
from textmover.types import SegmentMetric

CallStatistics = Mapping[str, nn.Module]
"""Fitted idf tables by the names of the statistics that they stand in for."""


def fit_call(metric: SegmentMetric, hypotheses: Iterable[str], references: Iterable[str]) -> CallStatistics:
    """Fit the idf tables of a metric on the texts of a call; the metric stays as it is.

    Args:
        metric: A metric whose ``fits_on_call`` is true.
        hypotheses: The texts to judge, which are read at most once.
        references: The references, likewise.

    Returns:
        The tables, for :func:`with_statistics`.
    """
    tables = {
        name: cast("nn.Module", copy.deepcopy(one)) for name, one in metric.statistics.items() if name.startswith("idf")
    }
    with_statistics(metric, tables).fit(references, hypotheses, from_call=True)
    return tables


def with_statistics(metric: SegmentMetric, statistics: CallStatistics) -> SegmentMetric:
    """Return a metric that shares all modules of another but the given statistics."""
    own = metric.statistics
    by = {id(own[name]): one.to(metric.device) for name, one in statistics.items()}
    return cast("SegmentMetric", _replaced(cast("nn.Module", metric), by))


def features_name(metric: SegmentMetric) -> str:
    """Return what tells features of texts of one call from those of another; empty where they depend on no idf table.

    Of all features, self-similarities alone depend on the weights of tokens.
    """
    if isinstance(metric, RomeMetric) or (isinstance(metric, MetricModel) and not metric.is_relative):
        return ""
    return str(metric.signature) if metric.fits_on_call else ""


def _replaced(module: nn.Module, by: Mapping[int, nn.Module]) -> nn.Module:
    """A shallow copy of the modules that hold a replaced one; all others are shared."""
    if id(module) in by:
        return by[id(module)]
    children = {name: None if one is None else _replaced(one, by) for name, one in module._modules.items()}
    if all(children[name] is one for name, one in module._modules.items()):
        return module
    changed = copy.copy(module)
    changed._modules = children
    return changed
