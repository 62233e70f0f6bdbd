"""Find the encoder layer with the best human agreement: all layers on the ladder's development sets, in one pass.

    python benchmarks/layer_choice.py --encoder sentence-transformers/all-mpnet-base-v2 --mixes 7+12 --output layers.csv

A preset uses the layer with the best mean over these sets; test sets are not used. A mix such as ``7+12`` concatenates
the unit vectors of both layers, so its cosines are means of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import harness
import numpy as np
import torch
from ladder import Judged
from numpy.typing import NDArray

from textmover.experiments.anisotropy import with_all_layers
from textmover.functional.cost import unit_vectors
from textmover.modules.config import DEFAULT_ENCODER
from textmover.modules.devices import own_arithmetic
from textmover.modules.metric_model import MetricModel
from textmover.presets import preset_config

PRESETS = ("twmd", "bertscore-f1")
BATCH = 32


def layer_scores(
    metrics: dict[str, MetricModel], judged: Judged, mixes: list[tuple[int, ...]]
) -> dict[str, NDArray[np.float64]]:
    """Return scores by preset for each layer and mix, ``[segments, layers]``, with the best reference."""
    segments = enumerate(judged.segments)
    pairs = [(row, one.hypothesis, text) for row, one in segments for text in dict.fromkeys(one.references)]
    pairs.sort(key=lambda pair: len(pair[1]) + len(pair[2]))
    first_metric = next(iter(metrics.values()))
    results: dict[str, NDArray[np.float64]] = {}
    for start in range(0, len(pairs), BATCH):
        batch = pairs[start : start + BATCH]
        rows = [row for row, _, _ in batch]
        sides = [first_metric.tokenize([pair[side] for pair in batch]) for side in (1, 2)]
        states = []
        for side in sides:
            layers = [unit_vectors(one) for one in first_metric.encoder(side)]
            states.append([*layers, *(torch.cat([layers[at] for at in mix], dim=-1) for mix in mixes)])
        for name, metric in metrics.items():
            scores = results.setdefault(name, np.full((len(judged.segments), len(states[0])), -np.inf))
            for layer, vectors in enumerate(zip(*states, strict=True)):
                features = [metric._features(one, side) for one, side in zip(vectors, sides, strict=True)]
                np.maximum.at(scores[:, layer], rows, metric.pair_values(*features)[0][:, 2].double().numpy())
    return results


def table_row(preset: str, name: str, values: Sequence[float], mixes: list[tuple[int, ...]]) -> harness.Row:
    names = [*map(str, range(len(values) - len(mixes))), *("+".join(map(str, mix)) for mix in mixes)]
    return {"preset": preset, "set": name} | {key: f"{one:.3f}" for key, one in zip(names, values, strict=True)}


def main() -> None:
    options = harness.parser(
        __doc__, encoder=DEFAULT_ENCODER, ladder="configs/ladder/wmt.yaml", mixes=[""], output=Path("layers.csv")
    ).parse_args()
    metrics = {}
    for name in PRESETS:
        metric = MetricModel.from_config(preset_config(name, encoder=options.encoder, layer=-1)).eval()
        metric.encoder = with_all_layers(metric.parts).encoder
        metrics[name] = metric
    mixes = [tuple(map(int, mix.split("+"))) for mix in options.mixes if mix]
    rows = []
    for name, judged in Judged.read_all(harness.read_yaml(harness.ROOT / options.ladder)["sets"]).items():
        with torch.inference_mode(), own_arithmetic():
            for preset, scores in layer_scores(metrics, judged, mixes).items():
                rows.append(table_row(preset, name, [judged.mean(one).pearson for one in scores.T], mixes))
        harness.write_rows(options.output, rows)
    for preset in PRESETS:
        table = np.array([[float(row[name]) for name in list(row)[2:]] for row in rows if row["preset"] == preset])
        rows.append(table_row(preset, "mean", table.mean(0), mixes))
    harness.write_rows(options.output, rows)
    harness.print_rows(rows, texts=2)


if __name__ == "__main__":
    main()
