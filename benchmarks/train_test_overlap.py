"""What recipes train on that the sets of a ladder hold too: pairs that are left out, others, and single texts.

    python benchmarks/train_test_overlap.py configs/general.yaml configs/wmt_da.yaml [--sets configs/ladder/wmt.yaml]

Texts are compared as :func:`~textmover.data.leakage.compared_text` leaves them, pairs in either order. Each source
of a recipe is read twice: as it trains, and as it would without the lists of test sets that it leaves out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import harness
import pytorch_lightning as pl
from jsonargparse import ArgumentParser
from ladder import read_set

from textmover.data.leakage import normalised_pair
from textmover.runs.process import guarded
from textmover.types import Segment

Pair = frozenset[str]


class Overlap(NamedTuple):
    """How a source of training data and a judgement set meet."""

    left_out: int
    trained: int
    sharing: int


def pairs_of(segments: Iterable[Segment]) -> list[Pair]:
    """Each hypothesis with each of its references, normalised, without order."""
    return [normalised_pair(one.hypothesis, text) for one in segments for text in one.references]


def overlap(before: list[Pair], after: list[Pair], judged: list[Pair]) -> Overlap:
    known, texts = set(judged), frozenset[str]().union(*judged)
    trained = sum(pair in known for pair in after)
    sharing = sum(pair not in known and not pair.isdisjoint(texts) for pair in after)
    return Overlap(sum(pair in known for pair in before) - trained, trained, sharing)


def trained_pairs(recipe: dict[str, Any]) -> dict[str, list[Pair]]:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(pl.LightningDataModule, "data")
    # As it is called from jsonargparse 4.49 on, and before.
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes
    data = instantiate(parser.parse_object({"data": recipe["data"]})).data
    data.setup()
    return {source.name: pairs_of(source.items) for source in data.sources.values()}


def without_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_lists(one) for key, one in value.items() if key != "without"}
    return [without_lists(one) for one in value] if isinstance(value, list) else value


def table(before: dict[str, list[Pair]], after: dict[str, list[Pair]], judged: dict[str, list[Pair]]) -> str:
    """What each source shares with each set, Markdown; sets that share nothing with it in one row."""
    rows = []
    for source, pairs in after.items():
        found = {name: overlap(before[source], pairs, one) for name, one in judged.items()}
        rows += [[source, f"{len(pairs):,}", name, *one] for name, one in found.items() if any(one)]
        if apart := [name for name, one in found.items() if not any(one)]:
            rows.append([source, f"{len(pairs):,}", ", ".join(apart), 0, 0, 0])
    headers = ("source", "pairs trained on", "set", "left out", "trained on", "share one text")
    return harness.table(headers, rows, texts=None)


def main() -> int:
    parser = harness.parser(__doc__, sets=Path("configs/ladder/wmt.yaml"))
    parser.add_argument("recipes", nargs="+", type=Path)
    options = parser.parse_args()
    with guarded() as outcome:
        sets = harness.read_yaml(options.sets)["sets"]
        judged = {name: pairs_of(read_set(one)) for name, one in sets.items()}
        for path in options.recipes:
            recipe = harness.read_yaml(path)
            before, after = (trained_pairs(one) for one in (without_lists(recipe), recipe))
            print(f"{path}:\n\n{table(before, after, judged)}\n")
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
