"""Words of texts: character spans, vectors averaged over tokens, and idf weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.modules.tokens.statistics import IdfTable
from textmover.types import InputError, TokenBatch, TokenTrait

Span = tuple[int, int]  # start and end of a word in its text, in characters; the end is exclusive

SEPARATOR = "\n"  # separates the saved words of a table; no word contains it


def is_word(written: str) -> bool:
    """Return whether a string contains a letter or digit, and so is not only punctuation or symbols."""
    return any(map(str.isalnum, written))


def word_spans(batch: TokenBatch, offsets: Tensor) -> list[tuple[Span, ...]]:
    """Return the character spans of the words of each text, by the tokenizer's continuation traits."""
    if batch.traits is None:
        raise InputError("Expected tokens with traits, but got none: set `traits` of the tokenizer.")
    ordinary, continuing = batch.ordinary.tolist(), (batch.traits & TokenTrait.CONTINUATION).tolist()
    texts = []
    for row, tokens in enumerate(offsets.tolist()):
        spans: list[Span] = []
        for (start, end), is_ordinary, continues in zip(tokens, ordinary[row], continuing[row], strict=True):
            if is_ordinary and continues and spans:
                spans[-1] = (spans[-1][0], end)
            elif is_ordinary:
                spans.append((start, end))
        texts.append(tuple(spans))
    return texts


def word_vectors_of_spans(
    vectors: Tensor, batch: TokenBatch, offsets: Tensor, spans: Sequence[Sequence[Span]]
) -> tuple[Tensor, Tensor]:
    """Average the tokens that overlap each span: vectors ``[B, W, D]``, and mask ``[B, W]`` of words with a token."""
    if len(spans) != len(batch):
        raise ValueError(f"Expected `spans` to hold one list for each of {len(batch)} texts, but got {len(spans)}.")
    if offsets.shape != (*batch.mask.shape, 2):
        raise ValueError(f"Expected `offsets` to have shape {[*batch.mask.shape, 2]}, but got {list(offsets.shape)}.")
    bounds = torch.zeros(len(spans), max(map(len, spans), default=0), 2, dtype=torch.long)
    for row, text_spans in enumerate(spans):
        if text_spans:
            bounds[row, : len(text_spans)] = torch.tensor(list(text_spans), dtype=torch.long)
    bounds, offsets = bounds.to(vectors.device)[:, :, None], offsets.to(vectors.device)[:, None]  # [B, W, 1, 2]
    overlap = (offsets[..., 0] < bounds[..., 1]) & (bounds[..., 0] < offsets[..., 1])  # [B, W, L]
    overlap &= batch.ordinary[:, None, :]
    count = overlap.sum(dim=2)
    with torch.autocast(vectors.device.type, enabled=False):
        summed = torch.bmm(overlap.to(vectors.dtype), vectors)
    return summed / count.clamp(min=1)[:, :, None], count > 0


class WordIdf(IdfTable):
    r"""Document frequencies of lower-case words in a corpus, and their idf weights.

    The formulas are those of :class:`~textmover.modules.tokens.statistics.IdfTable`. A word in no document has the
    highest weight. The state dict, and so a checkpoint, contains the words.

    Args:
        formula: ``smooth``, :math:`\log\frac{n+1}{df+1}`, or ``plus-one``, :math:`\log(1 + \frac{n+1}{df+1})`.

    Example:
        >>> idf = WordIdf("smooth")
        >>> idf.add_words([["The", "cat"], ["the", "dog"]])
        >>> idf(idf.ids([["the", "cat", "owl"]]))
        tensor([[0.0000, 0.4055, 1.0986]])
    """

    words: Tensor

    def __init__(self, formula: Literal["smooth", "plus-one"] = "plus-one") -> None:
        super().__init__(1, formula)  # the last entry counts for all unknown words
        self.register_buffer("words", torch.zeros(0, dtype=torch.uint8))
        self._index: dict[str, int] = {}

    @property
    def fingerprint(self) -> str:
        """First eight hex digits of a hash of words and counts in any order, for the signature."""
        counts = self.counts.tolist()
        entries = sorted((word, counts[index]) for word, index in self._index.items())
        return hashlib.sha256(repr((entries, int(self.documents))).encode()).hexdigest()[:8]

    def reset(self, *, from_call: bool = False) -> None:
        """Clear the table, for a new fit."""
        self._index = {}
        self.words, self.counts = self.words[:0], self.counts[:1].zero_()
        self.documents.zero_()
        self.from_call.fill_(from_call)

    def add_words(self, texts: Iterable[Iterable[str]]) -> None:
        """Add documents to the fit, each a list of words."""
        counts, documents = self.counts[:-1].tolist(), 0
        for text in texts:
            documents += 1
            for word in filter(None, dict.fromkeys(map(word_key, text))):
                index = self._index.setdefault(word, len(counts))
                if index == len(counts):
                    counts.append(0)
                counts[index] += 1
        self._update(counts, documents)

    def most_frequent(self, fewest: int) -> WordIdf:
        """Return a table of the words in at least ``fewest`` documents; all others become unknown."""
        words = [word for word, index in self._index.items() if int(self.counts[index]) >= fewest]
        table = WordIdf(self.formula)
        table._index = {word: index for index, word in enumerate(words)}
        table._update([int(self.counts[self._index[word]]) for word in words], int(self.documents))
        return table

    def ids(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """Return table indices of the words, int64 ``[B, W]`` on the table's device; padding counts as unknown."""
        unknown = len(self._index)
        ids = torch.full((len(texts), max(map(len, texts), default=0)), unknown, dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor([self._index.get(word_key(word), unknown) for word in text])
        return ids.to(self.counts.device)

    def _update(self, counts: list[int], documents: int) -> None:
        self.counts = torch.tensor([*counts, 0], dtype=self.counts.dtype, device=self.counts.device)
        self.documents += documents
        joined = bytearray(SEPARATOR.join(self._index).encode())
        self.words = torch.tensor(joined, dtype=torch.uint8, device=self.words.device)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        """Resize the buffers to the saved words, and rebuild the index."""
        for name in ("words", "counts"):
            saved = state_dict.get(prefix + name)
            if saved is not None:
                setattr(self, name, getattr(self, name).new_zeros(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)
        joined = bytes(self.words.cpu().numpy()).decode()
        self._index = {word: index for index, word in enumerate(joined.split(SEPARATOR))} if joined else {}


def word_key(word: str) -> str:
    """Return the key by which a word is counted: lower case, with white space collapsed to single spaces."""
    return " ".join(word.lower().split())
