"""Classifiers as folders: a head, and the metric whose encoder it stands on, inside the folder or named.

``config.json`` describes the head and names the metric; ``head.safetensors`` holds the head's weights; ``README.md`` is
the card. The metric is a checkpoint of its own in ``metric/``, with full weights or as an adapter, or the folder, hub
id or preset that is named, whose weights have to be those that the head was trained on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from textmover._version import __version__
from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.encoder_weights import trained_encoder
from textmover.checkpoints.files import CARD, CONFIG, inside
from textmover.checkpoints.folder import (
    METRIC_USAGE,
    check_replaceable,
    load_metric,
    save_checkpoint,
)
from textmover.files import atomic_folder
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.modules.devices import lasting
from textmover.modules.encoder.base_weights import weights_print
from textmover.modules.encoder.source import file_sha256
from textmover.modules.probes import PROBES
from textmover.modules.released_folders import released_folders
from textmover.reading import read_json
from textmover.types import InputError

FORMAT = 1
"""Version of the folder's layout; a reader refuses a later one."""

KIND = "classifier"

HEAD = "head.safetensors"

METRIC_FOLDER = "metric"
"""Folder within that of the classifier for the metric whose encoder it stands on."""


PART_CARD = """# A part of a classifier

The metric whose encoder the classifier in the folder above stands on; that folder's card tells the data and the recipe.
"""
"""Card of the metric in a classifier's folder, where it has none of its own."""


def save_classifier(
    classifier: TextClassifier,
    folder: Path | str,
    *,
    card: str,
    metric: str | None = None,
    adapter: AdapterConfig | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a classifier as a folder; it appears under its name only when it is complete and predicts.

    Args:
        classifier: The classifier.
        folder: Where to write.
        card: Text of the model card, Markdown. Where it says how to score with a metric's folder, that of the
            classifier says how to tell classes.
        metric: Preset, hub id or folder (absolute, or relative to the classifier's) of the metric, where its encoder is
            to be found there; the metric is written into the classifier's folder if ``None``.
        adapter: How to store the encoder in that folder as a difference from its base; all its weights if ``None``.
        overwrite: Whether an earlier folder may be replaced.
    """
    from safetensors.torch import save_file

    if metric is not None and adapter is not None:
        raise InputError("Expected `adapter` or `metric`, but got both: the named metric is stored where it is.")
    folder = Path(folder)
    check_replaceable(folder, overwrite=overwrite)
    state = {name: one.detach().cpu().contiguous() for name, one in classifier.head.state_dict().items()}
    with atomic_folder(folder, overwrite=overwrite) as beside:
        if metric is None:
            save_checkpoint(
                classifier.metric, beside / METRIC_FOLDER, card=card if card.strip() else PART_CARD, adapter=adapter
            )
        save_file(state, str(beside / HEAD), metadata={"format": "pt"})
        (beside / CARD).write_text(card.replace(METRIC_USAGE, _usage(classifier.config)), encoding="utf-8")
        config = {
            "format": FORMAT,
            "textmover": __version__,
            "kind": KIND,
            "classifier": classifier.config.to_dict(),
            "metric": metric,
            # An adapter restores weights that are near those it was made of, and checks them itself.
            "encoder": None if adapter is not None else _encoder_print(classifier),
            "files": {HEAD: file_sha256(beside / HEAD)},
        }
        (beside / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        written, (first, second) = load_classifier(beside), zip(*PROBES[:2], strict=True)
        if not written.predict(first, None if written.config.encoding == "single" else second).isfinite().all():
            raise InputError(
                "Expected finite probabilities from the classifier that was written, but got NaN: take weights of an "
                "earlier epoch, or train with a lower learning rate."
            )
    return folder


def classifier_folder(name: str | Path) -> Path:
    """The folder of a classifier, by its path or the name of a released one."""
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    released = released_folders(HEAD)
    if str(name) not in released:
        raise InputError(
            f"Expected a classifier's folder, or one of the released ones ({', '.join(released) or 'none here'}), but "
            f"got {str(name)!r}: train one (docs/stages.md), or take the released ones from the repository."
        )
    return released[str(name)]


@lasting()
def load_classifier(folder: Path | str, *, metric: str | None = None) -> TextClassifier:
    """Rebuild a classifier from its folder.

    Args:
        folder: What :func:`save_classifier` wrote, or the name of a released classifier.
        metric: Where the metric is, if it is not where the folder says.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = classifier_folder(folder)
    entries = _read_config(folder)
    with inside(folder):
        found = _metric(folder, metric or entries["metric"])
    classifier = TextClassifier.untrained(found, entries["classifier"])
    expected = entries["encoder"]
    if expected is not None and _encoder_print(classifier) != expected:
        raise InputError(
            f"Expected the encoder that the classifier in {folder} was trained on, with weights of the print "
            f"{expected}, but got others: give the right one as `metric`."
        )
    path = folder / HEAD
    if not path.is_file() or file_sha256(path) != entries["files"].get(HEAD):
        raise InputError(f"Expected {path} to be the file that {CONFIG} names, but it is not: copy the folder again.")
    try:
        classifier.head.load_state_dict(load_file(str(path)))
    except (SafetensorError, RuntimeError) as error:
        raise InputError(f"Expected {path} to fit {CONFIG}, but got: {' '.join(str(error).split())}") from error
    return classifier.eval()


def _usage(config: ClassifierConfig) -> str:
    """Usage example for the model card."""
    texts = '["a text"]' if config.encoding == "single" else '["a text"], ["another text"]'
    return (
        "```python\nfrom textmover.checkpoints.classifier import load_classifier\n\n"
        f'load_classifier("path/to/this/folder").predict({texts})  # probabilities of {len(config.classes)} classes\n'
        f"```\n\nThe classes are, in this order: {', '.join(config.classes)}.\n"
    )


def _metric(folder: Path, name: str | None) -> Any:
    if name is None:
        return load_metric(folder / METRIC_FOLDER)
    inside = folder / name
    return load_metric(inside if inside.is_dir() else name)


def _encoder_print(classifier: TextClassifier) -> str:
    encoder = trained_encoder(classifier.metric)
    return weights_print({name: one.to(torch.float32) for name, one in encoder.state_dict().items()})


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"Expected {folder} to be a classifier, but it holds no {CONFIG}: give another folder.")
    entries = read_json(path)
    held = entries if isinstance(entries, dict) else {}
    kind, found = held.get("kind", KIND), held.get("format", FORMAT)
    if kind != KIND or found != FORMAT:
        raise InputError(
            f"Expected {path} to be of a {KIND} in format {FORMAT}, but got a {kind} in format {found}: give a "
            "classifier's folder, or install a newer textmover."
        )
    for key in ("kind", "format", "classifier", "metric", "encoder", "files"):
        if key not in held or (key in ("classifier", "files") and not isinstance(held[key], Mapping)):
            raise InputError(
                f"Expected {path} to be the configuration of a classifier, but it holds no such `{key}`: give a folder "
                "that `save_classifier` wrote."
            )
    try:
        held["classifier"] = ClassifierConfig.from_dict(held["classifier"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"Expected `classifier` in {path} to describe a classifier, but it does not: give a folder that "
            "`save_classifier` wrote."
        ) from error
    return held
