"""Load metrics and classifiers by folder, released name, preset or hub id.

A metric may be made of a classifier and of other metrics, and a classifier stands on a metric, so that one file loads
all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from textmover.checkpoints.adapter import restore_state
from textmover.checkpoints.encoder_weights import trained_encoder
from textmover.checkpoints.files import (
    CONFIG,
    HEAD,
    WEIGHTS,
    check_checkpoint,
    inside,
    read_classifier_config,
    read_weights,
)
from textmover.checkpoints.hub import check_known, is_metric, released_folder
from textmover.checkpoints.shipped import fill_idf, fill_mean
from textmover.files import file_sha256
from textmover.modules.base_metric import EncoderMetric
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.modules.devices import lasting
from textmover.modules.encoder.encoder_identity import weights_print
from textmover.modules.encoder.source import hub_reason
from textmover.modules.shipped_folders import released_folders
from textmover.presets import KINDS, PRESETS, build_metric, preset_config
from textmover.types import CompositeMetric, InputError, SegmentMetric, check_whole

logger = logging.getLogger(__name__)

METRIC_FOLDER = "metric"  # folder within that of a classifier for the metric whose encoder it stands on


@lasting()
def load_checkpoint(folder: Path | str, **overrides: Any) -> SegmentMetric:
    """Rebuild a metric, in evaluation mode, from its folder.

    Args:
        folder: What :func:`~textmover.checkpoints.saving.save_checkpoint` wrote.
        **overrides: Fields of the configuration to change, except those that would need other weights. For an adapter
            ``encoder`` and ``revision`` say where its base is; the hash has to be the same.

    Raises:
        InputError: If a file is missing or damaged, the folder is of a later version, or the base of an adapter cannot
            be found or is another one.
    """
    folder = Path(folder)
    with inside(folder):
        return _load(folder, overrides)


def _load(folder: Path, overrides: dict[str, Any]) -> SegmentMetric:
    entries = check_checkpoint(folder)
    is_adapter = "adapter" in entries
    try:
        if is_adapter:
            check_whole("rank", entries["adapter"]["rank"], place=f" of the adapter in {folder}")
            entries, overrides = _placed(entries, overrides)
        kind: Any = KINDS[entries["kind"]]
        try:
            kind.config_class.from_dict(entries["metric"])
        except InputError as error:
            raise InputError(f"{error} (It is `metric` in {folder / CONFIG}.)") from error
        metric: Any = kind.load_files(folder, entries, overrides)
        complete(metric)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"Expected {folder / CONFIG} to describe a metric, but reading it gave {type(error).__name__}: {error}: "
            "export or copy the checkpoint again."
        ) from error
    identity = metric.encoder_identity
    found = read_weights(
        folder / WEIGHTS,
        lambda state: metric.load_state_dict(restore_state(metric, state) if is_adapter else state, strict=False),
    )
    if isinstance(metric, EncoderMetric):
        metric.encoder_identity = identity  # which is that of the weights that were read
    if is_adapter:
        metric.cast_encoder(getattr(torch, metric.config.dtype))  # the sum was that of the type it was saved in
    # Overrides may add a part that starts afresh (a calibration head, say) or leave one out.
    optional = metric.optional_parts if overrides else ()
    misfits = [key for key in (*found.missing_keys, *found.unexpected_keys) if not key.startswith(optional)]
    if misfits:
        raise InputError(
            f"Expected {folder / WEIGHTS} to fit {CONFIG}, but {misfits[0]} "
            f"{'is missing' if misfits[0] in found.missing_keys else 'is not described there'}: "
            "export or copy the checkpoint again."
        )
    return metric.eval()


@lasting()
def load_metric(
    name: str | Path, *, revision: str | None = None, shipped: bool = True, **overrides: Any
) -> SegmentMetric:
    """A metric, in evaluation mode, by checkpoint folder, name of a released metric, preset or hub id, in this order.

    Args:
        name: A folder, a released metric (see ``textmover list``), a preset such as ``"twmd"``, or a repository such as
            ``"owner/metric"``.
        revision: Commit or tag on the hub, of the checkpoint (or of a preset's encoder).
        shipped: Whether a preset takes the corpus mean and the weights of words that are shipped, where there are any.
        **overrides: Fields of the configuration to change.

    Raises:
        InputError: If it is none of these, or cannot be loaded.
    """
    text = str(name)
    as_encoder = metric_named(overrides.get("encoder"))
    if as_encoder is not None:
        raise InputError(
            f"Expected `encoder` to be an encoder, such as roberta-base, but got {as_encoder}, which is a metric: give "
            "it as the metric instead, or leave `encoder` out."
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
    """Return whether overrides differ from the configuration of a checkpoint."""
    entries = check_checkpoint(folder)
    kind: Any = KINDS[entries["kind"]]
    saved = kind.config_class.from_dict(entries["metric"])
    return bool(saved.override(**overrides) != saved)


def metric_named(name: object) -> str | None:
    """Describe the metric of a name in words; ``None`` for an unknown name and a folder without a checkpoint."""
    if not isinstance(name, (str, Path)):
        return None
    folder = Path(name).expanduser()
    if folder.is_dir():
        return f"the checkpoint {name}" if is_metric(folder / CONFIG) else None
    if str(name) in PRESETS:
        return f"the preset {str(name)!r}"
    return None if released_folder(str(name)) is None else f"the released metric {str(name)!r}"


def complete(metric: Any) -> None:
    """Give a metric that is made of others, or of a classifier, the ones that it names."""
    if not isinstance(metric, CompositeMetric):
        return
    for part, name in metric.wanted_classifiers.items():
        metric.take_part(part, load_classifier(name))
    for part, name in metric.wanted_metrics.items():
        try:
            found = load_metric(name)
        except InputError as error:
            raise InputError(
                f"Expected `features` to be RoMe's own or metrics by name, but {name!r} is neither: {error}"
            ) from error
        metric.take_part(part, found)


@lasting()
def load_classifier(folder: Path | str, *, metric: str | None = None) -> TextClassifier:
    """Rebuild a classifier from its folder.

    Args:
        folder: A folder that ``save_classifier`` wrote, or the name of a released classifier.
        metric: Where the metric is, if it is not where the folder says.
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
    named = metric or entries["metric"]
    with inside(folder):
        if named is None or (folder / named).is_dir():
            found: Any = load_metric(folder / (named or METRIC_FOLDER))
        else:
            found = load_metric(named)
    classifier = TextClassifier.untrained(found, config)
    expected = entries["encoder"]
    if expected is not None and encoder_print(classifier) != expected:
        raise InputError(
            f"Expected the encoder that the classifier in {folder} was trained on, with weights of the print "
            f"{expected}, but got others: give the right one as `metric`."
        )
    path = folder / HEAD
    if not path.is_file() or file_sha256(path) != entries["files"].get(HEAD):
        raise InputError(f"Expected {path} to be the file that {CONFIG} names, but it is not: copy the folder again.")
    read_weights(path, classifier.head.load_state_dict)
    return classifier.eval()


def classifier_folder(name: str | Path) -> Path:
    """The folder of a classifier, by its path or the name of a released one."""
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    released = released_folders(HEAD)
    if str(name) not in released:
        raise InputError(
            f"Expected a classifier's folder, or one of the released ones ({', '.join(released) or 'none here'}), but "
            f"got {str(name)!r}: train one (docs/training.md), or take the released ones from the repository."
        )
    return released[str(name)]


def encoder_print(classifier: TextClassifier) -> str:
    """Print of the weights of a classifier's encoder, the same in every precision."""
    encoder = trained_encoder(classifier.metric)
    return weights_print({name: one.to(torch.float32) for name, one in encoder.state_dict().items()})


def checkpoint_folder(name: str | Path, revision: str | None = None) -> Path | None:
    """The folder of a checkpoint by path, released name or hub id, fetched if need be; ``None`` for anything else."""
    text = str(name)
    if Path(text).expanduser().is_dir():
        return Path(text).expanduser()
    if released := released_folder(text):
        return released
    if text not in PRESETS and text.count("/") == 1 and not text.startswith((".", "/", "~")):
        return _download(text, revision)
    return None


def _placed(entries: dict[str, Any], overrides: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entries of an adapter whose base is where the overrides say, and the other overrides."""
    place = {key: overrides[key] for key in ("encoder", "revision") if key in overrides}
    if "encoder" in place:
        place = {"revision": None, **place}
    base = {**entries["encoder"]["base"], **{"name" if key == "encoder" else key: one for key, one in place.items()}}
    moved = {**entries, "metric": {**entries["metric"], **place}, "encoder": {**entries["encoder"], "base": base}}
    return moved, {key: one for key, one in overrides.items() if key not in place}


def _download(name: str, revision: str | None) -> Path:
    """A checkpoint from the Hugging Face cache, if it is whole there, or else the hub."""
    from huggingface_hub import snapshot_download

    broken: InputError | None = None
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
        check_checkpoint(folder)  # a download that was interrupted leaves a folder without some of its files
        return folder
    except InputError as error:
        broken = error
        logger.info("%s: what the Hugging Face cache holds cannot be used, asking the hub", name)
    except (OSError, ValueError):
        logger.info("%s: not in the Hugging Face cache, asking the hub", name)
    try:
        return Path(snapshot_download(name, revision=revision))
    except Exception as error:
        if broken is not None:
            raise InputError(
                f"{broken} (It is what the Hugging Face cache holds of {name}; asked for the rest, {hub_reason(error)})"
            ) from error
        raise InputError(
            f"Expected {name} to be a checkpoint folder or a hub id, but there is no such folder, it is not in the "
            f"Hugging Face cache, and {hub_reason(error)}: correct the name (`textmover list` shows released ones), "
            "or check the network."
        ) from error
