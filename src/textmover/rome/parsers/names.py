"""Parsers by name: the released one, a folder, a spaCy package, or Stanza."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from textmover.modules.released_folders import released_folders
from textmover.rome.config import DEFAULT_PARSER
from textmover.rome.parsers.pipelines import SpacyParser, StanzaParser
from textmover.types import InputError, Parser

STANZA = "stanza:"

PIPELINE = "config.cfg"
"""The file that tells that a folder holds a spaCy pipeline."""


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
    raise InputError(_missing(name, released))


def _missing(name: str, released: dict[str, Path]) -> str:
    here = ", ".join(sorted(released)) or "none"
    if name == DEFAULT_PARSER:
        way = "take it from the repository's folder checkpoints, or train it: python benchmarks/train_parser.py"
    elif name.isidentifier() and "_" in name:
        way = f'pip install "textmover[rome]" and python -m spacy download {name}'
    else:
        way = "give one of these, the folder of a spaCy pipeline, an installed one such as en_core_web_sm, or stanza:en"
    return f"Expected `parser` to be one that is here, but got {name!r} (released: {here}): {way}."
