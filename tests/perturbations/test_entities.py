import pytest

from textmover.perturbations.entities import KIND_OF, NAMES, TITLES, names_in
from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.sentences import Phrase, WordPool


def found(text: str, parse=None, texts=()) -> list[tuple[str, str]]:
    pool = WordPool(texts)
    return [(" ".join(name.words), name.kind) for name in names_in(Phrase.parse(text, pool), parse, pool)]


def replaced(text: str, degree: int = 1, seed: int = 0, parse=None, texts=()) -> str | None:
    kinds = all_perturbations(parse)
    made = perturb(text, "entity", degree, seed=seed, pool=WordPool(texts), perturbations=kinds)
    return None if made is None else made.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met Petra in Oslo.", [("Petra", "first_names"), ("Oslo", "cities")]),
        ("Petra slept.", [("Petra", "first_names")]),
        ("Goats slept.", []),
        ("He saw Petra Novak's dog.", [("Petra Novak", "people")]),
        (
            "He went to Norway, Sweden and Grimstad.",
            [("Norway", "countries"), ("Sweden", "countries"), ("Grimstad", "")],
        ),
        ("They live in Grimstad.", [("Grimstad", "places")]),
        ("On Monday President Novak spoke.", [("Monday", "days"), ("Novak", "surnames")]),
        ("A French boy and I ate.", [("French", "peoples")]),
        ("It ended. Goats slept.", []),
        ("Ten Ways To Sleep Better In Winter", []),
        ("THE SHIP SANK", []),
        ("", []),
    ],
)
def test_names_by_their_capitals(text, expected):
    assert found(text) == expected


def test_names_by_a_parse_alone(tagged):
    parse = tagged(Will="PROPN", Rose="PROPN", Oslo="PROPN")
    assert found("Will saw Rose's dog.", parse) == [("Will", ""), ("Rose", "")]
    assert found("Petra saw Rose.", parse) == [("Rose", "")]


def test_the_other_texts_tell_a_name_at_the_start():
    assert found("Grimstad slept.", texts=["We like Grimstad."]) == [("Grimstad", "")]


@pytest.mark.parametrize("seed", range(12))
def test_names_are_replaced_by_names_of_their_kind(seed):
    words = replaced("We met Petra in Oslo.", 2, seed).rstrip(".").split()
    assert words[:2] + words[3:4] == ["We", "met", "in"]
    assert KIND_OF[words[2]] == "first_names"
    assert KIND_OF[words[4]] == "cities"
    assert words[2] != "Petra"
    assert words[4] != "Oslo"


@pytest.mark.parametrize("seed", range(6))
def test_people_stay_people_and_endings_and_marks_stay(seed):
    first, last, dog = replaced("Petra Novak's (big) dog, a setter, slept!", seed=seed).split()[:3]
    assert (KIND_OF[first], KIND_OF[last.removesuffix("'s")], dog) == ("first_names", "surnames", "(big)")


def test_a_name_is_replaced_wherever_it_stands():
    made = {replaced("Petra likes Oslo since Petra lives there.", seed=seed) for seed in range(20)}
    assert all((one.count("Petra"), one.count("Oslo")) in ((2, 0), (0, 1)) for one in made)
    assert {one.count("Petra") for one in made} == {0, 2}


def test_unlisted_names_come_from_the_other_texts_with_their_article():
    texts = ["The ship crossed the Glomma.", "He likes the Numedal.", "She saw Fagernes."]
    made = {replaced("He crossed the Hallingdal.", seed=seed, texts=texts) for seed in range(12)}
    assert made == {"He crossed the Glomma.", "He crossed the Numedal."}
    assert replaced("He crossed the Hallingdal.") is None


@pytest.mark.parametrize(
    ("text", "degree"), [("Goats slept.", 1), ("We met Petra.", 2), ("I slept.", 1), ("...", 1), ("Mr President!", 1)]
)
def test_nothing_without_enough_names(text, degree):
    assert replaced(text, degree) is None


def test_articles_go_with_the_new_name():
    made = {replaced("She is a Norwegian girl.", seed=seed) for seed in range(40)}
    assert all((" an " in one) == (one.split()[3][0] in "AEIO") for one in made if "European" not in one)
    assert any(" an " in one for one in made)


def test_no_name_is_in_two_lists():
    names = [name for kind in NAMES.values() for name in kind]
    assert len(names) == len(set(names))
    assert TITLES.isdisjoint(names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In Oslo we told Petra's brother about Clara.", "In Oslo we told Clara's brother about Petra."),
        ("We saw Petra hit Clara Novak.", "We saw Clara Novak hit Petra."),
        ("We saw Petra and Clara.", None),  # their order says nothing
        ("We saw Petra in Oslo.", None),  # names of different kinds
        ("We saw Petra, and Petra saw us.", None),
        ("Goats slept.", None),
    ],
)
def test_two_names_of_a_kind_change_places(text, expected):
    made = perturb(text, "roles", perturbations=all_perturbations())
    assert (made and made.text) == expected
