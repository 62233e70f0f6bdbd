"""Features of single texts for RoMe (word vectors, parses, features of other metrics), and RoMe's cache."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self

from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.unknown_tokens import surface_number
from textmover.rome.config import NO_PARSER, RomeConfig
from textmover.rome.features.word_vectors import Span, word_key, word_spans, word_vectors_of_spans
from textmover.rome.parsers.pipelines import load_parser
from textmover.types import PackedFeatures, ParsedText, Parser, TextFeatures, TokenBatch
from textmover.types.tokens import Ragged, token_offsets

PARSED_BYTES = 400  # approximate memory of a parsed word, without its vector


@dataclass(frozen=True, slots=True)
class ParsedWords:
    """A text with its words and parse."""

    text: str  # the text itself
    words: tuple[str, ...]  # its words as written, one per row of its vectors
    parsed: ParsedText | None  # parse of the same words; ``None`` without a parser


@dataclass(frozen=True, slots=True)
class RomeFeatures:
    """RoMe's features of ``B`` texts."""

    vectors: Tensor  # word vectors ``[B, W, D]``, 0 for a word without one
    mask: Tensor  # true for each word with a vector, bool ``[B, W]``
    texts: tuple[ParsedWords, ...]  # the texts with their words
    others: Mapping[str, tuple[TextFeatures, np.ndarray]]  # features and token counts ``[B]`` by metric
    unknown: Tensor | None = None  # hash of the spelling of unknown words, else 0, int64 ``[B, W]``

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, lengths: np.ndarray) -> PackedRome:
        """Return the features without padding, for a cache; ``lengths`` (tokens of each text) is not used."""
        words = np.array([len(one.words) for one in self.texts], dtype=np.int64)
        columns = {"vectors": self.vectors, "present": self.mask}
        return PackedRome(
            Ragged.from_padded(words, columns if self.unknown is None else {**columns, "unknown": self.unknown}, {}),
            self.texts,
            {name: features.pack(tokens) for name, (features, tokens) in self.others.items()},
        )


@dataclass(frozen=True, eq=False)
class PackedRome:
    """RoMe's features of texts, without padding."""

    words: Ragged  # vectors, flags of words with a vector, and hashes of unknown words if there are any
    texts: tuple[ParsedWords, ...]  # the texts with their words
    others: Mapping[str, PackedFeatures]  # packed features of other metrics, by name

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """Memory in bytes; that of parses is estimated."""
        parsed = sum(len(one.words) for one in self.texts) * PARSED_BYTES
        return self.words.nbytes + parsed + sum(one.nbytes for one in self.others.values())

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Return the texts of the given rows."""
        return type(self)(
            self.words.select(rows),
            tuple(self.texts[int(row)] for row in rows),
            {name: one.select(rows) for name, one in self.others.items()},
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Join the texts of several objects into one."""
        return cls(
            Ragged.join([one.words for one in parts]),
            tuple(text for one in parts for text in one.texts),
            {
                name: type(first).join([one.others[name] for one in parts])  # type: ignore[misc]
                for name, first in parts[0].others.items()
            },
        )

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]] | np.ndarray) -> RomeFeatures:
        """Build a batch of texts from several objects, given the index of the object and the row for each text."""
        _, tokens, _ = Ragged.padded([one.words for one in parts], places)
        others = {
            # Token counts serve only to pack features, and these are never packed again.
            name: (type(first).pad([one.others[name] for one in parts], places), np.zeros(0, dtype=np.int64))
            for name, first in parts[0].others.items()
        }
        return RomeFeatures(
            tokens["vectors"],
            tokens["present"],
            tuple(parts[part].texts[row] for part, row in places),
            others,
            tokens.get("unknown"),
        )


def parses_of(texts: Sequence[ParsedWords]) -> list[ParsedText]:
    """Return the parses of texts that were read with a parser."""
    parses = [one.parsed for one in texts if one.parsed is not None]
    if len(parses) < len(texts):
        raise TypeError("Expected texts with parses, but got one that was read without a parser.")
    return parses


CACHE_SIZE = 500_000  # maximum number of cached pairs, and of cached texts


class RomeCache:
    """Cache of features of pairs and acceptability of texts, on the CPU."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        self._acceptability: dict[str, float] = {}

    def clear(self) -> None:
        """Clear the cache, for a new encoder or classifier."""
        self._acceptability.clear()
        self._pairs.clear()

    def without_pairs(self) -> RomeCache:
        """Return a cache with the same acceptability and no pairs, for new idf weights."""
        cache = RomeCache()
        cache._acceptability = self._acceptability
        return cache

    def acceptability(self, texts: Sequence[str], predict: Callable[[list[str]], Tensor]) -> Tensor:
        """Return the results of ``predict`` for texts, ``[n]``; it is called for texts that are not cached."""
        cached = {text: self._acceptability.get(text) for text in texts}  # a copy: another thread may clear it
        missing = [text for text, value in cached.items() if value is None]
        new = dict(zip(missing, predict(missing).tolist(), strict=True))
        if len(self._acceptability) + len(new) > CACHE_SIZE:
            self._acceptability.clear()
        self._acceptability |= new
        results = {**cached, **new}
        return torch.tensor([results[text] for text in texts])

    def features(
        self,
        hypotheses: TokenBatch,
        references: TokenBatch,
        compute: Callable[[TokenBatch, TokenBatch], tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        """Return features ``[B, F]`` and flags ``[B, 2]`` of pairs; ``compute`` gets those not cached."""
        pairs = list(zip(hypotheses.texts, references.texts, strict=True))
        cached = {pair: values for pair in pairs if (values := self._pairs.get(pair)) is not None}
        if missing := [row for row, pair in enumerate(pairs) if pair not in cached]:
            features, flags = compute(hypotheses.select(missing), references.select(missing))
            if len(self._pairs) + len(missing) > CACHE_SIZE:
                self._pairs = dict(cached)
            rows = zip(features.cpu(), flags.cpu(), strict=True)
            new = dict(zip([pairs[row] for row in missing], rows, strict=True))
            self._pairs |= new
            cached |= new
        features, flags = (torch.stack(column) for column in zip(*(cached[pair] for pair in pairs), strict=True))
        return features, flags


class WordReader(nn.Module):
    """Reads words, their vectors, and parses; without a parser, words come from the encoder's tokenizer."""

    def __init__(self, metric: MetricModel, parser: Parser | None) -> None:
        super().__init__()
        self.metric, self.parser = metric, parser

    @classmethod
    def from_config(cls, config: RomeConfig) -> WordReader:
        """Load the pretrained encoder and the parser of a configuration."""
        parser = None if config.parser == NO_PARSER else load_parser(config.parser)
        return cls(MetricModel.from_config(config.reader), parser)

    def read(self, batch: TokenBatch) -> tuple[Tensor, Tensor, tuple[ParsedWords, ...], Tensor | None]:
        """Return ``vectors``, ``mask``, ``texts`` and ``unknown`` of :class:`RomeFeatures`."""
        vectors = self.metric.token_vectors(batch)
        offsets = token_offsets(self.metric.tokenizer, batch.texts)
        spans, parses = self._spans(batch, offsets)
        words, mask = word_vectors_of_spans(vectors, batch, offsets, spans)
        columns = zip(batch.texts, spans, parses, strict=True)
        texts = tuple(ParsedWords(text, _written(text, places), parsed) for text, places, parsed in columns)
        if batch.unknown is None:
            return words, mask, texts, None
        unknown_tokens = replace(batch, mask=batch.unknown > 0)  # one makes its word unknown
        _, unknown = word_vectors_of_spans(vectors[:, :, :1], unknown_tokens, offsets, spans)
        numbers = torch.zeros(unknown.shape, dtype=torch.long)
        for row, column in unknown.nonzero().tolist():
            numbers[row, column] = surface_number(word_key(texts[row].words[column]))
        return words, mask, texts, numbers.to(words.device)

    def words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the words of each text, as written but normalized to Unicode NFC."""
        texts = [unicodedata.normalize("NFC", text) for text in texts]
        if self.parser is not None:
            return [_written(text, parsed.spans) for text, parsed in zip(texts, self.parser(texts), strict=True)]
        batch = self.metric.tokenize(texts)
        spans, _ = self._spans(batch, token_offsets(self.metric.tokenizer, texts))
        return [_written(text, places) for text, places in zip(texts, spans, strict=True)]

    def _spans(
        self, batch: TokenBatch, offsets: Tensor
    ) -> tuple[list[tuple[Span, ...]], list[ParsedText] | list[None]]:
        """Return the character spans of the words of each text, and its parse if there is a parser."""
        if self.parser is None:
            return word_spans(batch, offsets), [None] * len(batch)
        parses = self.parser(batch.texts)
        return [one.spans for one in parses], parses

    def signature_entries(self) -> dict[str, str]:
        """Return the signature entries for words and vectors."""
        entries = {"encoder": self.metric.encoder_identity, **self.metric.layers.signature_entries()}
        return entries if self.parser is None else {**entries, "parser": self.parser.identity}


def _written(text: str, spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in spans)
