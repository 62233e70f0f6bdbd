"""spaCy pipelines as parsers."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textmover.rome.parsers.cache import CachedParser
from textmover.types import InputError, ParsedText

UNUSED = ["ner", "entity_linker", "entity_ruler", "textcat", "textcat_multilabel", "spancat"]
"""Components whose results nobody reads here."""

CARD = "README.md"


class SpacyParser(CachedParser):
    """A spaCy pipeline as a :class:`textmover.types.Parser`.

    Tags and features are Universal Dependencies' in every pipeline; relations are what the pipeline was trained on: the
    released parser has Universal Dependencies', spaCy's own English ones those of ClearNLP (``dobj`` for ``obj``).

    Args:
        source: Folder of a pipeline, or name of an installed one.
        cached_words: How many words the kept parses may have together.

    Raises:
        InputError: If spaCy is not installed, the pipeline cannot be loaded, or it parses nothing.
    """

    def __init__(self, source: Path | str, cached_words: int = 200_000) -> None:
        super().__init__(cached_words)
        self.source = str(source)
        self._pipeline = _load(source)
        meta = self._pipeline.meta
        self._identity = f"{meta['lang']}_{meta['name']}-{meta['version']}+{files_hash(self._pipeline.path)}"
        with self._pipeline.memory_zone():
            if not self._pipeline("A test.").has_annotation("DEP"):
                raise InputError(
                    f"Expected {self.source} to find heads of words, but its components are "
                    f"{', '.join(self._pipeline.pipe_names) or 'none'}: take a pipeline with a parser."
                )

    @property
    def identity(self) -> str:
        """Language, name and version of the pipeline, and a hash of its files.

        Example:
            >>> from textmover.rome.parsers.names import load_parser
            >>> load_parser().identity.startswith("en_textmover_parser-")
            True
        """
        return self._identity

    def __reduce__(self) -> tuple[Callable[..., SpacyParser], tuple[str, int]]:
        """A copy for another process loads the pipeline anew and has no parses yet."""
        return type(self), (self.source, self.cached_words)

    def _parse(self, texts: list[str]) -> Iterator[ParsedText]:
        with self._pipeline.memory_zone():  # else spaCy's vocabulary grows with every new word
            for doc in self._pipeline.pipe(texts, batch_size=self.batch_texts):
                yield parsed_doc(doc)


def parsed_doc(doc: Any) -> ParsedText:
    """What a document of spaCy's says of its words."""
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
    try:
        import spacy
    except ImportError as error:
        raise InputError(
            f"Expected spaCy to be installed for the parser {source}, but it is not: "
            'pip install "textmover[rome]", which brings it.'
        ) from error
    try:
        return spacy.load(source, exclude=UNUSED)
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"Expected {source} to be a pipeline that spaCy {spacy.__version__} can load, but got: {lines[0]} "
            "Get it or train it anew."
        ) from error


def files_hash(folder: Path) -> str:
    """Eight digits of a hash over the files of a model, by name and content; its card is none of them.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "weights").write_bytes(b"1")
        ...     files_hash(Path(folder))
        '3dab8f0e'
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != CARD:
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:8]
