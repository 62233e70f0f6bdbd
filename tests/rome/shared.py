"""Parses made by hand, and the sentences of the paper, for the tests of RoMe."""

import numpy as np

from textmover.types import ParsedText

# Sentences of the paper's tables 2 and 3: reference, hypothesis.
EXAMPLES = {
    "paraphrase": ("Munich is located at the southern part of Germany.", "Munich is situated in the south of Germany."),
    "passive": ("Tesla motors is founded by Elon Musk.", "Elon Musk has founded Tesla Motors."),
    "repetition": ("Elon musk has founded tesla motors.", "Elon elon elon elon founded tesla tesla tesla."),
    "unrelated": (
        "James Craig Watson, who died from peritonitis, discovered 101 Helena.",
        "The Polish Academy of Science is regionserved.",
    ),
    "repetitive": (
        "1001 gaussia was formerly known as 1923 oaa907 xc.",
        "The former name for the former name for 11 gunger is 1923. One of the former name is 1923.",
    ),
}


def parsed(words, heads, relations=None, lemmas=None, tags=None):
    """A parse of words with a space between, whose marks are tagged as such."""
    words = tuple(words)
    tags = tuple(tags or ("PUNCT" if word in set(".,!?") else "NOUN" for word in words))
    ends = np.cumsum([len(word) + 1 for word in words]).tolist()
    spans = tuple((end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True))
    lemmas = tuple(lemmas or [word.lower() for word in words])
    empty = ("",) * len(words)
    return ParsedText(words, lemmas, tags, empty, tuple(heads), tuple(relations or ["dep"] * len(words)), spans)
