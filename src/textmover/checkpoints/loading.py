"""Load metrics and classifiers by folder, released name, preset or hub id.

One module loads both, since a metric may contain classifiers and other metrics, and a classifier contains a metric.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from textmover.checkpoints.adapter import restore_state
from textmover.checkpoints.checkpoint_files import (
    CONFIG,
    HEAD,
    WEIGHTS,
    check_checkpoint,
    nested_loading,
    read_classifier_config,
    read_weights,
    saved_config,
)
from textmover.checkpoints.encoder_state import trained_encoder
from textmover.checkpoints.hub import check_known, is_metric, local_folder, released_folder
from textmover.checkpoints.shipped import fill_idf, fill_mean
from textmover.files import file_sha256
from textmover.modules.base_metric import EncoderMetric
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.modules.devices import lasting
from textmover.modules.encoder.encoder_identity import weights_fingerprint
from textmover.modules.encoder.source import hub_reason
from textmover.modules.shipped_folders import released_folders
from textmover.presets import KINDS, PRESETS, build_metric, preset_config
from textmover.safe_reading import expanded
from textmover.types import CompositeMetric, InputError, SegmentMetric, check_whole

logger = logging.getLogger(__name__)

AFTER_SCALE = ("multi_reference", "mode", "target_language", "fallback", "calibrate", "mark_errors", "dtype", "encoder",
               "revision", "freeze_layers", "learn_temperature", "long_texts")  # fmt: skip
"""Configuration fields that leave the scores of pairs alone."""

METRIC_FOLDER = "metric"  # subfolder of a classifier's folder for the metric whose encoder it uses


@lasting()
def load_checkpoint(folder: Path | str, **overrides: Any) -> SegmentMetric:
    """Load a metric from its folder, in evaluation mode.

    Args:
        folder: Folder written by :func:`~textmover.checkpoints.saving.save_checkpoint`.
        **overrides: Configuration fields to change, except those that would need other weights. For an adapter,
            ``encoder`` and ``revision`` locate its base, which must have the stored hash.

    Raises:
        InputError: If a file is missing or damaged, the format is newer than this version reads, or an adapter's base
            is missing or has another hash.
    """
    folder = Path(folder)
    with nested_loading(folder):
        return _load(folder, overrides)


def _load(folder: Path, overrides: dict[str, Any]) -> SegmentMetric:
    entries = check_checkpoint(folder)
    is_adapter = "adapter" in entries
    try:
        if is_adapter:
            check_whole("rank", entries["adapter"]["rank"], place=f" of the adapter in {folder}")
            entries, overrides = _apply_base_overrides(entries, overrides)
        kind: Any = KINDS[entries["kind"]]
        try:
            kind.config_class.from_dict(entries["metric"])
        except InputError as error:
            raise InputError(f"{error} (See `metric` in {folder / CONFIG}.)") from error
        metric: Any = kind.load_files(folder, entries, overrides)
        complete(metric)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"Expected {folder / CONFIG} to describe a metric, but reading it gave {type(error).__name__}: {error}: "
            "export or copy the checkpoint again."
        ) from error
    identity = metric.encoder_identity
    result = read_weights(
        folder / WEIGHTS,
        lambda state: metric.load_state_dict(restore_state(metric, state) if is_adapter else state, strict=False),
    )
    if isinstance(metric, EncoderMetric):
        metric.encoder_identity = identity  # loading the state changed it; this is the identity of the loaded weights
    if is_adapter:
        metric.cast_encoder(getattr(torch, metric.config.dtype))  # differences were added in the saved dtype
    # Overrides may add a new part (such as a calibration head) or remove one.
    optional = metric.optional_parts if overrides else ()
    misfits = [key for key in (*result.missing_keys, *result.unexpected_keys) if not key.startswith(optional)]
    if misfits:
        raise InputError(
            f"Expected {folder / WEIGHTS} to fit {CONFIG}, but {misfits[0]} "
            f"{'is missing' if misfits[0] in result.missing_keys else 'is not described there'}: "
            "export or copy the checkpoint again."
        )
    return metric.eval()


@lasting()
def load_metric(
    name: str | Path, *, revision: str | None = None, shipped: bool = True, **overrides: Any
) -> SegmentMetric:
    """Load a metric in evaluation mode: by checkpoint folder, released name, preset or hub id, in this order.

    Args:
        name: A checkpoint folder, a released metric (see ``textmover list``), a preset such as ``"twmd"``, or a hub
            repository such as ``"owner/metric"``.
        revision: Commit or tag on the hub of the checkpoint (or of a preset's encoder).
        shipped: Whether a preset uses the shipped corpus mean and idf word weights, if available.
        **overrides: Configuration fields to change.

    Raises:
        InputError: If the name is unknown, or the metric cannot be loaded.
    """
    text = str(name)
    as_encoder = metric_named(overrides.get("encoder"))
    if as_encoder is not None:
        raise InputError(
            f"Expected `encoder` to be an encoder, such as roberta-base, but got {as_encoder}, which is a metric: "
            "name an encoder, or, to score with this metric, name it as the metric and leave `encoder` out."
        )
    folder = checkpoint_folder(name, revision)
    if folder is not None:
        return load_checkpoint(folder, **overrides)
    if text not in PRESETS and ("/" in text or "\\" in text):
        raise InputError(f"Expected {text} to be a checkpoint folder, but there is no such folder.")
    check_known(text)
    if revision is not None:
        overrides = {"revision": revision, **overrides}
    metric = build_metric(preset_config(text, **overrides))
    complete(metric)
    if shipped:
        fill_mean(metric)
        fill_idf(metric)
    if isinstance(metric, nn.Module):
        metric.eval()
    return metric


def changes(folder: Path, overrides: Mapping[str, Any]) -> bool:
    """Return whether overrides change the configuration of a checkpoint."""
    saved = saved_config(folder)
    return bool(saved.override(**overrides) != saved)


def warn_of_scale(folder: Path, metric: Any, overrides: Mapping[str, Any]) -> None:
    """Warn if overrides change scores before the calibration or baseline that the checkpoint keeps for them."""
    config, parts = metric.config, {"calibration": "calibrate", "baseline": "rescale"}
    saved = saved_config(folder)
    kept = [part for part, field in parts.items() if getattr(saved, field, False) and getattr(config, field)]
    changed = [one for one in overrides if one not in AFTER_SCALE and getattr(saved, one) != getattr(config, one)]
    if kept and changed:
        logger.warning(
            "%s keeps the %s of its training although `%s` differs, so its scores are off that scale: leave it out, or "
            "train with it.",
            folder.name, " and ".join(kept), changed[0],
        )  # fmt: skip


def metric_named(name: object) -> str | None:
    """Describe a named metric for messages; ``None`` for an unknown name or a folder without a checkpoint."""
    if not isinstance(name, (str, Path)):
        return None
    if folder := local_folder(name):
        return f"the checkpoint {name}" if is_metric(folder / CONFIG) else None
    if str(name) in PRESETS:
        return f"the preset {str(name)!r}"
    return None if released_folder(str(name)) is None else f"the released metric {str(name)!r}"


def complete(metric: Any) -> None:
    """Load the classifiers and metrics that a composite metric names, and attach them."""
    if not isinstance(metric, CompositeMetric):
        return
    for part, name in metric.wanted_classifiers.items():
        metric.take_part(part, load_classifier(name))
    for part, name in metric.wanted_metrics.items():
        try:
            feature = load_metric(name)
        except InputError as error:
            raise InputError(
                f"Expected `features` to be RoMe's own or metrics by name, but {name!r} is neither: {error}"
            ) from error
        metric.take_part(part, feature)


@lasting()
def load_classifier(folder: Path | str, *, metric: str | None = None) -> TextClassifier:
    """Load a classifier from its folder.

    Args:
        folder: Folder written by ``save_classifier``, or the name of a released classifier.
        metric: Folder or name of the classifier's metric, to override the one in ``config.json``.
    """
    folder = classifier_folder(folder)
    entries = read_classifier_config(folder)
    try:
        config = ClassifierConfig.from_dict(entries["classifier"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"Expected `classifier` in {folder / CONFIG} to describe a classifier, but it does not: give a folder that "
            "`save_classifier` wrote."
        ) from error
    named = metric or entries["metric"] or f"./{METRIC_FOLDER}"
    beside = (folder / named).is_dir() or (metric is None and named.startswith("."))
    with nested_loading(folder):
        try:
            base_metric: Any = load_metric(folder / named if beside else named)
        except InputError as error:
            raise InputError(
                f"{error} (The classifier in {folder} stands on this metric: put it there, or name it as `metric`.)"
            ) from error
    classifier = TextClassifier.untrained(base_metric, config)
    expected = entries["encoder"]
    if expected is not None and encoder_fingerprint(classifier) != expected:
        raise InputError(
            f"Expected the encoder that the classifier in {folder} was trained on, with weights of the hash "
            f"{expected}, but got another one: give a metric on that encoder as `metric`."
        )
    path = folder / HEAD
    if not path.is_file() or file_sha256(path) != entries["files"].get(HEAD):
        raise InputError(f"Expected {path} to have its hash in {CONFIG}, but it differs: copy the folder again.")
    read_weights(path, classifier.head.load_state_dict)
    return classifier.eval()


def classifier_folder(name: str | Path) -> Path:
    """Return the folder of a classifier from a path or the name of a released one."""
    if folder := local_folder(name):
        return folder
    released = released_folders(HEAD)
    if str(name) not in released:
        raise InputError(
            f"Expected a classifier's folder, or one of the released ones ({', '.join(released) or 'none here'}), but "
            f"got {str(name)!r}: train one (docs/training.md), or take the released ones from the repository."
        )
    return released[str(name)]


def encoder_fingerprint(classifier: TextClassifier) -> str:
    """Return the weight hash of a classifier's encoder, the same in every precision."""
    encoder = trained_encoder(classifier.metric)
    return weights_fingerprint({name: one.to(torch.float32) for name, one in encoder.state_dict().items()})


def checkpoint_folder(name: str | Path, revision: str | None = None) -> Path | None:
    """Return a checkpoint's folder by path, released name or hub id, downloaded if needed; ``None`` for other names."""
    text = str(name)
    if folder := local_folder(name):
        if text in PRESETS or released_folder(text):
            _warn_of_name(text, folder.resolve())
        return folder
    if released := released_folder(text):
        return released
    if text in PRESETS:
        return None
    if expanded(text).is_file():
        raise InputError(
            f"Expected the metric to be a preset, a checkpoint folder or a hub id, but {text} is a file: if it is a "
            "checkpoint of training, export it first with `textmover export` and name the folder."
        )
    if text.count("/") == 1 and not text.startswith((".", "/", "~")):
        return _download(text, revision)
    return None


@functools.cache
def _warn_of_name(name: str, folder: Path) -> None:
    logger.warning(
        "%s is read from the folder %s, not the metric that `textmover list` shows: write ./%s to mean the folder, or "
        "rename it to have that metric.",
        name, folder, name,
    )  # fmt: skip


def _apply_base_overrides(entries: dict[str, Any], overrides: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Apply the overrides ``encoder`` and ``revision`` to an adapter's entries; return them and the other overrides."""
    location = {key: overrides[key] for key in ("encoder", "revision") if key in overrides}
    if "encoder" in location:
        location = {"revision": None, **location}
    base = {**entries["encoder"]["base"], **{"name" if key == "encoder" else key: one for key, one in location.items()}}
    updated = {**entries, "metric": {**entries["metric"], **location}, "encoder": {**entries["encoder"], "base": base}}
    return updated, {key: one for key, one in overrides.items() if key not in location}


def _download(name: str, revision: str | None) -> Path:
    """Return a checkpoint's folder from the Hugging Face cache if complete there, otherwise download it."""
    from huggingface_hub import snapshot_download

    broken: InputError | None = None
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
        check_checkpoint(folder)  # an interrupted download leaves an incomplete folder
        return folder
    except InputError as error:
        broken = error
        logger.info("%s: unusable in the Hugging Face cache, asking the hub", name)
    except (OSError, ValueError):
        logger.info("%s: not in the Hugging Face cache, asking the hub", name)
    try:
        return Path(snapshot_download(name, revision=revision))
    except Exception as error:
        if broken is not None:
            raise InputError(f"{broken} (This is the cached copy of {name}; {hub_reason(error)})") from error
        raise InputError(
            f"Expected {name} to be a checkpoint folder or a hub id, but there is no such folder, it is not in the "
            f"Hugging Face cache, and {hub_reason(error)}: correct the name (`textmover list` shows released ones), "
            "or check the network."
        ) from error
