"""Nearest neighbours of words, for perturbations that replace a word but preserve the meaning of the sentence.

The vectors are an encoder's input embeddings (the mean for a word of several pieces) or static word vectors. An encoder
also embeds the sentence with each candidate and keeps candidates whose sentence vector stays close to the original.
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

SHORTEST = 3  # minimum number of letters of a word

STATIC_WORDS = 50_000
"""Number of candidates at the start of a file of static vectors, which begins with the most frequent words."""

Sentences = Callable[[list[str]], Tensor]  # function from sentences to unit vectors ``[n, D]``


class WordNeighbours:
    """Nearest neighbours of words by the cosine of their centred vectors.

    The mean is subtracted because it represents what all words share and would make all words similar.

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
        """Return the nearest words, nearest first; an empty list for a word without a vector."""
        if word not in self._near:
            vector = self._unit(word)
            cosines = torch.zeros(0) if vector is None else self._vectors @ vector
            near = torch.topk(cosines, min(self.most + 1, len(cosines)))
            ranked = zip(near.values.tolist(), near.indices.tolist(), strict=True)
            words = [self.words[row] for value, row in ranked if value >= self.least]
            self._near[word] = [one for one in words if one != word][: self.most]
        return self._near[word]

    def __call__(self, word: str, sentence: str) -> list[str]:
        """Return replacements of ``word`` in ``sentence``, best first."""
        candidates = self.nearest(word.lower())
        if self._sentences is None or not candidates:
            return candidates
        place = re.search(rf"\b{re.escape(word)}\b", sentence, re.IGNORECASE)
        if place is None:
            raise InputError(
                f"Expected `sentence` to hold {word!r}, but got {sentence!r}: give the word's own sentence."
            )
        before, behind = sentence[: place.start()], sentence[place.end() :]
        capital = place.group()[:1].isupper()
        changed = [before + (one.capitalize() if capital else one) + behind for one in candidates]
        vectors = self._sentences([sentence, *changed])
        cosines = [round(value, 4) for value in (vectors[1:] @ vectors[0]).tolist()]  # last digits depend on the batch
        ranked = sorted(zip(cosines, candidates, strict=True), key=lambda pair: -pair[0])
        return [one for value, one in ranked if value >= self.least_sentence]

    def _unit(self, word: str) -> Tensor | None:
        if word in self._rows:
            return self._vectors[self._rows[word]]
        vector = None if self._find is None else self._find(word)
        return None if vector is None else torch.nn.functional.normalize(vector - self._mean, dim=-1)


def load_neighbours(name: str, *, least: float = 0.4, most: int = 12, context: bool = True) -> WordNeighbours:
    """Load neighbours from static vectors or an encoder, which also compares sentences if ``context`` is true."""
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
    """Return the unit-length means of the sentences' last hidden states."""
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 512) - 2)
    batch = tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
    with own_arithmetic(), torch.inference_mode():
        states = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)


def _whole_words(tokenizer: Any) -> tuple[list[str], list[int]]:
    """Return lower-case English words that are one piece of a vocabulary, and their ids, in the order of the ids."""
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
    """Build neighbours from the first words of a vector file."""
    vectors = StaticVectors.open(name)
    first = itertools.islice(vectors.vocabulary.items(), STATIC_WORDS)
    words = {word: row for word, row in first if word.isalpha() and word.islower() and len(word) >= SHORTEST}
    if not words:
        raise InputError(f"Expected {name} to hold vectors of words in lower case, but got none: give another file.")
    rows: NDArray[np.int64] = np.fromiter(words.values(), dtype=np.int64)

    def find(word: str) -> Tensor | None:
        row = vectors.find(word)
        return None if row is None else torch.from_numpy(vectors.rows(np.array([row], dtype=np.int64))[0])

    return WordNeighbours(list(words), torch.from_numpy(vectors.rows(rows)), find, least=least, most=most)
