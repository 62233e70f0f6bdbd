"""Read encoders, tokenizers and their configurations from folders. Code in a folder never runs.

All that Hugging Face reads passes here: one function for configurations, one for tokenizers, one for models.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from textmover.modules.devices import new_lock
from textmover.safe_reading import load_json, read_json
from textmover.types import ENCODER_BOUNDS, InputError, check_whole
from textmover.types.arguments import most_of

LEAST_VOCABULARY = 16
"""Fewer tokens than any vocabulary has: where its files are missing, Hugging Face builds a tokenizer of special tokens
alone, to which every word is unknown, and says nothing."""

SHOWN = 300  # characters of an error of Hugging Face's that a message shows

NUMBER = re.compile(rb'(?<!\\)" ?: ?(\d{8,})')
"""A large number in JSON. Tokenizers take memory for every id below the highest one."""

TOKENIZER = "tokenizer.json"

ADAPTER = "adapter_config.json"
"""Hugging Face merges the adapter of such a file into the weights, which the encoder's hash then does not describe."""

DECODER_LAYERS = ("decoder_layers", "num_decoder_layers")
"""Layers of the half of an encoder-decoder that is dropped: no more than one is made."""

LOADING = new_lock()
"""One thread loads at a time: the first import of transformers fails in several, and its logging is set up here."""


def load_config(folder: Path) -> Any:
    """Read the Hugging Face configuration of an encoder."""
    path = folder / "config.json"
    with _loading(folder):
        from transformers import MODEL_MAPPING, AutoConfig

        _check_sizes(path, dict(read_json(path)))
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
        known = type(config) in MODEL_MAPPING and _reads_texts(MODEL_MAPPING[type(config)])
    sizes = {name: found for name in ENCODER_BOUNDS if (found := getattr(config, name, None)) is not None}
    if not known or not {"num_hidden_layers", "hidden_size"} <= sizes.keys():
        raise InputError(
            f"Expected {path} to describe a text encoder, but got one of type {config.model_type!r}: take one such as "
            "roberta-base."
        )
    _check_sizes(path, sizes)
    for what, there in (
        ("quantized weights", getattr(config, "quantization_config", None) is not None),
        (f"an adapter ({ADAPTER})", (folder / ADAPTER).is_file()),
    ):
        if there:
            raise InputError(
                f"Expected {folder} to hold the weights of an encoder, but got {what}: save the whole encoder."
            )
    config.return_dict, config.chunk_size_feed_forward = True, 0  # neither changes a value
    for name in DECODER_LAYERS:
        if hasattr(config, name):
            setattr(config, name, 1)
    return config


def load_tokenizer(folder: Path, **options: Any) -> Any:
    """Read the Hugging Face tokenizer of a folder, with options of its own."""
    with _loading(folder):
        from transformers import AutoTokenizer

        for path in filter(Path.is_file, (folder / name for name in (TOKENIZER, "vocab.json"))):
            highest = max(map(int, NUMBER.findall(path.read_bytes())), default=0)
            if highest > (most := most_of("vocab_size")):
                raise InputError(
                    f"Expected {path} to give ids up to {most:,}, but got {highest}: fetch or save the encoder again."
                )
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, **options)
    if len(tokenizer) < LEAST_VOCABULARY:
        raise InputError(
            f"Expected {folder} to hold a tokenizer, but its vocabulary is missing: fetch or save the encoder again."
        )
    return tokenizer


class TokenizerFile:
    """The part of a Hugging Face tokenizer that :class:`~textmover.modules.tokens.tokenizer.Tokenizer` reads."""

    is_fast = True
    pad_token_id = 0

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        with _plain_errors(folder):
            self.backend_tokenizer: Any = Tokenizer.from_file(str(folder / TOKENIZER))
            self.unk_token: str | None = load_json(self.backend_tokenizer.to_str(), TOKENIZER)["model"].get("unk_token")
        self.unk_token_id = None if self.unk_token is None else self.backend_tokenizer.token_to_id(self.unk_token)

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())

    def get_vocab(self) -> dict[str, int]:
        """Id of each token."""
        return self.backend_tokenizer.get_vocab()

    def save_pretrained(self, folder: str) -> None:
        """Write the file."""
        self.backend_tokenizer.save(str(Path(folder) / TOKENIZER))


def load_model(config: Any, folder: Path, dtype: torch.dtype | None = None) -> Any:
    """Build the encoder (half) of a configuration, with weights of its folder or, without ``dtype``, random ones."""
    with _loading(folder), torch.device("cpu"):
        from transformers import MODEL_MAPPING, AutoModel

        attention = "sdpa" if getattr(MODEL_MAPPING[type(config)], "_supports_sdpa", False) else "eager"
        with torch.device("meta"):
            empty = AutoModel.from_config(config, attn_implementation=attention, trust_remote_code=False)
        described = sum(one.numel() for one in empty.parameters())
        stored = sum(one.stat().st_size for one in folder.iterdir() if one.suffix in (".safetensors", ".bin"))
        if described > stored:
            raise InputError(
                f"Expected the weights in {folder} to fit the encoder's config.json, but it describes {described:,} "
                f"parameters, and they have {stored:,} bytes: fetch or save the encoder again."
            )
        if dtype is None:
            encoder = AutoModel.from_config(config, attn_implementation=attention, trust_remote_code=False)
            return _tried(_text_half(encoder))
        model, found = AutoModel.from_pretrained(
            str(folder),
            config=config,
            dtype=dtype,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
            attn_implementation=attention,
            trust_remote_code=False,
        )
        unread = {*found["missing_keys"], *(name for name, *_ in found["mismatched_keys"])}
        missing = {name: one for name, one in model.named_parameters() if name in unread}
        encoder = _text_half(model)
        kept = {id(one) for one in encoder.parameters()}
        lacking = [name for name, one in missing.items() if id(one) in kept]
        if lacking:
            raise InputError(
                f"Expected the weights in {folder} to fit the encoder's config.json, but {lacking[0]} is missing or "
                "has another shape: fetch or save the encoder again."
            )
        return _tried(encoder)


def _check_sizes(path: Path, sizes: Mapping[str, Any]) -> None:
    place, way_out = f" in {path}", ": fetch or save the encoder again"
    for name in ENCODER_BOUNDS:
        if name in sizes:
            check_whole(name, sizes[name], place=place, way_out=way_out)


def _reads_texts(model: Any) -> bool:
    return "input_ids" in inspect.signature(model.forward).parameters


def _text_half(model: Any) -> Any:
    """Drop what no metric reads: the decoder, and the pooler, whose unused parameters stop distributed training."""
    if getattr(model.config, "is_encoder_decoder", False):
        model, whole = model.get_encoder(), model
        if not _reads_texts(model):
            raise TypeError(f"the encoder half of {type(whole).__name__} reads no token ids")
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def _tried(encoder: Any) -> Any:
    """Let an encoder read one token: some values of a configuration fail only then."""
    training = encoder.training
    with torch.no_grad():  # without dropout, which would draw random numbers
        encoder.eval()(input_ids=torch.zeros(1, 1, dtype=torch.long))
    return encoder.train(training)


@contextlib.contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """Let Hugging Face read: one thread at a time, with errors in one sentence."""
    with LOADING, _plain_errors(folder):
        from transformers.utils import logging as hf_logging

        theirs = logging.getLogger("transformers")
        level, bars = theirs.level, hf_logging.is_progress_bar_enabled()
        theirs.setLevel(logging.ERROR)  # it would report weights that are left out on purpose (cut layers, pooler)
        hf_logging.disable_progress_bar()
        try:
            yield
        finally:
            theirs.setLevel(level)
            if bars:
                hf_logging.enable_progress_bar()


@contextlib.contextmanager
def _plain_errors(folder: Path) -> Iterator[None]:
    """Turn what goes wrong in reading an encoder's files into one sentence that names the folder."""
    try:
        yield
    except (InputError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # readers of damaged files fail in many ways; tokenizers raises bare exceptions
        if "trust_remote_code" in str(error):
            raise InputError(
                f"Expected {folder} to hold an encoder of a type in transformers, but it needs Python code of its own, "
                "which never runs: take another encoder, or a converted one."
            ) from error
        reason = textwrap.shorten(str(error), SHOWN, placeholder=" …").rstrip(".") or "no reason given"
        raise InputError(
            f"Expected {folder} to hold an encoder that can be read, but got {type(error).__name__}: {reason}. "
            "Fetch or save it again."
        ) from error
