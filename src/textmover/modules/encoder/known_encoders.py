"""Tables of known encoders: removable layers, recommended layers, languages and length limits."""

from __future__ import annotations

import re
from typing import Any

POST_NORM_TYPES = (
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta",
)  # fmt: skip
"""Types with a norm at the end of each layer: without the layers above L, they return exactly ``hidden_states[L]``.
Others apply a final norm after the last layer, so all layers run and the layer is picked from the hidden states."""

UNTRACED = ("_name_or_path", "_commit_hash", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Entries of an encoder's configuration that describe its origin and do not affect its output."""

LAYERS = {
    "all-MiniLM-L6-v2": (6, 6),
    "multilingual-e5-small": (12, 12),
    "all-mpnet-base-v2": (12, 12),
    "bert-base-uncased": (10, 9),
    "bert-base-cased": (10, 9),
    "bert-base-multilingual-cased": (10, 9),
    "bert-large-uncased": (19, 18),
    "distilbert-base-uncased": (5, 5),
    "distilroberta-base": (5, 5),
    "roberta-base": (10, 10),
    "roberta-large": (19, 17),
    "roberta-large-mnli": (19, 19),
    "xlm-roberta-base": (10, 9),
    "xlm-roberta-large": (19, 17),
    "microsoft/deberta-base-mnli": (10, 9),
    "microsoft/deberta-large-mnli": (19, 18),
    "microsoft/deberta-xlarge-mnli": (40, 40),
    "albert-large-v2": (14, 14),
}
"""Default layers by encoder, for transport and for greedy matching. The TWMD paper uses layer 10 of base and 19 of
large models; bert-score tuned its layers on WMT16; this project chose others by the mean over development sets."""

LANGUAGES = {
    **dict.fromkeys(
        (
            "all-MiniLM-L6-v2", "all-MiniLM-L12-v2", "all-mpnet-base-v2", "albert-large-v2", "bert-base-cased",
            "bert-base-uncased", "bert-large-cased", "bert-large-uncased", "deberta-base-mnli", "deberta-large-mnli",
            "deberta-xlarge-mnli", "distilbert-base-uncased", "distilroberta-base", "roberta-base", "roberta-large",
            "roberta-large-mnli",
        ),
        "en",
    ),
    "bert-base-chinese": "zh",
    "camembert-base": "fr",
    "multilingual-e5-small": "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu "
    "ha he hi hr hu hy id is it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my "
    "ne nl no om or pa pl ps pt ro ru sa sd si sk sl so sq sr su sv sw ta te th tl tr ug uk "
    "ur uz vi xh yi zh",
}  # fmt: skip
"""Languages that encoders were trained for, and hence the metrics built on them."""

MULTILINGUAL = re.compile(r"multilingual|xlm|mdeberta|labse|mt5", re.IGNORECASE)
"""Names of encoders and model types that were trained for many languages."""

MANY_PIECES = 150_000  # vocabulary size from which on an encoder of any name counts as multilingual

POSITIONLESS_LIMIT = 512
"""Length limit of an encoder with neither a position table nor a stated limit (relative positions, as in T5)."""

FIRST_POSITION = {"albert": 0, "bert": 0, "distilbert": 0, "electra": 0}
"""Types that accept position ids and an attention mask per token, with the position id of a text's first token."""

FROM_PADDING = ("roberta", "xlm-roberta", "camembert")
"""Further such types, which count positions from the padding index."""


def languages_of(identity: str) -> tuple[str, ...]:
    """Return the languages of an encoder, or its table, by its identity ``roberta-base@1a2b3c4d``; empty if unknown."""
    name = re.split("(?:-table)?[+@]", identity)[0].rsplit("/", 1)[-1]
    return tuple(LANGUAGES.get(name, "").split())


def is_multilingual(encoder: Any) -> bool:
    """Return whether an encoder is multilingual, so that it can compare a text with its translation.

    The entry ``multilingual`` of its ``config.json`` decides; without it, its name, type and vocabulary size.
    """
    from textmover.modules.encoder.encoder_identity import base_of  # imports torch

    config, base = getattr(getattr(encoder, "weights", None), "config", None), base_of(encoder)
    declared = getattr(config, "multilingual", None)
    if isinstance(declared, bool):
        return declared
    names = (getattr(config, "model_type", ""), "" if base is None else base.name.rstrip("/").rsplit("/", 1)[-1])
    return any(map(MULTILINGUAL.search, names)) or getattr(config, "vocab_size", 0) >= MANY_PIECES


def first_position(config: Any) -> int | None:
    """Return the position id of a text's first token; ``None`` for types that accept no position ids."""
    if config.model_type in FROM_PADDING:
        return (config.pad_token_id or 0) + 1
    return FIRST_POSITION.get(config.model_type)


def has_local_attention(config: Any) -> bool:
    """Return whether some layers use local attention, so that distant padding attends to no token."""
    return getattr(config, "local_attention", None) is not None


def default_layer(name: str, matching: str, depth: int) -> int:
    """Return the default layer: from the table for known encoders, the last one otherwise."""
    short = name.rsplit("/", 1)[-1]
    known = LAYERS.get(name, LAYERS.get(short))
    return min(depth, known[matching == "bertscore"]) if known else depth


def position_limit(config: Any) -> int:
    """Return the maximum number of tokens of an encoder with this Hugging Face configuration."""
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return POSITIONLESS_LIMIT
    if config.model_type in (*FROM_PADDING, "mpnet", "longformer"):
        # These count positions from the padding index; mpnet's table also has 514 rows for 512 tokens.
        return positions - 2 if config.model_type == "mpnet" else positions - (config.pad_token_id or 0) - 1
    return positions
