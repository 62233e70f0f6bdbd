"""Flags of texts whose scores should not be trusted: cut, unknown tokens, other scripts, one phrase repeated."""

from __future__ import annotations

import functools
import itertools
import operator
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from textmover.modules.tokens.weighting import ENGLISH
from textmover.types import SourcedReferences, TokenBatch
from textmover.types.text_words import SCRIPTS

MOST = 0.1  # largest share of unknown tokens, or of letters in other scripts, of a text that is not flagged

PHRASE, TIMES, FEWEST = 16, 3, 12
"""Longest phrase whose repetition is noticed, least times that it is said, and shortest such text, in words."""

FEW_WORDS, GRAMMAR, BEGINNING = 20, 0.2, 300
"""Words that tell the language of texts, least share of English stop words in English, and characters looked at."""

GRAMMARS = (
    "der die das und ist nicht ich mit ein eine einen den dem des auf sie er es zu sich von wir wird sind im hat mein"
    " bin wie wo kann auch zum zur aus bei am habe meine ihr uns",
    "de het een en van ik niet is dat te op zijn met voor er naar hij ze wij heeft deze mijn ben ook wat aan bij",
    "le la les un une des et est pas que qui je tu il elle nous vous dans sur pour avec ce cette sont mon ma au du de "
    " ne se en son sa par on plus",
    "el la los las un una y es que de no en por para con del al se mi su muy lo como este esta yo me ha tu nos hay",
    "o os as um uma e que de da do em para por se nao mais meu minha muito ele ela na no eu dos das ao foi os",
    "il lo la gli le un una e che di non per con sono mi si del della nel alle dal ha questo mia mio molto ho al da"
    " alla nella ai ci",
    "och att det som en ett jag inte har med den till av vi de min han hon ska var om ni du",
    "og at det som en et jeg ikke har med den til av af vi de min han hun er var om du paa kan",
    "nu este un o de la cu pe din care sunt am ce sa mai si am in ai fost",
    "w na z nie to jest sie do ze jak co moj ma tak jej",
    "je na se v to ne jsem si do co jak ve pro jsou za",
    "bir ve bu da de ne ben sen mi icin cok ile var degil gibi en daha o",
    "yang dan di ini itu dengan untuk tidak saya dia ke dari akan adalah kami pada sudah ada kita",
    "ya na wa kwa ni katika la hii za yangu yake wangu cha sana leo",
    "ang ng sa na ay mga ko mo siya ako hindi si kami at ni",
    "ja on ei se oli minun ovat mutta kun olen joka niin tai",
    "a az es nem egy hogy van ez de",
)
"""Words of the grammar of languages that are often written without a letter that English lacks, a row for each."""

MANY, PLENTY = 5, 50
"""Fewest and most different references to one hypothesis from which on it is flagged: a twentieth of the segments."""

NEARLY, SHORT = 0.8, 11
"""Share of pairs of letters from which on a text is nearly a copy, and number of them up to which none is."""

FALLBACK = "fallback"
"""Flag of segments in which a source stands in for missing references, or the other way round."""

WRITERS = {
    "Arabic": "ar fa ps sd ug ur",
    "Armenian": "hy",
    "Bengali": "as bn",
    "Cyrillic": "be bg kk ky mk mn ru sr uk",
    "Devanagari": "hi mr ne sa",
    "Ethiopic": "am",
    "Georgian": "ka",
    "Greek": "el",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Han": "ja ko zh",
    "Hangul": "ko",
    "Hebrew": "he yi",
    "Kana": "ja",
    "Kannada": "kn",
    "Khmer": "km",
    "Lao": "lo",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Oriya": "or",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
}
"""Languages that are written in each script, by their codes; all others are written in Latin letters."""

SHARED = r"ªºµ²³¹¼-¾ʰ-˿\u2070-\u209c\u2100-\u218b\u2460-\u24ff\u2776-\u2793"
"""Letters and numbers that texts in any script have."""


def text_flags(batch: TokenBatch, languages: Sequence[str]) -> dict[str, np.ndarray]:
    """Flags of texts by name, bool ``[B]``; a batch on the CPU, and languages of the metric, none for all."""
    none = np.zeros(len(batch), dtype=bool)
    ordinary = batch.ordinary
    known = ordinary if batch.unknown is None else ordinary & (batch.unknown == 0)
    lacking = np.array([len(words) for words in batch.unknown_words or ()])
    script = [not one.isascii() and other_script(one, languages) != "" for one in batch.texts]
    guessed = [
        tuple(languages) == ("en",) and not marked and not is_english([text[:BEGINNING]])
        for text, marked in zip(batch.texts, script, strict=True)
    ]
    return {
        "truncated": np.array(batch.truncated, dtype=bool),
        "unknown": none if batch.unknown_words is None else lacking > MOST * (lacking + known.sum(dim=1).numpy()),
        "script": np.array(script, dtype=bool),
        "language": np.array(guessed, dtype=bool),
        "repetition": _repeats(batch, ordinary.numpy()) if batch.mask.shape[1] >= FEWEST else none,
    }


def other_script(text: str, languages: Sequence[str]) -> str:
    """Script of more than a tenth of the letters of a text that none of the languages is written in; else nothing.

    Example:
        >>> other_script("Доброе утро", ("en",)), other_script("Zoë has no 早", ("en",)), other_script("早", ("zh",))
        ('Cyrillic', 'Han', '')
    """
    if not languages:
        return ""
    letters, others = _letters(tuple(languages))
    found = "".join(others.findall(text))
    if not found or len(found) <= MOST * len(letters.findall(text)):
        return ""
    most = Counter(found).most_common(1)[0][0]
    known = (script for script, ranges in SCRIPTS.items() if re.match(f"[{ranges}]", most))
    return next(known, unicodedata.name(most, "unknown").split()[0].title())


def is_english(texts: Sequence[str]) -> bool:
    """Return whether texts are English by and large: few in other scripts, and a fifth of the words those of grammar.

    English texts have two fifths of such words, other languages a tenth at most; one more stands for chance. Few words
    without letters that English lacks are English unless they are another language's by its :data:`GRAMMARS`.

    Example:
        >>> is_english(["The train arrives at eight."]), is_english(["Der Zug kommt um acht Uhr an."] * 9)
        (True, False)
    """
    if sum(not text.isascii() and other_script(text, ("en",)) != "" for text in texts) > MOST * len(texts):
        return False
    words = [word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower())]
    ours = sum(map(ENGLISH.__contains__, words))
    least = max(2, ours + 1, GRAMMAR * len(words))
    if len(words) < FEW_WORDS and len(found := [rows for word in words if (rows := _grammars().get(word))]) >= least:
        counts = Counter(row for rows in found for row in rows)
        if max(counts.values()) >= least:
            return False
    few = len(words) < FEW_WORDS and all(map(str.isascii, words))
    return few or ours + 1 >= GRAMMAR * len(words)


@functools.cache
def _grammars() -> dict[str, tuple[int, ...]]:
    """Rows of :data:`GRAMMARS` that a word is in."""
    rows = [frozenset(one.split()) for one in GRAMMARS]
    return {word: tuple(row for row, one in enumerate(rows) if word in one) for word in frozenset().union(*rows)}


@functools.cache
def _letters(languages: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of a letter, and of letters in scripts that none of the languages is written in."""
    written = {one: [script for script, codes in WRITERS.items() if one in codes.split()] for one in languages}
    scripts = {script for found in written.values() for script in found or ["Latin"]}
    ours = "".join(SCRIPTS[script] for script in scripts)
    return re.compile(rf"[^\W\d_{SHARED}]"), re.compile(rf"[^\W\d_{SHARED}{ours}]+")


def _repeats(batch: TokenBatch, ordinary: np.ndarray) -> np.ndarray:
    """Return which texts repeat one phrase; only texts that say half of their tokens again are looked at."""
    ids = batch.input_ids if batch.unknown is None else batch.input_ids.where(batch.unknown == 0, -batch.unknown)
    keys = np.sort(np.where(ordinary, ids.numpy(), -1 - np.arange(ids.shape[1])), axis=1)
    lengths, again = ordinary.sum(axis=1), np.count_nonzero(keys[:, 1:] == keys[:, :-1], axis=1)
    found = (lengths >= FEWEST) & (2 * again >= lengths)
    found[found] = [repeats_phrase(batch.texts[row]) for row in np.flatnonzero(found)]
    return found


def repeats_phrase(text: str) -> bool:
    """Return whether half of the words, or of the letters of a few words, are those that stand one phrase before them.

    Example:
        >>> repeats_phrase("I do not know. " * 4), repeats_phrase("Thank you!!!!!!!!!!!!")
        (True, False)
    """
    words = re.findall(r"[^\W_]+", text.lower())
    units = words if len(words) >= FEWEST else "".join(words)
    return len(units) >= FEWEST and any(
        max(2 * (TIMES - 1) * phrase, len(units)) <= 2 * sum(map(operator.eq, units[phrase:], units))
        for phrase in range(1, min(PHRASE, len(units) // TIMES) + 1)
    )


def copied_sources(hypotheses: Sequence[str], sources: Sequence[str | None]) -> np.ndarray:
    """Return which hypotheses are their source, but for spaces and Unicode forms, bool ``[n]``."""

    def words(text: str) -> list[str]:
        return unicodedata.normalize("NFC", text).split()

    pairs = zip(hypotheses, sources, strict=True)
    return np.array([other is not None and words(one) == words(other) for one, other in pairs], dtype=bool)


def side_flags(
    hypotheses: Sequence[str], compared: Sequence[SourcedReferences], languages: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Flags of hypotheses beside what they are compared with, bool ``[n]``.

    ``copied`` is a hypothesis that is its source, but for spaces. ``untranslated`` is one in its source's language: the
    words of grammar of both are of one, or both share nearly all pairs of letters. ``off target`` is one in another
    language, or another script, than all its references; a metric of English flags texts that are not English instead.

    Example:
        >>> source, references = "Ich bin in der Halle.", ("I am in the hall.",)
        >>> given = ["I am in the hall.", "Ich bin in der Diele.", "Sono nella sala.", "Я в зале."]
        >>> found = side_flags(given, [SourcedReferences(references, source)] * 4)
        >>> {name: marked.tolist() for name, marked in found.items() if marked.any()}
        {'untranslated': [False, True, False, False], 'off target': [False, False, True, True]}
    """
    sources, clues = [one.source for one in compared], functools.cache(_clues)
    copied = copied_sources(hypotheses, sources)
    alike = [
        other is not None and (None is not clues(one).grammar == clues(other).grammar or _nearly_copied(one, other))
        for one, other in zip(hypotheses, sources, strict=True)
    ]
    off = [
        tuple(languages) != ("en",) and len(others) > 0 and all(_unlike(clues(one), clues(other)) for other in others)
        for one, others in zip(hypotheses, compared, strict=True)
    ]
    told = {"untranslated": np.array(alike, dtype=bool) & ~copied}
    return {"copied": copied, **told, "off target": np.array(off, dtype=bool) & ~copied & ~told["untranslated"]}


class Clues(NamedTuple):
    """Clues to the language of a text.

    Attributes:
        grammar: Row of :data:`GRAMMARS` that most words of grammar are in, -1 for English; none if they are few.
        scripts: Letters by their script.
    """

    grammar: int | None
    scripts: Counter[str]


def _clues(text: str) -> Clues:
    words = re.findall(r"[^\W\d_]+", text[:BEGINNING].lower())
    counts = Counter(row for word in set(words) for row in (*_grammars().get(word, ()), *[-1] * (word in ENGLISH)))
    (row, most), (_, second) = [*counts.most_common(2), (0, 0), (0, 0)][:2]
    grammar = row if most >= max(second + 2, GRAMMAR * len(words)) else None
    return Clues(grammar, Counter(filter(None, map(_script, text[:BEGINNING]))))


@functools.cache
def _script(character: str) -> str:
    return next((script for script, ranges in SCRIPTS.items() if re.match(f"[{ranges}]", character)), "")


def _unlike(one: Clues, other: Clues) -> bool:
    """Return whether two texts are in two languages by their words of grammar, or in two scripts by their letters."""
    if None is not one.grammar != other.grammar is not None:
        return True
    first, second = (max(scripts, key=scripts.__getitem__, default="") for scripts in (one.scripts, other.scripts))
    sides = ((one.scripts, second), (other.scripts, first))
    return all(main and scripts[main] <= MOST * scripts.total() for scripts, main in sides)


def _nearly_copied(one: str, other: str) -> bool:
    """Return whether two texts of some length share nearly all pairs of letters, as a copy with a changed word does."""
    first, second = (Counter(itertools.pairwise(re.sub(r"[\W\d_]", "", text.lower()))) for text in (one, other))
    most = max(first.total(), second.total())
    return most > SHORT and (first & second).total() >= NEARLY * most


def fell_back(metric: Any, compared: Sequence[SourcedReferences]) -> np.ndarray:
    """Return which segments lack a side that the metric reads, so that the other stands in for it, bool ``[n]``.

    Where it reads both, a side that no segment has was not given, and is not missing.
    """
    mode = getattr(metric, "mode", "reference")
    lacking = np.array([(not one, one.source is None) for one in compared], dtype=bool).reshape(-1, 2)
    lacking &= (mode != "source", mode != "reference")
    return np.any(lacking & ~lacking.all(axis=0) if mode == "both" else lacking, axis=1)


def same_outputs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """Return which hypotheses stand for many different references and segments, bool ``[n]``; empty ones do not count.

    Tables of sentence pairs, such as STS, repeat sentences too, but none in a twentieth of their pairs, nor in 50.

    Example:
        >>> same_outputs(["yes"] * 5 + ["no"], [[name] for name in "abcdef"]).tolist()
        [True, True, True, True, True, False]
    """
    found = np.zeros(len(hypotheses), dtype=bool)
    if len(hypotheses) - len(set(hypotheses)) >= MANY - 1:
        pairs = set(zip(hypotheses, map(tuple, references), strict=True))
        answers = Counter(text for text, _ in pairs if text.strip())
        many = {text for text, number in answers.items() if number >= max(MANY, min(len(hypotheses) / 20, PLENTY))}
        found[:] = [text in many for text in hypotheses]
    return found


def divides_words(character: str) -> bool:
    """Return whether a character separates words or is one, as BERT splits texts: space, punctuation, or Chinese.

    Nothing at all, the end of an empty piece, divides too.
    """
    return (
        not character
        or character.isspace()
        or character in string.punctuation
        or unicodedata.category(character).startswith("P")
        or unicodedata.name(character, "").startswith("CJK")
    )
