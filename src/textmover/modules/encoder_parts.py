"""Assembly of a metric's parts from its configuration: encoder, layers, tokenizer, and the encoder's identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from textmover.modules.config import MetricConfig
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.encoder_identity import BaseEncoder, base_of, remember_base
from textmover.modules.encoder.known_encoders import POSITIONLESS_LIMIT, default_layer, languages_of, position_limit
from textmover.modules.encoder.layer_aggregation import Layers, PowerMeans, Routing, ScalarMix, SideBySide, SingleLayer
from textmover.modules.encoder.pretrained import load_config
from textmover.modules.encoder.source import EncoderSource, resolve_encoder
from textmover.modules.encoder.static_vectors import (
    StaticEncoder,
    StaticVectors,
    TokenTable,
    is_static,
    main_directions,
    token_vectors,
)
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.modules.tokens.weighting import needs_traits, stop_words
from textmover.modules.tokens.word_tokenizer import WordTokenizer
from textmover.types import BOUNDS, InputError, Signature, check_whole, plural

ENCODER_FOLDER = "encoder"  # folder of a checkpoint with the encoder's configuration and tokenizer

DIFFERENCE = "difference"
"""Value of ``stored`` for an adapter, which holds the difference from its base; the base provides the rest."""


@dataclass(frozen=True)
class EncoderParts:
    """Encoder and tokenizer of a metric."""

    encoder: Encoder | StaticEncoder | TokenTable  # returns the hidden states of the selected layers
    tokenizer: Tokenizer | WordTokenizer  # tokenizer of the encoder
    identity: str  # name and hash of the encoder for the signature


def check_layers(config: MetricConfig) -> None:
    """Raise an error if the encoder lacks the configured layers, without loading its weights."""
    if not is_static(config.encoder):
        folder = resolve_encoder(config.encoder, config.revision).folder
        _layers(config, load_config(folder).num_hidden_layers)


def assemble(config: MetricConfig) -> EncoderParts:
    """Load the pretrained encoder that a configuration names, and its tokenizer."""
    if is_static(config.encoder):
        return _static_parts(config, StaticVectors.open(config.encoder, config.unknown_words))
    source = resolve_encoder(config.encoder, config.revision)
    encoder_config = load_config(source.folder)
    layers = _layers(config, encoder_config.num_hidden_layers)
    name = config.encoder.rstrip("/").rsplit("/", 1)[-1]
    parts = _pretrained_parts(config, source, encoder_config, layers, getattr(torch, config.dtype))
    remember_base(parts.encoder, BaseEncoder.found(config.encoder, config.revision, source))
    return replace(parts, identity=_escaped(f"{name}@{source.sha256[:8]}"))


def untrained(encoder: Encoder) -> Encoder:
    """Load the base of an encoder, without its training, with the same layers and dtype."""
    base = base_of(encoder)
    if base is None:
        raise InputError(
            "Expected an encoder that names its pretrained base, but got one without: build the "
            "metric from its configuration, or load it from a checkpoint."
        )
    source, dtype = base.find(), next(encoder.parameters()).dtype
    fresh = Encoder.load(source.folder, load_config(source.folder), encoder.layers, dtype=dtype)
    if fresh.depth != encoder.depth:
        raise InputError(
            f"Expected the base encoder {base.name} to have {plural(encoder.depth, 'layer')}, but got {fresh.depth}: "
            "give the encoder that the metric was trained from."
        )
    remember_base(fresh, replace(BaseEncoder.found(base.name, base.revision, source), weights=base.weights))
    return fresh.eval()


def build_layers(config: MetricConfig, layers: tuple[int, ...]) -> Layers:
    """Build the module that combines the encoder's layers into one vector per token."""
    if config.aggregation == "power-means":
        return PowerMeans(layers, config.powers)
    if config.aggregation == "routing":
        names = {"kernel": "kernel", "step": "step", "tolerance": "tolerance", "max_iterations": "iterations"}
        return Routing(layers, **{name: getattr(config, f"routing_{field}") for name, field in names.items()})
    return {"single": SingleLayer, "scalar-mix": ScalarMix, "side-by-side": SideBySide}[config.aggregation](layers)


def save_parts(parts: EncoderParts, folder: Path) -> dict[str, Any]:
    """Write the files to rebuild encoder and tokenizer, without weights; return the entry of ``config.json``."""
    target = folder / ENCODER_FOLDER
    target.mkdir()
    parts.tokenizer.save(target)
    if isinstance(parts.encoder, StaticEncoder):
        return {"identity": parts.identity, "static": True}
    if isinstance(parts.encoder, TokenTable):
        size, dimension = parts.encoder.rows.shape
        return {"identity": parts.identity, "table": {"size": size, "dimension": dimension}}
    parts.encoder.model.config.save_pretrained(str(target))
    base = base_of(parts.encoder)
    return {
        "identity": parts.identity,
        "depth": parts.encoder.depth,
        "layers": list(parts.encoder.layers),
        **({} if base is None else {"base": base.entry()}),
    }


def reassemble(config: MetricConfig, folder: Path, entry: Mapping[str, Any]) -> EncoderParts:
    """Rebuild the parts that :func:`save_parts` wrote, with random weights, or those of the base for an adapter."""
    encoder_folder = folder / ENCODER_FOLDER
    if "static" in entry:
        return _static_parts(config, StaticVectors.load(encoder_folder, config.unknown_words))
    if _escaped(entry["identity"]) != entry["identity"]:
        raise InputError(
            f"Expected {folder} to name its encoder without '|' and line breaks, but got {entry['identity']!r}: export "
            "or copy the checkpoint again."
        )
    if "table" in entry:
        return _table_parts(config, encoder_folder, entry)
    _check_entry(config, folder, entry)
    base = BaseEncoder.from_entry(entry, config.encoder, config.revision)
    if entry.get("stored") == DIFFERENCE:
        return _adapter_parts(config, BaseEncoder(**entry["base"]), entry)
    encoder_config = load_config(encoder_folder)
    tokenizer = _tokenizer(config, encoder_folder, encoder_config)
    encoder = Encoder.load(folder, encoder_config, entry["layers"], depth=entry["depth"], **_options(config, tokenizer))
    encoder.to(getattr(torch, config.dtype))
    remember_base(encoder, base)
    return EncoderParts(encoder, tokenizer, entry["identity"])


def _check_entry(config: MetricConfig, folder: Path, entry: Mapping[str, Any]) -> None:
    check_whole("depth", entry["depth"], place=f" of the encoder in {folder}")
    config = replace(config, encoder=str(folder))  # errors name the folder
    expected, actual = list(_layers(config, entry["depth"])), entry["layers"]
    if config.layer is None and config.aggregation == "single":  # an earlier version may have had another default
        expected = next(([one] for one in range(entry["depth"] + 1) if [one] == actual), expected)
    if actual != expected:
        raise InputError(
            f"Expected {folder} to hold an encoder that gives the layers {expected}, as its metric reads them, but it "
            f"gives {actual}: export or copy the checkpoint again."
        )


def _escaped(identity: str) -> str:
    """Return the identity as a signature escapes it."""
    return Signature({"encoder": identity}).entries["encoder"]


def _adapter_parts(config: MetricConfig, base: BaseEncoder, entry: Mapping[str, Any]) -> EncoderParts:
    """Build the parts of an adapter with the weights of its base, in the dtype of the stored difference."""
    source = base.find()
    encoder_config = load_config(source.folder)
    if encoder_config.num_hidden_layers != entry["depth"]:
        raise InputError(
            f"Expected the base encoder {base.name} to have {entry['depth']} layers, but that in {source.folder} has "
            f"{encoder_config.num_hidden_layers}: give the right one as `encoder`."
        )
    parts = _pretrained_parts(config, source, encoder_config, tuple(entry["layers"]), getattr(torch, entry["dtype"]))
    if source.sha256.startswith(base.sha256):
        remember_base(parts.encoder, replace(base, folder=source.folder))
        return replace(parts, identity=entry["identity"])
    remember_base(parts.encoder, BaseEncoder.found(base.name, base.revision, source))
    return replace(parts, identity=f"{entry['identity'].rpartition('@')[0]}@{source.sha256[:8]}")


def _pretrained_parts(
    config: MetricConfig, source: EncoderSource, encoder_config: Any, layers: tuple[int, ...], dtype: torch.dtype
) -> EncoderParts:
    """Load the encoder of a folder and its tokenizer, with an empty identity."""
    tokenizer = _tokenizer(config, source.folder, encoder_config)
    encoder = Encoder.load(source.folder, encoder_config, layers, dtype=dtype, **_options(config, tokenizer))
    return EncoderParts(encoder, tokenizer, "")


def _options(config: MetricConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    window = tokenizer.max_length if config.long_texts == "window" else None
    return {"freeze_layers": config.freeze_layers, "window": window}


def _check_contexts_unread(config: MetricConfig) -> None:
    if config.same_token_loss != 1:
        raise InputError(
            "Expected `same_token_loss` to be 1 for static vectors, which are the same in all contexts, but got "
            f"{config.same_token_loss:g}: leave it out."
        )


def _static_parts(config: MetricConfig, vectors: StaticVectors) -> EncoderParts:
    _check_contexts_unread(config)
    if config.layer not in (None, 0, -1) or config.aggregation != "single":
        raise InputError(
            f"Expected static vectors to be read as they are, but got layer={config.layer} and "
            f"aggregation={config.aggregation!r}: they have no layers, so set aggregation='single' and no layer."
        )
    tokenizer = WordTokenizer(vectors, config.max_length, config.long_texts, **_traits(config))
    return EncoderParts(StaticEncoder(vectors), tokenizer, vectors.identity)


def as_table(parts: EncoderParts, dimension: int | None = None) -> EncoderParts:
    """Replace the encoder of a metric on layer 0 by a table of its token embeddings.

    Raises:
        InputError: If the metric reads another layer, or ``dimension`` exceeds the width of the embeddings.
    """
    vectors = token_vectors(parts.encoder, parts.tokenizer.vocabulary_size)
    table = TokenTable.of(vectors if dimension is None else main_directions(vectors, dimension))
    name, _, _ = parts.identity.partition("@")
    return EncoderParts(table, parts.tokenizer, f"{name.partition('+')[0]}-table@{table.fingerprint()[:8]}")


def _table_parts(config: MetricConfig, folder: Path, entry: Mapping[str, Any]) -> EncoderParts:
    _check_contexts_unread(config)
    if config.long_texts == "window":
        raise InputError(
            "Expected `long_texts` to be 'truncate' or 'error' for a table of token vectors, but got 'window': it "
            "reads a text of any length as a whole, so raise `max_length`."
        )
    size, dimension = entry["table"]["size"], entry["table"]["dimension"]
    check_whole("vocab_size", size, place=f" of the table in {folder}")
    check_whole("hidden_size", dimension, place=f" of the table in {folder}")
    tokenizer = _load(config, folder, None, POSITIONLESS_LIMIT, size)
    return EncoderParts(TokenTable(size, dimension), tokenizer, entry["identity"])


def _layers(config: MetricConfig, depth: int) -> tuple[int, ...]:
    """Return the layers that a configuration reads; 0 is the embeddings."""
    if config.layer is None:
        top = default_layer(config.encoder, config.matching, depth) if config.aggregation == "single" else depth
    else:
        top = config.layer
    if not -depth - 1 <= top <= depth:
        raise InputError(
            f"Expected `layer` to be between 0 and {depth} (or from -1, the last, to {-depth - 1}) for "
            f"{config.encoder}, but got {top}: choose one of these."
        )
    top = top + depth + 1 if top < 0 else top
    if config.aggregation == "single":
        return (top,)
    if config.layers is not None:
        if max(config.layers) > depth:
            raise InputError(
                f"Expected `layers` to be between 0 and {depth} for {config.encoder}, but got {max(config.layers)}: "
                "choose lower ones."
            )
        return config.layers
    if config.last_layers > top + 1:
        raise InputError(
            f"Expected `last_layers` to be at most {top + 1}, the layers up to {top} of {config.encoder}, "
            f"but got {config.last_layers}."
        )
    return tuple(range(top - config.last_layers + 1, top + 1))


def _tokenizer(config: MetricConfig, folder: Path, encoder_config: Any) -> Tokenizer:
    limit = position_limit(encoder_config)
    least = BOUNDS["max_length"][0]
    if limit < least:
        raise InputError(
            f"Expected the encoder in {folder} to read texts of {least} tokens at least, but its config.json "
            f"allows {limit}: fetch or save it again."
        )
    if config.max_length is not None and config.max_length > limit:
        raise InputError(f"Expected `max_length` to be at most {limit} for this encoder, but got {config.max_length}.")
    return _load(config, folder, encoder_config.model_type, limit, getattr(encoder_config, "vocab_size", None))


def _load(config: MetricConfig, folder: Path, model_type: str | None, limit: int, rows: int | None) -> Tokenizer:
    traits = {**_traits(config), "any_script": len(languages_of(config.encoder)) > 1}
    tokenizer = Tokenizer(folder, model_type, config.max_length or limit, config.long_texts, **traits)
    tokenizer.check(rows)
    return tokenizer


def _traits(config: MetricConfig) -> dict[str, Any]:
    return {"traits": needs_traits(config), "stop_words": stop_words(config.stop_words)}
