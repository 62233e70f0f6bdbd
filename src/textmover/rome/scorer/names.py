"""Scorers by name: trained ones that come along, the authors', those of a file, and new ones to train."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textmover.files import atomic_file
from textmover.modules.encoder.vector_cache import cache_folder
from textmover.reading import read_json
from textmover.rome.scorer.authors_network import read_official
from textmover.rome.scorer.network import FeatureScorer, ScorerConfig
from textmover.types import InputError

MEAN = "mean"
"""No network: the mean of the features."""

OFFICIAL_NAME = "official"
"""The network of RoMe's authors, once a user has converted their file."""

NEW: Mapping[str, Mapping[str, Any]] = {
    "new-paper": {"hidden": (20,), "activations": ("relu",)},
    "new-monotone": {"hidden": (8, 8), "activations": ("tanh", "tanh"), "monotone": True},
}
"""Networks to train, by name: layers for any features."""

SHIPPED = Path(__file__).parent / "networks"


def build_scorer(name: str, features: tuple[str, ...]) -> FeatureScorer | None:
    """The scorer of a name.

    Args:
        name: ``mean``, ``official``, one of :data:`NEW` or :func:`shipped_scorers`, or a JSON file.
        features: What a new network is to see.

    Returns:
        The network; ``None`` for the mean.

    Raises:
        InputError: If there is none of this name, or its file cannot be read.
    """
    if name == MEAN:
        return None
    if name in NEW:
        return FeatureScorer(ScorerConfig(features, **NEW[name]))
    if name == OFFICIAL_NAME:
        file = official_file()
        if not file.is_file():
            raise InputError(
                "Expected the network of RoMe's authors, but it is not here, since it is theirs: get scorer weights "
                "from github.com/rashad101/RoMe and convert them once: python -m textmover.rome.convert FILE."
            )
        return _read(file)
    shipped = shipped_scorers()
    if name in shipped:
        return _read(shipped[name])
    if Path(name).expanduser().is_file():
        return _read(Path(name).expanduser())
    choices = ", ".join((MEAN, OFFICIAL_NAME, *shipped, *NEW))
    raise InputError(f"Expected `scorer` to be one of {choices}, or a file, but got {name!r}.")


def shipped_scorers() -> dict[str, Path]:
    """Files of the trained networks that come along, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.json"))}


def official_file() -> Path:
    """Where the authors' network is kept once it has been converted: in the user's cache."""
    return cache_folder() / "rome" / "official.json"


def write_scorer(scorer: FeatureScorer, path: Path, **about: Any) -> None:
    """Write a network as JSON, with what there is to know about it; the file appears when it is complete."""
    with atomic_file(path) as stream:
        json.dump({**about, **scorer.entries()}, stream, indent=1)
        stream.write("\n")


def convert_official(source: Path | str, target: Path | None = None) -> Path:
    """Convert the file of RoMe's authors, so that ``scorer="official"`` finds it.

    Args:
        source: Their file (:func:`~textmover.rome.scorer.authors_network.read_official`).
        target: Where to write; :func:`official_file` if ``None``.

    Returns:
        The file that was written.

    Raises:
        InputError: If the source cannot be read as their network.
    """
    target = target or official_file()
    write_scorer(read_official(source), target, about="network of RoMe's authors, github.com/rashad101/RoMe")
    return target


def _read(path: Path) -> FeatureScorer:
    try:
        entries = read_json(path)
        if not isinstance(entries, dict):
            raise InputError(f"Expected the description of a scorer network, but got {type(entries).__name__}")
        scorer = FeatureScorer.from_entries(entries).eval()
        about = entries.get("about")
        seen = about.get("features", "") if isinstance(about, dict) else ""  # the signature of what gave the features
        scorer.learned_from = dict(part.split(":", 1) for part in str(seen).split("|") if ":" in part)
        return scorer
    except (OSError, ValueError) as error:
        raise InputError(f"Expected {path} to hold a scorer network, but: {error}") from error
