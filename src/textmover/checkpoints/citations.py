"""BibTeX citations of a metric: its paper, encoder, solvers, training data, and this project.

``citations.bib`` holds the entries, ``citations.yaml`` maps metrics and components to their keys. Components without an
entry are listed in comments, so that nobody takes the list for complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from textmover._version import __version__
from textmover.checkpoints.checkpoint_files import saved_config
from textmover.checkpoints.loading import checkpoint_folder
from textmover.modules.config import MetricConfig
from textmover.presets import PRESETS, preset_config
from textmover.rome.config import RomeConfig
from textmover.safe_reading import read_yaml

SOFTWARE = "textmover"  # key of this project's own entry


def _flat(keys: Sequence[Any]) -> tuple[str, ...]:
    """Flatten keys with nested lists, which YAML anchors create."""
    return tuple(one for part in keys for one in ([part] if isinstance(part, str) else part))


_TABLES: Mapping[str, Mapping[str, Sequence[Any]]] = read_yaml(Path(__file__).with_name("citations.yaml"))
SOURCES, MATCHINGS, SOLVERS, ENCODERS, TRAINED_ON = (
    {name: _flat(keys) for name, keys in _TABLES[table].items()}
    for table in ("sources", "matchings", "solvers", "encoders", "trained_on")
)
"""BibTeX keys of each paper, matching, solver, encoder and trained metric."""


class Cited(NamedTuple):
    """Sources of a metric, in citation order."""

    keys: Mapping[str, tuple[str, ...]]  # BibTeX keys by component; each key appears under the first that needs it
    lacking: tuple[str, ...]  # descriptions of components without an entry


@lru_cache(maxsize=1)
def bibliography() -> Mapping[str, str]:
    """Return all BibTeX entries by key; this project's entry contains its version."""
    text = Path(__file__).with_name("citations.bib").read_text(encoding="utf-8")
    matches = re.finditer(r"^@\w+\{([^,\s]+),\n.*?\n\}$", text, re.MULTILINE | re.DOTALL)
    entries = {one[1]: one[0] for one in matches}
    entries[SOFTWARE] = entries[SOFTWARE].removesuffix("\n}") + f",\n  version = {{{__version__}}}\n}}"
    return entries


def cite(name: str | Path, *, revision: str | None = None, used_for: Iterable[str] = (), **overrides: Any) -> str:
    """Return BibTeX entries of all sources of a metric.

    Args:
        name: A preset, a released metric, a checkpoint folder or a hub id.
        revision: Commit or tag on the hub.
        used_for: BibTeX keys of further methods used, such as significance tests.
        **overrides: Configuration fields that are changed.

    Example:
        >>> [line for line in cite("bertscore-f1").splitlines() if line.startswith("@")][0]
        '@inproceedings{zhang-etal-2020-bertscore,'
    """
    return bibtex([cited(name, revision=revision, used_for=used_for, **overrides)])


def cited(name: str | Path, *, revision: str | None = None, used_for: Iterable[str] = (), **overrides: Any) -> Cited:
    """List the sources of a metric; see :func:`cite`."""
    groups: dict[str, list[str]] = {}
    lacking: list[str] = []
    for part, keys in _parts(str(name), configuration(name, revision, **overrides), overrides):
        if keys is None:
            lacking.append(part)
        else:
            groups.setdefault(part, []).extend(keys)
    groups["what was done with the scores"] = list(used_for)
    groups["the software"] = [SOFTWARE]
    return Cited(_deduplicate(groups), tuple(dict.fromkeys(lacking)))


def _deduplicate(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Keep each key only under the first component that needs it, and drop components without keys."""
    first = {key: part for part, keys in reversed(list(groups.items())) for key in keys}
    result = {part: tuple(key for key in dict.fromkeys(keys) if first[key] == part) for part, keys in groups.items()}
    return {part: keys for part, keys in result.items() if keys}


def bibtex(several: Iterable[Cited]) -> str:
    """Return the BibTeX entries of several metrics without duplicates."""
    groups: dict[str, dict[str, None]] = {}
    lacking: dict[str, None] = {}
    for one in several:
        for part, keys in one.keys.items():
            groups.setdefault(part, {}).update(dict.fromkeys(keys))
        lacking.update(dict.fromkeys(one.lacking))
    groups["the software"] = groups.pop("the software", {SOFTWARE: None})  # stays last
    entries = bibliography()
    blocks = [
        "\n\n".join([f"% {part}", *(entries[key] for key in keys)]) for part, keys in _deduplicate(groups).items()
    ]
    blocks += [f"% No entry is known for {part}: cite what its authors ask for." for part in lacking]
    return "\n\n".join(blocks) + "\n"


def configuration(name: str | Path, revision: str | None = None, **overrides: Any) -> Any:
    """Return the configuration of a metric without loading its weights."""
    folder = checkpoint_folder(name, revision)
    return preset_config(str(name), **overrides) if folder is None else saved_config(folder).override(**overrides)


Part = tuple[str, "Sequence[str] | None"]  # component and BibTeX keys; ``None`` if it has no entry


def _parts(name: str, config: Any, overrides: Mapping[str, Any]) -> Iterator[Part]:
    preset = PRESETS.get(name)
    if preset is not None and "matching" not in overrides:
        yield _entries("the metric", SOURCES.get(preset.source), f"the preset {name}")
    if isinstance(config, RomeConfig):
        yield from _rome_parts(config, named=preset is not None)
    elif isinstance(config, MetricConfig):
        yield from _transport_parts(config, named=preset is not None and "matching" not in overrides)
    else:
        yield f"the metric {name}", None
    if preset is None:
        yield "data of its training", TRAINED_ON.get(name, ())


def _transport_parts(config: MetricConfig, *, named: bool) -> Iterator[Part]:
    """Yield citations of matching, representation, encoder and solver; ``named`` skips the matching."""
    matching = str(config.matching)
    if not named:
        yield _entries("the metric", MATCHINGS.get(matching), f"the matching {matching}")
    if config.order_penalty:
        yield "the metric", ["chow-etal-2019-wmdo"]
    if config.centering in ("batch", "corpus"):
        yield "centring of token vectors", ["chen-etal-2020-improving"]
    if config.aggregation == "power-means":
        yield "aggregation of layers", ["rueckle-etal-2018-concatenated"]
    elif config.aggregation == "routing":
        yield "aggregation of layers", ["zhao-etal-2019-moverscore"]
    yield _encoder_part(config.encoder)
    yield "the solver", SOLVERS.get(matching, ())


def _rome_parts(config: RomeConfig, *, named: bool) -> Iterator[Part]:
    if not named:
        yield "the metric", ["rony-etal-2022-rome"]
    yield _encoder_part(config.encoder)
    if "syntactic" in config.features:
        yield "distance of trees", ["zhang-shasha-1989-simple"]
    if config.parser.startswith("stanza:"):
        yield "the parser", ["qi-etal-2020-stanza"]
    elif config.parser != "none":
        yield "the parser", ["honnibal-etal-2020-spacy"]
    if "chrf" in config.features:
        yield "a feature", ["popovic-2015-chrf"]
    for name in config.metrics:
        yield from ((f"the feature {name}", keys) for keys in cited(name).keys.values())
    used = [config.parser, config.scorer] + [config.acceptability] * ("acceptability" in config.features)
    yield from (("data of its training", TRAINED_ON.get(part, ())) for part in used)


def _encoder_part(encoder: str) -> Part:
    name = Path(encoder).name.lower()
    keys = next((keys for start, keys in ENCODERS.items() if name.startswith(start)), None)
    return _entries("the encoder", keys, f"the encoder {Path(encoder).name}")


def _entries(part: str, keys: Sequence[str] | None, lacking: str) -> Part:
    return (lacking, None) if keys is None else (part, keys)
