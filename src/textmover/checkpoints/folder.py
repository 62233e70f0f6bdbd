"""Checkpoints: folders that hold everything to rebuild a metric, without pickle.

``config.json`` names the kind, the configuration and the hash of each file; ``model.safetensors`` holds the weights and
fitted statistics; ``README.md`` is the model card; ``encoder/`` the encoder's configuration and tokenizer. An adapter
has no such folder: it names the base encoder, and its weights are the difference from that one.
"""

from __future__ import annotations

import copy
import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from textmover._version import __version__
from textmover.checkpoints.adapter import AdapterConfig, as_adapter, restore_state
from textmover.checkpoints.encoder_weights import name_weights
from textmover.checkpoints.files import CARD, CONFIG, FORMAT, WEIGHTS, check_checkpoint, inside, write_config
from textmover.checkpoints.hub import check_known, is_metric, released_folder
from textmover.checkpoints.shipped import fill_mean
from textmover.checkpoints.shipped.words import fill_idf
from textmover.files import atomic_folder
from textmover.modules.assembly import ENCODER_FOLDER
from textmover.modules.devices import lasting
from textmover.modules.encoder.low_rank import has_lora, merge_lora
from textmover.modules.probes import PROBES, probe_scores
from textmover.presets import KINDS, PRESETS, build_metric, preset_config
from textmover.reading import read_json
from textmover.types import CompositeMetric, InputError, SegmentMetric, check_whole

logger = logging.getLogger(__name__)

LOOSE = {"long_texts": "truncate", "unknown_words": "drop"}
"""Fields by which a metric may refuse texts, with a value by which it does not."""

UNFITTED = {
    **dict.fromkeys(("idf", "idf_hypothesis"), ("weights", "uniform")),
    "mean": ("centering", "none"),
    "baseline": ("rescale", False),
}
"""Field by which a metric needs each statistic, with a value by which it does not."""

METRIC_USAGE = """\
```python
from textmover import Scorer

Scorer.from_pretrained("path/to/this/folder").score(["a hypothesis"], ["its reference"]).scores
```
"""
"""Usage of a metric's folder, for its model card."""


@lasting()
def save_checkpoint(
    metric: SegmentMetric,
    folder: Path | str,
    *,
    card: str,
    overwrite: bool = False,
    add: Callable[[Path], None] | None = None,
    adapter: AdapterConfig | None = None,
) -> Path:
    """Write a metric as a folder; it appears under its name only when it is complete.

    LoRA matrices are merged into the weights that are written. The folder is loaded again and scores two pairs before
    it appears, with the parts that it names.

    The signature of a metric that is written in full names its present weights afterwards.

    Args:
        metric: A metric that is a ``torch.nn.Module``.
        folder: Where to write.
        card: Text of the model card, Markdown.
        overwrite: Whether an earlier folder may be replaced.
        add: Writes further files into the folder that it is given, such as those of back-ends.
        adapter: How to store the encoder as a low-rank difference from the pretrained one that it started from, which
            has to be at hand to save and to load; all its weights are written if ``None``. How much that loses,
            :func:`~textmover.checkpoints.adapter.adapter_report` tells.

    Returns:
        The folder.

    Raises:
        InputError: If the place cannot be written to, the encoder has no such difference, or a score is not finite.
    """
    from safetensors.torch import save_file

    if not isinstance(metric, nn.Module):
        raise TypeError(f"Expected `metric` to be a torch module, but got {type(metric).__name__}.")
    folder = Path(folder)
    check_replaceable(folder, overwrite=overwrite)
    whole = _without_lora(metric)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in whole.state_dict().items()}
    if adapter is None:
        name_weights(whole)
    with atomic_folder(folder, overwrite=overwrite) as beside:
        entries = whole.save_files(beside)
        if adapter is not None:
            state, entries["encoder"], entries["adapter"] = as_adapter(whole, state, entries["encoder"], adapter)
            shutil.rmtree(beside / ENCODER_FOLDER)  # the base brings its own
        save_file(state, str(beside / WEIGHTS), metadata={"format": "pt"})
        (beside / CARD).write_text(card, encoding="utf-8")
        if add is not None:
            add(beside)
        known = {
            "format": 1 if adapter is None else FORMAT,  # full weights can be read by earlier versions
            "textmover": __version__,
            "kind": whole.config.kind,
        }
        write_config(beside, {**known, **entries})
        check_written(beside)
    return folder


def check_written(folder: Path) -> None:
    """Load a checkpoint again, and score two pairs with it."""
    metric: Any = load_checkpoint(folder)
    loose: dict[str, Any] = {
        name: value for name, value in LOOSE.items() if getattr(metric.config, name, value) == "error"
    }
    loose |= dict(UNFITTED[name] for name, one in metric.statistics.items() if not one.fitted)
    if loose:
        metric = load_checkpoint(folder, **loose)  # which takes any text, with no statistics
    for name, weight in metric.named_parameters():
        if not weight.isfinite().all():
            raise InputError(
                f"Expected finite weights to save, but {name} holds NaN or infinite numbers: take weights of an "
                "earlier epoch, or train with a lower learning rate."
            )
    if not probe_scores(metric, pairs=PROBES[:2]).isfinite().all():
        raise InputError(
            "Expected finite scores from the metric that was written, but got NaN or infinite ones: its arithmetic "
            "overflows, so save it with dtype='float32'."
        )


def _without_lora(metric: Any) -> Any:
    """The metric itself, or a copy of it with merged weights where its encoder has LoRA matrices."""
    encoder = metric.runnable_encoder
    if encoder is None or not has_lora(encoder):
        return metric
    merged = copy.deepcopy(metric)
    merge_lora(merged.runnable_encoder)
    return merged


def check_replaceable(folder: Path, *, overwrite: bool) -> None:
    """Refuse to replace a folder that holds anything but a checkpoint."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise InputError(f"Expected {folder} to be new or empty, but it holds files: give another name or --overwrite.")
    try:
        is_checkpoint = "textmover" in read_json(folder / CONFIG)
    except (OSError, ValueError, TypeError):
        is_checkpoint = False
    if not is_checkpoint:
        raise InputError(
            f"Expected {folder} to be new, empty or an earlier checkpoint, but it holds other files, which would be "
            "lost: give another name."
        )


@lasting()
def load_checkpoint(folder: Path | str, **overrides: Any) -> SegmentMetric:
    """Rebuild a metric from its folder.

    Args:
        folder: What :func:`save_checkpoint` wrote.
        **overrides: Fields of the configuration to change, except those that would need other weights. For an adapter
            ``encoder`` and ``revision`` say where its base is; the hash has to be the same.

    Returns:
        The metric in evaluation mode.

    Raises:
        InputError: If a file is missing or damaged, the folder is of a later version, or the base of an adapter cannot
            be found or is another one.
    """
    folder = Path(folder)
    with inside(folder):
        return _load(folder, overrides)


def _load(folder: Path, overrides: dict[str, Any]) -> SegmentMetric:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    entries = check_checkpoint(folder)
    is_adapter = "adapter" in entries
    try:
        if is_adapter:
            check_whole("rank", entries["adapter"]["rank"], place=f" of the adapter in {folder}")
            entries, overrides = _placed(entries, overrides)
        _check_config(folder / CONFIG, entries)
        metric: Any = KINDS[entries["kind"]].load_files(folder, entries, overrides)
        complete(metric)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"Expected {folder / CONFIG} to describe a metric, but reading it gave {type(error).__name__}: {error}: "
            "export or copy the checkpoint again."
        ) from error
    try:
        state = load_file(str(folder / WEIGHTS))
        if is_adapter:
            state = restore_state(metric, state)
        found = metric.load_state_dict(state, strict=False)
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"Expected {folder / WEIGHTS} to fit {CONFIG}, but got: {reason}") from error
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


def _check_config(path: Path, entries: Mapping[str, Any]) -> None:
    """Refuse a configuration that cannot be used, with the name of its file."""
    try:
        KINDS[entries["kind"]].config_class.from_dict(entries["metric"])
    except InputError as error:
        raise InputError(f"{error} (It is `metric` in {path}.)") from error


@lasting()
def load_metric(
    name: str | Path, *, revision: str | None = None, shipped: bool = True, **overrides: Any
) -> SegmentMetric:
    """A metric by checkpoint folder, name of a released metric, preset or hub id, in this order.

    Args:
        name: A folder, a released metric (see ``textmover list``), a preset such as ``"twmd"``, or a repository such as
            ``"owner/metric"``.
        revision: Commit or tag on the hub, of the checkpoint (or of a preset's encoder).
        shipped: Whether a preset takes the corpus mean and the weights of words that are shipped, where there are any.
        **overrides: Fields of the configuration to change.

    Returns:
        The metric in evaluation mode.

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


def metric_named(name: object) -> str | None:
    """Describe the metric of a name in words; ``None`` for an unknown name and a folder without a checkpoint.

    Example:
        >>> metric_named("twmd"), metric_named("roberta-base")
        ("the preset 'twmd'", None)
    """
    if not isinstance(name, (str, Path)):
        return None
    folder = Path(name).expanduser()
    if folder.is_dir():
        return f"the checkpoint {name}" if is_metric(folder / CONFIG) else None
    if str(name) in PRESETS:
        return f"the preset {str(name)!r}"
    return None if released_folder(str(name)) is None else f"the released metric {str(name)!r}"


def complete(metric: Any) -> None:
    """Give a metric that is made of others, or of a classifier, the ones that it names.

    Raises:
        InputError: If one cannot be loaded.
    """
    if not isinstance(metric, CompositeMetric):
        return
    from textmover.checkpoints.classifier import load_classifier

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


def checkpoint_folder(name: str | Path, revision: str | None = None) -> Path | None:
    """The folder of a checkpoint: by its path, the name of a released one, or a hub id, fetched if need be.

    Returns:
        The folder; ``None`` for presets and anything else.
    """
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
    moved = {
        **entries,
        "metric": {**entries["metric"], **place},
        "encoder": {**entries["encoder"], "base": base},
    }
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
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if broken is not None:
            raise InputError(
                f"{broken} (It is what the Hugging Face cache holds of {name}; asked for the rest, the hub answered "
                f"{type(error).__name__}: {reason})"
            ) from error
        raise InputError(
            f"Expected {name} to be a checkpoint folder or a hub id, but there is no such folder, it is not in the "
            f"Hugging Face cache, and the hub answered {type(error).__name__}: {reason}"
        ) from error
