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
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from textmover.lazy import new_lock
from textmover.modules.encoder.source import WEIGHT_FILES
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

STORED_CLASSES = {"bert": "BertModel", "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel"}
"""Types of which :class:`StoredModel` knows the weights, and their classes in transformers."""

_ON_DEMAND: ContextVar[bool] = ContextVar("models on demand", default=False)

LOADING = new_lock()
"""Lock for loading: a first import of transformers in several threads fails, and loading changes its log level."""


def load_config(folder: Path) -> Any:
    """Load and check the Hugging Face configuration of an encoder."""
    path = folder / "config.json"
    with _loading(folder):
        from transformers import MODEL_MAPPING, AutoConfig

        _check_sizes(path, dict(read_json(path)))
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
        is_text_encoder = (_ON_DEMAND.get() and config.model_type in STORED_CLASSES) or (
            type(config) in MODEL_MAPPING and _reads_texts(MODEL_MAPPING[type(config)])  # imports the model's code
        )
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


@contextlib.contextmanager
def models_on_demand() -> Iterator[None]:
    """Build the models of encoders loaded inside only when torch computes with them (:class:`StoredModel`)."""
    token = _ON_DEMAND.set(True)
    try:
        yield
    finally:
        _ON_DEMAND.reset(token)


class StoredModel(nn.Module):
    """Weights of an encoder under the names of its model, which is built for its first computation.

    A back-end runs without the model, and importing the model's code takes a third of the time of a first score.
    """

    def __init__(self, config: Any, folder: Path, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.config, self.folder = config, folder
        for name, tensor in weights.items():
            owner: nn.Module = self
            *parts, last = name.split(".")
            for part, following in zip(parts, [*parts[1:], last], strict=True):
                if part not in owner._modules:
                    owner.add_module(part, nn.ModuleList() if following.isdigit() else nn.Module())
                owner = owner.get_submodule(part)
            owner.register_parameter(last, nn.Parameter(tensor))

    @classmethod
    def find(cls, config: Any, folder: Path, dtype: torch.dtype | None) -> StoredModel | None:
        """Read the weights from a folder inside :func:`models_on_demand`; ``None`` if they are not of a known type."""
        from safetensors import SafetensorError, safe_open

        plain = {"is_decoder": False, "is_encoder_decoder": False, "position_embedding_type": "absolute"}
        is_known = config.model_type in STORED_CLASSES and all(getattr(config, *one) == one[1] for one in plain.items())
        if dtype is None or not is_known or not _ON_DEMAND.get():
            return None
        with contextlib.suppress(OSError, SafetensorError), safe_open(folder / WEIGHT_FILES[0], "pt") as stored:
            present, shapes = set(stored.keys()), _shapes(config)
            prefix = "" if present.issuperset(shapes) else f"{config.model_type.removeprefix('xlm-')}."
            sources = {name: f"{prefix}{name}" for name in shapes}
            if present.issuperset(sources.values()) and all(
                tuple(stored.get_slice(sources[name]).get_shape()) == shape for name, shape in shapes.items()
            ):
                return cls(config, folder, {name: stored.get_tensor(one).to(dtype) for name, one in sources.items()})
        return None

    def built(self) -> Any:
        """Build the model, with these very parameters."""
        weight = next(self.parameters())
        with torch.random.fork_rng(devices=[]):  # weights that the folder lacks and no metric uses are drawn
            model = load_model(self.config, self.folder, weight.dtype)
        model.load_state_dict(self.state_dict(keep_vars=True), assign=True)
        return model.to(weight.device).train(self.training)


def model_class(model: Any) -> str:
    """Return the name of a model's class in transformers."""
    return STORED_CLASSES[model.config.model_type] if isinstance(model, StoredModel) else type(model).__name__


def _shapes(config: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's weights by name, for the types in :data:`STORED_CLASSES`."""
    width, inner = config.hidden_size, config.intermediate_size
    rows = {"word": config.vocab_size, "position": config.max_position_embeddings, "token_type": config.type_vocab_size}
    of_layer: dict[str, tuple[int, ...]] = {
        **{f"attention.self.{name}": (width, width) for name in ("query", "key", "value")},
        "attention.output.dense": (width, width),
        "attention.output.LayerNorm": (width,),
        "intermediate.dense": (inner, width),
        "output.dense": (width, inner),
        "output.LayerNorm": (width,),
    }
    layers = [f"encoder.layer.{layer}." for layer in range(config.num_hidden_layers)]
    shapes = {f"embeddings.{name}_embeddings.weight": (size, width) for name, size in rows.items()}
    biased = {"embeddings.LayerNorm": (width,)} | {
        f"{layer}{name}": of_layer[name] for layer in layers for name in of_layer
    }
    ends = {"weight": slice(None), "bias": slice(1)}
    return shapes | {f"{name}.{end}": shape[part] for name, shape in biased.items() for end, part in ends.items()}


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
