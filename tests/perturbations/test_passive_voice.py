"""Passive and active: hand-written parses with the expected words, clauses of a treebank, and forms of verbs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from textmover.perturbations.parsed_clauses import Agreement, simple_clause
from textmover.perturbations.passive_voice import (
    IRREGULAR,
    OBJECT_CASE,
    SUBJECT_CASE,
    be,
    have,
    participle,
    past,
    present,
    third_person,
    to_active,
    to_passive,
)
from textmover.perturbations.perturbations import perturb
from textmover.perturbations.registry import all_perturbations
from textmover.types import ParsedText

LEXICON = {
    entry.split()[0]: entry.split()[1:]
    for entry in """
    the the DET; a a DET; an a DET; some some DET; every every DET; any any DET; both both DET
    dog dog NOUN Number=Sing; dogs dog NOUN Number=Plur; cat cat NOUN Number=Sing; cats cat NOUN Number=Plur
    garden garden NOUN Number=Sing; letter letter NOUN Number=Sing; letters letter NOUN Number=Plur
    book book NOUN Number=Sing; door door NOUN Number=Sing; teacher teacher NOUN Number=Sing
    lot lot NOUN Number=Sing; people people NOUN Number=Plur; place place NOUN Number=Sing
    car car NOUN Number=Sing; table table NOUN Number=Sing; sister sister NOUN Number=Sing
    storm storm NOUN Number=Sing; roof roof NOUN Number=Sing; company company NOUN Number=Sing
    Petra Petra PROPN Number=Sing; Oslo Oslo PROPN Number=Sing; Monday Monday PROPN Number=Sing
    Norwegian norwegian ADJ; old old ADJ; two two NUM
    i I PRON Case=Nom; he he PRON Case=Nom; him he PRON Case=Acc; she she PRON Case=Nom; them they PRON Case=Acc
    they they PRON Case=Nom; us we PRON Case=Acc; we we PRON Case=Nom; it it PRON; who who PRON PronType=Rel
    himself himself PRON Reflex=Yes; his his PRON Poss=Yes; what what PRON PronType=Int; her she PRON Case=Acc
    chased chase VERB Tense=Past|VerbForm=Fin; chases chase VERB Tense=Pres|VerbForm=Fin
    chase chase VERB VerbForm=Inf; chasing chase VERB VerbForm=Ger; writes write VERB Tense=Pres|VerbForm=Fin
    wrote write VERB Tense=Past|VerbForm=Fin; written write VERB Tense=Past|VerbForm=Part
    saw see VERB Tense=Past|VerbForm=Fin; seen see VERB Tense=Past|VerbForm=Part; see see VERB VerbForm=Inf
    picked pick VERB Tense=Past|VerbForm=Fin; damaged damage VERB Tense=Past|VerbForm=Fin
    has have VERB Tense=Pres|VerbForm=Fin; took take VERB Tense=Past|VerbForm=Fin
    opened open VERB Tense=Past|VerbForm=Fin; read read VERB Tense=Past|VerbForm=Fin
    travelled travel VERB Tense=Past|VerbForm=Fin; cancelled cancel VERB Tense=Past|VerbForm=Fin
    hunted hunt VERB Tense=Past|VerbForm=Part; barked bark VERB Tense=Past|VerbForm=Fin
    gave give VERB Tense=Past|VerbForm=Fin; founded found VERB Tense=Past|VerbForm=Part
    was be AUX Tense=Past|VerbForm=Fin; were be AUX Tense=Past|VerbForm=Fin; is be AUX Tense=Pres|VerbForm=Fin
    been be AUX; being be AUX; be be AUX; have have AUX; had have AUX Tense=Past; did do AUX Tense=Past|VerbForm=Fin
    does do AUX Tense=Pres|VerbForm=Fin; will will AUX; can can AUX; ca can AUX; should should AUX; 'll will AUX
    would would AUX; 'd would AUX; got get AUX Tense=Past; haz have AUX Tense=Pres|VerbForm=Fin
    not not PART; n't not PART; often often ADV; quickly quickly ADV; never never ADV; only only ADV
    yesterday yesterday NOUN; up up ADP; in in ADP; by by ADP; on on ADP; to to ADP; of of ADP; with with ADP
    and and CCONJ; or or CCONJ; but but CCONJ; when when ADV; . . PUNCT; , , PUNCT; ? ? PUNCT; ! ! PUNCT
    """.replace("\n", ";").split(";")
    if entry.split()
}


def parse(written: str) -> tuple[str, ParsedText]:
    """A text and its parse from words as ``word/relation>head``; ``word=form`` writes the word in another form."""
    rows = []
    for entry in written.split():
        word, _, rest = entry.rpartition("/")
        relation, _, head = rest.partition(">")
        key, _, form = word.partition("=")
        rows.append((form or key, LEXICON[key if key in LEXICON else key.lower()], relation, int(head or -1)))
    text, spans = "", []
    for word, *_ in rows:
        text += " " if text and word not in (".", ",", "?", "!", "n't") and word[0] != "'" else ""
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, ParsedText(
        words=tuple(row[0] for row in rows),
        lemmas=tuple(row[1][0] for row in rows),
        tags=tuple(row[1][1] for row in rows),
        features=tuple("|".join(row[1][2:]) for row in rows),
        relations=tuple(row[2] for row in rows),
        heads=tuple(row[3] for row in rows),
        spans=tuple(spans),
    )


DOG = "The/det>1 dog/nsubj>"
PASSIVES = {
    f"{DOG}2 chased/root the/det>4 cat/obj>2 ./punct>2": "The cat was chased by the dog.",
    f"{DOG}2 chased/root the/det>4 cats/obj>2 !/punct>2": "The cats were chased by the dog!",
    f"{DOG}2 chases/root the/det>4 cat/obj>2 ./punct>2": "The cat is chased by the dog.",
    f"{DOG}3 is/aux>3 chasing/root the/det>5 cats/obj>3 ./punct>3": "The cats are being chased by the dog.",
    f"{DOG}3 will/aux>3 chase/root them/obj>3 ./punct>3": "They will be chased by the dog.",
    f"{DOG}4 did/aux>4 not/advmod>4 chase/root him/obj>4 ./punct>4": "He was not chased by the dog.",
    f"{DOG}4 does/aux>4 n't/advmod>4 chase/root us/obj>4 ./punct>4": "We are not chased by the dog.",
    f"{DOG}4 ca/aux>4 n't/advmod>4 chase/root it/obj>4 ./punct>4": "It cannot be chased by the dog.",
    f"{DOG}3 often/advmod>3 chases/root the/det>5 cats/obj>3": "The cats are often chased by the dog",
    f"{DOG}3 quickly/advmod>3 chased/root the/det>5 cat/obj>3": "The cat was quickly chased by the dog",
    "She/nsubj>2 haz=has/aux>2 written/root letters/obj>2 ./punct>2": "Letters have been written by her.",
    "He/nsubj>3 should/aux>3 have/aux>3 written/root the/det>5 letter/obj>3": (
        "The letter should have been written by him"
    ),
    "They/nsubj>2 'll/aux>2 see/root us/obj>2": "We will be seen by them",
    "I/nsubj>2 'd/aux>2 see/root Petra/obj>2": "Petra would be seen by me",
    "I/nsubj>3 had/aux>3 never/advmod>3 seen/root the/det>5 book/obj>3 ./punct>3": (
        "The book had never been seen by me."
    ),
    f"{DOG}2 chased/root the/det>4 cat/obj>2 in/case>7 the/det>7 garden/obl>2 ./punct>2": (
        "The cat was chased in the garden by the dog."
    ),
    f"{DOG}2 chased/root the/det>4 cat/obj>2 on/case>6 Monday/obl>2 ./punct>2": (
        "The cat was chased by the dog on Monday."
    ),
    f"{DOG}2 chased/root the/det>4 cat/obj>2 yesterday/obl:unmarked>2": "The cat was chased by the dog yesterday",
    "Yesterday/obl:unmarked>4 ,/punct>4 the/det>3 dog/nsubj>4 chased/root us/obj>4": (
        "Yesterday, we were chased by the dog"
    ),
    "But/cc>3 the/det>2 dog/nsubj>3 saw/root the/det>5 cat/obj>3": "But the cat was seen by the dog",
    "Petra/nsubj>1 opened/root the/det>3 door/obj>1 quickly/advmod>1 ./punct>1": (
        "The door was opened quickly by Petra."
    ),
    "Norwegian/amod>1 people/nsubj>2 saw/root the/det>4 storm/obj>2": "The storm was seen by Norwegian people",
    "Old/amod>1 people/nsubj>2 saw/root the/det>4 storm/obj>2": "The storm was seen by old people",
    "Petra/nsubj>1 picked/root up/compound:prt>1 the/det>4 letter/obj>1": "The letter was picked up by Petra",
    "Petra/nsubj>1 picked/root the/det>3 letter/obj>1 up/compound:prt>1 ./punct>1": (
        "The letter was picked up by Petra."
    ),
    "The/det>1 storm/nsubj>2 damaged/root the/det>4 roof/obj>2 of/case>7 the/det>7 car/nmod>4": (
        "The roof of the car was damaged by the storm"
    ),
    "Petra/nsubj>1 saw/root the/det>3 dog/obj>1 and/cc>6 a/det>6 cat/conj>3": "The dog and a cat were seen by Petra",
    "The/det>1 company/nsubj>2 cancelled/root the/det>4 book/obj>2": "The book was cancelled by the company",
    "His/nmod:poss>1 sister/nsubj>2 read/root the/det>4 letter/obj>2": "The letter was read by his sister",
}
ACTIVES = {
    "The/det>1 cat/nsubj:pass>3 was/aux:pass>3 hunted/root by/case>6 the/det>6 dog/obl:agent>3 ./punct>3": (
        "The dog hunted the cat."
    ),
    "The/det>1 cats/nsubj:pass>3 were/aux:pass>3 hunted/root by/case>5 him/obl:agent>3 ./punct>3": (
        "He hunted the cats."
    ),
    "They/nsubj:pass>2 is=are/aux:pass>2 hunted/root by/case>4 her/obl:agent>2 ./punct>2": "She hunts them.",
    "They/nsubj:pass>2 is=are/aux:pass>2 hunted/root by/case>5 the/det>5 dogs/obl:agent>2": "The dogs hunt them",
    "The/det>1 letter/nsubj:pass>5 haz=has/aux>5 not/advmod>5 been/aux:pass>5 written/root by/case>7 us/obl:agent>5": (
        "We have not written the letter"
    ),
    "The/det>1 letter/nsubj:pass>4 was/aux:pass>4 not/advmod>4 written/root by/case>6 Petra/obl:agent>4 ./punct>4": (
        "Petra did not write the letter."
    ),
    "The/det>1 letter/nsubj:pass>4 is/aux>4 being/aux:pass>4 written/root by/case>6 us/obl:agent>4 ./punct>4": (
        "We are writing the letter."
    ),
    "The/det>1 cat/nsubj:pass>4 will/aux>4 be/aux:pass>4 seen/root by/case>7 the/det>7 dog/obl:agent>4": (
        "The dog will see the cat"
    ),
    "The/det>1 cat/nsubj:pass>4 was/aux:pass>4 often/advmod>4 seen/root in/case>6 Oslo/obl>4 by/case>8 us/obl:agent>4 "
    "./punct>4": ("We often saw the cat in Oslo."),
    "The/det>1 company/nsubj:pass>3 was/aux:pass>3 founded/root by/case>5 Petra/obl:agent>3 in/case>7 Oslo/obl>3": (
        "Petra founded the company in Oslo"
    ),
}
UNTURNED = [
    "The/det>1 dog/nsubj>2 barked/root ./punct>2",
    "The/det>1 dog/nsubj>2 has/root a/det>4 garden/obj>2 ./punct>2",
    "Petra/nsubj>1 took/root place/obj>1 ./punct>1",
    "Petra/nsubj>1 saw/root himself/obj>1 ./punct>1",
    "Petra/nsubj>1 chased/root his/nmod:poss>3 dog/obj>1 ./punct>1",
    "Petra/nsubj>1 gave/root him/iobj>1 the/det>4 book/obj>1 ./punct>1",
    "Petra/nsubj>1 chased/root the/det>3 dog/obj>1 and/cc>5 barked/conj>1 ./punct>1",
    "Petra/nsubj>2 only/advmod>2 saw/root the/det>4 dog/obj>2 ./punct>2",
    "Petra/nsubj>1 saw/root a/det>3 lot/obj>1 of/case>5 cats/nmod>3 ./punct>1",
    "Petra/nsubj>1 saw/root the/det>3 dog/obj>1 or/cc>6 the/det>6 cats/conj>3 ./punct>1",
    "Did/aux>2 Petra/nsubj>2 see/root the/det>4 dog/obj>2 ?/punct>2",
    "What/nsubj>1 chased/root the/det>3 dog/obj>1",
    "He/nsubj>3 did/aux>3 not/advmod>3 see/root any/det>5 dog/obj>3",
    "Chase/root the/det>2 dog/obj>0 !/punct>0",
    "The/det>1 book/nsubj:pass>3 was/aux:pass>3 written/root ./punct>3",
    "The/det>1 cat/nsubj:pass>3 was/aux:pass>3 hunted/root ./punct>3",
    "The/det>1 cat/nsubj:pass>3 was/aux:pass>3 hunted/root by/case>5 Monday/obl>3 ./punct>3",
    "The/det>1 cat/nsubj:pass>3 got/aux:pass>3 hunted/root by/case>5 Petra/obl:agent>3 ./punct>3",
    "The/det>1 cat/nsubj:pass>3 was/aux:pass>3 hunted/root by/case>6 his/nmod:poss>6 dog/obl:agent>3 ./punct>3",
]


TURNED = [(to_passive, to_active, PASSIVES), (to_active, to_passive, ACTIVES)]


@pytest.mark.parametrize(
    ("turn", "back", "written", "expected"),
    [(turn, back, *one) for turn, back, table in TURNED for one in table.items()],
    ids=[*PASSIVES.values(), *ACTIVES.values()],
)
def test_hand_written_parses(turn, back, written, expected):
    assert turn(*parse(written)) == expected
    assert back(*parse(written)) is None


@pytest.mark.parametrize("written", UNTURNED)
def test_what_cannot_be_turned_soundly_is_left(written):
    assert to_passive(*parse(written)) is None
    assert to_active(*parse(written)) is None


def test_as_perturbations_with_severity():
    text, parsed = parse(next(iter(PASSIVES)))
    kinds = all_perturbations(lambda one: parsed if one == text else pytest.fail(f"unexpected text {one}"))
    made = perturb(text, "passive", perturbations=kinds)
    assert (made.text, made.severity) == ("The cat was chased by the dog.", 0.06)
    assert perturb(text, "active", perturbations=kinds) is None


@pytest.mark.parametrize("text", ['He said "go".', "A: the dog saw us.", "(He saw us)", "...", ""])
def test_quotations_lists_and_no_text_are_no_simple_clauses(text):
    words = tuple(text.split())
    n = len(words)
    parsed = ParsedText(words, words, ("VERB",) * n, ("",) * n, tuple(range(-1, n - 1)), ("root",) * n, ((0, 1),) * n)
    assert simple_clause(text, parsed) is None


# --- a treebank -------------------------------------------------------------------------------------------------------


def treebank(path: Path) -> list[tuple[str, ParsedText]]:
    """The sentences of a CoNLL-U file."""
    found, text, rows = [], "", []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("# text = "):
            text = line.removeprefix("# text = ")
        elif line and line[0] != "#":
            rows += [line.split("\t")] if line.split("\t")[0].isdigit() else []
        elif not line and rows:
            at, spans = 0, []
            for row in rows:
                at = text.index(row[1], at)
                spans.append((at, at + len(row[1])))
                at += len(row[1])
            _, words, lemmas, tags, _, features, heads, relations, *_ = zip(*rows, strict=True)
            features = tuple("" if one == "_" else one for one in features)
            heads = tuple(int(head) - 1 for head in heads)
            found.append((text, ParsedText(words, lemmas, tags, features, heads, relations, tuple(spans))))
            rows = []
    return found


CONTENT = ("NOUN", "PROPN", "ADJ", "NUM")
"""What a change of voice leaves as it is."""


@pytest.fixture(scope="module")
def sentences(shared_folder):
    return treebank(shared_folder / "data" / "ud_ewt" / "en_ewt-ud-dev.conllu")


def test_clauses_of_a_treebank_turn_and_keep_their_words(sentences):
    for turned, least in ((to_passive, 30), (to_active, 5)):
        made = {text: (new, parsed) for text, parsed in sentences if (new := turned(text, parsed))}
        assert len(made) >= least
        for text, (new, parsed) in made.items():
            assert (" by " in new) or turned is to_active
            assert new[0].isupper() == text[0].isupper()
            assert new.rstrip()[-1] == text.rstrip()[-1] or text.rstrip()[-1] not in ".!"
            content = (word for word, tag in zip(parsed.words, parsed.tags, strict=True) if tag in CONTENT)
            assert all(word.lower() in new.lower() for word in content)


def test_known_clauses_of_a_treebank(sentences):
    by_text = dict(sentences)
    passive = {
        "We recommend these cabins!": "These cabins are recommended by us!",
        "I would recommend this hotel to anyone.": "This hotel would be recommended to anyone by me.",
        "You've already asked this.": "This has already been asked by you.",
    }
    assert {text: to_passive(text, by_text[text]) for text in passive} == passive
    text = "The battles and demonstrations were provoked by the US assault on Fallujah."
    assert to_active(text, by_text[text]) == "The US assault on Fallujah provoked the battles and demonstrations."


def test_parsers_without_subtypes_will_do_for_names():
    written = "The/det>1 letter/nsubj>3 was/aux:pass>3 written/root by/case>5 Petra/obl>3 ./punct>3"
    assert to_active(*parse(written)) == "Petra wrote the letter."
    assert to_active(*parse(written.replace("Petra/obl", "garden/obl"))) is None
    assert to_passive(*parse(written)) is None


@pytest.mark.parametrize("lemma", ["written", "writt", "writ"])
def test_lemmas_of_irregular_verbs_are_not_relied_on(lemma):
    text, parsed = parse("She/nsubj>2 haz=has/aux>2 written/root letters/obl>2 ./punct>2")
    lemmas = tuple(lemma if one == "write" else one for one in parsed.lemmas)
    relations = tuple("obj" if one == "obl" else one for one in parsed.relations)
    assert to_passive(text, replace(parsed, lemmas=lemmas, relations=relations)) == "Letters have been written by her."
    chased, other = parse(next(iter(PASSIVES)))
    assert to_passive(chased, replace(other, lemmas=("the", "dog", "chas", "the", "cat", "."))) is None


# --- forms of verbs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forms",
    """
    ask asks asked asked asking; stop stops stopped stopped stopping; carry carries carried carried carrying
    play plays played played playing; chase chases chased chased chasing; visit visits visited visited visiting
    refer refers referred referred referring; offer offers offered offered offering; fix fixes fixed fixed fixing
    watch watches watched watched watching; fry fries fried fried frying; free frees freed freed freeing
    die dies died died dying; panic panics panicked panicked panicking; quiz quizzes quizzed quizzed quizzing
    write writes wrote written writing; see sees saw seen seeing; go goes went gone going; have has had had having
    begin begins began begun beginning; choose chooses chose chosen choosing; put puts put put putting
    understand understands understood understood understanding; dye dyes dyed dyed dyeing; wake wakes woke woken waking
    overrun overruns overran overrun overrunning; undercut undercuts undercut undercut undercutting
    misunderstand misunderstands misunderstood misunderstood misunderstanding; offset offsets offset offset offsetting
    """.strip()
    .replace("\n", ";")
    .split(";"),
)
def test_forms(forms):
    verb, *expected = forms.split()
    assert [third_person(verb), past(verb), participle(verb), present(verb)] == expected


def test_be_and_have():
    forms = {
        Agreement(1, False): ("am", "was", "have"),
        Agreement(2, False): ("are", "were", "have"),
        Agreement(3, False): ("is", "was", "has"),
        Agreement(3, True): ("are", "were", "have"),
    }
    assert {one: (be("present", one), be("past", one), have("present", one)) for one in forms} == forms
    assert {have("past", one) for one in forms} == {"had"}


def test_cases_are_inverse():
    assert {SUBJECT_CASE[OBJECT_CASE[word]].lower() for word in OBJECT_CASE} == set(OBJECT_CASE)


def test_every_irregular_verb_has_its_forms():
    assert len(IRREGULAR) > 150
    assert all(one.isalpha() and one.islower() for verb, forms in IRREGULAR.items() for one in (verb, *forms))
