"""What RoMe's scorer networks are trained on and judged by: features of pairs, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from harness import ROOT
from numpy.typing import NDArray
from rome_scorer_pairs import PARTS, Pair, build_parts
from torch import Tensor

from textmover import Scorer
from textmover.data import Columns, RatingsDataModule
from textmover.data.datamodule import HELD_BACK
from textmover.data.overlap import rows_where
from textmover.data.split import taken_by_hash
from textmover.files import atomic_bytes, atomic_file
from textmover.perturbations.clauses import Parses
from textmover.readers.segments import read_segments
from textmover.rome.parsers.names import load_parser
from textmover.types import Segment

__all__ = ["Judged", "Material", "features_of", "gather", "percentiles"]

CHUNK = 256
"""Pairs whose features are kept in one file."""


class Judged(NamedTuple):
    """Judgements of people, with the features of what they judged."""

    features: Tensor
    rows: NDArray[np.int64]
    human: NDArray[np.float64]
    groups: list[str]
    clusters: list[str]

    def best(self, values: Tensor) -> NDArray[np.float64]:
        """Values of pairs ``[m]`` as one of each segment ``[n]``: that of its best reference, as the preset has it."""
        found = np.full(len(self.human), -np.inf)
        np.maximum.at(found, self.rows, values.detach().double().numpy())
        return found


class Material(NamedTuple):
    """All there is to train on and to judge by."""

    names: tuple[str, ...]
    pairs: dict[str, list[Pair]]
    features: dict[str, Tensor]
    rated: dict[str, tuple[Tensor, NDArray[np.float64]]]
    development: dict[str, Judged]
    signature: str


def features_of(scorer: Scorer, texts: Sequence[tuple[str, str]], folder: Path) -> Tensor:
    """Features ``[n, F]`` of pairs of a hypothesis and a reference; those on disk are not computed again."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [torch.zeros(0, len(scorer.metric.config.features))]
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        key = json.dumps([str(scorer.signature), chunk]).encode()
        path = folder / f"{hashlib.sha256(key).hexdigest()[:24]}.npy"
        if not path.is_file():
            found = scorer.score([one[0] for one in chunk], [one[1] for one in chunk]).components
            columns = [np.asarray(found[name], dtype=np.float32) for name in scorer.metric.config.features]
            with atomic_bytes(path) as stream:
                np.save(stream, np.stack(columns, axis=1))
            print(f"features: {start + len(chunk)} of {len(texts)}", flush=True)
        parts.append(torch.from_numpy(np.load(path)))
    return torch.cat(parts)


def gather(spec: Mapping[str, Any], runs: Path) -> Material:
    """Pairs, ratings and development sets of a configuration, with their features."""
    scorer = Scorer.from_pretrained(spec["metric"], scorer="mean", backend="torch", device="cpu")
    pairs = _kept_pairs(spec, runs)
    features = {
        name: features_of(scorer, [(one.hypothesis, one.reference) for one in part], runs)
        for name, part in pairs.items()
    }
    training, held_back = _ratings(spec["ratings"])
    wanted = spec["ratings"]["training"] + spec["ratings"]["calibration"]
    chosen = taken_by_hash(training, wanted, lambda one: (one.hypothesis, *one.references))
    human = percentiles(np.array([one.score for one in chosen]))
    found = features_of(scorer, [(one.hypothesis, one.references[0]) for one in chosen], runs)
    last = taken_by_hash(range(len(chosen)), spec["ratings"]["calibration"], lambda place: chosen[place].references)
    apart = np.isin(np.arange(len(chosen)), list(last))
    rated = {
        name: (found[torch.from_numpy(mask)], human[mask])
        for name, mask in (("training", ~apart), ("calibration", apart))
    }
    development = {name: _judged(scorer, name, entry, held_back, runs) for name, entry in spec["development"].items()}
    return Material(scorer.metric.config.features, pairs, features, rated, development, str(scorer.signature))


def percentiles(human: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the others that are rated lower ``[n]``, ties by half, so that 0 to 1 whatever the scale.

    Example:
        >>> percentiles(np.array([5.0, 1.0, 3.0])).tolist()
        [1.0, 0.0, 0.5]
    """
    below = (human[:, None] > human).sum(axis=1) + 0.5 * ((human[:, None] == human).sum(axis=1) - 1)
    return below / (len(human) - 1)


def _kept_pairs(spec: Mapping[str, Any], runs: Path) -> dict[str, list[Pair]]:
    """The pairs of the configuration, made once and kept."""
    fields = ("seed", "plain", "classifier", "paraphrases", "without", "good", "damaged", "parts", "shares")
    key = hashlib.sha256(json.dumps([spec[name] for name in fields]).encode()).hexdigest()[:16]
    path = runs / f"pairs-{key}.json"
    if not path.is_file():
        found = build_parts(spec, Parses(load_parser(), most=100_000))
        runs.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as stream:
            json.dump(found, stream)
    raw = json.loads(path.read_text(encoding="utf-8"))
    return {name: [Pair(*one) for one in raw[name]] for name in PARTS}


def _ratings(entry: Mapping[str, Any]) -> tuple[list[Segment], list[Segment]]:
    """Segments that people rated: to train on, and those whose references are held back."""
    columns = Columns(**{**entry["columns"], "groups": tuple(entry["columns"]["groups"])})
    data = RatingsDataModule(
        [str(ROOT / name) for name in entry["files"]], columns=columns, held_back=entry["held_back"]
    )
    data.setup()
    return data.segments, data.parts[HELD_BACK]


def _judged(scorer: Scorer, name: str, entry: Mapping[str, Any], held_back: Sequence[Segment], runs: Path) -> Judged:
    """A development set with its features."""
    if "file" in entry:
        columns = Columns(**{**entry["columns"], "groups": tuple(entry["columns"]["groups"])})
        found = rows_where(read_segments(str(ROOT / entry["file"]), columns), entry["where"], name)
    else:
        found = list(held_back)
    segments = taken_by_hash(found, entry["most"], lambda one: (one.hypothesis, *one.references))
    texts = [(one.hypothesis, reference) for one in segments for reference in one.references]
    rows = np.repeat(np.arange(len(segments)), [len(one.references) for one in segments])
    human = np.array([one.score for one in segments], dtype=np.float64)
    groups = [one.groups[entry["group"]] if "group" in entry else name for one in segments]
    clusters = ["\n".join(one.references) for one in segments]
    return Judged(features_of(scorer, texts, runs), rows, human, groups, clusters)
