"""Parsers by name: spaCy and Stanza pipelines with a cache of parses."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textmover.lazy import new_lock
from textmover.modules.shipped_folders import released_folders
from textmover.rome.config import DEFAULT_PARSER
from textmover.types import InputError, ParsedText, Parser, needs_extra
from textmover.types.word_splitting import SURROGATE

MAX_LENGTH = 1_000_000  # maximum number of characters of a text

EMPTY_PARSE = ParsedText((), (), (), (), (), (), ())


class CachedParser(ABC):
    """Base of parsers (:class:`textmover.types.Parser`) with a cache of parses, evicted least recently used first.

    The model gets texts with white space collapsed to single spaces and lone surrogates replaced by U+FFFD. Words and
    spans refer to the original text. Threads may share a parser.
    """

    batch_texts: ClassVar[int] = 128
    """Maximum number of texts in a batch."""

    batch_characters: ClassVar[int] = 100_000
    """Maximum number of characters in a batch; a longer text is a batch of its own."""

    def __init__(self, source: Path | str, cached_words: int = 200_000) -> None:
        if cached_words < 0:
            raise InputError(f"Expected `cached_words` to be at least 0, but got {cached_words}: 0 disables the cache.")
        self.source, self.cached_words = str(source), cached_words
        self._cache: OrderedDict[str, ParsedText] = OrderedDict()
        self._total_words = 0
        self._lock = new_lock()

    identity: str
    """Name, version and hash of the model, for signatures and caches."""

    def __reduce__(self) -> tuple[Callable[..., CachedParser], tuple[str, int]]:
        return type(self), (self.source, self.cached_words)  # a copy reloads the model and has an empty cache

    @abstractmethod
    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        """Yield the parses of a batch of non-empty texts with single spaces and without lone surrogates."""

    def __call__(self, texts: Sequence[str]) -> list[ParsedText]:
        """Return the parse of each text, in order; white space alone gives an empty parse."""
        _check_texts(texts)
        parses: dict[str, ParsedText] = {}
        with self._lock:
            for text in filter(self._cache.__contains__, dict.fromkeys(texts)):
                self._cache.move_to_end(text)
                parses[text] = self._cache[text]
            for batch in self._batches([text for text in dict.fromkeys(texts) if text not in parses]):
                cleaned = [SURROGATE.sub("\ufffd", " ".join(text.split())) for text in batch]
                for text, clean, parsed in zip(batch, cleaned, list(self._parse(cleaned)), strict=True):
                    parses[text] = _map_to_original(text, clean, parsed)
                    self._store(text, parses[text])
        return [parses.get(text, EMPTY_PARSE) for text in texts]

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        """Yield batches of non-blank texts, sorted by length so that a model pads little."""
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

    def _store(self, text: str, parsed: ParsedText) -> None:
        if len(parsed) > self.cached_words:
            return  # it would evict all others and still not fit
        self._cache[text] = parsed
        self._total_words += len(parsed)
        while self._total_words > self.cached_words:
            self._total_words -= len(self._cache.popitem(last=False)[1])


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InputError("Expected `texts` to be a list of texts, but got one text: put it into a list.")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"Expected `texts` to be texts, but got {type(text).__name__}: turn it into a string.")
        if len(text) > MAX_LENGTH:
            raise InputError(
                f"Expected each text to have at most {MAX_LENGTH:,} characters to be parsed, but got {len(text):,}: "
                "split it into paragraphs."
            )


def _map_to_original(text: str, clean: str, parsed: ParsedText) -> ParsedText:
    """Convert the parse of a cleaned text to words and spans of the original text."""
    if text == clean:
        return parsed
    starts, clean_starts = ([match.start() for match in re.finditer(r"\S+", one)] for one in (text, clean))

    def original(position: int) -> int:
        piece = bisect_right(clean_starts, position) - 1
        return starts[piece] + position - clean_starts[piece]

    spans = tuple((original(start), original(end - 1) + 1) for start, end in parsed.spans)
    words = tuple(
        text[first:last] if word == clean[start:end] else word  # else expanded by the parser, as "du": de le
        for word, (start, end), (first, last) in zip(parsed.words, parsed.spans, spans, strict=True)
    )
    return replace(parsed, words=words, spans=spans)


EXCLUDED_COMPONENTS = ["ner", "entity_linker", "entity_ruler", "textcat", "textcat_multilabel", "spancat"]
"""Components that are not loaded, since their results are not used."""


class SpacyParser(CachedParser):
    """A spaCy pipeline as a :class:`textmover.types.Parser`.

    Tags and features follow Universal Dependencies in every pipeline. Relations follow the training data: Universal
    Dependencies for the released parser, ClearNLP (``dobj`` for ``obj``) for spaCy's own English pipelines.
    """

    def __init__(self, source: Path | str, cached_words: int = 200_000) -> None:
        super().__init__(source, cached_words)
        self._pipeline = _load_spacy(source)
        meta = self._pipeline.meta
        self.identity = f"{meta['lang']}_{meta['name']}-{meta['version']}+{files_hash(self._pipeline.path)}"
        with self._pipeline.memory_zone():
            if not self._pipeline("A test.").has_annotation("DEP"):
                raise InputError(
                    f"Expected {self.source} to find heads of words, but its components are "
                    f"{', '.join(self._pipeline.pipe_names) or 'none'}: take a pipeline with a parser."
                )

    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        with self._pipeline.memory_zone():  # otherwise spaCy's vocabulary grows with every new word
            for doc in self._pipeline.pipe(texts, batch_size=self.batch_texts):
                yield parsed_doc(doc)


def parsed_doc(doc: Any) -> ParsedText:
    """Convert a spaCy document."""
    return ParsedText(
        words=tuple(word.text for word in doc),
        lemmas=tuple(word.lemma_ or word.lower_ for word in doc),
        tags=tuple(sys.intern(word.pos_ or "X") for word in doc),
        features=tuple(sys.intern(str(word.morph)) for word in doc),
        heads=tuple(-1 if word.head is word or word.head.i == word.i else word.head.i for word in doc),
        relations=tuple("root" if word.dep_ == "ROOT" else sys.intern(word.dep_ or "dep") for word in doc),
        spans=tuple((word.idx, word.idx + len(word)) for word in doc),
    )


def _load_spacy(source: Path | str) -> Any:
    with needs_extra("rome", f"spaCy for the parser {source}"):
        import spacy
    try:
        return spacy.load(source, exclude=EXCLUDED_COMPONENTS)
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"Expected {source} to be a pipeline that spaCy {spacy.__version__} can load, but got: {lines[0]} "
            "Get it or train it again."
        ) from error


def files_hash(folder: Path) -> str:
    """Return eight hex digits of a hash over names and contents of a model's files, except its model card."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "README.md")
    return _hash_files((path.relative_to(folder).as_posix(), path) for path in files)


def _hash_files(files: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:8]


class StanzaParser(CachedParser):
    """A Stanza pipeline as a :class:`textmover.types.Parser`; it never downloads models.

    A word of a multiword token that has no characters of its own in the text gets the span of the token.
    """

    def __init__(self, language: str, cached_words: int = 200_000) -> None:
        super().__init__(language, cached_words)
        self._pipeline, version = _load_stanza(language)
        paths = {key: value for key, value in sorted(self._pipeline.config.items()) if key.endswith("_path")}
        files = ((key, Path(one)) for key, one in paths.items() if isinstance(one, str) and Path(one).is_file())
        self.identity = f"stanza:{language}-{version}+{_hash_files(files)}"

    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        yield from map(_convert_stanza, self._pipeline.bulk_process(texts))


def _convert_stanza(document: Any) -> ParsedText:
    words: list[Any] = []
    heads: list[int] = []
    spans: list[tuple[int, int]] = []
    for sentence in document.sentences:
        first = len(words)
        for token in sentence.tokens:
            for word in token.words:
                has_span = word.start_char is not None and word.end_char is not None
                spans.append((word.start_char, word.end_char) if has_span else (token.start_char, token.end_char))
        words += sentence.words
        heads += [first + word.head - 1 if word.head else -1 for word in sentence.words]  # ids start at 1 in each
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
    with needs_extra("stanza", f"Stanza for the parser stanza:{language}"):
        import stanza
    processors = "tokenize,pos,lemma,depparse"  # Stanza adds multiword token expansion if the language needs it
    try:
        pipeline = stanza.Pipeline(language, processors=processors, download_method=None, verbose=False)
    except (OSError, ValueError) as error:  # missing models and unknown languages raise one of these
        raise InputError(
            f"Expected Stanza to have models of {language!r}, but got: {' '.join(str(error).split())} "
            f"Get them: python -c \"import stanza; stanza.download('{language}')\""
        ) from error
    return pipeline, stanza.__version__


STANZA = "stanza:"

PIPELINE = "config.cfg"  # file that marks the folder of a spaCy pipeline


def load_parser(name_or_path: str | Path = DEFAULT_PARSER, *, cached_words: int = 200_000) -> Parser:
    """Load a parser by name.

    Args:
        name_or_path: A released parser, the folder of a spaCy pipeline, the name of an installed one such as
            ``"en_core_web_sm"``, or ``"stanza:en"`` for Stanza's models of a language.
        cached_words: Maximum number of words in all cached parses; 0 disables the cache.

    Raises:
        InputError: If the parser is unknown, or it or its package is not installed; the message says how to get it.

    Example:
        >>> parsed = load_parser()(["The dogs chased a cat."])[0]
        >>> parsed.lemmas
        ('the', 'dog', 'chase', 'a', 'cat', '.')
        >>> [parsed.words[head] for head in parsed.heads if head >= 0]
        ['dogs', 'chased', 'cat', 'chased', 'chased']
    """
    name = str(name_or_path)
    if name.startswith(STANZA):
        return StanzaParser(name.removeprefix(STANZA), cached_words)
    if (Path(name_or_path) / PIPELINE).is_file():
        return SpacyParser(Path(name_or_path), cached_words)
    released = released_folders(PIPELINE)
    if name in released:
        return SpacyParser(released[name], cached_words)
    if isinstance(name_or_path, str) and name.isidentifier() and importlib.util.find_spec(name) is not None:
        return SpacyParser(name, cached_words)
    if name == DEFAULT_PARSER:
        fix = "take it from the repository's folder checkpoints, or train it: python benchmarks/train_parser.py"
    elif name.isidentifier() and "_" in name:
        fix = f'pip install "textmover[rome]" and python -m spacy download {name}'
    else:
        fix = "give one of these, the folder of a spaCy pipeline, an installed one such as en_core_web_sm, or stanza:en"
    names = ", ".join(sorted(released)) or "none"
    raise InputError(f"Expected `parser` to be installed, but got {name!r} (released: {names}): {fix}.")
