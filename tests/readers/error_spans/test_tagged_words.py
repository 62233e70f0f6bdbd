"""Moses tokens are found in the text that they were made from, and tags become spans of it."""

import unicodedata
from random import Random

import pytest

from textmover.readers.error_spans import MarkedColumns, read_marked
from textmover.readers.error_spans.tagged_words import errors_of_tags, place_words
from textmover.types import InputError

SAME = [
    ("A cat sat.", "A cat sat .", ["A", "cat", "sat", "."]),
    ("  A\u00a0cat\n", "A cat", ["A", "cat"]),
    ('It\'s <b> & [x|y] "z"', "It &apos;s &lt; b &gt; &amp; &#91; x &#124; y &#93; &quot; z &quot;", None),
    ("literal &amp; mark", "literal &amp; mark", ["literal", "&amp;", "mark"]),
    ("“It’s” – well…", '" It \' s " - well ...', ["“", "It", "’", "s", "”", "–", "well", "…"]),
    ("a well-known and/or", "a well @-@ known and @/@ or", ["a", "well", "-", "known", "and", "/", "or"]),
    (unicodedata.normalize("NFD", "Sören aß"), "Sören aß", [unicodedata.normalize("NFD", "Sören"), "aß"]),
    ("Sören", unicodedata.normalize("NFD", "Sören"), ["Sören"]),
    ("e\u0323\u0302 x", "e\u0302\u0323 x", ["e\u0323\u0302", "x"]),  # two marks in the other order
    ("我爱北京。", "我 爱 北京 。", ["我", "爱", "北京", "。"]),
    ("ok 👩\u200d👧!", "ok 👩\u200d👧 !", ["ok", "👩\u200d👧", "!"]),
]


@pytest.mark.parametrize(("text", "tokens", "expected"), SAME)
def test_words_are_found(text, tokens, expected):
    found = [text[start:stop] for start, stop in place_words(text, tokens.split())]
    assert found == (expected or ["It", "'s", "<", "b", ">", "&", "[", "x", "|", "y", "]", '"', "z", '"'])


@pytest.mark.parametrize(
    ("text", "tokens", "message"),
    [
        ("a cat", "a dog", r"but got 'dog' as word 2, which does not follow there"),
        ("a cat", "a", r"but got none from 'cat' on"),
        ("a cat", "a cat sat", r"but got 'sat' as word 3"),
        ("½", "1⁄ 2", r"but got '2' as word 2"),  # half a character
    ],
)
def test_words_of_another_text_are_named(text, tokens, message):
    with pytest.raises(InputError, match=message):
        place_words(text, tokens.split())


LETTERS = ["a", "Z", "é", "e\u0301", "’", '"', "&", "我", "ß", "½", "\u200d", "👩", "\u0938\u093f", "한"]


@pytest.mark.parametrize("seed", range(50))
def test_any_words_are_found_with_any_space_between_them(seed):
    rng = Random(seed)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 9))]
    text = "".join(rng.choice(["", " ", "\u3000", "\n "]) + word for word in words) + rng.choice(["", " \t"])
    assert [text[start:stop] for start, stop in place_words(text, words)] == words


@pytest.mark.parametrize("seed", range(50))
def test_tags_are_found_again_in_the_spans(seed):
    rng = Random(seed)
    tags = rng.choices(["OK", "BAD"], k=2 * rng.randint(1, 9) + 1)
    words = tuple((3 * place + 1, 3 * place + 3) for place in range(len(tags) // 2))
    errors = errors_of_tags(words, tags)
    assert list(errors) == sorted(errors, key=lambda one: (one.start, one.end))
    ends = [0, *(stop for _, stop in words)], [*(start for start, _ in words), 100]
    again = []
    for before, after, word in zip(*ends, [*words, None], strict=True):
        again.append(any(one.missing and before <= one.start <= after for one in errors))
        again += [] if word is None else [any(one.start < word[1] and word[0] < one.end for one in errors)]
    assert ["BAD" if one else "OK" for one in again] == tags


@pytest.mark.parametrize(
    ("name", "read", "lacking"),
    [("from_english", 15_993, 7), pytest.param("to_english", 40_000, 0, marks=pytest.mark.long)],
)
def test_published_tags_fit_their_texts(shared_folder, name, read, lacking):
    left_out: list[InputError] = []
    found = read_marked(shared_folder / f"data/mlqe_pe/{name}.tsv", MarkedColumns(source="source"), left_out=left_out)
    assert (len(found), len(left_out)) == (read, lacking)
    assert all("but got '\"' as word 1," in str(one) for one in left_out)  # a mark that the text lacks
