"""Rules that turn parsed active sentences into passive ones and vice versa; forms of English verbs.

Only simple clauses of subject, verb and object (or agent) are turned; unclear cases give no result.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from random import Random

from textmover.perturbations.editable_sentences import FUNCTION_WORDS, LEXICON, Edit, Phrase, WordPool, word_set
from textmover.perturbations.entities import always_capitalised
from textmover.perturbations.parsed_clauses import PRONOUNS, Agreement, Clause, Parse, VerbGroup, simple_clause
from textmover.types import ParsedText

SUBJECT_CASE = {"me": "I", "him": "he", "her": "she", "us": "we", "them": "they", "you": "you", "it": "it"}
OBJECT_CASE = {subject.lower(): object_ for object_, subject in SUBJECT_CASE.items()}

IRREGULAR = {
    verb: (forms[0], forms[-1])  # past and participle
    for verb, *forms in map(str.split, LEXICON["irregular_verbs"].split(";"))
}

DOUBLING = word_set("doubling") | word_set("irregular_doubling")


def third_person(verb: str) -> str:
    """Return the third person singular of the present."""
    if verb in ("have", "be"):
        return {"have": "has", "be": "is"}[verb]
    if re.search(r"(s|sh|ch|x|z|o)$", verb):
        return verb + ("zes" if re.search(r"(?:[^aeiou]|qu)[aeiou]z$", verb) else "es")
    return re.sub(r"(?<=[^aeiou])y$", "ie", verb) + "s"


def past(verb: str) -> str:
    """Return the simple past."""
    return IRREGULAR[verb][0] if verb in IRREGULAR else _regular(verb)


def participle(verb: str) -> str:
    """Return the past participle."""
    return IRREGULAR[verb][1] if verb in IRREGULAR else _regular(verb)


def present(verb: str) -> str:
    """Return the *-ing* form."""
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
    """Return the verb with a doubled consonant (or *k* after *c*) if needed before a vowel ending."""
    if re.search(r"[aeiou]c$", verb):
        return verb + "k"
    one_syllable = re.fullmatch(r"(?:[^aeiou]*|[^aeiou]*qu)[aeiou][bdfgklmnprstvz]", verb)
    return verb + verb[-1] if one_syllable or verb in DOUBLING else verb


def be(form: str, subject: Agreement) -> str:
    """Return the form of *to be* in the ``"past"`` or ``"present"``."""
    if form == "past":
        return "were" if subject.plural or subject.person == 2 else "was"
    return "are" if subject.plural or subject.person == 2 else {1: "am", 3: "is"}[subject.person]


def have(form: str, subject: Agreement) -> str:
    """Return the form of *to have* in the ``"past"`` or ``"present"``."""
    return "had" if form == "past" else "has" if subject == (3, False) else "have"


NO_PASSIVE = word_set("no_passive")
IDIOMS = word_set("idioms")
LIGHT_VERBS = word_set("light_verbs")
MANNER = re.compile(r"(?:\w+ly|well|badly|hard|fast)$")
SENTENCE_ADVERBS = word_set("sentence_adverbs")
TIMES = re.compile(
    r"(?:yesterday|today|tomorrow|tonight|now|then|\d+|(?:mon|tues|wednes|thurs|fri|satur|sun)day|morning|evening|"
    r"afternoon|night|week|month|year|day|january|february|march|april|may|june|july|august|september|october|"
    r"november|december)s?$",
    re.IGNORECASE,
)
LOOSE_ADVERBS = word_set("loose_adverbs")
PARTICLES = word_set("particles")
NO_VERBS = word_set("no_verbs")
NO_PHRASE = word_set("no_phrase")
NEVER_AGENTS = word_set("never_agents")
SHORT = 5  # maximum words of a phrase between verb and *by*
LONGEST_AGENT = 10  # maximum words after *by*

VERB_OF = {form: verb for verb, forms in IRREGULAR.items() for form in forms if form not in IRREGULAR}
"""Irregular verbs by past and participle, which lemmatizers often get wrong."""


def to_passive(text: str, parsed: ParsedText) -> str | None:
    """Return an active sentence in the passive, or ``None`` if it cannot be turned."""
    clause = simple_clause(text, parsed)
    if clause is None or clause.passive or len(objects := clause.of_verb("obj")) != 1:
        return None
    (target,), verb = objects, _lemma(clause)
    subject, patient = clause.span(clause.subject), clause.span(target)
    if subject is None or patient is None or not _can_be_passive(clause, target, verb):
        return None
    particles = clause.of_verb("compound:prt")
    between, follows = tuple(range(clause.verb + 1, patient.start)), particles == (patient.stop,)
    if len(particles) > 1 or between != (() if follows else particles):
        return None
    behind = range(patient.stop + follows, len(parsed))
    chain, agreement = clause.chain(range(subject.stop, clause.verb)), clause.agreement(target)
    agent = _in_case(clause, subject, clause.subject, OBJECT_CASE)
    new_subject = _in_case(clause, patient, target, SUBJECT_CASE)
    done = None if chain is None else _participle_of(clause, verb, chain)
    if chain is None or agreement is None or agent is None or new_subject is None or done is None:
        return None
    if chain.negated and any(clause.lower(place).startswith("any") for place in patient):
        return None  # *any* has to follow its *not*
    group = _passive_group(chain, agreement, done)
    if group is None or _goes_on(clause, behind) or any(_clings(clause, place) for place in behind):
        return None
    if particles:
        group += f" {parsed.words[particles[0]]}"
    start = text[: parsed.spans[subject.start][0]]
    return _opened(start, new_subject) + f" {group}" + _with_agent(clause, agent, behind)


def to_active(text: str, parsed: ParsedText) -> str | None:
    """Return a passive sentence in the active, or ``None`` if it cannot be turned."""
    clause = simple_clause(text, parsed)
    if clause is None or not clause.passive or clause.of_verb("obj"):
        return None
    doers = clause.of_verb("obl:agent") or tuple(one for one in clause.of_verb("obl") if _is_somebody(clause, one))
    if len(doers) != 1:
        return None
    (doer,), verb = doers, _lemma(clause)
    agent, patient = clause.span(doer), clause.span(clause.subject)
    if agent is None or patient is None or not clause.verb < agent.start or clause.lower(agent.start) != "by":
        return None
    agent = range(agent.start + 1, agent.stop)
    if doer not in agent or not _is_plain(clause, agent) or not _is_plain(clause, patient, possessive=True):
        return None
    particles = clause.of_verb("compound:prt")
    if particles not in ((), (clause.verb + 1,)):
        return None
    chain, agreement = clause.chain(range(patient.stop, clause.verb)), clause.agreement(doer)
    new_subject = _in_case(clause, agent, doer, SUBJECT_CASE)
    new_object = _in_case(clause, patient, clause.subject, OBJECT_CASE)
    if chain is None or agreement is None or new_subject is None or new_object is None:
        return None
    last = particles[0] if particles else clause.verb
    between = text[parsed.spans[last][1] : parsed.spans[agent.start - 1][0]].rstrip()
    if "," in between or _participle_of(clause, verb, chain) is None:
        return None
    group = _active_group(chain, agreement, verb)
    if particles:
        group += f" {parsed.words[particles[0]]}"
    start = text[: parsed.spans[patient.start][0]]
    behind = text[parsed.spans[agent[-1]][1] :]
    return _opened(start, new_subject) + f" {group} {new_object}{between}{behind}"


def _lemma(clause: Clause) -> str:
    word, lemma = clause.lower(clause.verb), clause.parsed.lemmas[clause.verb].lower()
    return lemma if lemma in IRREGULAR else VERB_OF.get(word, lemma)


def _is_somebody(clause: Clause, place: int) -> bool:
    """Return whether a phrase is *by* with a pronoun or a name other than a time."""
    by = any(clause.lower(one) == "by" for one in clause.children[place] if clause.parsed.relations[one] == "case")
    return by and clause.parsed.tags[place] in ("PROPN", "PRON") and not TIMES.match(clause.lower(place))


def _can_be_passive(clause: Clause, target: int, verb: str) -> bool:
    parsed, subject, patient = clause.parsed, clause.span(clause.subject), clause.span(target)
    if subject is None or patient is None or not subject.stop <= clause.verb < patient.start:
        return False
    if verb in NO_PASSIVE or clause.lower(target) in IDIOMS or parsed.lemmas[target].lower() in IDIOMS:
        return False
    if clause.lower(target) == "it" and verb in LIGHT_VERBS:
        return False
    if clause.lower(0) == "as" or clause.lower(0).isdigit():  # *as citizens we …*, or the number of a paragraph
        return False
    below = {parsed.relations[child] for child in clause.children[target]}
    bare = parsed.tags[target] == "NOUN" and not below & {"det", "nmod:poss", "nummod"}
    if bare and (verb in LIGHT_VERBS or clause.feature(target, "Number") == "Sing"):
        return False
    if clause.lower(clause.subject) in NEVER_AGENTS or clause.lower(subject[0]) in ("no", "neither", "few"):
        return False
    if len(subject) > LONGEST_AGENT or TIMES.match(clause.lower(patient[-1])):
        return False
    if any(parsed.relations[place].startswith("acl") for place in subject):
        return False
    return _is_plain(clause, subject, possessive=True) and _is_plain(clause, patient)


def _goes_on(clause: Clause, behind: range) -> bool:
    """Return whether another agent, a particle or, regardless of the parse, a further clause follows the object."""
    words = [clause.lower(place) for place in behind]
    if "by" in words or (words and words[0] in PARTICLES):
        return True
    joints = [place for place in behind if clause.parsed.tags[place] == "CCONJ" or clause.lower(place) == ","]
    return any(clause.parsed.tags[place] in ("VERB", "AUX") for place in behind if joints and place > joints[0])


def _clings(clause: Clause, place: int) -> bool:
    """Return whether a word after the object is an adverb that must stay next to the verb."""
    if clause.parsed.heads[place] != clause.verb or clause.parsed.relations[place] != "advmod":
        return False
    word = clause.lower(place)
    return not (word in LOOSE_ADVERBS or MANNER.match(word) or TIMES.match(word))


def _is_plain(clause: Clause, words: range, *, possessive: bool = False) -> bool:
    """Return whether a noun phrase can move: it has no comma, and no possessive that would precede its owner."""
    if not words or any(clause.lower(place) in (",", ".", "!") for place in words):
        return False
    heads = [place for place in words if clause.parsed.heads[place] not in words]
    below = [child for child in clause.children[heads[0]] if child in words]
    if any(clause.parsed.relations[child] in NO_PHRASE for child in below):
        return False
    if any(clause.parsed.tags[child] == "ADJ" for child in below if child > heads[0]):  # *find this helpful*
        return False
    for before, word in itertools.pairwise(words):
        if clause.lower(word) in ("a", "an", "the") and clause.parsed.tags[before] in ("NOUN", "PROPN", "PRON"):
            return False  # *make Ann a doll*
    owned = any(clause.feature(place, "Poss") == "Yes" for place in words)
    return (possessive or not owned) and not any(clause.feature(place, "PronType") == "Int" for place in words)


def _in_case(clause: Clause, words: range, head: int, cases: dict[str, str]) -> str | None:
    """Return a noun phrase for its new position, with pronouns in the right case; ``None`` if it cannot move."""
    tag, word = clause.parsed.tags[head], clause.lower(head)
    if tag == "PRON":
        if len(words) > 1:
            return None
        return cases.get(word) or (word if word not in OBJECT_CASE and word not in SUBJECT_CASE else None)
    conjuncts = [child for child in clause.children[head] if clause.parsed.relations[child] == "conj"]
    if tag not in ("NOUN", "PROPN") or any(clause.parsed.tags[child] == "PRON" for child in conjuncts):
        return None
    text = clause.slice(words)
    if len(words) == 1 and word in PRONOUNS:  # *Someone*, tagged as a name
        return word
    first = clause.parsed.words[words[0]]
    keeps_capital = clause.parsed.tags[words[0]] == "PROPN" or always_capitalised(first) or not first[1:].islower()
    if words[0] != 0 or first == "I" or (keeps_capital and first != "A"):
        return text
    return text[:1].lower() + text[1:]


def _opened(start: str, subject: str) -> str:
    return start + (subject if start.strip() else subject[:1].upper() + subject[1:])


def _participle_of(clause: Clause, verb: str, chain: VerbGroup) -> str | None:
    """Return the past participle of the verb, spelled as in the text; ``None`` if form and lemma disagree."""
    word = clause.lower(clause.verb)
    if not verb.isalpha() or verb in FUNCTION_WORDS or verb in NO_VERBS:
        return None
    regular = verb not in IRREGULAR
    doubled = verb + verb[-1]  # *travelled*, *focussed*
    past_forms = {participle(verb), past(verb), *((f"{doubled}ed",) if regular else ())}
    if clause.passive or chain.perfect:
        fits = word in past_forms
    elif chain.progressive:
        fits = word in (present(verb), f"{doubled}ing")
    elif chain.modal or chain.supported:
        fits = word == verb
    elif chain.tense == "past":
        fits = word == past(verb) or (regular and word in past_forms)
    else:
        subject = clause.agreement(clause.subject)
        forms = (third_person(verb), verb)
        fits = word in (forms if subject is None else forms[:1] if subject == (3, False) else forms[1:])
    if not fits:
        return None
    return word if regular and word.endswith("ed") else participle(verb)


def _passive_group(chain: VerbGroup, agreement: Agreement, done: str) -> str | None:
    if chain.progressive and (chain.perfect or chain.modal):  # *has been being done* is unidiomatic
        return None
    if chain.modal:
        words = [chain.modal, *(["have", "been"] if chain.perfect else ["be"]), done]
    elif chain.perfect:
        words = [have(chain.tense, agreement), "been", done]
    else:
        words = [be(chain.tense, agreement), *(["being"] if chain.progressive else []), done]
    return _joined(words, chain)


def _active_group(chain: VerbGroup, agreement: Agreement, verb: str) -> str:
    third = agreement == (3, False)
    last = present(verb) if chain.progressive else participle(verb) if chain.perfect else verb
    helpers = ["have"] * chain.perfect + ["been" if chain.perfect else "be"] * chain.progressive
    if chain.modal:
        words = [chain.modal, *helpers, last]
    elif helpers:
        finite = have if chain.perfect else be
        words = [finite(chain.tense, agreement), *helpers[1:], last]
    elif chain.negated:
        words = ["did" if chain.tense == "past" else "does" if third else "do", verb]
    else:
        words = [past(verb) if chain.tense == "past" else third_person(verb) if third else verb]
    return _joined(words, chain)


def _joined(words: list[str], chain: VerbGroup) -> str:
    """Join verbs, negation and adverbs: adverbs of manner before the last verb, others after the first one."""
    manner = [adverb for adverb in chain.adverbs if MANNER.match(adverb) and adverb not in SENTENCE_ADVERBS]
    others = [adverb for adverb in chain.adverbs if adverb not in manner]
    *helpers, last = words
    if chain.negated:
        helpers[:1] = ["cannot"] if helpers[0] == "can" else [helpers[0], "not"]
    first = 2 if chain.negated and helpers[0] != "cannot" else 1
    return " ".join([*helpers[:first], *others, *helpers[first:], *manner, last])


def _with_agent(clause: Clause, agent: str, behind: range) -> str:
    """Return the words after the participle: a short phrase before *by*, anything else after the agent."""
    parsed = clause.parsed
    words = [place for place in behind if parsed.tags[place] != "PUNCT"]
    rest = clause.text[parsed.spans[behind.start - 1][1] :]
    heads = {place for place in words if parsed.heads[place] == clause.verb}
    together = words == list(behind[: len(words)])
    if len(heads) != 1 or len(words) > SHORT or not together:
        return f" by {agent}{rest}"
    (head,) = heads
    place_or_manner = parsed.relations[head] == "obl" or MANNER.match(clause.lower(head))
    if not place_or_manner or any(TIMES.match(clause.lower(place)) for place in words):
        return f" by {agent}{rest}"
    start, end = parsed.spans[behind.start - 1][1], parsed.spans[words[-1]][1]
    return f"{clause.text[start:end]} by {agent}{clause.text[end:]}"


Turn = Callable[[str, ParsedText], "str | None"]


def change_voice(turn: Turn, parse: Parse, phrase: Phrase, degree: int, rng: Random, pool: WordPool) -> Edit | None:
    """Return the phrase in the other voice; a perturbation once ``turn`` and ``parse`` are bound."""
    result = turn(phrase.text, parse(phrase.text))
    return None if result is None else Edit(result, ())
