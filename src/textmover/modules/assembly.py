"""The parts that a configuration names, before they become one model: encoder, layers, tokenizer, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from textmover.modules.config import MetricConfig
from textmover.modules.encoder import Encoder, plain_errors
from textmover.modules.encoder_facts import default_layer, position_limit
from textmover.modules.encoder_source import resolve_encoder
from textmover.modules.layers import PowerMeans, Routing, ScalarMix, SingleLayer
from textmover.modules.static_vectors import StaticEncoder, StaticVectors, is_static
from textmover.modules.stop_words import stop_words
from textmover.modules.tokenizer import Tokenizer
from textmover.modules.weighting import needs_traits
from textmover.modules.word_tokenizer import WordTokenizer
from textmover.types import InputError

__all__ = ["Parts", "assemble", "build_layers", "reassemble", "save_parts"]

ENCODER_FOLDER = "encoder"
"""Folder of a checkpoint that holds the encoder's configuration and its tokenizer."""

Layers = SingleLayer | PowerMeans | ScalarMix | Routing


@dataclass(frozen=True)
class Parts:
    """What a metric reads texts with.

    Attributes:
        encoder: Gives the hidden states of the layers that are read.
        tokenizer: Gives the encoder its tokens.
        identity: Name and hash of the encoder for the signature.
    """

    encoder: Encoder | StaticEncoder
    tokenizer: Tokenizer | WordTokenizer
    identity: str


def assemble(config: MetricConfig) -> Parts:
    """The pretrained encoder that a configuration names, and its tokenizer.

    Raises:
        InputError: If the encoder cannot be found or has no such layer.
    """
    from transformers import AutoConfig

    if is_static(config.encoder):
        return _static(config, StaticVectors.open(config.encoder, config.unknown_words))
    source = resolve_encoder(config.encoder, config.revision)
    with plain_errors(source.folder):
        encoder_config = AutoConfig.from_pretrained(str(source.folder))
    layers = _layers(config, encoder_config.num_hidden_layers)
    tokenizer = _tokenizer(config, source.folder, encoder_config)
    encoder = Encoder.from_source(
        source,
        encoder_config,
        layers,
        getattr(torch, config.dtype),
        config.freeze_layers,
        window=tokenizer.max_length if config.long_texts == "window" else None,
    )
    return Parts(encoder, tokenizer, f"{config.encoder.rstrip('/').rsplit('/', 1)[-1]}@{source.sha256[:8]}")


def build_layers(config: MetricConfig, layers: tuple[int, ...]) -> Layers:
    """What makes one vector per token of the layers that the encoder gives."""
    if config.aggregation == "power-means":
        return PowerMeans(layers, config.powers)
    if config.aggregation == "scalar-mix":
        return ScalarMix(layers)
    if config.aggregation == "routing":
        return Routing(
            layers, config.routing_kernel, config.routing_step, config.routing_tolerance, config.routing_iterations
        )
    return SingleLayer(layers[0])


def save_parts(parts: Parts, folder: Path) -> dict[str, Any]:
    """Write what rebuilds encoder and tokenizer, without weights; returns the entry of ``config.json``."""
    target = folder / ENCODER_FOLDER
    target.mkdir()
    if isinstance(parts.encoder, StaticEncoder):
        parts.encoder.vectors.save(target)
        return {"identity": parts.identity, "static": True}
    parts.encoder.model.config.save_pretrained(str(target))
    parts.tokenizer.save(target)
    return {"identity": parts.identity, "depth": parts.encoder.depth, "layers": list(parts.encoder.layers)}


def reassemble(config: MetricConfig, folder: Path, entry: Mapping[str, Any]) -> Parts:
    """What :func:`save_parts` wrote, with random weights."""
    from transformers import AutoConfig

    encoder_folder = folder / ENCODER_FOLDER
    if "static" in entry:
        return _static(config, StaticVectors.load(encoder_folder, config.unknown_words))
    with plain_errors(encoder_folder):
        encoder_config = AutoConfig.from_pretrained(str(encoder_folder))
    tokenizer = _tokenizer(config, encoder_folder, encoder_config)
    window = tokenizer.max_length if config.long_texts == "window" else None
    encoder = Encoder.from_config(encoder_config, entry["depth"], entry["layers"], config.freeze_layers, window=window)
    encoder.to(getattr(torch, config.dtype))
    return Parts(encoder, tokenizer, entry["identity"])


def _static(config: MetricConfig, vectors: StaticVectors) -> Parts:
    if config.layer not in (None, 0, -1) or config.aggregation != "single":
        raise InputError(
            f"Expected static vectors to be read as they are, but got layer={config.layer} and "
            f"aggregation={config.aggregation!r}: they have no layers, so set aggregation='single' and no layer."
        )
    tokenizer = WordTokenizer(
        vectors,
        config.max_length,
        config.long_texts,
        traits=needs_traits(config),
        stop_words=stop_words(config.stop_words),
    )
    return Parts(StaticEncoder(vectors), tokenizer, vectors.identity)


def _layers(config: MetricConfig, depth: int) -> tuple[int, ...]:
    """The layers that a configuration reads, counted from 0, the embeddings."""
    if config.layer is None:
        top = default_layer(config.encoder, config.matching, depth) if config.aggregation == "single" else depth
    else:
        top = config.layer
    if not -depth - 1 <= top <= depth:
        raise InputError(
            f"Expected `layer` to be between 0 and {depth} (or negative, from the end) for {config.encoder}, "
            f"but got {top}."
        )
    top = top + depth + 1 if top < 0 else top
    if config.aggregation == "single":
        return (top,)
    if config.last_layers > top + 1:
        raise InputError(
            f"Expected `last_layers` to be at most {top + 1}, the layers up to {top} of {config.encoder}, "
            f"but got {config.last_layers}."
        )
    return tuple(range(top - config.last_layers + 1, top + 1))


def _tokenizer(config: MetricConfig, folder: Path, encoder_config: Any) -> Tokenizer:
    limit = position_limit(encoder_config)
    if config.max_length is not None and config.max_length > limit:
        raise InputError(f"Expected `max_length` to be at most {limit} for this encoder, but got {config.max_length}.")
    with plain_errors(folder):
        return Tokenizer(
            folder,
            encoder_config.model_type,
            config.max_length or limit,
            config.long_texts,
            traits=needs_traits(config),
            stop_words=stop_words(config.stop_words),
        )
