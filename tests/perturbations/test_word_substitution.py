"""Words replaced by synonyms, antonyms, neighbours or a filler."""

import pytest

from textmover.perturbations.editable_sentences import WordPool
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.registry import all_perturbations
from textmover.perturbations.word_substitution import adjective_table, inflected

TABLE = adjective_table()


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("It was a beautiful house.", "synonym", {"It was a lovely house."}),
        ("It was a beautiful house.", "antonym", {"It was an ugly house."}),
        ("An expensive car stopped.", "antonym", {"A cheap car stopped."}),
        ("It is the biggest storm of all.", "synonym", {"It is the largest storm of all."}),
        ("He has a bigger dog.", "antonym", {"He has a smaller dog."}),
        ("This is more expensive.", "synonym", {"This is more costly."}),
        ("The rich and famous man.", "antonym", {"The rich and unknown man."}),
        ("She is happy, they say.", "antonym", {"She is unhappy, they say."}),
        ("She is not happy.", "antonym", {None}),
        ("She isn't happy.", "antonym", {None}),
        ("She is unhappy and full of rage.", "synonym", {"She is sad and full of rage."}),
        ("He is different from us.", "synonym", {None}),
        ("The high school burnt.", "antonym", {None}),
        ("The light shone.", "antonym", {None}),
        ("He sang of true love.", "antonym", {None}),
        ("The Big Apple.", "synonym", {None}),
        ("Come as soon as possible.", "antonym", {None}),
        ("It will likely rain.", "antonym", {None}),
        ("Lakes freeze.", "synonym", {None}),
        ("", "antonym", {None}),
    ],
)  # fmt: skip
def test_known_results(results, text, name, expected):
    assert results(text, name) == expected


def test_a_parse_decides(results, tagged):
    text = "The light shone on the light table."
    assert results(text, "antonym") == {None}
    assert results(text, "antonym", parse=tagged(light="ADJ")) != {None}
    assert results("It was a beautiful house.", "synonym", parse=tagged(beautiful="NOUN")) == {None}
    rich = {"A rich man slept.", "A wealthy man slept."}
    assert results("A poor man slept.", "antonym", parse=tagged(poor="ADJ")) == rich


def test_two_adjectives_and_no_more_than_there_are(results):
    assert results("A clever boy has an expensive car.", "antonym", 2) == {"A stupid boy has a cheap car."}
    assert results("A clever boy has a car.", "antonym", 2) == {None}


def test_severities_are_small_for_synonyms_and_large_for_antonyms():
    kinds = all_perturbations()
    text = "We live in a beautiful house."
    same, other = (perturb(text, name, perturbations=kinds).severity for name in ("synonym", "antonym"))
    assert same < 0.2
    assert other > 0.45


FORMS = """
    big bigger biggest; happy happier happiest; ugly uglier ugliest; nice nicer nicest; simple simpler simplest
    cheap cheaper cheapest; thin thinner thinnest; good better best; friendly; famous; well-known; tired
"""


@pytest.mark.parametrize("forms", FORMS.strip().replace("\n", ";").split(";"))
def test_degrees_of_adjectives(forms):
    word, *expected = forms.split()
    assert [inflected(word, degree) for degree in (1, 2)] == (expected or [None, None])


def test_the_table_is_as_large_as_promised_and_sound():
    assert len({frozenset((word, *others)) for word, others in TABLE.synonyms.items()}) >= 150
    assert len({frozenset((word, other)) for word, others in TABLE.antonyms.items() for other in others}) >= 120
    for word, others in TABLE.synonyms.items():
        assert word not in others
        assert not set(others) & set(TABLE.antonyms.get(word, ())), word
    for table in (TABLE.synonyms, TABLE.antonyms):
        assert all(word == word.lower() and len(others) == len(set(others)) for word, others in table.items())


# --- fillers and neighbours -------------------------------------------------------------------------------------------

NEAR = {
    "lazy": ["lazier", "idle"],
    "jumps": ["jump", "jumped", "leaps"],
    "dog": ["dogs", "dog", "fox", "Hound", "hound"],
    "destroyed": ["destroy", "ruined"],
    "rebuilt": ["rebuild"],
}


def near(word: str, sentence: str) -> list[str]:
    assert word in sentence.lower()
    return NEAR.get(word, [])


def test_filler_takes_the_place_of_content_words(results):
    assert results("The dog slept, again.", "random-word") == {"The AAA slept, again.", "The dog AAA, again."}
    assert results("The dog slept, again.", "random-word", 2) == {"The AAA AAA, again."}
    assert results("A dog slept.", "random-word", 2) == {"An AAA AAA."}
    assert results("The dog slept.", "random-word", 4) == {None}
    assert results("It was not there in 1904.", "random-word") == {None}
    assert results("An AAA AAA.", "random-word") == {None}


def test_neighbours_of_the_same_form_take_the_place_of_words(results):
    text = "A fox jumps over the lazy dog."
    made = results(text, "substitute", neighbours=near)
    assert made == {
        "A fox leaps over the lazy dog.",
        "A fox jumps over the idle dog.",
        "A fox jumps over the lazy hound.",
    }
    assert results(text, "substitute", 4, neighbours=near) == {None}
    assert results("Storms destroyed it.", "substitute", neighbours=near) == {"Storms ruined it."}
    assert results("It was rebuilt.", "substitute", neighbours=near) == {None}


def test_names_stay(results):
    assert results("Oslo likes Petra.", "substitute", neighbours=lambda word, _: ["other"]) == {None}
    assert results("We admire Petra.", "substitute", neighbours=lambda word, _: ["trust"]) == {"We trust Petra."}


def test_a_parse_holds_the_part_of_speech(results, tagged):
    parse = tagged(lazy="ADJ", idle="VERB", dog="NOUN", hound="NOUN")
    assert results("The lazy dog.", "substitute", neighbours=near, parse=parse) == {"The lazy hound."}


def test_the_best_candidate_is_taken_and_severity_grows_with_degree():
    kinds = all_perturbations(neighbours=near)
    text = "A fox jumps over the lazy dog."
    severities = [perturb(text, "substitute", n, pool=WordPool(), perturbations=kinds).severity for n in (1, 2)]
    assert 0.15 < severities[0] < severities[1] < 0.7


@pytest.mark.parametrize("name", ["substitute", "passive", "active"])
def test_what_needs_a_helper_is_not_there_without(name):
    with pytest.raises(ValueError, match=r"Expected `type` to be one of .*synonym"):
        perturb("A text.", name, perturbations=all_perturbations())
