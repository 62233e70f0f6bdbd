"""Flags of texts with unreliable scores: truncated, unknown tokens, other scripts or languages, repetition, copies."""

from __future__ import annotations

import functools
import itertools
import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from textmover.files import file_sha256
from textmover.lazy import new_lock
from textmover.modules.encoder.conversion_cache import build, cached
from textmover.types import InputError, SourcedReferences
from textmover.types.segments import copied_sources
from textmover.types.word_splitting import ENGLISH, SCRIPTS, ascii_words

if TYPE_CHECKING:
    from textmover.types import TokenBatch

MAX_SHARE = 0.1  # share of unknown tokens, or of letters in other scripts, above which a text is flagged

LONGEST_PHRASE, MIN_TIMES, MIN_UNITS = 64, 3, 12
"""Longest repeated phrase to detect, minimum number of repetitions, and length of the shortest such text: in words, or
in letters if it has fewer words."""

MIN_TOKENS = 7
"""Number of tokens from which a text is checked for repetition."""

LIKELY, POSSIBLE, UNLIKELY, READ_CHARACTERS = 0.5, 0.02, 0.002, 200
"""Probability from which a text is in a language, up to which it is not, and below which it counts as 0; number of
characters read."""

ROMANISED = 0.7
"""The first of these for Latin letters beside a target language in other letters, which may be romanised."""

MIN_ALONE, MIN_GRAMMAR = 0.1, 0.25
"""Share of :data:`ENGLISH_ALONE`, or of all English function words with one of these, that only English has."""

ENGLISH_ALONE = ENGLISH - frozenset(
    """
    a am an as at be but by d do for had has he her him his i if in is it ll m me mine more most my no of off on once
    or over own per re s she so some such t than then to too up us ve very was we were who will
    """.split()  # noqa: SIM905 - easier to read and extend as text
)
"""English function words that are no words of other languages in Latin letters."""

LINK = re.compile(r"(?<!\S)\S*(?:://|www\.|@)\S*")
"""Addresses of web pages and of people, which are of no language."""

SAME_LANGUAGE = {"bs": "hr", "sr": "hr", "nb": "no", "nn": "no", "ms": "id"}
"""Languages too close to tell apart in short texts."""

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
    "Cyrillic": "ba be bg kk ky mk mn ru sr tg tt uk",
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

SHARED = r"ªºµ²³¹¼-¾ʰ-˿\u2070-\u209c\u2100-\u218b\u2460-\u24ff\u2776-\u2793\U0001d400-\U0001d7ff"
"""Letters and numbers that occur in texts of any script."""

_OTHERS = "[ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο\u0400-\u04ff]"
_MIXED = f"[A-Za-z]{_OTHERS}|{_OTHERS}[A-Za-z]"
LOOK_ALIKES = {
    True: re.compile(f"[\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]|{_MIXED}"),
    False: re.compile(f"{_MIXED}|[A-Za-z\u0400-\u04ff][\u00ad\u200c\u200d\u2060\u0335-\u0338]|[\u0400-\u04ff]\u0301"),
}
"""Signs that only look like plain text, for metrics of English and for others. Both: Greek and Cyrillic letters next to
Latin ones in a word. English: ligatures, full-width and mathematical letters. Others, whose tokenizers plainly read
these, but split words at invisible signs: soft hyphens, joiners, strokes, marks of stress."""


_LOADING = new_lock()

IDENTIFIER_LAYOUT = "languages-2"
IDENTIFIER_PARTS = ("nb_ptc", "nb_pc", "nb_classes", "tk_nextmove", "tk_output", "tk_row")
"""Folder of the cache, and attributes of the language identifier that its files hold."""


def text_flags(batch: TokenBatch, languages: Sequence[str]) -> dict[str, np.ndarray]:
    """Return flags by name, bool ``[B]``, of a batch on the CPU; no ``languages`` of the metric means all."""
    none = np.zeros(len(batch), dtype=bool)
    ordinary = batch.ordinary
    known = ordinary if batch.unknown is None else ordinary & (batch.unknown == 0)
    missing = np.array([len(words) for words in batch.unknown_words or ()])
    script = [not one.isascii() and other_script(one, languages) != "" for one in batch.texts]
    english = tuple(languages) == ("en",)
    not_english = [
        english and not flagged and is_foreign(text[:READ_CHARACTERS], "en")
        for text, flagged in zip(batch.texts, script, strict=True)
    ]
    look_alikes = [not one.isascii() and LOOK_ALIKES[english].search(one) is not None for one in batch.texts]
    ids = batch.input_ids if batch.unknown is None else batch.input_ids.where(batch.unknown == 0, -batch.unknown)
    loops = _mostly_repeats(ids.numpy(), ordinary.numpy())
    return {
        "truncated": np.array(batch.truncated, dtype=bool),
        "unknown": none if batch.unknown_words is None else missing > MAX_SHARE * (missing + known.sum(dim=1).numpy()),
        "script": np.array(script, dtype=bool),
        "language": np.array(not_english, dtype=bool),
        "look-alikes": np.array(look_alikes, dtype=bool),
        "repetition": np.array(
            [found and repeats_phrase(text) for text, found in zip(batch.texts, loops, strict=True)]
        ),
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
    return _script(commonest) or unicodedata.name(commonest, "unknown").split()[0].title()


def is_english(texts: Sequence[str]) -> bool:
    """Return whether nine tenths of texts may be English: others are surely in another language.

    Example:
        >>> is_english(["The train arrives at eight."]), is_english(["Der Zug kommt um acht Uhr an."])
        (True, False)
    """
    return sum(is_foreign(text[:READ_CHARACTERS], "en") for text in texts) <= MAX_SHARE * len(texts)


def check_language(language: str | None) -> None:
    """Raise an error unless the identifier of languages knows a code."""
    if language is not None and language not in (known := {*_identifier().labels, *SAME_LANGUAGE}):
        codes = ", ".join(sorted(known))
        raise InputError(f"Expected `target_language` to be one of {codes}, but got {language!r}.")


def is_foreign(text: str, language: str) -> bool:
    """Return whether a text is surely in another language: names, numbers and short texts may be in any.

    Example:
        >>> is_foreign("Der Zug kommt um acht Uhr an.", "en"), is_foreign("Der Zug kommt um acht Uhr an.", "de")
        (True, False)
    """
    latin = text.isascii() or not other_script(text, ("en",))
    if language == "en" and latin and _is_english(text[:READ_CHARACTERS]):
        return False  # far quicker than the identifier
    text = LINK.sub(" ", text)
    starts = [*range(0, len(text) - READ_CHARACTERS, READ_CHARACTERS), max(0, len(text) - READ_CHARACTERS)]
    return all(_is_outside(text[start : start + READ_CHARACTERS], language) for start in starts)


def _is_outside(text: str, language: str) -> bool:
    """Return whether a text, and its rest without names, is in another language, or whether it is in other letters."""
    found, code = _clues(text), SAME_LANGUAGE.get(language, language)
    if found.odds[code] > POSSIBLE:
        return False
    scripts = [script for script, codes in SCRIPT_LANGUAGES.items() if language in codes.split()]
    letters = found.scripts.total()
    if letters and sum(map(found.scripts.__getitem__, ["Latin", *scripts])) <= MAX_SHARE * letters:
        return True  # names in Latin letters are no sign of another language
    least = ROMANISED if scripts and 2 * found.scripts["Latin"] > letters else LIKELY
    if max(found.odds.values()) < least or (language == "en" and _is_english(text)):
        return False
    unnamed = text if text.isupper() else re.sub(r"[^\W\d_]+", _without_capitals, text)
    rest = _clues(unnamed).odds
    return rest[code] <= MAX_SHARE * max(rest.values())


def _without_capitals(word: re.Match[str]) -> str:
    """Return a word if it has no capital; of a name only letters without case, such as Chinese ones beside it."""
    return "".join(sign for sign in word[0] if sign.lower() == sign.upper()) if word[0][0].isupper() else word[0]


def _is_english(text: str) -> bool:
    """Return whether a text has many function words of English."""
    words = ascii_words(text) if text.isascii() else re.findall(r"[^\W\d_]+", text.lower())
    alone = sum(map(ENGLISH_ALONE.__contains__, words))
    return bool(alone) and (
        alone >= MIN_ALONE * len(words) or sum(map(ENGLISH.__contains__, words)) >= MIN_GRAMMAR * len(words)
    )


def _identifier() -> Any:
    with _LOADING:  # one thread loads it, others wait
        return _loaded_identifier()


@functools.cache
def _loaded_identifier() -> Any:
    """Return the identifier of ``py3langid`` for codes of two letters, mapped from an unpacked copy in the cache."""
    from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

    packed = Path(MODEL_DIR, MODEL_FILE)

    def unpack(folder: Path) -> None:  # takes half a second
        identifier = LanguageIdentifier.from_model_file(packed, norm_probs=True)
        identifier.set_languages([code for code in identifier.labels if len(code) == 2])
        for name in IDENTIFIER_PARTS:
            np.save(folder / f"{name}.npy", np.ascontiguousarray(getattr(identifier, name)))  # by rows, a page each

    sha256 = file_sha256(packed)
    folder = cached(IDENTIFIER_LAYOUT, sha256) or build(IDENTIFIER_LAYOUT, sha256, packed, unpack)
    read = (np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray) for name in IDENTIFIER_PARTS)
    vectors, prior, classes, *automaton = read
    states, outputs, rows = (memoryview(one) for one in automaton)
    return LanguageIdentifier(vectors, prior, classes.tolist(), states, outputs, norm_probs=True, tk_row=rows)


@functools.cache
def _letters(languages: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile patterns of a letter, and of letters in scripts that none of the languages uses."""
    by_code = {one: [script for script, codes in SCRIPT_LANGUAGES.items() if one in codes.split()] for one in languages}
    scripts = {script for used in by_code.values() for script in used or ["Latin"]}
    own_ranges = "".join(SCRIPTS[script] for script in scripts)
    return re.compile(rf"[^\W\d_{SHARED}]"), re.compile(rf"[^\W\d_{SHARED}{own_ranges}]+")


def _mostly_repeats(ids: np.ndarray, ordinary: np.ndarray) -> np.ndarray:
    """Return in which texts half of the tokens occur twice: only these can repeat a phrase."""
    keys = np.sort(np.where(ordinary, ids, -1 - np.arange(ids.shape[1])), axis=1)
    lengths, repeats = ordinary.sum(axis=1), np.count_nonzero(keys[:, 1:] == keys[:, :-1], axis=1)
    return (lengths >= MIN_TOKENS) & (2 * repeats >= lengths)


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


def side_flags(
    hypotheses: Sequence[str], compared: Sequence[SourcedReferences], metric: Any = None
) -> dict[str, np.ndarray]:
    """Return flags of hypotheses compared with their references and sources, bool ``[n]``.

    ``copied``: the hypothesis looks like its source, spaces apart. ``untranslated``: it is in the language of its
    source, by an identifier of languages or since nearly all letter bigrams are shared. ``off target``: its
    language or script differs from those of all its references (metrics for English set ``language`` instead).

    Example:
        >>> source, references = "Ich bin in der Halle.", ("I am in the hall.",)
        >>> given = ["I am in the hall.", "Ich bin in der Diele.", "Sono nella sala.", "Я в зале."]
        >>> found = side_flags(given, [SourcedReferences(references, source)] * 4)
        >>> {name: marked.tolist() for name, marked in found.items() if marked.any()}
        {'untranslated': [False, True, False, False], 'off target': [False, False, True, True]}
    """
    sources, clues = [one.source for one in compared], functools.cache(_clues)
    english = tuple(getattr(metric, "languages", ())) == ("en",)
    copied = copied_sources(hypotheses, sources)
    same_language = [
        source is not None
        and (None is not clues(text).language == clues(source).language or _nearly_copied(text, source))
        for text, source in zip(hypotheses, sources, strict=True)
    ]
    off = [
        not english and len(refs) > 0 and all(_differ(clues(text), clues(one)) for one in refs)
        for text, refs in zip(hypotheses, compared, strict=True)
    ]
    same, other = np.array(same_language, dtype=bool), np.array(off, dtype=bool)
    return {"copied": copied, "untranslated": same & ~copied, "off target": other & ~(copied | same)}


class Clues(NamedTuple):
    """Evidence of a text's language."""

    language: str | None  # its code; ``None`` if uncertain
    odds: Counter[str]  # probability by language; that of unlikely ones is 0
    scripts: Counter[str]  # number of letters by script


def _clues(text: str) -> Clues:
    odds, scripts = Counter[str](), Counter[str]()
    for code, probability in _identifier().rank(text[:READ_CHARACTERS]):
        if probability < UNLIKELY:
            break
        odds[SAME_LANGUAGE.get(code, code)] += probability
    [(language, most)] = odds.most_common(1)
    for character, count in Counter(text[:READ_CHARACTERS]).items():
        scripts.update({script: count} if (script := _script(character)) else ())
    return Clues(language if most >= LIKELY else None, odds, scripts)


@functools.cache
def _script(character: str) -> str:
    return next((script for script, ranges in SCRIPTS.items() if re.match(f"[{ranges}]", character)), "")


def _differ(one: Clues, other: Clues) -> bool:
    """Return whether two texts surely differ in language, or in script by their letters."""
    if one.language and other.language and max(one.odds[other.language], other.odds[one.language]) <= POSSIBLE:
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

    If the metric reads both, one that the input does not have for any segment does not count as missing.
    """
    mode = getattr(metric, "mode", "reference")
    lacking = np.array([(not one, one.source is None) for one in compared], dtype=bool).reshape(-1, 2)
    lacking &= (mode != "source", mode != "reference")
    given = np.array([[place != "" for place in one.places] for one in compared], dtype=bool).reshape(-1, 2)
    return np.any(lacking & (given | ~lacking.all(axis=0)) if mode == "both" else lacking, axis=1)


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
