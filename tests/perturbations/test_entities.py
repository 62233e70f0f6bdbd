import pytest

from textmover.perturbations.editable_sentences import Phrase, WordPool
from textmover.perturbations.entities import KIND_OF, NAMES, TITLES, names_in


def found(text: str, parse=None, texts=()) -> list[tuple[str, str]]:
    pool = WordPool(texts)
    return [(" ".join(name.words), name.kind) for name in names_in(Phrase.parse(text, pool), parse, pool)]


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


def test_names_are_replaced_by_names_of_their_kind(results):
    for made in results("We met Petra in Oslo.", "entity", 2):
        we, met, person, where, city = made.rstrip(".").split()
        assert (we, met, where) == ("We", "met", "in")
        assert (KIND_OF[person], KIND_OF[city]) == ("first_names", "cities")
        assert person != "Petra"
        assert city != "Oslo"


def test_people_stay_people_and_endings_and_marks_stay(results):
    for made in results("Petra Novak's (big) dog, a setter, slept!", "entity"):
        first, last, dog = made.split()[:3]
        assert (KIND_OF[first], KIND_OF[last.removesuffix("'s")], dog) == ("first_names", "surnames", "(big)")


def test_a_name_is_replaced_wherever_it_stands(results):
    made = results("Petra likes Oslo since Petra lives there.", "entity")
    assert all((one.count("Petra"), one.count("Oslo")) in ((2, 0), (0, 1)) for one in made)
    assert {one.count("Petra") for one in made} == {0, 2}


def test_unlisted_names_come_from_the_other_texts_with_their_article(results):
    texts = ["The ship crossed the Glomma.", "He likes the Numedal.", "She saw Fagernes."]
    text = "He crossed the Hallingdal."
    assert results(text, "entity", texts=texts) == {"He crossed the Glomma.", "He crossed the Numedal."}
    assert results(text, "entity") == {None}


@pytest.mark.parametrize(
    ("text", "degree"), [("Goats slept.", 1), ("We met Petra.", 2), ("I slept.", 1), ("...", 1), ("Mr President!", 1)]
)
def test_nothing_without_enough_names(results, text, degree):
    assert results(text, "entity", degree) == {None}


def test_articles_go_with_the_new_name(results):
    made = results("She is a Norwegian girl.", "entity")
    assert all((" an " in one) == (one.split()[3][0] in "AEIO") for one in made if "European" not in one)
    assert any(" an " in one for one in made)


def test_initials_have_the_article_of_their_first_letter(results):
    texts = [f"He met a {name} man." for name in ("UK", "FBI", "NATO")]
    made = results("She met an Acme man.", "entity", texts=texts)
    assert made >= {"She met a UK man.", "She met an FBI man.", "She met a NATO man."}


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
def test_two_names_of_a_kind_change_places(results, text, expected):
    assert results(text, "roles") == {expected}
