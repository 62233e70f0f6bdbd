"""All perturbations together: names, severities, determinism, and what is left as it was."""

import json
import os
import subprocess
import sys

import pytest

from textmover.perturbations.editable_sentences import Phrase, WordPool
from textmover.perturbations.parsed_clauses import Parses, word_tags
from textmover.perturbations.perturbations import PERTURBATIONS, perturb
from textmover.perturbations.registry import ALIASES, KINDS, all_perturbations, perturb_texts, resolve_types
from textmover.perturbations.severity import SeverityTable, shipped_table
from textmover.types import InputError, ParsedText

TEXTS = (
    "The old harbour of Oslo was rebuilt in 1904, after three expensive storms had flattened both of its piers.",
    "Stir the delicious soup for 20 minutes, then add two spoons of cream and four leaves.",
    "Could Petra carry the enormous ladder (the long one) up to the attic?",
    "He has never understood why clever people keep eleven goats!",
    "Rivers in Norway are beautiful, and their water will stay cold.",
)
TABLE = shipped_table()
FURTHER = ["entity", "roles", "notation", "synonym", "antonym", "random-word", "substitute", "passive", "active"]


def flat(texts):
    """Every word a noun that depends on the first: enough for a parser that has to be asked in batches."""
    rows = [(tuple(text.split()), len(text.split())) for text in texts]
    return [
        ParsedText(
            words, words, ("NOUN",) * n, ("",) * n, (-1, *[0] * (n - 1)), ("root", *["dep"] * (n - 1)), ((0, 1),) * n
        )
        for words, n in rows
    ]


def test_the_list_the_table_and_the_functions_name_the_same_types():
    everything = all_perturbations(lambda text: None, lambda word, sentence: [])
    assert list(KINDS) == [*PERTURBATIONS, *FURTHER]
    assert list(everything) == list(KINDS)
    assert set(TABLE.grades) == {*KINDS, "paraphrase"}
    assert all(meant in KINDS for meant, _ in ALIASES.values())
    assert not set(ALIASES) & set(KINDS)


def test_the_rated_examples_are_drawn_from_the_types_that_were_there():
    assert set(SeverityTable.load().grades) == {*PERTURBATIONS, "paraphrase"}
    assert list(PERTURBATIONS) == [
        "identity", "repeat", "swap", "drop", "insert", "truncate", "replace", "number", "negate", "unrelated",
    ]  # fmt: skip


def test_severities_are_ordered_as_people_would():
    least = {name: TABLE.severity(name, 1, 0.1) for name in FURTHER}
    assert max(least[name] for name in ("passive", "active", "synonym", "notation")) < 0.1
    assert (
        least["synonym"]
        < least["substitute"]
        < min(least[name] for name in ("antonym", "random-word", "entity", "roles"))
    )


def test_names_of_the_issue_are_found():
    given = ["repetition", "deletion", "shuffle", "negation", "number-change", "aaa", "entity"]
    assert resolve_types(given) == {
        "repeat": (1,), "drop": (1,), "swap": (9,), "negate": (1,), "number": (1,), "random-word": (1,), "entity": (1,),
    }  # fmt: skip
    assert resolve_types(["swap", "shuffle"], [2, 4]) == {"swap": (2, 4, 9)}


@pytest.mark.parametrize(
    ("names", "degrees", "message"),
    [
        (["nagate"], None, "but got 'nagate': did you mean 'negate'"),
        (["shout"], None, r"`types` to be among identity, .*\(or repetition, .*but got 'shout'"),
        (["drop"], [3, 5], "`degrees` to hold one of 1, 2, 4, 6 for drop, but got 3, 5"),
    ],
)
def test_unknown_names_and_degrees_are_refused(names, degrees, message):
    with pytest.raises(InputError, match=message):
        resolve_types(names, degrees)


@pytest.mark.parametrize("name", ["entity", "synonym", "antonym", "random-word"])
def test_all_else_is_left_untouched(name):
    made = {
        (text, one.text)
        for seed in range(5)
        for place, found in perturb_texts(TEXTS, {name: (1,)}, seed=seed)
        for text in [TEXTS[place]]
        for one in found
    }
    assert len(made) >= 4
    for text, new in made:
        old, changed = text.split(), new.split()
        differing = [pair for pair in zip(old, changed, strict=True) if pair[0] != pair[1]]
        articles = [pair for pair in differing if pair[0].lower() in ("a", "an")]
        assert len(differing) - len(articles) == 1
        assert new[-1] == text[-1]
        assert perturb(text, name, seed=3, perturbations=all_perturbations()) is not None or name == "entity"


@pytest.mark.slow
def test_the_same_in_another_process():
    code = (
        f"import json; from textmover.perturbations.registry import *; TEXTS = {TEXTS!r}; types = resolve_types("
        "['entity', 'synonym', 'antonym', 'aaa', 'drop'], [1, 2])\n"
        "found = [[vars(one) for one in made] for _, made in perturb_texts(TEXTS, types, versions=3)]"
    )
    here: dict = {}
    exec(code, here)
    there = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(json.dumps(found))"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert json.loads(there.stdout) == here["found"]


def test_versions_differ_and_stop_where_there_are_no_more():
    (_, made), *_ = perturb_texts(TEXTS, {"random-word": (1, 2)}, versions=4)
    assert [one.degree for one in made] == [1] * 4 + [2] * 4
    assert len({one.text for one in made}) == 8
    (_, few), *_ = perturb_texts(["The dog slept."], {"random-word": (1,), "number": (1,)}, versions=4)
    assert [one.text for one in few] != []
    assert len(few) == 2


def test_a_text_does_not_depend_on_the_others_where_nothing_is_taken_from_them():
    types = {"drop": (1,), "synonym": (1,), "random-word": (1,)}
    together = [made for _, made in perturb_texts(TEXTS, types)]
    alone = [made for text in TEXTS for _, made in perturb_texts([text], types)]
    assert together == alone


def test_blank_lines_are_no_sentences_to_put_elsewhere():
    texts = ["Mary lives in Oslo.", "", "Three dogs slept.", "   ", "\t"]
    made = {one.text for _, found in perturb_texts(texts, {"unrelated": (1,)}, versions=3) for one in found}
    assert made == {"Mary lives in Oslo.", "Three dogs slept."}


def test_the_last_text_of_a_long_list_has_neighbours_too():
    own = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(129)]  # sentences that share no word
    texts = [f"Old{one} men{one} walked{one} slowly{one}." for one in own]
    found = dict(perturb_texts(texts, {"unrelated": (1,), "replace": (1,), "insert": (1,)}))
    assert {one.type for one in found[128]} == {one.type for one in found[0]} == {"unrelated", "replace", "insert"}


def test_texts_are_parsed_in_batches_and_once():
    asked = []
    parses = Parses(lambda texts: asked.append(list(texts)) or flat(texts))
    list(perturb_texts([*TEXTS, "", TEXTS[0]], resolve_types(["passive", "synonym", "entity"]), parses=parses))
    assert asked == [list(TEXTS)]


def test_known_parses_are_bounded():
    asked = []
    parses = Parses(lambda texts: asked.append(list(texts)) or flat(texts), most=2)
    for text in ("a", "b", "a", "c", "a"):
        parses(text)
    assert asked == [["a"], ["b"], ["c"], ["a"]]


def test_tags_of_words_between_their_marks():
    phrase = Phrase.parse("Petra's (big) dog, slept.", WordPool(["He met Petra's dog."]))
    words = ("Petra", "'s", "(", "big", ")", "dog", ",", "slept", ".")
    tags = ("PROPN", "PART", "PUNCT", "ADJ", "PUNCT", "NOUN", "PUNCT", "VERB", "PUNCT")
    starts = (0, 5, 8, 9, 12, 14, 17, 19, 24)
    spans = tuple((start, start + len(word)) for start, word in zip(starts, words, strict=True))
    parsed = ParsedText(words, words, tags, ("",) * 9, (-1, *[0] * 8), ("root", *["dep"] * 8), spans)
    assert word_tags(phrase, lambda text: parsed) == ("PROPN", "ADJ", "NOUN", "VERB")


@pytest.mark.parametrize(
    "text", ["", " ", "Go", "Go.", "...", "?", "7", "(", "日本語です。", "ßa b", "word\tword\nword", "🙂"]
)
def test_odd_texts_do_not_fail(text):
    types = {name: TABLE.degrees(name) for name in KINDS}
    parses = Parses(flat)
    ((place, made),) = perturb_texts([text], types, parses=parses, neighbours=lambda word, sentence: ["other"])
    assert place == 0
    assert all(one.type in KINDS for one in made)
    assert text.strip() or made == []


@pytest.mark.parametrize(
    ("name", "lacking"), [("passive", "parser"), ("active", "parser"), ("substitute", "neighbour")]
)
def test_what_is_lacking_is_named(name, lacking):
    with pytest.raises(InputError, match=f"Expected a {lacking} .*for {name}|Expected a {lacking}.* for {name}"):
        list(perturb_texts(["A text."], {name: (1,)}))


def test_a_text_that_is_no_sentence_is_refused_with_its_number():
    with pytest.raises(InputError, match=r"at most 10,000 words to perturb, but text 2 has more: split it"):
        list(perturb_texts(["a cat", "the dog " * 5_001], {"drop": (1,)}))
    assert list(perturb_texts(["the dog " * 10], {"drop": (1,)}))


@pytest.mark.parametrize("given", [lambda: TEXTS[0], lambda: iter(TEXTS[:1])])
def test_one_text_and_an_iterator_are_read_as_a_list(given):
    expected = list(perturb_texts(list(TEXTS[:1]), {"drop": (1,)}))
    assert expected[0][1]
    assert list(perturb_texts(given(), {"drop": (1,)})) == expected


def test_what_is_no_text_is_refused_with_its_number():
    with pytest.raises(TypeError, match=r"Expected text 2 to be a string, but got bytes: "):
        list(perturb_texts([TEXTS[0], b"a cat"], {"drop": (1,)}))
