"""Features of single texts for RoMe: word vectors, parse, and the cache used in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self

from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.unknown_tokens import surface_number
from textmover.rome.config import NO_PARSER, RomeConfig
from textmover.rome.features.words import Span, word_key, word_spans, word_vectors_of_spans
from textmover.rome.parsers.pipelines import load_parser
from textmover.types import PackedFeatures, ParsedText, Parser, TextFeatures, TokenBatch
from textmover.types.tokens import Ragged, token_offsets

PARSED_BYTES = 400  # about what a parsed word takes in memory, beside its vector


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text with its words."""

    text: str  # the text itself
    words: tuple[str, ...]  # its words as they are written, one to a row of its vectors
    parsed: ParsedText | None  # its parse, with the same words; ``None`` without a parser


@dataclass(frozen=True, slots=True)
class RomeFeatures:
    """RoMe's features of ``B`` texts."""

    vectors: Tensor  # word vectors ``[B, W, D]``, 0 where a word has none
    mask: Tensor  # true for each word that has a vector, bool ``[B, W]``
    texts: tuple[ReadText, ...]  # the texts with their words
    others: Mapping[str, tuple[TextFeatures, np.ndarray]]  # of other metrics, with the tokens of each text, ``[B]``
    unknown: Tensor | None = None  # numbers of unknown words by their spelling, else 0, int64 ``[B, W]``

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, lengths: np.ndarray) -> PackedRome:
        """The same without padding, to be kept; of ``lengths``, the tokens of each text, nothing is read."""
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

    words: Ragged  # vectors of the words, and whether they have one
    texts: tuple[ReadText, ...]  # the texts with their words
    others: Mapping[str, PackedFeatures]  # what other metrics keep of them, by name

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes; of parses about."""
        parsed = sum(len(one.words) for one in self.texts) * PARSED_BYTES
        return self.words.nbytes + parsed + sum(one.nbytes for one in self.others.values())

    def select(self, rows: Sequence[int] | np.ndarray) -> Self:
        """The texts of the given rows."""
        return type(self)(
            self.words.select(rows),
            tuple(self.texts[int(row)] for row in rows),
            {name: one.select(rows) for name, one in self.others.items()},
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The texts of several objects as one."""
        return cls(
            Ragged.join([one.words for one in parts]),
            tuple(text for one in parts for text in one.texts),
            {
                name: type(first).join([one.others[name] for one in parts])  # type: ignore[misc]
                for name, first in parts[0].others.items()
            },
        )

    @classmethod
    def pad(cls, parts: Sequence[Self], places: Sequence[tuple[int, int]]) -> RomeFeatures:
        """Texts out of several objects as a batch, by the number of the object and the row in it."""
        _, tokens, _ = Ragged.padded([one.words for one in parts], places)
        others = {
            # Lengths are for packing again, which nobody does with texts that were packed before.
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


def parses_of(texts: Sequence[ReadText]) -> list[ParsedText]:
    """The parses of texts that have one."""
    found = [one.parsed for one in texts if one.parsed is not None]
    if len(found) < len(texts):
        raise TypeError("Expected texts with parses, but got one that was read without a parser.")
    return found


KEPT_PAIRS = 500_000  # most pairs whose features are kept while a scorer is trained, and texts whose acceptability is


class KeptFeatures:
    """Features of pairs and acceptability of texts, on the CPU; each is computed once until something is cleared."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        self._judged: dict[str, float] = {}

    def clear(self) -> None:
        """Forget everything, as encoder or classifier change."""
        self._judged.clear()
        self._pairs.clear()

    def without_pairs(self) -> KeptFeatures:
        """The same texts judged, and no pairs, as weights of words change."""
        found = KeptFeatures()
        found._judged = self._judged
        return found

    def judged(self, texts: Sequence[str], judge: Callable[[list[str]], Tensor]) -> Tensor:
        """Results of ``judge`` for texts ``[n]``; each distinct text is judged once."""
        found = {text: self._judged.get(text) for text in texts}  # another thread may clear it
        missing = [text for text, value in found.items() if value is None]
        new = dict(zip(missing, judge(missing).tolist(), strict=True))
        if len(self._judged) + len(new) > KEPT_PAIRS:
            self._judged.clear()
        self._judged |= new
        known = {**found, **new}
        return torch.tensor([known[text] for text in texts])

    def features(
        self,
        hypotheses: TokenBatch,
        references: TokenBatch,
        compute: Callable[[TokenBatch, TokenBatch], tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        """Features ``[B, F]`` and flags ``[B, 2]`` of pairs; ``compute`` is asked for those not met before."""
        pairs = list(zip(hypotheses.texts, references.texts, strict=True))
        missing = [row for row, pair in enumerate(pairs) if pair not in self._pairs]
        if missing:
            features, flags = compute(hypotheses.select(missing), references.select(missing))
            if len(self._pairs) + len(missing) > KEPT_PAIRS:
                self._pairs = {pair: self._pairs[pair] for pair in pairs if pair in self._pairs}
            for row, *values in zip(missing, features.cpu(), flags.cpu(), strict=True):
                self._pairs[pairs[row]] = (values[0], values[1])
        features, flags = (torch.stack(column) for column in zip(*(self._pairs[pair] for pair in pairs), strict=True))
        return features, flags


class WordReader(nn.Module):
    """Gives the words of texts, those of the parser or else of the encoder's tokenizer, with vectors and parses."""

    def __init__(self, metric: MetricModel, parser: Parser | None) -> None:
        super().__init__()
        self.metric, self.parser = metric, parser

    @classmethod
    def from_config(cls, config: RomeConfig) -> WordReader:
        """The pretrained encoder and the parser that a configuration names."""
        parser = None if config.parser == NO_PARSER else load_parser(config.parser)
        return cls(MetricModel.from_config(config.reader), parser)

    def read(self, batch: TokenBatch) -> tuple[Tensor, Tensor, tuple[ReadText, ...], Tensor | None]:
        """Vectors, mask, texts and unknown words as :class:`RomeFeatures` has them; one unknown token makes one."""
        vectors = self.metric.token_vectors(batch)
        offsets = token_offsets(self.metric.tokenizer, batch.texts)
        spans, parses = self._spans(batch, offsets)
        words, mask = word_vectors_of_spans(vectors, batch, offsets, spans)
        columns = zip(batch.texts, spans, parses, strict=True)
        texts = tuple(ReadText(text, _written(text, places), parsed) for text, places, parsed in columns)
        if batch.unknown is None:
            return words, mask, texts, None
        lacking = replace(batch, mask=batch.unknown > 0)
        _, unknown = word_vectors_of_spans(vectors[:, :, :1], lacking, offsets, spans)
        numbers = torch.zeros(unknown.shape, dtype=torch.long)
        for row, place in unknown.nonzero().tolist():
            numbers[row, place] = surface_number(word_key(texts[row].words[place]))
        return words, mask, texts, numbers.to(words.device)

    def words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The words of texts as they are written."""
        if self.parser is not None:
            return [_written(text, parsed.spans) for text, parsed in zip(texts, self.parser(texts), strict=True)]
        batch = self.metric.tokenize(texts)
        spans, _ = self._spans(batch, token_offsets(self.metric.tokenizer, texts))
        return [_written(text, places) for text, places in zip(texts, spans, strict=True)]

    def _spans(
        self, batch: TokenBatch, offsets: Tensor
    ) -> tuple[list[tuple[Span, ...]], list[ParsedText] | list[None]]:
        """Character spans of the words of each text, and its parse."""
        if self.parser is None:
            return word_spans(batch, offsets), [None] * len(batch)
        parses = self.parser(batch.texts)
        return [one.spans for one in parses], parses

    def signature_entries(self) -> dict[str, str]:
        """Entries of the signature for words and vectors."""
        entries = {"encoder": self.metric.encoder_identity, **self.metric.layers.signature_entries()}
        return entries if self.parser is None else {**entries, "parser": self.parser.identity}


def _written(text: str, spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in spans)
