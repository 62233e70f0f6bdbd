"""Save checkpoints: folders with everything needed to rebuild a metric, without pickle.

``config.json`` holds the metric kind, the configuration and the hash of each file. ``model.safetensors`` holds the
weights and fitted statistics, ``README.md`` the model card, ``encoder/`` the encoder's configuration and tokenizer. An
adapter has no ``encoder/``: it names its base encoder and stores the weight differences.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from textmover._version import __version__
from textmover.checkpoints.adapter import AdapterConfig, compress_difference
from textmover.checkpoints.checkpoint_files import CONFIG, FORMAT, WEIGHTS, write_config, write_weights
from textmover.checkpoints.encoder_state import check_module, name_weights, trained_encoder, without_lora
from textmover.checkpoints.loading import load_checkpoint
from textmover.files import atomic_folder
from textmover.modules.devices import lasting
from textmover.modules.encoder_parts import ENCODER_FOLDER
from textmover.modules.score_deviation import PROBES, probe_scores
from textmover.safe_reading import read_json
from textmover.types import InputError, SegmentMetric

LENIENT_VALUES = {"long_texts": "truncate", "unknown_words": "drop"}
"""Configuration fields that can make a metric reject texts, with a value that accepts all."""

VALUES_WITHOUT_STATISTICS = {
    **dict.fromkeys(("idf", "idf_hypothesis"), ("weights", "uniform")),
    "mean": ("centering", "none"),
    "baseline": ("rescale", False),
}
"""For each statistic, the configuration field that requires it, with a value that does not."""

METRIC_USAGE = """\
```python
from textmover import Scorer

Scorer.from_pretrained("path/to/this/folder").score(["a hypothesis"], ["its reference"]).scores
```
"""
"""Usage example in a metric's model card."""


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
    """Write a metric to a folder and return its path. The folder is written atomically.

    LoRA matrices are merged into the saved weights. Before the folder appears, it is loaded and scores two pairs. After
    a save with full weights, the metric's signature contains the hash of its current weights.

    Args:
        metric: A metric that is a ``torch.nn.Module``.
        folder: Output folder.
        card: Text of the model card, in Markdown.
        overwrite: Whether to replace an existing checkpoint.
        add: Callback that writes more files into the folder it receives, such as those of back-ends.
        adapter: Settings to store the encoder as a low-rank difference from its pretrained base, which must be
            available for saving and loading; ``None`` stores all weights.
            :func:`~textmover.checkpoints.adapter.adapter_report` returns the approximation error.

    Raises:
        InputError: If the folder cannot be written, the encoder has no known base, or a score is not finite.
    """
    check_module(metric)
    folder = Path(folder)
    check_replaceable(folder, overwrite=overwrite)
    merged = without_lora(metric)
    state = {name: tensor.detach().cpu() for name, tensor in merged.state_dict().items()}
    if adapter is None:
        name_weights(merged)
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        entries = merged.save_files(temporary)
        if adapter is not None:
            state, entries["encoder"], entries["adapter"] = compress_difference(
                merged, state, entries["encoder"], adapter
            )
            shutil.rmtree(temporary / ENCODER_FOLDER)  # loading takes these files from the base
        write_weights(temporary / WEIGHTS, state, card)
        if add is not None:
            add(temporary)
        header = {
            "format": 1 if adapter is None else FORMAT,  # earlier versions can read full weights
            "textmover": __version__,
            "kind": merged.config.kind,
        }
        write_config(temporary, {**header, **entries})
        check_written(temporary)
    return folder


def save_encoder(metric: SegmentMetric, folder: Path | str) -> Path:
    """Write a metric's encoder and tokenizer to a folder that transformers' ``AutoModel.from_pretrained`` can load.

    All weights are written, with LoRA merged. Layers above the highest one that the metric uses are cut off, which the
    saved configuration states. A pooler or decoder is not saved; ``AutoModel`` initialises a new one.

    Args:
        metric: A metric with a pretrained encoder.
        folder: Output folder, new or empty. It is returned.
    """
    trained_encoder(metric)  # raises for metrics without a trainable encoder
    merged = without_lora(metric)
    model = merged.encoder.model
    state = {name: one.detach().cpu().contiguous() for name, one in model.state_dict().items()}
    if getattr(model.config, "is_encoder_decoder", False):  # use the weight names of the full model
        shared = model.get_input_embeddings().weight.detach().cpu()
        state = {**{f"encoder.{name}": one for name, one in state.items()}, "shared.weight": shared.clone()}
    with atomic_folder(folder) as temporary:
        model.config.save_pretrained(str(temporary))
        merged.tokenizer.save(temporary)
        save_file(state, str(temporary / WEIGHTS), metadata={"format": "pt"})
    return Path(folder)


def check_written(folder: Path) -> None:
    """Load a checkpoint and score two pairs; raise if weights or scores are not finite."""
    metric: Any = load_checkpoint(folder)
    overrides: dict[str, Any] = {
        name: value for name, value in LENIENT_VALUES.items() if getattr(metric.config, name, value) == "error"
    }
    overrides |= dict(VALUES_WITHOUT_STATISTICS[name] for name, one in metric.statistics.items() if not one.fitted)
    if overrides:
        metric = load_checkpoint(folder, **overrides)  # accepts any text and needs no statistics
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


def check_replaceable(folder: Path, *, overwrite: bool) -> None:
    """Raise an error if the folder holds anything except a checkpoint that may be overwritten."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise InputError(
            f"Expected {folder} to be new or empty, but it holds files: give another name, or overwrite=True "
            "(--overwrite)."
        )
    try:
        is_checkpoint = "textmover" in read_json(folder / CONFIG)
    except (OSError, ValueError, TypeError):
        is_checkpoint = False
    if not is_checkpoint:
        raise InputError(
            f"Expected {folder} to be new, empty or an earlier checkpoint, but it holds other files, which would be "
            "lost: give another name."
        )
