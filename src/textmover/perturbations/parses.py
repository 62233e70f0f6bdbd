"""Parses for the perturbations: asked for text by text, made in batches, and laid beside the words of a phrase."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textmover.perturbations.phrases import Phrase
from textmover.types import ParsedText, Parser

Parse = Callable[[str], ParsedText]
"""The parse of one text."""


class Parses:
    """The parses of texts one by one, of which those that are known beforehand are made in one batch.

    Args:
        parser: Parses several texts at a time.
        most: Parses that are kept; older ones are dropped.

    Example:
        >>> word = ParsedText(("Go",), ("go",), ("VERB",), ("",), (-1,), ("root",), ((0, 2),))
        >>> parses = Parses(lambda texts: [word for _ in texts])
        >>> parses.prepare(["Go"])
        >>> parses("Go").lemmas
        ('go',)
    """

    def __init__(self, parser: Parser | Callable[[list[str]], list[ParsedText]], most: int = 8192) -> None:
        self._parser = parser
        self._most = most
        self._known: dict[str, ParsedText] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Parse those texts that are not known yet, all at once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._parser(new), strict=True))
            for text in list(self._known)[: max(0, len(self._known) - max(self._most, len(new)))]:
                del self._known[text]

    def __call__(self, text: str) -> ParsedText:
        """The parse of a text."""
        self.prepare([text])
        return self._known[text]


def core_spans(phrase: Phrase) -> tuple[tuple[int, int], ...]:
    """First character of each word without its marks in the phrase's text, and the one after its last.

    Example:
        >>> from textmover.perturbations.phrases import WordPool
        >>> core_spans(Phrase.parse("(Cats sleep.)", WordPool()))
        ((1, 5), (6, 11))
    """
    spans, start = [], 0
    for word in phrase.words:
        first = start + len(word.before)
        spans.append((first, first + len(word.core)))
        start += sum(map(len, word)) + 1
    return tuple(spans)


def word_tags(phrase: Phrase, parse: Parse) -> tuple[str, ...]:
    """Universal part of speech of each word of a phrase; empty where the parser sees several words in it, or another.

    The possessive ending is left out, so that *Petra's* is a name.
    """
    text = phrase.text
    parsed = parse(text)
    by_span = dict(zip(parsed.spans, parsed.tags, strict=True))
    tags = []
    for word, (start, end) in zip(phrase.words, core_spans(phrase), strict=True):
        if text[start:end].lower() != word.core.lower():  # a capital of two letters has moved everything behind it
            return ("",) * len(phrase.words)
        bare = end - 2 if word.core[-2:].lower() in ("'s", "’s") else end
        tags.append(by_span.get((start, end)) or by_span.get((start, bare), ""))
    return tuple(tags)
