"""Words of texts: where they stand, their vectors as means over their pieces, and how rare they are in a corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.modules.tokens.statistics import IdfTable
from textmover.types import InputError, TokenBatch, TokenTrait

Span = tuple[int, int]  # first character of a word in its text, and the one after its last

SEPARATOR = "\n"  # stands between the words of a table; no word holds it


def is_word(written: str) -> bool:
    """Return whether something is a word or a number, not punctuation or a symbol alone."""
    return any(map(str.isalnum, written))


def word_spans(batch: TokenBatch, offsets: Tensor) -> list[tuple[Span, ...]]:
    """Character spans of the words of a tokenizer with traits."""
    if batch.traits is None:
        raise InputError("Expected tokens with traits, but got none: set `traits` of the tokenizer.")
    taking_part, continuing = batch.ordinary.tolist(), (batch.traits & TokenTrait.CONTINUATION).tolist()
    found = []
    for row, places in enumerate(offsets.tolist()):
        spans: list[Span] = []
        for (start, end), takes_part, continues in zip(places, taking_part[row], continuing[row], strict=True):
            if takes_part and continues and spans:
                spans[-1] = (spans[-1][0], end)
            elif takes_part:
                spans.append((start, end))
        found.append(tuple(spans))
    return found


def word_vectors_of_spans(
    vectors: Tensor, batch: TokenBatch, offsets: Tensor, spans: Sequence[Sequence[Span]]
) -> tuple[Tensor, Tensor]:
    """Vectors ``[B, W, D]`` of a parser's words, means over the pieces that overlap each, and which words have any."""
    if len(spans) != len(batch):
        raise ValueError(f"Expected `spans` to hold one list for each of {len(batch)} texts, but got {len(spans)}.")
    if offsets.shape != (*batch.mask.shape, 2):
        raise ValueError(f"Expected `offsets` to have shape {[*batch.mask.shape, 2]}, but got {list(offsets.shape)}.")
    places = torch.zeros(len(spans), max(map(len, spans), default=0), 2, dtype=torch.long)
    for row, of_text in enumerate(spans):
        if of_text:
            places[row, : len(of_text)] = torch.tensor(list(of_text), dtype=torch.long)
    places, offsets = places.to(vectors.device)[:, :, None], offsets.to(vectors.device)[:, None]  # [B, W, 1, 2]
    overlap = (offsets[..., 0] < places[..., 1]) & (places[..., 0] < offsets[..., 1])  # [B, W, L]
    overlap &= batch.ordinary[:, None, :]
    count = overlap.sum(dim=2)
    with torch.autocast(vectors.device.type, enabled=False):
        summed = torch.bmm(overlap.to(vectors.dtype), vectors)
    return summed / count.clamp(min=1)[:, :, None], count > 0


class WordIdf(IdfTable):
    r"""Document frequencies of lower-case words in a corpus, and their idf weights.

    The formulas are those of :class:`~textmover.modules.tokens.statistics.IdfTable`; a word that no document holds has
    the highest weight. The words are part of the state, so that a checkpoint brings them along.

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
        super().__init__(1, formula)  # the last place is that of all other words
        self.register_buffer("words", torch.zeros(0, dtype=torch.uint8))
        self._places: dict[str, int] = {}

    @property
    def fingerprint(self) -> str:
        """First eight digits of a hash of words and counts, whatever their order: what the signature names."""
        counts = self.counts.tolist()
        entries = sorted((word, counts[place]) for word, place in self._places.items())
        return hashlib.sha256(repr((entries, int(self.documents))).encode()).hexdigest()[:8]

    def reset(self, *, from_call: bool = False) -> None:
        """Forget everything, before a new fit."""
        self._places = {}
        self.words, self.counts = self.words[:0], self.counts[:1].zero_()
        self.documents.zero_()
        self.from_call.fill_(from_call)

    def add_words(self, texts: Iterable[Iterable[str]]) -> None:
        """Take further documents into the fit, each as its words."""
        counts, documents = self.counts[:-1].tolist(), 0
        for text in texts:
            documents += 1
            for word in filter(None, dict.fromkeys(map(word_key, text))):
                place = self._places.setdefault(word, len(counts))
                if place == len(counts):
                    counts.append(0)
                counts[place] += 1
        self._keep(counts, documents)

    def most_frequent(self, fewest: int) -> WordIdf:
        """A table of those words that at least ``fewest`` documents hold; the others become unknown."""
        kept = [word for word, place in self._places.items() if int(self.counts[place]) >= fewest]
        found = WordIdf(self.formula)
        found._places = {word: place for place, word in enumerate(kept)}
        found._keep([int(self.counts[self._places[word]]) for word in kept], int(self.documents))
        return found

    def ids(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """Places of the words of texts in the table, int64 ``[B, W]`` on its device; padding is an unknown word."""
        unknown = len(self._places)
        found = torch.full((len(texts), max(map(len, texts), default=0)), unknown, dtype=torch.long)
        for row, text in enumerate(texts):
            found[row, : len(text)] = torch.tensor([self._places.get(word_key(one), unknown) for one in text])
        return found.to(self.counts.device)

    def _keep(self, counts: list[int], documents: int) -> None:
        self.counts = torch.tensor([*counts, 0], dtype=self.counts.dtype, device=self.counts.device)
        self.documents += documents
        written = bytearray(SEPARATOR.join(self._places).encode())
        self.words = torch.tensor(written, dtype=torch.uint8, device=self.words.device)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        """Make room for as many words as there are, and find their places again."""
        for name in ("words", "counts"):
            given = state_dict.get(prefix + name)
            if given is not None:
                setattr(self, name, getattr(self, name).new_zeros(given.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)
        written = bytes(self.words.cpu().numpy()).decode()
        self._places = {word: place for place, word in enumerate(written.split(SEPARATOR))} if written else {}


def word_key(word: str) -> str:
    """Key by which a word is counted: lower case, one space for any white space."""
    return " ".join(word.lower().split())
