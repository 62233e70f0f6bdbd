"""The metrics that the project itself has trained: small adapters that come along, by their names."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from textmover.modules.released_folders import released_folders
from textmover.presets import PRESETS, unknown_metric
from textmover.reading import read_json

DEFAULT_METRIC = "textmover-general"
"""What scores where no metric is named."""

FAMILY = "textmover-"
"""What the names of released metrics begin with."""

DEFAULT_PRESET = "twmd"
"""What scores where no metric is named but another encoder, which the released metrics were not trained on."""


def released_metrics() -> dict[str, Path]:
    """Folders of the released metrics that are here, by name.

    Example:
        >>> all((folder / "config.json").is_file() for folder in released_metrics().values())
        True
    """
    return {
        name: folder for name, folder in released_folders("config.json").items() if is_metric(folder / "config.json")
    }


def released_folder(name: str) -> Path | None:
    """The folder of a released metric; ``None`` if there is none of this name."""
    return released_metrics().get(name)


def check_known(name: str) -> None:
    """Refuse what is neither a released metric that is here nor a preset.

    Raises:
        InputError: If it is neither; names the nearest, and where released metrics are that did not come along.
    """
    released = list(released_metrics())
    if name in PRESETS or name in released:
        return
    elsewhere = (
        f"Released metrics that are here: {', '.join(released) or 'none'}; others lie in the folder `checkpoints` of "
        "the repository: give the path."
    )
    raise unknown_metric(name, released, elsewhere if name.startswith(FAMILY) else "")


def default_metric(fields: Collection[str]) -> str:
    """What scores where no metric is named.

    Args:
        fields: Names of the fields of the configuration that are set.

    Example:
        >>> default_metric([]), default_metric(["temperature"]), default_metric(["encoder", "layer"])
        ('textmover-general', 'textmover-general', 'twmd')
    """
    return DEFAULT_PRESET if "encoder" in fields else DEFAULT_METRIC


def is_metric(path: Path) -> bool:
    """Whether a file describes a checkpoint, and not that of a classifier, which is a part of a metric."""
    try:
        entries = read_json(path)
        return "textmover" in entries and entries["kind"] != "classifier"
    except (OSError, ValueError, TypeError, KeyError):
        return False
