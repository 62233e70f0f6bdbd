"""A parser that knows parts of speech alone, and the results of many seeds."""

import pytest

from textmover.perturbations.editable_sentences import WordPool
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.registry import all_perturbations
from textmover.types import ParsedText


@pytest.fixture(scope="session")
def tagged():
    """Makes a parser from the tag of each word; it takes off possessive endings and marks."""

    def parser(**tags: str):
        def parse(text: str) -> ParsedText:
            words, spans, at = text.replace("'s", " 's").replace(".", " .").replace(",", " ,").split(), [], 0
            for word in words:
                at = text.index(word, at)
                spans.append((at, at + len(word)))
                at += len(word)
            n, tag_of = len(words), tuple(tags.get(word, "X") for word in words)
            return ParsedText(
                tuple(words), tuple(words), tag_of, ("",) * n, (-1, *range(n - 1)), ("root",) * n, tuple(spans)
            )

        return parse

    return parser


@pytest.fixture(scope="session")
def results():
    """The texts that a perturbation makes with any of 40 seeds; ``None`` among them where it cannot be applied."""

    def made(text: str, name: str, degree: int = 1, *, texts=(), **helpers) -> set[str | None]:
        given = {"pool": WordPool(texts), "perturbations": all_perturbations(**helpers)}
        found = (perturb(text, name, degree, seed=seed, **given) for seed in range(40))
        return {None if one is None else one.text for one in found}

    return made
