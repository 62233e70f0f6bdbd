"""Which statistics have a meaning at which level, and what they need."""

import dataclasses

import numpy as np
import pytest

from textmover.meta_evaluation import LEVELS, STATISTICS, Protocol
from textmover.types import InputError, Judgements


def judgements():
    return Judgements(
        name="set",
        hypotheses=("x",) * 4,
        references=(("y",),) * 4,
        ratings={"score": np.arange(4.0)},
        groups=("a",) * 4,
        items=("1", "1", "2", "2"),
        systems=("s", "t", "s", "t"),
        preferences=np.array([[1, 0]]),
    )


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("level", LEVELS)
def test_combinations(statistic, level):
    if level in STATISTICS[statistic]:
        protocol = Protocol(statistic, level)
        assert str(protocol) == f"{statistic} {level}"
        protocol.check(judgements())
    else:
        with pytest.raises(InputError, match=f"Expected the level of {statistic} to be .*, but got '{level}': "):
            Protocol(statistic, level)


@pytest.mark.parametrize(
    ("protocol", "missing"),
    [
        (Protocol("pearson", "per-item"), "items"),
        (Protocol("pearson", "per-system"), "systems"),
        (Protocol("accuracy", "systems"), "systems"),
        (Protocol("soft-accuracy", "systems"), "items"),
        (Protocol("darr", "pooled"), "preferences"),
    ],
)
def test_what_is_needed(protocol, missing):
    with pytest.raises(InputError, match=f"Expected `set` to have {missing} for {protocol}"):
        protocol.check(dataclasses.replace(judgements(), **{missing: None}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"statistic": "cosine"}, "soft-accuracy, but got 'cosine'"),
        ({"level": "everything"}, "per-group, pooled, per-item, per-system, systems, but got 'everything'"),
        ({"statistic": "acc23", "pair_rate": 0}, "above 0 and at most 1, but got 0"),
        ({"pair_rate": 0.5}, "`pair_rate` to be 1 for pearson, but got 0.5"),
    ],
)
def test_bad_input(fields, message):
    with pytest.raises(InputError, match=message):
        Protocol(**fields)
