import pytest

from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.words import adjective_table, inflected

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
