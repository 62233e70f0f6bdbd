"""Words near a word in a space of vectors, for perturbations that change a word and not the sentence.

The space is that of an encoder's input embeddings, a word of several pieces being their mean, or of a file of static
word vectors; an encoder also reads the sentence with each candidate and keeps those that leave it what it was.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textmover.modules.devices import own_arithmetic
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.pretrained import load_config, load_tokenizer
from textmover.modules.encoder.source import resolve_encoder
from textmover.modules.encoder.static_vectors import StaticVectors, is_static
from textmover.types import InputError

SHORTEST = 3  # letters of a word, at least

STATIC_WORDS = 50_000
"""Words of a file of static vectors that are candidates; such files begin with the most frequent ones."""

Sentences = Callable[[list[str]], Tensor]  # sentences to unit vectors ``[n, D]``


class WordNeighbours:
    """Words by the cosine of their vectors, after the mean of all was taken off.

    The mean carries what all words share, by which everything would be everything's neighbour.

    Reference: Jin et al. (2020), "Is BERT Really Robust?", section 2.2 (there .5 over counter-fitted vectors and .84).
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: Tensor,
        find: Callable[[str], Tensor | None] | None = None,
        *,
        least: float = 0.4,
        most: int = 12,
        sentences: Sentences | None = None,
        least_sentence: float = 0.84,
    ) -> None:
        for name, value in (("least", least), ("least_sentence", least_sentence)):
            if not -1 <= value <= 1:
                raise InputError(f"Expected `{name}` to be a cosine, from -1 to 1, but got {value}.")
        if most < 1:
            raise InputError(f"Expected `most` to be at least 1, but got {most}.")
        self.words = list(words)
        self.least, self.most, self.least_sentence = least, most, least_sentence
        self._mean = vectors.mean(0)
        self._vectors = torch.nn.functional.normalize(vectors - self._mean, dim=-1)
        self._rows = {word: row for row, word in enumerate(self.words)}
        self._find = find
        self._sentences = sentences
        self._near: dict[str, list[str]] = {}

    def nearest(self, word: str) -> list[str]:
        """The nearest words by their own vectors, nearest first; none for a word without a vector."""
        if word not in self._near:
            vector = self._unit(word)
            cosines = torch.zeros(0) if vector is None else self._vectors @ vector
            near = torch.topk(cosines, min(self.most + 1, len(cosines)))
            ranked = zip(near.values.tolist(), near.indices.tolist(), strict=True)
            found = [self.words[row] for value, row in ranked if value >= self.least]
            self._near[word] = [one for one in found if one != word][: self.most]
        return self._near[word]

    def __call__(self, word: str, sentence: str) -> list[str]:
        """Return replacements of ``word`` in ``sentence``, best first."""
        found = self.nearest(word.lower())
        if self._sentences is None or not found:
            return found
        place = re.search(rf"\b{re.escape(word)}\b", sentence, re.IGNORECASE)
        if place is None:
            raise InputError(
                f"Expected `sentence` to hold {word!r}, but got {sentence!r}: give the word's own sentence."
            )
        before, behind = sentence[: place.start()], sentence[place.end() :]
        capital = place.group()[:1].isupper()
        changed = [before + (one.capitalize() if capital else one) + behind for one in found]
        vectors = self._sentences([sentence, *changed])
        alike = [round(value, 4) for value in (vectors[1:] @ vectors[0]).tolist()]  # batches differ in the last digits
        ranked = sorted(zip(alike, found, strict=True), key=lambda one: -one[0])
        return [one for value, one in ranked if value >= self.least_sentence]

    def _unit(self, word: str) -> Tensor | None:
        if word in self._rows:
            return self._vectors[self._rows[word]]
        vector = None if self._find is None else self._find(word)
        return None if vector is None else torch.nn.functional.normalize(vector - self._mean, dim=-1)


def load_neighbours(name: str, *, least: float = 0.4, most: int = 12, context: bool = True) -> WordNeighbours:
    """Neighbours in the space of an encoder, which also reads the sentences (``context``), or of static vectors."""
    if is_static(name):
        return _static(name, least, most)
    source = resolve_encoder(name)
    tokenizer, config = load_tokenizer(source.folder), load_config(source.folder)
    model = Encoder.load(source.folder, config, [config.num_hidden_layers], dtype=torch.float32).eval().model
    embeddings = model.get_input_embeddings().weight.detach()
    words, rows = _whole_words(tokenizer)
    if not words:
        raise InputError(
            f"Expected the vocabulary of {name} to hold English words, but got none: give another encoder, or a file "
            "of word vectors."
        )

    def find(word: str) -> Tensor | None:
        pieces = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
        return embeddings[pieces].mean(0) if pieces else None

    sentences = partial(_pooled, tokenizer, model) if context else None
    return WordNeighbours(words, embeddings[rows], find, least=least, most=most, sentences=sentences)


def _pooled(tokenizer: Any, model: Any, texts: list[str]) -> Tensor:
    """Sentences as the unit mean of their last hidden states."""
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 512) - 2)
    batch = tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
    with own_arithmetic(), torch.inference_mode():
        states = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)


def _whole_words(tokenizer: Any) -> tuple[list[str], list[int]]:
    """The lower-case English words that are one piece of a vocabulary, with their ids, in the vocabulary's order."""
    surfaces: dict[str, int] = {}
    for piece, row in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        surface = tokenizer.convert_tokens_to_string([piece]).strip()
        plain = surface.isascii() and surface.isalpha() and surface.islower() and len(surface) >= SHORTEST
        if plain and not piece.startswith("##"):
            surfaces.setdefault(surface, row)
    pieces = tokenizer([f" {word}" for word in surfaces], add_special_tokens=False)["input_ids"] if surfaces else []
    alone = [(word, ids[0]) for word, ids in zip(surfaces, pieces, strict=True) if len(ids) == 1]
    return [word for word, _ in alone], [row for _, row in alone]


def _static(name: str, least: float, most: int) -> WordNeighbours:
    """Neighbours among the first words of a file of vectors."""
    vectors = StaticVectors.open(name)
    first = itertools.islice(vectors.vocabulary.items(), STATIC_WORDS)
    found = {word: row for word, row in first if word.isalpha() and word.islower() and len(word) >= SHORTEST}
    if not found:
        raise InputError(f"Expected {name} to hold vectors of words in lower case, but got none: give another file.")
    rows: NDArray[np.int64] = np.fromiter(found.values(), dtype=np.int64)

    def find(word: str) -> Tensor | None:
        row = vectors.find(word)
        return None if row is None else torch.from_numpy(vectors.rows(np.array([row], dtype=np.int64))[0])

    return WordNeighbours(list(found), torch.from_numpy(vectors.rows(rows)), find, least=least, most=most)
