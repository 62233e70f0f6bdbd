"""Forms of English verbs and pronouns: past, participles, agreement, cases."""

from __future__ import annotations

import re
from typing import NamedTuple

from textmover.perturbations.phrases import listed

SUBJECT_CASE = {"me": "I", "him": "he", "her": "she", "us": "we", "them": "they", "you": "you", "it": "it"}
"""Pronouns as the subject, by what they are as the object."""

OBJECT_CASE = {subject.lower(): object_ for object_, subject in SUBJECT_CASE.items()}
"""Pronouns as the object, by what they are as the subject in lower case."""


class _Irregular(NamedTuple):
    past: str
    participle: str


# Verb, past and participle, or verb and the one form for both; verbs with two usual forms have the commoner one.
_IRREGULAR_LIST = """
    arise arose arisen; awake awoke awoken; bear bore borne; beat beat beaten; become became become; befall befell
    befallen; begin began begun; behold beheld; bend bent; bet bet; bid bid; bind bound; bite bit bitten; bleed bled;
    blow blew blown; break broke broken; breed bred; bring brought; broadcast broadcast; build built; burst burst;
    buy bought; cast cast; catch caught; choose chose chosen; cling clung; come came come; cost cost; creep crept;
    cut cut; deal dealt; dig dug; do did done; draw drew drawn; drink drank drunk; drive drove driven; eat ate eaten;
    fall fell fallen; feed fed; feel felt; fight fought; find found; flee fled; fling flung; fly flew flown;
    forbid forbade forbidden; forecast forecast; foresee foresaw foreseen; forget forgot forgotten;
    forgive forgave forgiven; forsake forsook forsaken; freeze froze frozen; get got gotten; give gave given;
    go went gone; grind ground; grow grew grown; hang hung; have had; hear heard; hide hid hidden; hit hit; hold held;
    hurt hurt; keep kept; know knew known; lay laid; lead led; leave left; lend lent; let let; lie lay lain; light lit;
    lose lost; make made; mean meant; meet met; mislead misled; mistake mistook mistaken; outdo outdid outdone;
    overcome overcame overcome; overhear overheard; override overrode overridden; oversee oversaw overseen;
    overtake overtook overtaken; overthrow overthrew overthrown; pay paid; prove proved proven; put put; quit quit;
    read read; rebuild rebuilt; redo redid redone; remake remade; repay repaid; reread reread; resell resold;
    reset reset; retell retold; rethink rethought; rewrite rewrote rewritten; rid rid; ride rode ridden;
    ring rang rung; rise rose risen; run ran run; say said; see saw seen; seek sought; sell sold; send sent; set set;
    sew sewed sewn; shake shook shaken; shed shed; shine shone; shoot shot; show showed shown; shrink shrank shrunk;
    shut shut; sing sang sung; sink sank sunk; sit sat; slay slew slain; sleep slept; slide slid; sling slung;
    slit slit; sow sowed sown; speak spoke spoken; spend spent; spin spun; spit spat; split split; spread spread;
    spring sprang sprung; stand stood; steal stole stolen; stick stuck; sting stung; stink stank stunk;
    strew strewed strewn; stride strode stridden; strike struck struck; string strung; strive strove striven;
    swear swore sworn; sweep swept; swell swelled swollen; swim swam swum; swing swung; take took taken;
    teach taught; tear tore torn; tell told; think thought; throw threw thrown; thrust thrust; tread trod trodden;
    undergo underwent undergone; understand understood; undertake undertook undertaken; undo undid undone;
    uphold upheld; upset upset; wake woke woken; wear wore worn; weave wove woven; weep wept; win won; wind wound;
    withdraw withdrew withdrawn; withhold withheld; withstand withstood; wring wrung; write wrote written;
    foretell foretold; misread misread; misunderstand misunderstood; offset offset; outgrow outgrew outgrown;
    outrun outran outrun; outsell outsold; overdo overdid overdone; overrun overran overrun; rewind rewound;
    undercut undercut; unwind unwound
"""
IRREGULAR = {
    verb: _Irregular(forms[0], forms[-1]) for verb, *forms in (entry.split() for entry in _IRREGULAR_LIST.split(";"))
}
DOUBLING = frozenset(
    listed(
        "abhor acquit admit allot commit compel concur confer control corral defer deter embed emit entrap equip excel "
        "expel forget format handicap incur infer kidnap occur omit outfit patrol permit prefer propel rebel recur "
        "refer regret remit repel submit transfer transmit unplug unwrap worship"
    )
)
"""Regular verbs of several syllables whose last letter is doubled."""

IRREGULAR_DOUBLING = frozenset(listed("begin forbid forget offset outrun overrun reset undercut upset"))
"""Irregular ones, which have an *-ing* form alone to double it in."""


def third_person(verb: str) -> str:
    """*He …* in the present."""
    if verb in ("have", "be"):
        return {"have": "has", "be": "is"}[verb]
    if re.search(r"(s|sh|ch|x|z|o)$", verb):
        return verb + ("zes" if re.search(r"(?:[^aeiou]|qu)[aeiou]z$", verb) else "es")
    return re.sub(r"(?<=[^aeiou])y$", "ie", verb) + "s"


def past(verb: str) -> str:
    """The simple past."""
    return IRREGULAR[verb].past if verb in IRREGULAR else _regular(verb)


def participle(verb: str) -> str:
    """The past participle."""
    return IRREGULAR[verb].participle if verb in IRREGULAR else _regular(verb)


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
