"""Tokenizer for encoders, which marks special tokens, pieces of words, unknown tokens and truncated texts."""

from __future__ import annotations

import copy
import itertools
import re
import string
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from textmover.modules.encoder.pretrained import TokenizerFile, load_tokenizer
from textmover.modules.tokens.unknown_tokens import with_unknown
from textmover.modules.tokens.word_cache import Encoded, WordCache
from textmover.types import InputError, SpecialToken, TokenBatch, TokenTrait
from textmover.types.tokens import padding_mask
from textmover.types.word_splitting import UNSPACED, is_unicode, legible

PREFIX_SPACE_TYPES = ("roberta", "bart", "gpt2", "deberta", "longformer", "xlm-roberta-xl")
"""Types with byte-level tokenizers, in which a word at the start of a text needs a space before it for its usual id."""

SHOWN = 60  # characters of a text that an error message quotes
OPENS, CLOSES = 16, 32  # bits besides those of TokenTrait: a piece begins its word, a piece ends its word
LETTER = "\N{REPLACEMENT CHARACTER}"  # part of a character, or an unknown one: neither punctuation nor white space

REPAIR = "repair such texts, for instance with text.encode('utf-8', 'replace').decode()"
"""Advice of errors about texts with half a surrogate pair."""

MARKERS = ("##", "▁", "Ġ", "</w>", "@@")
"""Markers of a piece's position in its word: ``##`` continues a word (WordPiece), ``▁`` (SentencePiece) and ``Ġ``
(byte-level) begin one, ``</w>`` ends one, and a piece with ``@@`` is continued (both BPE)."""


class Tokenizer:
    """Hugging Face tokenizer that marks special tokens and truncated texts.

    Texts are stripped of white space at both ends, as in BERTScore.

    Token traits refer to words, which for every tokenizer end at white space and punctuation; a Chinese character is a
    word. With WordPiece, a piece continues a word if it starts with ``##``. Otherwise it does unless its marker, a
    character that ends words, or the tokenizer's pre-tokenization separates it from the piece before. With
    ``any_script``, punctuation is that of Unicode, and in scripts without spaces each piece is a word.

    Without a ``model_type``, the tokenizer is loaded from ``tokenizer.json`` alone, without transformers.
    """

    def __init__(
        self,
        folder: Path,
        model_type: str | None,
        max_length: int,
        long_texts: Literal["truncate", "error", "window"] = "truncate",
        *,
        traits: bool = False,
        stop_words: frozenset[str] = frozenset(),
        any_script: bool = False,
    ) -> None:
        self._any_script = any_script
        extra = {"add_prefix_space": True} if model_type in PREFIX_SPACE_TYPES else {}
        self._tokenizer: Any = TokenizerFile(folder) if model_type is None else load_tokenizer(folder, **extra)
        self.folder, self.max_length = folder, max_length
        self.long_texts = long_texts
        self._unknown_id = self._tokenizer.unk_token_id
        self._flags = self._vocabulary_flags(stop_words) if traits else None
        side = getattr(self._tokenizer, "truncation_side", "right")
        self._rust = self._configured_backend(side)
        self._words = WordCache.of(self._rust) if self._flags is None and side == "right" else None

    def _configured_backend(self, side: str) -> Any:
        """Return the configured Rust tokenizer, not a copy; ``None`` for tokenizers written in Python.

        Hugging Face's wrapper is slower, and it sets limits in each call, which is not thread-safe.
        """
        if not self._tokenizer.is_fast:
            return None
        rust = self._tokenizer.backend_tokenizer
        self._limits_read = rust.padding, rust.truncation
        rust.no_padding()
        rust.no_truncation()
        if self.long_texts != "window":
            rust.enable_truncation(self.max_length, strategy="longest_first", direction=side)
        return rust

    lacking_id = None  # no single id for unknown tokens: they are distinguished by their spelling

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Id of each piece."""
        return self._tokenizer.get_vocab()

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens; all ids are below it."""
        return len(self._tokenizer)

    def __call__(self, texts: Sequence[str]) -> TokenBatch:
        """Tokenise a batch of texts."""
        for position, text in enumerate(texts):
            if not isinstance(text, str) or not is_unicode(text):
                raise InputError(
                    "Expected Unicode text, but got half a surrogate pair in the one that starts with "
                    f"{check_string(text, position)[:SHOWN]!a}: {REPAIR}."
                )
        stripped = [legible(text) for text in texts]
        most = self.max_length if self.long_texts != "window" else sys.maxsize
        encoded = self._encode(stripped) if self._words is None else self._words.encode(stripped, most)
        if self.long_texts == "error":
            refuse_long(stripped, encoded.truncated, self.max_length)
        batch, lacking = self._batch(stripped, encoded)
        return with_unknown(batch, list(self._unknown(stripped, lacking))) if lacking.any() else batch

    def from_ids(self, rows: Sequence[Sequence[int]]) -> TokenBatch:
        """Build a batch from rows of ordinary token ids; add special tokens. Unknown tokens match no written token."""
        sample = self(["a"])
        opening, closing = (
            sample.input_ids[0, sample.special[0] == kind].tolist() for kind in (SpecialToken.FIRST, SpecialToken.OTHER)
        )
        whole = [[*opening, *row, *closing] for row in rows]
        if self.long_texts != "window" and (longest := max(map(len, whole), default=0)) > self.max_length:
            raise InputError(
                f"Expected texts of at most {self.max_length} tokens, special ones included, but got {longest}: give "
                "fewer, or set `long_texts` to 'window'."
            )
        special = [[1] * len(opening) + [0] * len(row) + [1] * len(closing) for row in rows]
        encoded = Encoded.of(whole, special, [False] * len(whole))
        # Some tokenizers put spaces around signs, also within numbers.
        texts = [re.sub(r"(?<=\d) ?([.,:]) ?(?=\d)", r"\1", self._tokenizer.decode(list(row))) for row in rows]
        batch, lacking = self._batch(texts, encoded)
        places = np.argwhere(lacking).tolist()
        return with_unknown(batch, [(row, place, f"{row} {place}", self._tokenizer.unk_token) for row, place in places])

    def _batch(self, texts: list[str], encoded: Encoded) -> tuple[TokenBatch, np.ndarray]:
        """Build the batch of encoded texts, and a mask of its unknown tokens, bool ``[B, L]``."""
        present = padding_mask(encoded.lengths)
        ids = np.full(present.shape, self._tokenizer.pad_token_id or 0, dtype=np.int64)
        marked = np.zeros(present.shape, dtype=bool)
        ids[present], marked[present] = encoded.ids, encoded.special
        kinds = _kinds(present, marked)
        traits = None
        if self._flags is not None:
            traits = torch.from_numpy(_traits(self._flags[ids], present & ~marked, encoded.words))
        batch = TokenBatch(
            input_ids=torch.from_numpy(ids),
            mask=torch.from_numpy(present),
            special=torch.from_numpy(kinds),
            texts=tuple(texts),
            truncated=tuple(encoded.truncated),
            traits=traits,
        )
        return batch, present & ~marked & (ids == self._unknown_id)

    def _unknown(self, texts: list[str], lacking: np.ndarray) -> Iterator[tuple[int, int, str, str]]:
        """Yield row, position, key (normalised spelling) and spelling of each unknown token.

        A piece that is only a marker before an unknown word belongs to that word and has an empty spelling.
        """
        rows = np.flatnonzero(lacking.any(axis=1)).tolist()
        # Only texts with unknown tokens need offsets, which are slower to compute.
        encodings = [None] * len(rows) if self._rust is None else self._rust.encode_batch([texts[row] for row in rows])
        normalizer = None if self._rust is None else self._rust.normalizer
        for row, encoding in zip(rows, encodings, strict=True):
            for place in np.flatnonzero(lacking[row]).tolist():
                if encoding is None:  # a tokenizer written in Python gives no offsets
                    yield row, place, f"{place} {texts[row]}", self._tokenizer.unk_token
                    continue
                start, end = encoding.offsets[place]
                written = texts[row][start:end].strip()
                key = written if normalizer is None else normalizer.normalize_str(written)
                if place and encoding.tokens[place - 1] in MARKERS:
                    yield row, place - 1, key, ""
                yield row, place, key, written

    def _encode(self, texts: list[str]) -> Encoded:
        if not texts:  # Hugging Face tokenizers fail on an empty list
            return Encoded.of([], [], [])
        if self._rust is not None:
            # The fast function does not return word indices.
            encode = self._rust.encode_batch_fast if self._flags is None else self._rust.encode_batch
            encodings = encode(texts)
            return Encoded.of(
                [one.ids for one in encodings],
                [one.special_tokens_mask for one in encodings],
                [bool(one.overflowing) for one in encodings],
                None if self._flags is None else [one.word_ids for one in encodings],
            )
        cut = self.long_texts != "window"
        limits = {"truncation": cut, "max_length": self.max_length if cut else None}
        encoded = self._tokenizer(texts, **limits, return_special_tokens_mask=True, verbose=False)
        ids = encoded["input_ids"]
        truncated = [  # tokenizers written in Python do not report truncation
            cut
            and len(tokens) >= self.max_length
            and len(self._tokenizer(text, verbose=False)["input_ids"]) > len(tokens)
            for text, tokens in zip(texts, ids, strict=True)
        ]
        return Encoded.of(ids, encoded["special_tokens_mask"], truncated)

    def offsets(self, texts: Sequence[str]) -> torch.Tensor | None:
        """Return the character spans of the tokens, int64 ``[B, L, 2]``, 0 for special tokens and padding.

        Some tokens begin with the white space before their word. Tokenizers written in Python return ``None``.
        """
        if self._rust is None:
            return None
        encodings = self._rust.encode_batch([legible(text) for text in texts]) if texts else []
        present = padding_mask(np.fromiter(map(len, encodings), dtype=np.int64, count=len(texts)))
        marked = np.zeros(present.shape, dtype=bool)
        marked[present] = np.fromiter(itertools.chain.from_iterable(one.special_tokens_mask for one in encodings), bool)
        ends = itertools.chain.from_iterable(itertools.chain.from_iterable(one.offsets for one in encodings))
        spans = np.zeros((*present.shape, 2), dtype=np.int64)
        spans[present] = np.fromiter(ends, dtype=np.int64).reshape(-1, 2)
        leading = np.fromiter((len(text) - len(text.lstrip()) for text in texts), dtype=np.int64, count=len(texts))
        spans = np.where((present & ~marked)[:, :, None], spans + leading[:, None, None], 0)
        return torch.from_numpy(spans)

    def token_ranges(self, batch: TokenBatch, spans: Mapping[int, Sequence[tuple[int, int]]]) -> dict[int, list[slice]]:
        """Return the tokens within each span of characters, by row of a batch; none of cut or other tokens."""
        assert self._rust is not None
        lengths, ranges = batch.lengths.tolist(), {}
        for row, encoding in zip(spans, self._rust.encode_batch([batch.texts[row] for row in spans]), strict=True):
            same = batch.input_ids[row, : lengths[row]].tolist() == encoding.ids  # soft tokens may be others
            ranges[row] = [_range(encoding, *span) if same else slice(0) for span in spans[row]]
        return ranges

    def check(self, rows: int | None) -> None:
        """Raise an error if ids exceed an encoder of ``rows`` tokens, or special tokens alone fill a text."""
        empty = self([""]).input_ids[0].tolist()
        highest = max(*self.vocabulary.values(), *empty)
        if rows is not None and highest >= rows:
            raise InputError(
                f"Expected the tokenizer in {self.folder} to fit its encoder of {rows} tokens, but it gives ids up to "
                f"{highest}: fetch or save the encoder again."
            )
        if len(empty) >= self.max_length:
            raise InputError(
                f"Expected the tokenizer in {self.folder} to leave words in a text of {self.max_length} tokens, but it "
                f"adds {len(empty)} special ones: fetch or save the encoder again, or raise `max_length`."
            )

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files into ``folder``."""
        original = copy.deepcopy(self._tokenizer)
        if self._rust is not None:
            padding, truncation = self._limits_read
            if padding is not None:
                original.backend_tokenizer.enable_padding(**padding)
            original.backend_tokenizer.no_truncation()
            if truncation is not None:
                original.backend_tokenizer.enable_truncation(**truncation)
        try:
            original.save_pretrained(str(folder))
        except Exception as error:  # tokenizers raises bare exceptions, even for a full disk
            raise error if isinstance(error, OSError) else OSError(str(error)) from error

    def _vocabulary_flags(self, stop_words: frozenset[str]) -> np.ndarray:
        """Return the traits of each token as a whole word, with the bits OPENS and CLOSES, int8 ``[V]``."""
        vocabulary = self.vocabulary
        counts = {marker: sum(marker in piece for piece in vocabulary) for marker in MARKERS}
        marker = max(MARKERS, key=counts.__getitem__) if any(counts.values()) else ""
        surfaces = _surfaces(list(vocabulary), marker, self._tokenizer.unk_token)
        flags = np.zeros(max(len(self._tokenizer), *vocabulary.values()) + 1, dtype=np.int8)
        for (piece, index), surface in zip(vocabulary.items(), surfaces, strict=True):
            word = surface.strip()
            value = TokenTrait.PUNCTUATION if len(word) == 1 and self._is_punctuation(word) else 0
            value |= TokenTrait.STOP_WORD if word.lower() in stop_words else 0
            if marker == "##":
                value |= 0 if piece.startswith("##") else OPENS
            else:
                value |= OPENS if self._is_boundary(surface[:1]) else 0
                value |= CLOSES if self._is_boundary(surface[-1:]) else 0
            flags[index] = value
        return flags

    def _is_punctuation(self, character: str) -> bool:
        return character in string.punctuation or (self._any_script and unicodedata.category(character)[0] == "P")

    def _is_boundary(self, character: str) -> bool:
        """Return whether a character (or none) is a word boundary, as in BERT: white space, punctuation, or Chinese."""
        return (
            not character
            or character.isspace()
            or character in string.punctuation
            or unicodedata.category(character).startswith("P")
            or unicodedata.name(character, "").startswith("CJK")
            or (self._any_script and UNSPACED.match(character) is not None)
        )


def _range(encoding: Any, start: int, end: int) -> slice:
    first, last = encoding.char_to_token(start), encoding.char_to_token(end - 1)
    whole = first is not None and last is not None and encoding.offsets[last][1] <= end
    return slice(first, last + 1) if whole else slice(0)


def check_string(text: object, position: int) -> str:
    """Return a text; raise a :class:`TypeError` with its position if it is not a string."""
    if not isinstance(text, str):
        raise TypeError(f"Expected texts to be strings, but got {type(text).__name__} at position {position}.")
    return text


def refuse_long(texts: Sequence[str], truncated: Sequence[bool], limit: int | None) -> None:
    """Raise an :class:`InputError` with the first truncated text, if there is one."""
    if any(truncated):
        raise InputError(
            f"Expected texts of at most {limit} tokens, but the one that starts with "
            f"{texts[truncated.index(True)][:SHOWN]!r} is longer: shorten it, or set `long_texts` to 'truncate' or "
            "'window'."
        )


def _kinds(present: np.ndarray, special: np.ndarray) -> np.ndarray:
    ordinary = present & ~special  # special tokens before the first ordinary one are FIRST; without one, only the first
    opens = special & (np.cumsum(ordinary, axis=1) == 0)
    opens[:, 1:] &= ordinary.any(axis=1)[:, None]
    return np.where(opens, SpecialToken.FIRST, np.where(special, SpecialToken.OTHER, SpecialToken.NONE)).astype(np.int8)


def _traits(flags: np.ndarray, ordinary: np.ndarray, words: list[list[int | None]] | None) -> np.ndarray:
    """Compute :class:`~textmover.types.TokenTrait` bits, int8 ``[B, L]``, from token flags and any word indices."""
    continued = np.zeros_like(ordinary)  # True if the next token continues the word
    joined = ordinary[:, :-1] & ordinary[:, 1:] & (flags[:, :-1] & CLOSES == 0) & (flags[:, 1:] & OPENS == 0)
    if words is not None:
        numbers = np.full(ordinary.shape, np.nan)
        for row, one in enumerate(words):
            numbers[row, : len(one)] = one  # None becomes NaN
        joined &= numbers[:, :-1] == numbers[:, 1:]
    continued[:, :-1] = joined
    continuing = np.zeros_like(ordinary)
    continuing[:, 1:] = joined
    of_words = flags & (TokenTrait.PUNCTUATION | TokenTrait.STOP_WORD)
    whole = ordinary & ~continuing & ~continued
    return np.where(whole, of_words, continuing * TokenTrait.CONTINUATION).astype(np.int8)


def _surfaces(pieces: Sequence[str], marker: str, unknown: str | None) -> list[str]:
    """Return pieces as in a text, with white space where their marker begins or ends a word."""
    if marker == "##":
        surfaces = [piece.removeprefix(marker) for piece in pieces]
    elif marker in ("▁", "</w>"):
        surfaces = [piece.replace(marker, " ") for piece in pieces]
    elif marker == "Ġ":
        from tokenizers.decoders import ByteLevel

        decoder = ByteLevel()
        surfaces = [decoder.decode([piece]) for piece in pieces]
    elif marker == "@@":
        surfaces = [piece.removesuffix(marker) if piece.endswith(marker) else f"{piece} " for piece in pieces]
    else:
        surfaces = list(pieces)
    return [
        LETTER if piece == unknown else _byte(surface) if surface.startswith("<0x") else surface
        for piece, surface in zip(pieces, surfaces, strict=True)
    ]


def _byte(piece: str) -> str:
    """Return the character of a byte token such as ``<0x2C>``."""
    digits = re.fullmatch(r"<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(digits[1]).decode("utf-8", "replace") if digits else piece
