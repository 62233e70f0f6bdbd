"""Save checkpoints: folders that hold everything to rebuild a metric, without pickle.

``config.json`` names the kind, the configuration and the hash of each file; ``model.safetensors`` holds the weights and
fitted statistics; ``README.md`` is the model card; ``encoder/`` the encoder's configuration and tokenizer. An adapter
has no such folder: it names the base encoder, and its weights are the difference from that one.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from textmover._version import __version__
from textmover.checkpoints.adapter import AdapterConfig, as_adapter
from textmover.checkpoints.encoder_weights import name_weights, trained_encoder
from textmover.checkpoints.files import CONFIG, FORMAT, WEIGHTS, write_config, write_weights
from textmover.checkpoints.loading import load_checkpoint
from textmover.files import atomic_folder
from textmover.modules.assembly import ENCODER_FOLDER
from textmover.modules.devices import lasting
from textmover.modules.encoder.low_rank import has_lora, merge_lora
from textmover.modules.probe_sentences import PROBES, probe_scores
from textmover.safe_reading import read_json
from textmover.types import InputError, SegmentMetric

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
    """Write a metric as a folder, which is returned; it appears under its name only when it is complete.

    LoRA matrices are merged into the weights that are written. The folder is loaded again and scores two pairs before
    it appears, with the parts that it names. The signature of a metric that is written in full names its present
    weights afterwards.

    Args:
        metric: A metric that is a ``torch.nn.Module``.
        folder: Where to write.
        card: Text of the model card, Markdown.
        overwrite: Whether an earlier folder may be replaced.
        add: Writes further files into the folder that it is given, such as those of back-ends.
        adapter: How to store the encoder as a low-rank difference from the pretrained one that it started from, which
            has to be at hand to save and to load; all its weights are written if ``None``. How much that loses,
            :func:`~textmover.checkpoints.adapter.adapter_report` tells.

    Raises:
        InputError: If the place cannot be written to, the encoder has no such difference, or a score is not finite.
    """
    if not isinstance(metric, nn.Module):
        raise TypeError(f"Expected `metric` to be a torch module, but got {type(metric).__name__}.")
    folder = Path(folder)
    check_replaceable(folder, overwrite=overwrite)
    whole = _without_lora(metric)
    state = {name: tensor.detach().cpu() for name, tensor in whole.state_dict().items()}
    if adapter is None:
        name_weights(whole)
    with atomic_folder(folder, overwrite=overwrite) as beside:
        entries = whole.save_files(beside)
        if adapter is not None:
            state, entries["encoder"], entries["adapter"] = as_adapter(whole, state, entries["encoder"], adapter)
            shutil.rmtree(beside / ENCODER_FOLDER)  # the base brings its own
        write_weights(beside / WEIGHTS, state, card)
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


def save_encoder(metric: SegmentMetric, folder: Path | str) -> Path:
    """Write a metric's encoder and tokenizer as a folder that ``AutoModel.from_pretrained`` of transformers reads.

    All weights are written, LoRA merged. Layers above the highest that is read were cut off, as its configuration
    says; a pooler or decoder that no metric reads is not there, and ``AutoModel`` initialises a new one.

    Args:
        metric: A metric on a pretrained encoder.
        folder: Where to write, new or empty; it is returned.
    """
    trained_encoder(metric)  # refuses others
    whole = _without_lora(metric)
    model = whole.encoder.model
    state = {name: one.detach().cpu().contiguous() for name, one in model.state_dict().items()}
    if getattr(model.config, "is_encoder_decoder", False):  # the half of one, under the names of the whole
        shared = model.get_input_embeddings().weight.detach().cpu()
        state = {**{f"encoder.{name}": one for name, one in state.items()}, "shared.weight": shared.clone()}
    with atomic_folder(folder) as beside:
        model.config.save_pretrained(str(beside))
        whole.tokenizer.save(beside)
        save_file(state, str(beside / WEIGHTS), metadata={"format": "pt"})
    return Path(folder)


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
