"""Preferences between translations (DARR, WMT18 and WMT19), with the folder of system outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from textmover.readers.csv_and_jsonl import named, without_blank_end
from textmover.readers.judgements.rows import JudgedText, assembled
from textmover.readers.lines import check_equal_lengths
from textmover.readers.segments import read_lines
from textmover.types import InputError, Judgements, plural

SHAPE = "LP DATA SID BETTER WORSE"  # fields of a preference line


class _Preference(NamedTuple):
    line: int
    pair: str
    test_set: str
    sentence: int
    better: str
    worse: str


def read_darr(
    preferences: str | Path,
    texts: str | Path,
    *,
    language_pairs: Collection[str] | None = None,
    name: str | None = None,
) -> Judgements:
    """Read relative rankings derived from direct assessment, as in the WMT18 and WMT19 metrics tasks.

    Args:
        preferences: File ``RR-seglevel.csv``: a header, then space-separated lines of language pair, test set, sentence
            number from 1, better and worse system.
        texts: Folder with ``system-outputs/TESTSET/PAIR/TESTSET.SYSTEM.PAIR`` (or ``system-outputs/PAIR/…``) and
            ``references/TESTSET-SRCTGT-ref.TGT``, one sentence a line. ``sources/TESTSET-SRCTGT-src.SRC`` are optional.
        language_pairs: Pairs to read, such as ``{"de-en"}``; ``None`` for all.
        name: Name of the set in reports; default: the test sets in the file.

    Returns:
        One row per translation in a preference, grouped by language pair and without ratings; items are the sentence
        numbers. Duplicate preferences count once, as in the script of the task.

    Raises:
        InputError: If a line is malformed, files differ in their number of lines, or a file is missing.

    Reference: Ma et al. 2018, 2019, Results of the WMT18/WMT19 Metrics Shared Task.
    """
    left_out: Counter[str] = Counter()
    seen_pairs: dict[str, None] = {}
    chosen: dict[tuple[object, ...], _Preference] = {}
    for row in _preferences(preferences):
        seen_pairs[row.pair] = None
        key = row[1:]  # all fields except the line
        if language_pairs is not None and row.pair not in language_pairs:
            left_out["language pair not asked for"] += 1
        elif key in chosen:
            left_out["the same preference again"] += 1
        else:
            chosen[key] = row
    if unknown := set(language_pairs or ()) - set(seen_pairs):
        raise InputError(
            f"Expected `language_pairs` to be among {named(seen_pairs)} of {preferences}, but got "
            f"{named(sorted(unknown))}: choose others."
        )
    if not chosen:
        raise InputError(f"Expected {preferences} to hold a preference, but got none: give a file with lines {SHAPE}.")
    test_sets = list(dict.fromkeys(row.test_set for row in chosen.values()))
    read, rows, indices = cache(read_lines), list[JudgedText](), list[int]()
    places: dict[tuple[str, str, int, str], int] = {}
    for row in chosen.values():
        item = f"{row.test_set} / {row.sentence}" if len(test_sets) > 1 else str(row.sentence)
        for system in (row.better, row.worse):
            text = (row.pair, row.test_set, row.sentence, system)
            if text not in places:
                places[text] = len(rows)
                rows.append(_translation(Path(texts), read, row, system, item, f"line {row.line} of {preferences}"))
            indices.append(places[text])
    pairs = np.array(indices, dtype=np.int64).reshape(-1, 2)
    return assembled(name or " ".join(test_sets), rows, (), left_out=left_out, preferences=pairs)


def _preferences(path: str | Path) -> Iterator[_Preference]:
    """Yield the preferences after the header, which lacks a column name in the WMT18 file."""
    header, *lines = read_lines(path)
    if not {"BETTER", "WORSE"} <= set(header.split()):
        raise InputError(f"Expected the header {SHAPE} in line 1 of {path}, but got {named([header])}: add it.")
    for number, line in enumerate(without_blank_end(lines, lambda line: not line.strip()), start=2):
        fields = line.split()
        if len(fields) != 5 or not (fields[2].isdecimal() and int(fields[2]) > 0):
            raise InputError(
                f"Expected {SHAPE} with a sentence number from 1 in line {number} of {path}, but got {named([line])}: "
                "correct it."
            )
        pair, test_set, sentence, better, worse = fields
        if better == worse or len(pair.split("-")) != 2:
            what = "two systems" if better == worse else "a language pair such as de-en"
            raise InputError(f"Expected {what} in line {number} of {path}, but got {named([line])}: correct it.")
        yield _Preference(number, pair, test_set, int(sentence), better, worse)


def _translation(
    folder: Path, read_file: Callable[[Path], list[str]], row: _Preference, system: str, item: str, place: str
) -> JudgedText:
    path = _output_path(folder, row, system, place)
    source, target = row.pair.split("-")
    reference_path = folder / "references" / f"{row.test_set}-{source}{target}-ref.{target}"
    source_path = folder / "sources" / f"{row.test_set}-{source}{target}-src.{source}"
    files = [path, reference_path, *([source_path] if source_path.is_file() else [])]
    lines = {str(file): read_file(file) for file in files}
    check_equal_lengths(lines)
    output = lines[str(path)]
    if row.sentence > len(output):
        raise InputError(
            f"Expected sentence {row.sentence} of {place} in {path}, but got {plural(len(output), 'line')}: give the "
            "outputs that were judged."
        )
    hypothesis, reference, *sources = (sentences[row.sentence - 1] for sentences in lines.values())
    if not reference:
        raise InputError(
            f"Expected a reference in line {row.sentence} of {reference_path}, but got an empty line: add it."
        )
    return JudgedText(
        place=place,
        hypothesis=hypothesis,
        references=(reference,),
        ratings=(),
        group=row.pair,
        item=item,
        system=system.removesuffix(f".{row.pair}"),
        source="".join(sources),
    )


def _output_path(folder: Path, row: _Preference, system: str, place: str) -> Path:
    # In WMT19, system names of zh-en include the language pair of the file name.
    names = [f"{row.test_set}.{system}.{row.pair}"] + [f"{row.test_set}.{system}"] * system.endswith(f".{row.pair}")
    root = folder / "system-outputs"
    candidates = [parent / name for parent in (root / row.test_set / row.pair, root / row.pair) for name in names]
    path = next((one for one in candidates if one.is_file()), None)
    if path is None:
        raise InputError(
            f"Expected the output of {system!r} ({place}) at {candidates[0]}, but there is none: `texts` must be "
            "the folder that holds system-outputs and references."
        )
    return path
