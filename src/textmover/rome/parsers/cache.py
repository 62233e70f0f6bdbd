"""What all parsers share: each distinct text is parsed once, as it would be alone, and kept."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from textmover.modules.forking import new_lock
from textmover.types import InputError, ParsedText

LONGEST = 1_000_000
"""Characters of the longest text that is parsed."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair of UTF-16: no character, and not to be written as UTF-8."""

NOTHING = ParsedText((), (), (), (), (), (), ())


class CachedParser(ABC):
    """A :class:`textmover.types.Parser` over a model that reads texts one by one or in batches.

    White space is made single spaces before the model reads a text, so that it is never a word, and half surrogates are
    read as U+FFFD; words and spans are those of the text as it was given. Parses are kept, the latest used longest.
    Threads may share a parser: one parses at a time.

    Args:
        cached_words: How many words the kept parses may have together; about 0.4 kB each.
    """

    batch_texts: ClassVar[int] = 128
    """Most texts that the model reads together."""

    batch_characters: ClassVar[int] = 100_000
    """Most characters that the model reads together, save in a longer text, which it reads alone."""

    def __init__(self, cached_words: int = 200_000) -> None:
        if cached_words < 0:
            raise InputError(f"Expected `cached_words` to be at least 0, but got {cached_words}: 0 keeps no parse.")
        self.cached_words = cached_words
        self._kept: OrderedDict[str, ParsedText] = OrderedDict()
        self._kept_words = 0
        self._lock = new_lock()

    @property
    @abstractmethod
    def identity(self) -> str:
        """Name, version and hash of the model, for signatures and caches."""

    @abstractmethod
    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        """Parses of one batch of texts that have words, single spaces and only characters that UTF-8 has."""

    def __call__(self, texts: Sequence[str]) -> list[ParsedText]:
        """The parse of each text, in their order; a text without words has none.

        Raises:
            InputError: If something is no text, or longer than a million characters.
        """
        _check(texts)
        found: dict[str, ParsedText] = {}
        with self._lock:
            for text in dict.fromkeys(texts):
                if text in self._kept:
                    self._kept.move_to_end(text)
                    found[text] = self._kept[text]
            missing = [text for text in dict.fromkeys(texts) if text not in found]
            for batch in self._batches(missing):
                clean = [_clean(text) for text in batch]
                for text, read, parsed in zip(batch, clean, list(self._parse(clean)), strict=True):
                    found[text] = _onto(text, read, parsed)
                    self._keep(text, found[text])
        return [found.get(text, NOTHING) for text in texts]

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        """Texts with words, of like length together, so that a model that pads wastes little."""
        batch: list[str] = []
        characters = 0
        for text in sorted(filter(str.strip, texts), key=len):
            if batch and (len(batch) == self.batch_texts or characters + len(text) > self.batch_characters):
                yield batch
                batch, characters = [], 0
            batch.append(text)
            characters += len(text)
        if batch:
            yield batch

    def _keep(self, text: str, parsed: ParsedText) -> None:
        if len(parsed) > self.cached_words:
            return  # it would push out all others and still not fit
        self._kept[text] = parsed
        self._kept_words += len(parsed)
        while self._kept_words > self.cached_words:
            self._kept_words -= len(self._kept.popitem(last=False)[1])


def _check(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InputError("Expected `texts` to be a list of texts, but got one text: put it into a list.")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"Expected `texts` to be texts, but got {type(text).__name__}: turn it into a string.")
        if len(text) > LONGEST:
            raise InputError(
                f"Expected each text to have at most {LONGEST:,} characters to be parsed, but got {len(text):,}: "
                "split it into paragraphs."
            )


def _clean(text: str) -> str:
    r"""A text with single spaces between its words and none around, in characters that UTF-8 has.

    Example:
        >>> _clean(' a\n\n b\ud800 ')
        'a b�'
    """
    return SURROGATE.sub("\ufffd", " ".join(text.split()))


def _onto(text: str, clean: str, parsed: ParsedText) -> ParsedText:
    """The parse of a clean text as one of the text that it was made from."""
    if text == clean:
        return parsed
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    clean_starts = [match.start() for match in re.finditer(r"\S+", clean)]

    def original(place: int) -> int:
        piece = bisect_right(clean_starts, place) - 1
        return starts[piece] + place - clean_starts[piece]

    spans = tuple((original(start), original(end - 1) + 1) for start, end in parsed.spans)
    words = tuple(
        text[first:last] if word == clean[start:end] else word  # else one that the parser writes out, as in "du": de le
        for word, (start, end), (first, last) in zip(parsed.words, parsed.spans, spans, strict=True)
    )
    return replace(parsed, words=words, spans=spans)
