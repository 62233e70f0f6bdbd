import pytest

from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.sentences import WordPool

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
