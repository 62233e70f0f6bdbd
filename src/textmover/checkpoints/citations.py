"""Citations of a metric: BibTeX of its paper, encoder, solvers, training data, and this project.

The entries stand in ``citations.bib``, and which of them belong to what in ``citations.yaml``. A part without an entry
is named in a comment, so that nobody takes the list for complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from textmover._version import __version__
from textmover.checkpoints.files import check_checkpoint
from textmover.checkpoints.loading import checkpoint_folder
from textmover.modules.config import MetricConfig
from textmover.presets import KINDS, PRESETS, preset_config
from textmover.rome.config import RomeConfig
from textmover.safe_reading import read_yaml

SOFTWARE = "textmover"  # key of this project's own entry


def _flat(keys: Sequence[Any]) -> tuple[str, ...]:
    """Keys, and those of lists among them, which YAML's anchors share."""
    return tuple(one for part in keys for one in ([part] if isinstance(part, str) else part))


_TABLES: Mapping[str, Mapping[str, Sequence[Any]]] = read_yaml(Path(__file__).with_name("citations.yaml"))
SOURCES, MATCHINGS, SOLVERS, ENCODERS, TRAINED_ON = (
    {name: _flat(keys) for name, keys in _TABLES[table].items()}
    for table in ("sources", "matchings", "solvers", "encoders", "trained_on")
)
"""Keys of entries by what they are cited for."""


class Cited(NamedTuple):
    """A cited source, in the order of the list."""

    keys: Mapping[str, tuple[str, ...]]  # by what they are cited for; an entry stands where it is needed first
    lacking: tuple[str, ...]  # parts that have no entry here, in words


@lru_cache(maxsize=1)
def bibliography() -> Mapping[str, str]:
    """All entries by their keys, this project's with its version."""
    text = Path(__file__).with_name("citations.bib").read_text(encoding="utf-8")
    found = re.finditer(r"^@\w+\{([^,\s]+),\n.*?\n\}$", text, re.MULTILINE | re.DOTALL)
    entries = {one[1]: one[0] for one in found}
    entries[SOFTWARE] = entries[SOFTWARE].removesuffix("\n}") + f",\n  version = {{{__version__}}}\n}}"
    return entries


def cite(name: str | Path, *, revision: str | None = None, used_for: Iterable[str] = (), **overrides: Any) -> str:
    """BibTeX of everything that a metric comes from.

    Args:
        name: A preset, a released metric, a checkpoint folder or a hub id.
        revision: Commit or tag on the hub.
        used_for: Keys of what else was done with it, such as tests.
        **overrides: Fields of its configuration that are changed.

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
    return Cited(_each_once(groups), tuple(dict.fromkeys(lacking)))


def _each_once(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Keys by their reasons, each where it is needed first."""
    first = {key: part for part, keys in reversed(list(groups.items())) for key in keys}
    each = {part: tuple(key for key in dict.fromkeys(keys) if first[key] == part) for part, keys in groups.items()}
    return {part: keys for part, keys in each.items() if keys}


def bibtex(several: Iterable[Cited]) -> str:
    """One list of entries for several metrics, each entry once."""
    groups: dict[str, dict[str, None]] = {}
    lacking: dict[str, None] = {}
    for one in several:
        for part, keys in one.keys.items():
            groups.setdefault(part, {}).update(dict.fromkeys(keys))
        lacking.update(dict.fromkeys(one.lacking))
    groups["the software"] = groups.pop("the software", {SOFTWARE: None})  # stays last
    entries = bibliography()
    blocks = [
        "\n\n".join([f"% {part}", *(entries[key] for key in found)]) for part, found in _each_once(groups).items()
    ]
    blocks += [f"% No entry is known for {part}: cite what its authors ask for." for part in lacking]
    return "\n\n".join(blocks) + "\n"


def configuration(name: str | Path, revision: str | None = None, **overrides: Any) -> Any:
    """The configuration of a metric, without loading it."""
    folder = checkpoint_folder(name, revision)
    if folder is None:
        return preset_config(str(name), **overrides)
    entries = check_checkpoint(folder)
    return KINDS[entries["kind"]].config_class.from_dict(entries["metric"]).override(**overrides)


Part = tuple[str, "Sequence[str] | None"]  # reasons and keys of citations; ``None`` for a source without an entry


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
    """Matching, representation, encoder and solvers; no matching where a preset has ``named`` its paper."""
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
    last = Path(encoder).name.lower()
    found = next((keys for start, keys in ENCODERS.items() if last.startswith(start)), None)
    return _entries("the encoder", found, f"the encoder {Path(encoder).name}")


def _entries(part: str, keys: Sequence[str] | None, lacking: str) -> Part:
    return (lacking, None) if keys is None else (part, keys)
