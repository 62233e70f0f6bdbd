"""Measure the overlap of training data with the sets of a ladder: excluded pairs, remaining pairs, shared texts.

    python benchmarks/train_test_overlap.py configs/general.yaml configs/wmt_da.yaml [--sets configs/ladder/wmt.yaml]

Texts are normalised by :func:`~textmover.data.leakage.compared_text`, and pairs are unordered. Each source of a recipe
is read twice: with and without the recipe's exclusion lists of test sets.
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
from textmover.runs.exit_codes_and_signals import exit_code_context
from textmover.types import Segment

Pair = frozenset[str]


class Overlap(NamedTuple):
    """Overlap of a training source with a judgement set: excluded pairs, trained pairs, and pairs sharing one text."""

    left_out: int
    trained: int
    sharing: int


def pairs_of(segments: Iterable[Segment]) -> list[Pair]:
    """Return each hypothesis with each of its references, normalised and unordered."""
    return [normalised_pair(one.hypothesis, text) for one in segments for text in one.references]


def overlap(before: list[Pair], after: list[Pair], judged: list[Pair]) -> Overlap:
    judged_pairs, texts = set(judged), frozenset[str]().union(*judged)
    trained = sum(pair in judged_pairs for pair in after)
    sharing = sum(pair not in judged_pairs and not pair.isdisjoint(texts) for pair in after)
    return Overlap(sum(pair in judged_pairs for pair in before) - trained, trained, sharing)


def trained_pairs(recipe: dict[str, Any]) -> dict[str, list[Pair]]:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(pl.LightningDataModule, "data")
    # The method was renamed in jsonargparse 4.49.
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes
    data = instantiate(parser.parse_object({"data": recipe["data"]})).data
    data.setup()
    return {source.name: pairs_of(source.items) for source in data.sources.values()}


def without_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_lists(one) for key, one in value.items() if key != "without"}
    return [without_lists(one) for one in value] if isinstance(value, list) else value


def table(before: dict[str, list[Pair]], after: dict[str, list[Pair]], judged: dict[str, list[Pair]]) -> str:
    """Format the overlap of each source with each set, Markdown; sets without overlap share one row."""
    rows = []
    for source, pairs in after.items():
        overlaps = {name: overlap(before[source], pairs, one) for name, one in judged.items()}
        rows += [[source, f"{len(pairs):,}", name, *one] for name, one in overlaps.items() if any(one)]
        if without_overlap := [name for name, one in overlaps.items() if not any(one)]:
            rows.append([source, f"{len(pairs):,}", ", ".join(without_overlap), 0, 0, 0])
    headers = ("source", "pairs trained on", "set", "left out", "trained on", "share one text")
    return harness.table(headers, rows, texts=None)


def main() -> int:
    parser = harness.parser(__doc__, sets=Path("configs/ladder/wmt.yaml"))
    parser.add_argument("recipes", nargs="+", type=Path)
    options = parser.parse_args()
    with exit_code_context() as outcome:
        sets = harness.read_yaml(options.sets)["sets"]
        judged = {name: pairs_of(read_set(one)) for name, one in sets.items()}
        for path in options.recipes:
            recipe = harness.read_yaml(path)
            before, after = (trained_pairs(one) for one in (without_lists(recipe), recipe))
            print(f"{path}:\n\n{table(before, after, judged)}\n")
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
