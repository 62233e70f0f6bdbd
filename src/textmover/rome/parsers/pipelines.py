"""Parsers by name: spaCy and Stanza pipelines that parse each distinct text once and cache it."""

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

from textmover.modules.devices import new_lock
from textmover.modules.shipped_folders import released_folders
from textmover.rome.config import DEFAULT_PARSER
from textmover.types import InputError, ParsedText, Parser, needs_extra
from textmover.types.word_splitting import SURROGATE

LONGEST = 1_000_000  # characters of the longest text that is parsed

NOTHING = ParsedText((), (), (), (), (), (), ())


class CachedParser(ABC):
    """A :class:`textmover.types.Parser` over a model that reads texts one by one or in batches.

    The model reads white space as single spaces, never as a word, and half surrogates as U+FFFD; words and spans are
    those of the text as it was given. Parses are kept, the latest used longest. Threads may share a parser.
    """

    batch_texts: ClassVar[int] = 128
    """Most texts that the model reads together."""

    batch_characters: ClassVar[int] = 100_000
    """Most characters that the model reads together, save in a longer text, which it reads alone."""

    def __init__(self, source: Path | str, cached_words: int = 200_000) -> None:
        if cached_words < 0:
            raise InputError(f"Expected `cached_words` to be at least 0, but got {cached_words}: 0 keeps no parse.")
        self.source, self.cached_words = str(source), cached_words
        self._kept: OrderedDict[str, ParsedText] = OrderedDict()
        self._kept_words = 0
        self._lock = new_lock()

    identity: str
    """Name, version and hash of the model, for signatures and caches."""

    def __reduce__(self) -> tuple[Callable[..., CachedParser], tuple[str, int]]:
        return type(self), (self.source, self.cached_words)  # a copy loads the model again and has no parses yet

    @abstractmethod
    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        """Parses of one batch of texts that have words, single spaces and only characters that UTF-8 has."""

    def __call__(self, texts: Sequence[str]) -> list[ParsedText]:
        """The parse of each text, in their order; a text without words has none."""
        _check(texts)
        found: dict[str, ParsedText] = {}
        with self._lock:
            for text in filter(self._kept.__contains__, dict.fromkeys(texts)):
                self._kept.move_to_end(text)
                found[text] = self._kept[text]
            for batch in self._batches([text for text in dict.fromkeys(texts) if text not in found]):
                clean = [SURROGATE.sub("\ufffd", " ".join(text.split())) for text in batch]
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


def _onto(text: str, clean: str, parsed: ParsedText) -> ParsedText:
    """The parse of a clean text as one of the text that it was made from."""
    if text == clean:
        return parsed
    starts, clean_starts = ([match.start() for match in re.finditer(r"\S+", one)] for one in (text, clean))

    def original(place: int) -> int:
        piece = bisect_right(clean_starts, place) - 1
        return starts[piece] + place - clean_starts[piece]

    spans = tuple((original(start), original(end - 1) + 1) for start, end in parsed.spans)
    words = tuple(
        text[first:last] if word == clean[start:end] else word  # else one that the parser writes out, as in "du": de le
        for word, (start, end), (first, last) in zip(parsed.words, parsed.spans, spans, strict=True)
    )
    return replace(parsed, words=words, spans=spans)


UNUSED = ["ner", "entity_linker", "entity_ruler", "textcat", "textcat_multilabel", "spancat"]
"""Components whose results nobody reads here."""


class SpacyParser(CachedParser):
    """A spaCy pipeline as a :class:`textmover.types.Parser`.

    Tags and features are Universal Dependencies' in every pipeline; relations are what the pipeline was trained on: the
    released parser has Universal Dependencies', spaCy's own English ones those of ClearNLP (``dobj`` for ``obj``).
    """

    def __init__(self, source: Path | str, cached_words: int = 200_000) -> None:
        super().__init__(source, cached_words)
        self._pipeline = _load(source)
        meta = self._pipeline.meta
        self.identity = f"{meta['lang']}_{meta['name']}-{meta['version']}+{files_hash(self._pipeline.path)}"
        with self._pipeline.memory_zone():
            if not self._pipeline("A test.").has_annotation("DEP"):
                raise InputError(
                    f"Expected {self.source} to find heads of words, but its components are "
                    f"{', '.join(self._pipeline.pipe_names) or 'none'}: take a pipeline with a parser."
                )

    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        with self._pipeline.memory_zone():  # else spaCy's vocabulary grows with every new word
            for doc in self._pipeline.pipe(texts, batch_size=self.batch_texts):
                yield parsed_doc(doc)


def parsed_doc(doc: Any) -> ParsedText:
    """Convert a document of spaCy."""
    return ParsedText(
        words=tuple(word.text for word in doc),
        lemmas=tuple(word.lemma_ or word.lower_ for word in doc),
        tags=tuple(sys.intern(word.pos_ or "X") for word in doc),
        features=tuple(sys.intern(str(word.morph)) for word in doc),
        heads=tuple(-1 if word.head is word or word.head.i == word.i else word.head.i for word in doc),
        relations=tuple("root" if word.dep_ == "ROOT" else sys.intern(word.dep_ or "dep") for word in doc),
        spans=tuple((word.idx, word.idx + len(word)) for word in doc),
    )


def _load(source: Path | str) -> Any:
    with needs_extra("rome", f"spaCy for the parser {source}"):
        import spacy
    try:
        return spacy.load(source, exclude=UNUSED)
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"Expected {source} to be a pipeline that spaCy {spacy.__version__} can load, but got: {lines[0]} "
            "Get it or train it again."
        ) from error


def files_hash(folder: Path) -> str:
    """Eight digits of a hash over the files of a model, by name and content; its card is none of them."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "README.md")
    return _hash((path.relative_to(folder).as_posix(), path) for path in files)


def _hash(files: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:8]


class StanzaParser(CachedParser):
    """A Stanza pipeline as a :class:`textmover.types.Parser`; it is never asked to fetch anything.

    A word that Stanza writes out of a multiword token, and that the text does not have as such, has the token's span.
    """

    def __init__(self, language: str, cached_words: int = 200_000) -> None:
        super().__init__(language, cached_words)
        self._pipeline, version = _load_stanza(language)
        paths = {key: value for key, value in sorted(self._pipeline.config.items()) if key.endswith("_path")}
        files = ((key, Path(one)) for key, one in paths.items() if isinstance(one, str) and Path(one).is_file())
        self.identity = f"stanza:{language}-{version}+{_hash(files)}"

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
    with needs_extra("stanza", f"Stanza for the parser stanza:{language}"):
        import stanza
    processors = "tokenize,pos,lemma,depparse"  # Stanza adds what expands multiword tokens, where a language has them
    try:
        pipeline = stanza.Pipeline(language, processors=processors, download_method=None, verbose=False)
    except (OSError, ValueError) as error:  # Stanza's own errors of missing models and unknown languages are of these
        raise InputError(
            f"Expected Stanza to have models of {language!r}, but got: {' '.join(str(error).split())} "
            f"Get them: python -c \"import stanza; stanza.download('{language}')\""
        ) from error
    return pipeline, stanza.__version__


STANZA = "stanza:"

PIPELINE = "config.cfg"  # the file that tells that a folder holds a spaCy pipeline


def load_parser(name_or_path: str | Path = DEFAULT_PARSER, *, cached_words: int = 200_000) -> Parser:
    """A parser by its name.

    Args:
        name_or_path: A released parser, the folder of a spaCy pipeline, the name of an installed one such as
            ``"en_core_web_sm"``, or ``"stanza:en"`` for Stanza's models of a language.
        cached_words: How many words the parses that it keeps may have together; the latest used are kept.

    Raises:
        InputError: If there is none of this name, or what it needs is not installed; the message says how to get it.

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
        way = "take it from the repository's folder checkpoints, or train it: python benchmarks/train_parser.py"
    elif name.isidentifier() and "_" in name:
        way = f'pip install "textmover[rome]" and python -m spacy download {name}'
    else:
        way = "give one of these, the folder of a spaCy pipeline, an installed one such as en_core_web_sm, or stanza:en"
    here = ", ".join(sorted(released)) or "none"
    raise InputError(f"Expected `parser` to be one that is here, but got {name!r} (released: {here}): {way}.")
