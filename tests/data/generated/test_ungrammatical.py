"""Damage that breaks grammar: by hand where it can be foretold, by laws elsewhere."""

import re
from collections import Counter
from random import Random

import pytest

from textmover.data.generated.acceptability import CONFUSED, UNGRAMMATICAL, ungrammatical
from textmover.perturbations.sentences import Phrase, WordPool

TEXTS = [
    "The old teacher is helping her students in the garden.",
    "I don't know what they have seen at the harbour.",
    "Nora walked to the station, and he was waiting there.",
    "Are these the letters that you wanted to send?",
]
KNOWN = {"teachers", "student", "helped", "helps", "walk", "walks", "walking", "letter", "wants", "stations", "waited"}
SEEDS = range(40)


def versions(text: str, kind: str, **options) -> list[str]:
    made = (ungrammatical(text, kind, seed=seed, pool=WordPool(TEXTS), **options) for seed in SEEDS)
    return [one for one in made if one is not None]


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


@pytest.mark.parametrize("kind", UNGRAMMATICAL)
@pytest.mark.parametrize("text", TEXTS)
def test_a_version_differs_in_more_than_case_and_keeps_the_end_mark_and_the_capital(kind, text):
    made = versions(text, kind)
    assert len(made) > 30
    for one in made:
        assert one.casefold() != text.casefold()
        assert one[-1] == text[-1]
        assert one[0].isupper()
        assert "  " not in one


@pytest.mark.parametrize("kind", UNGRAMMATICAL)
def test_it_follows_from_the_arguments_and_seeds_differ(kind):
    first, again = (versions(TEXTS[0], kind) for _ in range(2))
    assert first == again
    assert len(set(first)) > 3


def test_function_words_are_left_out_and_nothing_else():
    for text in TEXTS:
        for one in versions(text, "lacking"):
            gone = Counter(words(text)) - Counter(words(one))
            assert not Counter(words(one)) - Counter(words(text))
            assert 1 <= sum(gone.values()) <= 2
            assert not set(gone) & {"teacher", "students", "garden", "harbour", "station", "letters", "walked"}


def test_spare_words_are_added_and_none_is_lost():
    for text in TEXTS:
        for one in versions(text, "spare"):
            assert not Counter(words(text)) - Counter(words(one))
            assert 1 <= len(words(one)) - len(words(text)) <= 2


def test_confused_words_are_of_one_family():
    families = [set(family) for family in CONFUSED]
    for text in TEXTS:
        for one in versions(text, "confused"):
            changed = [(old, new) for old, new in zip(words(text), words(one), strict=True) if old != new]
            assert 1 <= len(changed) <= 2
            assert all(any({old, new} <= family for family in families) for old, new in changed)


def test_other_forms_are_known_words():
    found = set()
    for text in TEXTS:
        for one in versions(text, "inflected", known=KNOWN):
            found |= set(words(one)) - set(words(text))
    assert found <= KNOWN
    assert len(found) > 4
    assert versions(TEXTS[0], "inflected", known=frozenset()) == []


def test_moved_and_swapped_words_stay_the_same_words():
    for kind in ("moved", "swap"):
        for text in TEXTS:
            assert all(Counter(words(one)) == Counter(words(text)) for one in versions(text, kind))


def test_a_loop_says_one_or_two_words_over_and_over():
    for text in TEXTS:
        for one in versions(text, "looped"):
            said = words(one)
            assert any(
                said[at : at + width] == said[at + width : at + 2 * width]
                for width in (1, 2)
                for at in range(len(said))
            )


@pytest.mark.parametrize("kind", UNGRAMMATICAL)
@pytest.mark.parametrize("text", ["", "Stop!", "🙂", "42"])
def test_too_little_text_is_left_alone_or_broken_without_an_error(kind, text):
    made = versions(text, kind)
    assert all(one.casefold() != text.casefold() for one in made)
    if kind in ("moved", "swap", "drop", "lacking", "looped", "spare"):
        assert made == []


def test_a_function_sees_its_degree():
    phrase, pool = Phrase.parse(TEXTS[0], WordPool(TEXTS)), WordPool(TEXTS)
    function, _ = UNGRAMMATICAL["lacking"]
    assert len(function(phrase, 2, Random(1), pool).touched) == 2
    assert function(phrase, 9, Random(1), pool) is None
