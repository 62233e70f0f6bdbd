"""Forms of English verbs and pronouns: past, participles, agreement, cases."""

from __future__ import annotations

import re

from textmover.perturbations.phrases import LEXICON, word_set

SUBJECT_CASE = {"me": "I", "him": "he", "her": "she", "us": "we", "them": "they", "you": "you", "it": "it"}
"""Pronouns as the subject, by what they are as the object."""

OBJECT_CASE = {subject.lower(): object_ for object_, subject in SUBJECT_CASE.items()}
"""Pronouns as the object, by what they are as the subject in lower case."""

IRREGULAR = {
    verb: (forms[0], forms[-1]) for verb, *forms in (entry.split() for entry in LEXICON["irregular_verbs"].split(";"))
}
"""Past and participle of each irregular verb."""

DOUBLING = word_set("doubling")

IRREGULAR_DOUBLING = word_set("irregular_doubling")


def third_person(verb: str) -> str:
    """*He …* in the present."""
    if verb in ("have", "be"):
        return {"have": "has", "be": "is"}[verb]
    if re.search(r"(s|sh|ch|x|z|o)$", verb):
        return verb + ("zes" if re.search(r"(?:[^aeiou]|qu)[aeiou]z$", verb) else "es")
    return re.sub(r"(?<=[^aeiou])y$", "ie", verb) + "s"


def past(verb: str) -> str:
    """The simple past."""
    return IRREGULAR[verb][0] if verb in IRREGULAR else _regular(verb)


def participle(verb: str) -> str:
    """The past participle."""
    return IRREGULAR[verb][1] if verb in IRREGULAR else _regular(verb)


def present(verb: str) -> str:
    """The *-ing* form."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if re.search(r"[^eoy]e$", verb) and verb not in ("be", "singe", "tinge"):
        return verb[:-1] + "ing"
    return _doubled(verb) + "ing"


def _regular(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def _doubled(verb: str) -> str:
    """The verb as it stands before an ending that begins with a vowel."""
    if re.search(r"[aeiou]c$", verb):
        return verb + "k"
    one_syllable = re.fullmatch(r"(?:[^aeiou]*|[^aeiou]*qu)[aeiou][bdfgklmnprstvz]", verb)
    if one_syllable or verb in DOUBLING or verb in IRREGULAR_DOUBLING:
        return verb + verb[-1]
    return verb


def be(form: str, *, person: int, plural: bool) -> str:
    """*To be* in the ``"past"`` or ``"present"``."""
    if form == "past":
        return "were" if plural or person == 2 else "was"
    return "are" if plural or person == 2 else {1: "am", 3: "is"}[person]


def have(form: str, *, person: int, plural: bool) -> str:
    """*To have* in the ``"past"`` or ``"present"``."""
    return "had" if form == "past" else "has" if person == 3 and not plural else "have"
