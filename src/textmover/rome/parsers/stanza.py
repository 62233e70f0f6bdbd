"""Stanza pipelines as parsers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textmover.rome.parsers.cache import CachedParser
from textmover.types import InputError, ParsedText

PROCESSORS = "tokenize,pos,lemma,depparse"
"""What is run; Stanza adds the expansion of multiword tokens for the languages that have them."""


class StanzaParser(CachedParser):
    """A Stanza pipeline as a :class:`textmover.types.Parser`; it is never asked to fetch anything.

    A word that Stanza writes out of a multiword token, and that the text does not have as such, has the token's span.

    Args:
        language: Language code of the models, such as ``"en"``.
        cached_words: How many words the kept parses may have together.

    Raises:
        InputError: If Stanza is not installed or has no models of the language.
    """

    def __init__(self, language: str, cached_words: int = 200_000) -> None:
        super().__init__(cached_words)
        self.language = language
        self._pipeline, version = _load_stanza(language)
        self._identity = f"stanza:{language}-{version}+{_models_hash(self._pipeline.config)}"

    @property
    def identity(self) -> str:
        """Language, version of Stanza, and a hash of the files of the models."""
        return self._identity

    def __reduce__(self) -> tuple[Callable[..., StanzaParser], tuple[str, int]]:
        """A copy for another process loads the models anew and has no parses yet."""
        return type(self), (self.language, self.cached_words)

    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        yield from map(_parsed, self._pipeline.bulk_process(texts))


def _parsed(document: Any) -> ParsedText:
    words: list[Any] = []
    heads: list[int] = []
    spans: list[tuple[int, int]] = []
    for sentence in document.sentences:
        first = len(words)
        for token in sentence.tokens:
            for word in token.words:
                own = word.start_char is not None and word.end_char is not None
                spans.append((word.start_char, word.end_char) if own else (token.start_char, token.end_char))
        words += sentence.words
        heads += [first + word.head - 1 if word.head else -1 for word in sentence.words]  # ids begin at 1 in each
    return ParsedText(
        words=tuple(word.text for word in words),
        lemmas=tuple(word.lemma or word.text.lower() for word in words),
        tags=tuple(word.upos or "X" for word in words),
        features=tuple(word.feats or "" for word in words),
        heads=tuple(heads),
        relations=tuple(word.deprel or "dep" for word in words),
        spans=tuple(spans),
    )


def _load_stanza(language: str) -> tuple[Any, str]:
    try:
        import stanza
    except ImportError as error:
        raise InputError(
            f"Expected Stanza to be installed for the parser stanza:{language}, but it is not: "
            'pip install "textmover[stanza]", which brings it.'
        ) from error
    try:
        pipeline = stanza.Pipeline(language, processors=PROCESSORS, download_method=None, verbose=False)
    except (OSError, ValueError) as error:  # Stanza's own errors of missing models and unknown languages are of these
        raise InputError(
            f"Expected Stanza to have models of {language!r}, but got: {' '.join(str(error).split())} "
            f"Get them: python -c \"import stanza; stanza.download('{language}')\""
        ) from error
    return pipeline, stanza.__version__


def _models_hash(config: dict[str, Any]) -> str:
    """Eight digits of a hash over the files that a pipeline's configuration names."""
    digest = hashlib.sha256()
    for key, value in sorted(config.items()):
        if key.endswith("_path") and isinstance(value, str) and Path(value).is_file():
            digest.update(key.encode())
            digest.update(hashlib.sha256(Path(value).read_bytes()).digest())
    return digest.hexdigest()[:8]
