"""Flags of texts with unreliable scores: truncated, unknown tokens, other scripts or languages, repetition, copies."""

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
from textmover.types.word_splitting import SCRIPTS

MAX_SHARE = 0.1  # share of unknown tokens, or of letters in other scripts, above which a text is flagged

LONGEST_PHRASE, MIN_TIMES, MIN_UNITS = 16, 3, 12
"""Longest repeated phrase to detect, minimum number of repetitions, and length of the shortest such text, in words."""

FEW_WORDS, MIN_GRAMMAR, READ_CHARACTERS = 20, 0.2, 300
"""Words needed to detect a language, minimum share of stop words in English, and number of characters read."""

FUNCTION_WORDS = (
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
"""Function words of languages whose texts often have ASCII letters only, one row per language."""

MIN_SAME, MAX_SAME = 5, 50
"""Bounds of the number of different references, a twentieth of the segments, at which a repeated output is flagged."""

COPY_SHARE, COPY_MIN = 0.8, 11
"""Share of letter bigrams from which a text is nearly a copy, and number of bigrams up to which no text is."""

FALLBACK = "fallback"
"""Flag of segments in which the source replaces missing references, or references a missing source."""

SCRIPT_LANGUAGES = {
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
"""Language codes by script; all other languages use the Latin script."""

SHARED = r"ªºµ²³¹¼-¾ʰ-˿\u2070-\u209c\u2100-\u218b\u2460-\u24ff\u2776-\u2793"
"""Letters and numbers that occur in texts of any script."""

LOOK_ALIKES = re.compile(
    "(?i)[\ufb00-\ufb06\uff41-\uff5a\U0001d400-\U0001d7ff]|[a-z][\u0400-\u04ff]|[\u0400-\u04ff][a-z]"
)
"""Ligatures, full-width and mathematical letters, and Cyrillic letters next to Latin ones in a word."""


def text_flags(batch: TokenBatch, languages: Sequence[str]) -> dict[str, np.ndarray]:
    """Return flags by name, bool ``[B]``, of a batch on the CPU; no ``languages`` of the metric means all."""
    none = np.zeros(len(batch), dtype=bool)
    ordinary = batch.ordinary
    known = ordinary if batch.unknown is None else ordinary & (batch.unknown == 0)
    missing = np.array([len(words) for words in batch.unknown_words or ()])
    script = [not one.isascii() and other_script(one, languages) != "" for one in batch.texts]
    english = tuple(languages) == ("en",)
    not_english = [
        english and not flagged and not is_english([text[:READ_CHARACTERS]])
        for text, flagged in zip(batch.texts, script, strict=True)
    ]
    look_alikes = [english and not one.isascii() and LOOK_ALIKES.search(one) is not None for one in batch.texts]
    return {
        "truncated": np.array(batch.truncated, dtype=bool),
        "unknown": none if batch.unknown_words is None else missing > MAX_SHARE * (missing + known.sum(dim=1).numpy()),
        "script": np.array(script, dtype=bool),
        "language": np.array(not_english, dtype=bool),
        "look-alikes": np.array(look_alikes, dtype=bool),
        "repetition": _phrase_repetitions(batch, ordinary.numpy()) if batch.mask.shape[1] >= MIN_UNITS else none,
    }


def other_script(text: str, languages: Sequence[str]) -> str:
    """Return the script of more than a tenth of a text's letters if none of the languages uses it; else ``""``.

    Example:
        >>> other_script("Доброе утро", ("en",)), other_script("Zoë has no 早", ("en",)), other_script("早", ("zh",))
        ('Cyrillic', 'Han', '')
    """
    if not languages:
        return ""
    letters, others = _letters(tuple(languages))
    letters_of_others = "".join(others.findall(text))
    if not letters_of_others or len(letters_of_others) <= MAX_SHARE * len(letters.findall(text)):
        return ""
    commonest = Counter(letters_of_others).most_common(1)[0][0]
    names = (script for script, ranges in SCRIPTS.items() if re.match(f"[{ranges}]", commonest))
    return next(names, unicodedata.name(commonest, "unknown").split()[0].title())


def is_english(texts: Sequence[str]) -> bool:
    """Return whether texts are mostly English: few in other scripts, and at least a fifth function words.

    English texts have about two fifths of English function words, other languages at most a tenth. One word is added
    as a tolerance. Fewer than 20 words, all ASCII, count as English unless :data:`FUNCTION_WORDS` point elsewhere.

    Example:
        >>> is_english(["The train arrives at eight."]), is_english(["Der Zug kommt um acht Uhr an."] * 9)
        (True, False)
    """
    if sum(not text.isascii() and other_script(text, ("en",)) != "" for text in texts) > MAX_SHARE * len(texts):
        return False
    words = [word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower())]
    english = sum(map(ENGLISH.__contains__, words))
    least = max(2, english + 1, MIN_GRAMMAR * len(words))
    if len(words) < FEW_WORDS and len(found := [rows for word in words if (rows := _word_rows().get(word))]) >= least:
        counts = Counter(row for rows in found for row in rows)
        if max(counts.values()) >= least:
            return False
    few = len(words) < FEW_WORDS and all(map(str.isascii, words))
    return few or english + 1 >= MIN_GRAMMAR * len(words)


@functools.cache
def _word_rows() -> dict[str, tuple[int, ...]]:
    """Map each word to the rows of :data:`FUNCTION_WORDS` that contain it."""
    rows = [frozenset(one.split()) for one in FUNCTION_WORDS]
    return {word: tuple(row for row, one in enumerate(rows) if word in one) for word in frozenset().union(*rows)}


@functools.cache
def _letters(languages: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile patterns of a letter, and of letters in scripts that none of the languages uses."""
    by_code = {one: [script for script, codes in SCRIPT_LANGUAGES.items() if one in codes.split()] for one in languages}
    scripts = {script for used in by_code.values() for script in used or ["Latin"]}
    own_ranges = "".join(SCRIPTS[script] for script in scripts)
    return re.compile(rf"[^\W\d_{SHARED}]"), re.compile(rf"[^\W\d_{SHARED}{own_ranges}]+")


def _phrase_repetitions(batch: TokenBatch, ordinary: np.ndarray) -> np.ndarray:
    """Return which texts repeat one phrase; only texts in which half of the tokens are repeats are checked."""
    ids = batch.input_ids if batch.unknown is None else batch.input_ids.where(batch.unknown == 0, -batch.unknown)
    keys = np.sort(np.where(ordinary, ids.numpy(), -1 - np.arange(ids.shape[1])), axis=1)
    lengths, repeats = ordinary.sum(axis=1), np.count_nonzero(keys[:, 1:] == keys[:, :-1], axis=1)
    flagged = (lengths >= MIN_UNITS) & (2 * repeats >= lengths)
    flagged[flagged] = [repeats_phrase(batch.texts[row]) for row in np.flatnonzero(flagged)]
    return flagged


def repeats_phrase(text: str) -> bool:
    """Return whether half of the words (letters in short texts) equal those one phrase earlier.

    Example:
        >>> repeats_phrase("I do not know. " * 4), repeats_phrase("Thank you!!!!!!!!!!!!")
        (True, False)
    """
    words = re.findall(r"[^\W_]+", text.lower())
    units = words if len(words) >= MIN_UNITS else "".join(words)
    return len(units) >= MIN_UNITS and any(
        max(2 * (MIN_TIMES - 1) * phrase, len(units)) <= 2 * sum(map(operator.eq, units[phrase:], units))
        for phrase in range(1, min(LONGEST_PHRASE, len(units) // MIN_TIMES) + 1)
    )


def copied_sources(hypotheses: Sequence[str], sources: Sequence[str | None]) -> np.ndarray:
    """Return which hypotheses equal their source except for white space and Unicode normalisation, bool ``[n]``."""

    def words(text: str) -> list[str]:
        return unicodedata.normalize("NFC", text).split()

    pairs = zip(hypotheses, sources, strict=True)
    return np.array([source is not None and words(text) == words(source) for text, source in pairs], dtype=bool)


def side_flags(
    hypotheses: Sequence[str], compared: Sequence[SourcedReferences], languages: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Return flags of hypotheses compared with their references and sources, bool ``[n]``.

    ``copied``: the hypothesis equals its source except for white space. ``untranslated``: it is in the language of its
    source, since function words indicate the same language or nearly all letter bigrams are shared. ``off target``: its
    language or script differs from those of all its references. Metrics for English set ``language`` instead.

    Example:
        >>> source, references = "Ich bin in der Halle.", ("I am in the hall.",)
        >>> given = ["I am in the hall.", "Ich bin in der Diele.", "Sono nella sala.", "Я в зале."]
        >>> found = side_flags(given, [SourcedReferences(references, source)] * 4)
        >>> {name: marked.tolist() for name, marked in found.items() if marked.any()}
        {'untranslated': [False, True, False, False], 'off target': [False, False, True, True]}
    """
    sources, clues = [one.source for one in compared], functools.cache(_clues)
    copied = copied_sources(hypotheses, sources)
    same_language = [
        source is not None
        and (None is not clues(text).grammar == clues(source).grammar or _nearly_copied(text, source))
        for text, source in zip(hypotheses, sources, strict=True)
    ]
    off = [
        tuple(languages) != ("en",) and len(refs) > 0 and all(_differ(clues(text), clues(one)) for one in refs)
        for text, refs in zip(hypotheses, compared, strict=True)
    ]
    flags = {"untranslated": np.array(same_language, dtype=bool) & ~copied}
    return {"copied": copied, **flags, "off target": np.array(off, dtype=bool) & ~copied & ~flags["untranslated"]}


class Clues(NamedTuple):
    """Evidence of a text's language.

    Attributes:
        grammar: Row of :data:`FUNCTION_WORDS` with most of its words, -1 for English; ``None`` if they are few.
        scripts: Number of letters by script.
    """

    grammar: int | None
    scripts: Counter[str]


def _clues(text: str) -> Clues:
    words = re.findall(r"[^\W\d_]+", text[:READ_CHARACTERS].lower())
    counts = Counter(row for word in set(words) for row in (*_word_rows().get(word, ()), *[-1] * (word in ENGLISH)))
    (row, most), (_, second) = [*counts.most_common(2), (0, 0), (0, 0)][:2]
    grammar = row if most >= max(second + 2, MIN_GRAMMAR * len(words)) else None
    return Clues(grammar, Counter(filter(None, map(_script, text[:READ_CHARACTERS]))))


@functools.cache
def _script(character: str) -> str:
    return next((script for script, ranges in SCRIPTS.items() if re.match(f"[{ranges}]", character)), "")


def _differ(one: Clues, other: Clues) -> bool:
    """Return whether two texts differ in language by their function words, or in script by their letters."""
    if None is not one.grammar != other.grammar is not None:
        return True
    first, second = (max(scripts, key=scripts.__getitem__, default="") for scripts in (one.scripts, other.scripts))
    sides = ((one.scripts, second), (other.scripts, first))
    return all(main and scripts[main] <= MAX_SHARE * scripts.total() for scripts, main in sides)


def _nearly_copied(one: str, other: str) -> bool:
    """Return whether two texts share nearly all letter bigrams, like a copy with a changed word; not if too short."""
    first, second = (Counter(itertools.pairwise(re.sub(r"[\W\d_]", "", text.lower()))) for text in (one, other))
    most = max(first.total(), second.total())
    return most > COPY_MIN and (first & second).total() >= COPY_SHARE * most


def fell_back(metric: Any, compared: Sequence[SourcedReferences]) -> np.ndarray:
    """Return which segments lack a reference or source that the metric reads, so the other replaces it, bool ``[n]``.

    If the metric reads both, one that no segment has does not count as missing.
    """
    mode = getattr(metric, "mode", "reference")
    lacking = np.array([(not one, one.source is None) for one in compared], dtype=bool).reshape(-1, 2)
    lacking &= (mode != "source", mode != "reference")
    return np.any(lacking & ~lacking.all(axis=0) if mode == "both" else lacking, axis=1)


def same_outputs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """Return which hypotheses are repeated for many different references, bool ``[n]``; empty ones are not flagged.

    Sentence pair datasets such as STS also repeat sentences, but none in a twentieth of their pairs or in 50.

    Example:
        >>> same_outputs(["yes"] * 5 + ["no"], [[name] for name in "abcdef"]).tolist()
        [True, True, True, True, True, False]
    """
    flagged = np.zeros(len(hypotheses), dtype=bool)
    if len(hypotheses) - len(set(hypotheses)) >= MIN_SAME - 1:
        pairs = set(zip(hypotheses, map(tuple, references), strict=True))
        answers = Counter(text for text, _ in pairs if text.strip())
        many = {text for text, count in answers.items() if count >= max(MIN_SAME, min(len(hypotheses) / 20, MAX_SAME))}
        flagged[:] = [text in many for text in hypotheses]
    return flagged


def is_word_boundary(character: str) -> bool:
    """Return whether a character is a word boundary in BERT's splitting: white space, punctuation, or Chinese.

    The empty string, the end of an empty piece, also counts as a boundary.
    """
    return (
        not character
        or character.isspace()
        or character in string.punctuation
        or unicodedata.category(character).startswith("P")
        or unicodedata.name(character, "").startswith("CJK")
    )
