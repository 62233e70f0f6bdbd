"""Load encoders, tokenizers and configurations from folders, without running code in them.

Every call of a Hugging Face loader is here: one function each for configurations, tokenizers and models.
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
from textmover.types.argument_checks import most_of

LEAST_VOCABULARY = 16
"""Fewest tokens of a vocabulary. If its files are missing, Hugging Face silently builds a tokenizer of special tokens
alone, to which every word is unknown."""

SHOWN = 300  # characters of a Hugging Face error that a message quotes

NUMBER = re.compile(rb'(?<!\\)" ?: ?(\d{8,})')
"""Large number in JSON. Tokenizers allocate memory for every id below the highest."""

TOKENIZER = "tokenizer.json"

ADAPTER = "adapter_config.json"
"""Adapter file. Hugging Face would merge it into the weights, so the encoder's hash would no longer match them."""

DECODER_LAYERS = ("decoder_layers", "num_decoder_layers")
"""Layer counts of a decoder. It is removed after loading, so only one layer is built."""

LOADING = new_lock()
"""Lock for loading: a first import of transformers in several threads fails, and loading changes its log level."""


def load_config(folder: Path) -> Any:
    """Load and check the Hugging Face configuration of an encoder."""
    path = folder / "config.json"
    with _loading(folder):
        from transformers import MODEL_MAPPING, AutoConfig

        _check_sizes(path, dict(read_json(path)))
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
        is_text_encoder = type(config) in MODEL_MAPPING and _reads_texts(MODEL_MAPPING[type(config)])
    sizes = {name: value for name in ENCODER_BOUNDS if (value := getattr(config, name, None)) is not None}
    if not is_text_encoder or not {"num_hidden_layers", "hidden_size"} <= sizes.keys():
        raise InputError(
            f"Expected {path} to describe a text encoder, but got one of type {config.model_type!r}: take one such as "
            "roberta-base."
        )
    _check_sizes(path, sizes)
    for what, present in (
        ("quantized weights", getattr(config, "quantization_config", None) is not None),
        (f"an adapter ({ADAPTER})", (folder / ADAPTER).is_file()),
    ):
        if present:
            raise InputError(
                f"Expected {folder} to hold the weights of an encoder, but got {what}: save the whole encoder."
            )
    config.return_dict, config.chunk_size_feed_forward = True, 0  # neither changes a value
    for name in DECODER_LAYERS:
        if hasattr(config, name):
            setattr(config, name, 1)
    return config


def load_tokenizer(folder: Path, **options: Any) -> Any:
    """Load and check the Hugging Face tokenizer of a folder; options go to ``from_pretrained``."""
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
    """Subset of a Hugging Face tokenizer that :class:`~textmover.modules.tokens.tokenizer.Tokenizer` uses."""

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
        """Return the id of each token."""
        return self.backend_tokenizer.get_vocab()

    def save_pretrained(self, folder: str) -> None:
        """Write ``tokenizer.json`` into ``folder``."""
        self.backend_tokenizer.save(str(Path(folder) / TOKENIZER))


def load_model(config: Any, folder: Path, dtype: torch.dtype | None = None) -> Any:
    """Build the encoder of a configuration with the weights in its folder, or random ones without ``dtype``."""
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
            return _checked_forward(_text_half(encoder))
        model, info = AutoModel.from_pretrained(
            str(folder),
            config=config,
            dtype=dtype,
            ignore_mismatched_sizes=True,  # rejected below, with their names
            output_loading_info=True,
            attn_implementation=attention,
            trust_remote_code=False,
        )
        unread = {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])}
        missing = {name: one for name, one in model.named_parameters() if name in unread}
        encoder = _text_half(model)
        used = {id(one) for one in encoder.parameters()}
        lacking = [name for name, one in missing.items() if id(one) in used]
        if lacking:
            raise InputError(
                f"Expected the weights in {folder} to fit the encoder's config.json, but {lacking[0]} is missing or "
                "has another shape: fetch or save the encoder again."
            )
        return _checked_forward(encoder)


def _check_sizes(path: Path, sizes: Mapping[str, Any]) -> None:
    place, way_out = f" in {path}", ": fetch or save the encoder again"
    for name in ENCODER_BOUNDS:
        if name in sizes:
            check_whole(name, sizes[name], place=place, way_out=way_out)


def _reads_texts(model: Any) -> bool:
    return "input_ids" in inspect.signature(model.forward).parameters


def _text_half(model: Any) -> Any:
    """Remove the decoder and the pooler: no metric uses them, and unused parameters break distributed training."""
    if getattr(model.config, "is_encoder_decoder", False):
        model, whole = model.get_encoder(), model
        if not _reads_texts(model):
            raise TypeError(f"the encoder half of {type(whole).__name__} reads no token ids")
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def _checked_forward(encoder: Any) -> Any:
    """Encode one token and return the encoder: some invalid configurations fail only then."""
    training = encoder.training
    with torch.no_grad():  # without dropout, which would draw random numbers
        encoder.eval()(input_ids=torch.zeros(1, 1, dtype=torch.long))
    return encoder.train(training)


@contextlib.contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """Lock loading, silence Hugging Face and turn its errors into one sentence."""
    with LOADING, _plain_errors(folder):
        from transformers.utils import logging as hf_logging

        hf_logger = logging.getLogger("transformers")
        level, bars = hf_logger.level, hf_logging.is_progress_bar_enabled()
        hf_logger.setLevel(logging.ERROR)  # it would warn of weights that are skipped on purpose (layers, pooler)
        hf_logging.disable_progress_bar()
        try:
            yield
        finally:
            hf_logger.setLevel(level)
            if bars:
                hf_logging.enable_progress_bar()


@contextlib.contextmanager
def _plain_errors(folder: Path) -> Iterator[None]:
    """Turn any error in reading an encoder's files into one sentence that names the folder."""
    try:
        yield
    except (InputError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # damaged files raise many types; tokenizers raises bare exceptions
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
