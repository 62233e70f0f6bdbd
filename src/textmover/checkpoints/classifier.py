"""Save classifiers as folders: a classification head and the metric whose encoder it uses.

``config.json`` describes the head and names the metric, ``head.safetensors`` holds the head's weights, ``README.md`` is
the model card. The metric is either a checkpoint in ``metric/``, with full weights or as an adapter, or a named folder,
hub id or preset. A named metric must have the encoder weights that the head was trained on.
"""

from __future__ import annotations

from pathlib import Path

from textmover._version import __version__
from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.checkpoint_files import CLASSIFIER, CLASSIFIER_FORMAT, HEAD, write_config, write_weights
from textmover.checkpoints.loading import METRIC_FOLDER, classifier_folder, encoder_fingerprint, load_classifier
from textmover.checkpoints.saving import METRIC_USAGE, check_replaceable, save_checkpoint
from textmover.files import atomic_folder
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.modules.score_deviation import PROBES
from textmover.types import InputError

__all__ = ["METRIC_FOLDER", "classifier_folder", "load_classifier", "save_classifier"]

PART_CARD = """# A part of a classifier

The metric whose encoder the classifier in the folder above stands on; that folder's card tells the data and the recipe.
"""
"""Default card of the metric inside a classifier's folder."""

CARD_WORDS = (("text-generation-metric", "text-classification"), ("# A text-generation metric", "# A text classifier"))
"""Tag and title of the card of a metric, and those of a classifier."""


def save_classifier(
    classifier: TextClassifier,
    folder: Path | str,
    *,
    card: str,
    metric: str | None = None,
    adapter: AdapterConfig | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a classifier to a folder atomically, after a test prediction, and return its path.

    Args:
        classifier: The classifier.
        folder: Output folder.
        card: Text of the model card, in Markdown. Tag, title and usage example of a metric are replaced by those of a
            classifier.
        metric: Preset, hub id or folder (absolute, or relative to the classifier's) of a metric with the same encoder;
            ``None`` writes the metric into the classifier's folder.
        adapter: Settings to store the encoder as a difference from its base; ``None`` stores all weights.
        overwrite: Whether to replace an existing checkpoint.
    """
    if metric is not None and adapter is not None:
        raise InputError("Expected `adapter` or `metric`, but got both: the named metric is stored where it is.")
    folder = Path(folder)
    check_replaceable(folder, overwrite=overwrite)
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        if metric is None:
            save_checkpoint(
                classifier.metric, temporary / METRIC_FOLDER, card=card if card.strip() else PART_CARD, adapter=adapter
            )
        for words, own in ((METRIC_USAGE, _usage(classifier.config)), *CARD_WORDS):
            card = card.replace(words, own, 1)
        write_weights(temporary / HEAD, classifier.head.state_dict(), card)
        entries = {
            "format": CLASSIFIER_FORMAT,
            "textmover": __version__,
            "kind": CLASSIFIER,
            "classifier": classifier.config.to_dict(),
            "metric": metric,
            # An adapter restores only approximately equal weights, and verifies them itself.
            "encoder": None if adapter is not None else encoder_fingerprint(classifier),
        }
        write_config(temporary, entries, [HEAD])
        loaded, (first, second) = load_classifier(temporary), zip(*PROBES[:2], strict=True)
        if not loaded.predict(first, None if loaded.config.encoding == "single" else second).isfinite().all():
            raise InputError(
                "Expected finite probabilities from the classifier that was written, but got NaN: take weights of an "
                "earlier epoch, or train with a lower learning rate."
            )
    return folder


def _usage(config: ClassifierConfig) -> str:
    texts = '["a text"]' if config.encoding == "single" else '["a text"], ["another text"]'
    return (
        "```python\nfrom textmover.checkpoints.classifier import load_classifier\n\n"
        f'load_classifier("path/to/this/folder").predict({texts})  # probabilities of {len(config.classes)} classes\n'
        f"```\n\nThe classes are, in this order: {', '.join(config.classes)}.\n"
    )
