"""How RoMe reads texts: words of a parser with vectors of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.unknown_tokens import surface_number
from textmover.rome.config import NO_PARSER, RomeConfig
from textmover.rome.features.text_features import ReadText
from textmover.rome.features.words import Span, token_offsets, word_key, word_spans, word_vectors_of_spans
from textmover.rome.parsers.names import load_parser
from textmover.types import ParsedText, Parser, TokenBatch


class WordReader(nn.Module):
    """Gives the words of texts, their vectors and, with a parser, their trees.

    With a parser its words serve all features, so that nodes of trees and rows of vectors are the same words; without
    one they are the words of the encoder's tokenizer.

    Args:
        metric: The metric whose encoder, layer and tokenizer give the vectors.
        parser: Gives words, lemmas and dependencies; ``None`` for none.
    """

    def __init__(self, metric: MetricModel, parser: Parser | None) -> None:
        super().__init__()
        self.metric, self.parser = metric, parser

    @classmethod
    def from_config(cls, config: RomeConfig) -> WordReader:
        """The pretrained encoder and the parser that a configuration names.

        Raises:
            InputError: If one cannot be found.
        """
        parser = None if config.parser == NO_PARSER else load_parser(config.parser)
        return cls(MetricModel.from_config(config.reader), parser)

    def read(self, batch: TokenBatch) -> tuple[Tensor, Tensor, tuple[ReadText, ...], Tensor | None]:
        """Word vectors ``[B, W, D]``, where there are any ``[B, W]``, the texts with their words, and unknown words.

        A word with an unknown token is unknown; see :class:`~textmover.rome.features.text_features.RomeFeatures`.
        """
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
        """Where the words of each text stand, and its parse."""
        if self.parser is None:
            return word_spans(batch, offsets), [None] * len(batch)
        parses = self.parser(batch.texts)
        return [one.spans for one in parses], parses

    def signature_entries(self) -> dict[str, str]:
        """What words and vectors depend on."""
        entries = {"encoder": self.metric.encoder_identity, **self.metric.layers.signature_entries()}
        return entries if self.parser is None else {**entries, "parser": self.parser.identity}


def _written(text: str, spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in spans)
