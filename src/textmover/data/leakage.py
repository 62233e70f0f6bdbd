"""Leakage checks: pairs of given files, near-duplicates and shared prompts between training and evaluation data."""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from textmover.data.split import Item, normalise_reference
from textmover.readers.segments import Columns, read_segments
from textmover.readers.tables import MemoryTable, check_split, open_tables, rows_where
from textmover.types import InputError, plural
from textmover.types.segments import ComparedText

logger = logging.getLogger(__name__)

Pair = frozenset[str]
Unread = Mapping[str, Mapping[str, str]]  # values of columns that the recipe does not read, by column and reference

WORTH_A_WARNING = 0.05  # minimum share of evaluation items with an overlap for a warning
FEW_REFERENCES = 30  # maximum average references per group value for groups of related rows, such as prompts
SEVERAL = 1.05  # maximum average group values per reference for references to belong to one group
LIKE = 0.8  # word overlap (Jaccard) of near-duplicates
LOOKED_AT, COMPARED = 2000, 200  # maximum number of evaluation texts, and of training texts compared with each
LONG_WORD = 12  # average word length beyond which a language has no spaces, so that character pairs are compared

APART = {
    False: "hold back by a column that keeps them together (`held_back_by`), or split the file and name its parts as "
    "`train` and `validation`",
    True: "remove them from one of the files, or leave `validation` out",
}
"""Advice about texts on both sides, by whether the user gives validation files."""

# Names of columns whose rows belong together, regardless of group sizes and the columns of the recipe.
HOLDS_TOGETHER = re.compile(
    r"(?i).*(prompt|question|query|instruction|context|document|passage|article|paragraph|dialog|conversation|thread"
    r"|topic|story).*|(doc|src|source|input|turn|chat)([_ -]?(id|text))?"
)


@dataclass(frozen=True)
class PairFile:
    """File of text pairs, such as a test set.

    Attributes:
        path: File path, or ``hub:owner/name``.
        columns: The two text columns.
        where: Rows to use, as values by column; all if empty.
        split: Split of a hub or saved data set; plain files have none.
    """

    path: str
    columns: tuple[str, str] = ("hypothesis", "reference")
    where: dict[str, list[str]] = field(default_factory=dict)
    split: str = "test"


def read_pairs(file: PairFile) -> set[Pair]:
    """Return the normalised, unordered pairs of a file."""
    first, second = file.columns
    columns = Columns(first, second, score=None, groups=tuple(file.where))
    check_split("split", file.split, [file.path], ["test"])
    segments = rows_where(read_segments(file.path, columns, split=file.split), file.where, file.path)
    return {normalised_pair(segment.hypothesis, segment.references[0]) for segment in segments}


def without_files(
    parts: Sequence[Sequence[Item]],
    files: Sequence[PairFile],
    pairs: Callable[[Item], Iterable[Pair]],
    unit: str = "segment",
) -> tuple[list[list[Item]], dict[str, str]]:
    """Remove the items that are pairs of files, in either order; also return their number as an entry of the card."""
    if not files:
        return [list(part) for part in parts], {}
    excluded = set().union(*map(read_pairs, files))
    kept = [[item for item in part if excluded.isdisjoint(pairs(item))] for part in parts]
    number = plural(sum(map(len, parts)) - sum(map(len, kept)), unit)
    names = ", ".join(file.path for file in files)
    logger.info("Excluded %s that occur in %s", number, names)
    return kept, {"without the pairs of": f"{names} ({number} left out)"}


def segment_pairs(segment: ComparedText) -> set[Pair]:
    """Return the normalised pairs of the hypothesis and each reference."""
    return {normalised_pair(segment.hypothesis, text) for text in segment.references}


def normalised_pair(*texts: str) -> Pair:
    """Return normalised texts as an unordered pair, for comparison."""
    return frozenset(map(compared_text, texts))


def compared_text(text: str) -> str:
    """Return a text without differences between copies: case, spacing, punctuation and symbols.

    Only letters, marks and numbers remain; a text without any of these is returned normalised.

    Example:
        >>> compared_text("They don't.") == compared_text("they do n't")
        True
    """
    normalised = normalise_reference(text)
    return "".join(character for character in normalised if unicodedata.category(character)[0] in "LMN") or normalised


def unread_columns(files: Iterable[tuple[str | MemoryTable, str]], columns: Columns) -> dict[str, dict[str, str]]:
    """Read columns that, by their names, group related rows but are not in the recipe."""
    by_column: dict[str, dict[str, str]] = {}
    for table in chain.from_iterable(open_tables(path, split=split) for path, split in files):
        names = [one for one in table.columns or () if HOLDS_TOGETHER.fullmatch(one) and one not in columns.names]
        for _, cells in table.rows if names else ():
            if isinstance(cells, InputError):
                continue
            reference = cells.get((*columns.reference_columns, columns.source or "")[0])
            for name, value in ((name, cells.get(name)) for name in names):
                if isinstance(reference, str) and isinstance(value, (str, int)) and value != "":
                    by_column.setdefault(name, {})[normalise_reference(reference)] = normalise_reference(str(value))
    return by_column


def shared_with_training(
    training: Sequence[ComparedText], kept: Sequence[ComparedText], unread: Unread | None = None
) -> dict[str, tuple[int, int]]:
    """Return counts of evaluation segments that share something with training segments, if worth a warning.

    Keys name what is shared; values count affected and checked segments. Only groups of prompts or documents count.
    """
    groups = _nesting_groups([*training, *kept])

    def values(segments: Sequence[ComparedText]) -> dict[str, list[str | None]]:
        texts = [normalise_reference(segment.compared.texts[0]) for segment in segments]
        return {
            "their source": [normalise_reference(segment.source) if segment.source else None for segment in segments],
            **{f"their `{name}`": [segment.groups.get(name) for segment in segments] for name in groups},
            **{f"their `{name}`": list(map(of.get, texts)) for name, of in (unread or {}).items()},
        }

    training_values, counts = values(training), {}
    for name, part_values in values(kept).items():
        training_set = set(training_values[name]) - {None}
        counts[name] = (sum(value in training_set for value in part_values), len(part_values))
    duplicates = near_duplicates([one.compared.texts[0] for one in training], [one.compared.texts[0] for one in kept])
    counts["nearly the same reference"] = (sum(duplicates), len(duplicates))
    return worth_a_warning(counts)


def worth_a_warning(counts: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return the overlaps that affect enough items: numbers of affected and of checked items by kind."""
    return {name: pair for name, pair in counts.items() if pair[0] > 0 and pair[0] >= WORTH_A_WARNING * pair[1]}


def warn_of_shared(
    part: str, overlaps: Mapping[str, tuple[int, int]], *, given: bool = False, judged: str = "Agreement"
) -> dict[str, str]:
    """Warn of overlaps of a part, from validation files if ``given``, with training; return an entry of the card."""
    shared = "; ".join(f"{count} of {total} share {name}" for name, (count, total) in overlaps.items())
    if not shared:
        return {}
    logger.warning(
        "In the %s part, %s with items to train on. %s on them looks better than on new texts: %s.",
        part, shared, judged, APART[given],
    )  # fmt: skip
    return {f"{part}, not apart": shared}


def near_duplicates(known: Sequence[str], texts: Sequence[str]) -> list[bool]:
    """Return whether each distinct text, or a sample of up to 2,000, nearly equals a known text in its words.

    Word sets with a Jaccard overlap of four fifths share one of their rarest words; these select up to 200 texts each
    (prefix filtering, Chaudhuri et al. 2006, A Primitive Operator for Similarity Joins in Data Cleaning).

    Example:
        >>> near_duplicates(["the cat sat on a mat"], ["The cat sat on a mat!", "a dog ran"])
        [True, False]
    """
    distinct = list(dict.fromkeys(texts))
    words_of_texts = [_words(text) for text in distinct[:: max(1, -(-len(distinct) // LOOKED_AT))]]
    words_of_known = [_words(text) for text in dict.fromkeys(known)]
    counts = Counter(word for words in words_of_known for word in words)
    texts_by_word: dict[str, set[int]] = {}
    rarest_words = [_rarest(words, counts) for words in words_of_texts]
    for place, some in enumerate(rarest_words):
        for word in some:
            texts_by_word.setdefault(word, set()).add(place)
    flags, comparisons_left = [False] * len(words_of_texts), [COMPARED] * len(words_of_texts)
    for words in words_of_known:
        for place in {place for word in words & texts_by_word.keys() for place in texts_by_word[word]}:
            common = len(words & words_of_texts[place])
            flags[place] = common >= LIKE * (len(words) + len(words_of_texts[place]) - common)
            comparisons_left[place] -= 1
            for word in rarest_words[place] if flags[place] or not comparisons_left[place] else ():
                texts_by_word[word].discard(place)
    return flags


def _rarest(words: frozenset[str], counts: Mapping[str, int]) -> list[str]:
    ordered = sorted(words, key=lambda word: (counts[word], word))
    return ordered[: len(words) - math.ceil(LIKE * len(words)) + 1]


def _words(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", normalise_reference(text))
    if sum(map(len, words)) > LONG_WORD * len(words):
        joined = "".join(words)
        return frozenset(joined[at : at + 2] for at in range(len(joined) - 1))
    return frozenset(words)


def _nesting_groups(segments: Sequence[ComparedText]) -> list[str]:
    """Return groups whose values each cover a few references, or whose names suggest prompts or documents."""
    names = []
    for name in segments[0].groups:
        pairs = {(segment.groups.get(name), segment.compared.texts[0]) for segment in segments}
        references, values = len({reference for _, reference in pairs}), len({value for value, _ in pairs})
        nested = len(pairs) <= SEVERAL * references and values < references <= FEW_REFERENCES * values
        if nested or HOLDS_TOGETHER.fullmatch(name):
            names.append(name)
    return names
