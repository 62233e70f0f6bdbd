"""Judgement sets in JSON documents: TAC-2008, TAC-2009 and the COCO captions of 2015."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from textmover.readers.csv_and_jsonl import named
from textmover.readers.judgements.rows import JudgedText, assembled, check_unique, number, read_cells
from textmover.readers.lines import empty, open_bytes
from textmover.readers.segments import FINITE, TableRow, as_number
from textmover.safe_reading import check_size, load_json, unreadable
from textmover.types import InputError, Judgements
from textmover.types.argument_checks import most_of

Kind = TypeVar("Kind")

KINDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


def read_document(path: str | Path) -> Any:
    """Return the value of a JSON file."""
    try:
        with open_bytes(path) as stream:
            raw = stream.read(most_of("json_bytes") + 1)
    except (OSError, EOFError) as error:
        raise unreadable(str(path), error) from error
    check_size(raw, str(path), "json_bytes")
    if not raw.strip():
        raise empty(str(path))
    return load_json(raw, str(path))


def part(holder: object, key: str | None, kind: type[Kind], place: str) -> Kind:
    """Return a value of a JSON document, or the whole document; raise an error if it is of another type."""
    value = holder if key is None else part(holder, None, dict, place).get(key)
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    where = place if key is None else f"`{key}` of {place}"
    shown = "nothing" if value is None else type(value).__name__
    raise InputError(
        f"Expected {where} to be {KINDS[kind]}, but got {shown}: see docs/judgement-sets.md for the shape."
    )


RATINGS = {"pyramid": "pyr_score", "responsiveness": "responsiveness"}  # key of each dimension


def read_tac(path: str | Path, *, minimum_sentences: int = 2, name: str | None = None) -> Judgements:
    """Read the summaries of TAC-2008 or TAC-2009 in the JSON format of the MoverScore authors.

    The file is a JSON object of topics. A topic has ``references``, each with its sentences as ``text``, and
    ``annotations``, one for each system summary, with its sentences as ``text``, ``pyr_score``, ``responsiveness`` and
    the system number ``summ_id``. Sentences are joined by spaces.

    Args:
        path: File such as ``tac.08.mds.gen.resp-pyr``.
        minimum_sentences: Shorter summaries are excluded and counted; the MoverScore script uses 2.
        name: Name of the set in reports; default: the file name.

    Returns:
        One row per summary, grouped by topic, since agreement is computed per topic and averaged.

    Raises:
        InputError: If the file has another structure, a topic has no references, or no summary remains.

    Example:
        >>> path = getfixture("tmp_path") / "tac.json"
        >>> summary = '{"text": ["A cat.", "It sat."], "pyr_score": 0.5, "responsiveness": 3, "summ_id": "7"}'
        >>> topics = '{"D1": {"references": [{"text": ["The cat sat."]}], "annotations": [%s]}}' % summary
        >>> _ = path.write_text(topics)
        >>> judgements = read_tac(path)
        >>> judgements.hypotheses, judgements.systems
        (('A cat. It sat.',), ('7',))

    Reference: Zhao et al. 2019, MoverScore, section 4.2 and tables 2 and 8; the authors' repository has the file.
    """
    topics = part(read_document(path), None, dict, str(path))
    texts: list[JudgedText] = []
    short = 0
    for topic, content in topics.items():
        place = f"topic {topic} of {path}"
        references = tuple(
            " ".join(_sentences(entry, f"reference {place_number} of {place}"))
            for place_number, entry in enumerate(part(content, "references", list, place), start=1)
        )
        if not any(references):
            raise InputError(f"Expected a reference in {place}, but got none: add one or remove the topic.")
        for place_number, entry in enumerate(part(content, "annotations", list, place), start=1):
            where = f"annotation {place_number} of {place}"
            sentences = _sentences(entry, where)
            if len(sentences) < minimum_sentences:
                short += 1
                continue
            texts.append(
                JudgedText(
                    place=where,
                    hypothesis=" ".join(sentences),
                    references=tuple(text for text in references if text),
                    ratings=tuple(_rating(entry, key, where) for key in RATINGS.values()),
                    group=topic,
                    item=topic,
                    system=str(entry.get("summ_id", "")),
                )
            )
    if not texts:
        raise InputError(
            f"Expected {path} to hold a summary of at least {minimum_sentences} sentences, but got none among {short}: "
            "lower `minimum_sentences` or give another file."
        )
    check_unique(texts, "give them `summ_id`s of their own")
    left_out = {f"fewer than {minimum_sentences} sentences": short} if short else {}
    return assembled(name or Path(path).name, texts, list(RATINGS), left_out=left_out)


def _sentences(entry: object, place: str) -> list[str]:
    sentences = part(entry, "text", list, place)
    return [part(sentence, None, str, f"sentence {number} of {place}") for number, sentence in enumerate(sentences, 1)]


def _rating(entry: object, key: str, place: str) -> float:
    value = part(entry, None, dict, place).get(key)
    number = math.nan if isinstance(value, str) else as_number(value)
    if not math.isfinite(number):
        raise InputError(
            f"Expected `{key}` of {place} to be {FINITE}, but got {value!r}: correct it or remove the summary."
        )
    return number


RESULTS = "captions_val2014*_results.json"  # caption file of a system in its folder


def read_coco_captions(
    captions: str | Path,
    references: str | Path,
    ratings: str | Path,
    *,
    dimensions: Sequence[str] = ("M1", "M2"),
    system: str = "system",
    images: Collection[int] | None = None,
    name: str | None = None,
) -> Judgements:
    """Read captions of several systems and human ratings of each *system*.

    Every caption carries the rating of its system, so only system-level statistics are meaningful: single captions were
    not rated.

    Args:
        captions: Folder with one subfolder per system, named after it. Each holds one file
            ``captions_val2014*_results.json``: a list of objects with ``image_id`` and ``caption``.
        references: Annotation file ``captions_val2014.json``, whose ``annotations`` are a list of such objects.
        ratings: Table with a row per system: its name, and a column for each dimension.
        dimensions: Columns of the ratings, higher is better.
        system: Column of the system names, which must match the folder names.
        images: Image ids to read; ``None`` for all.
        name: Name of the set in reports.

    Returns:
        One row per caption, in one group; items are the image ids.

    Raises:
        InputError: If a file has another structure, or captions or references of an image are missing or duplicated.

    Reference: Zhao et al. 2019, MoverScore, section 4.4 and table 4.
    """
    rated = _rated(ratings, dimensions, system)
    files = _files(Path(captions))
    if missing := [label for label in rated if label not in files]:
        raise InputError(
            f"Expected a folder with {RESULTS} in {captions} for every system of {ratings}, but got none for "
            f"{named(missing)}: the folders have to be called {named(files) or 'like the systems'} there."
        )
    references_of = _references(references)
    image_set = None if images is None else set(images)
    left_out: Counter[str] = Counter()
    texts: list[JudgedText] = []
    for label, path in files.items():
        hypotheses = _captions(path)
        chosen = [image for image in hypotheses if image_set is None or image in image_set]
        if label not in rated:
            left_out["system without a human rating"] += len(hypotheses)
            continue
        left_out["image not asked for"] += len(hypotheses) - len(chosen)
        for image in chosen:
            if image not in references_of:
                raise InputError(
                    f"Expected references of image {image} of {path} in {references}, but got none: give the "
                    "annotations of the same images, or name those to read with `images`."
                )
            place = f"image {image} of {path}"
            texts.append(
                JudgedText(place, hypotheses[image], references_of[image], rated[label], item=str(image), system=label)
            )
    if not texts:
        raise InputError(f"Expected {captions} to hold a caption to read, but got none: check `images` and the files.")
    counts = {reason: count for reason, count in left_out.items() if count}
    return assembled(name or "COCO captions", texts, list(dimensions), left_out=counts)


def _rated(path: str | Path, dimensions: Sequence[str], system: str) -> dict[str, tuple[float, ...]]:
    if not dimensions:
        raise InputError("Expected `dimensions` to name columns, but got none: name one.")
    wanted = {system: "system"} | dict.fromkeys(dimensions, "dimensions")
    first: dict[str, TableRow] = {}
    for row in read_cells(path, wanted).rows:
        name = row.group(system)
        if name in first:
            raise InputError(
                f"Expected one row for system {name!r} in {path}, but got {row.unit}s {first[name].number} and "
                f"{row.number}: remove one of them."
            )
        first[name] = row
    return {
        name: tuple(number(row, column, missing=False, hint="remove the system") for column in dimensions)
        for name, row in first.items()
    }


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise InputError(f"Expected a folder of systems at {folder}, but there is none: correct the path.")
    files: dict[str, Path] = {}
    for sub in sorted(path for path in folder.iterdir() if path.is_dir()):
        paths = sorted(sub.glob(RESULTS))
        if len(paths) > 1:
            raise InputError(
                f"Expected one {RESULTS} in {sub}, but got {named([path.name for path in paths])}: remove all but one."
            )
        if paths:
            files[sub.name] = paths[0]
    return files


def _caption(entry: object, place: str) -> tuple[int, str]:
    return part(entry, "image_id", int, place), part(entry, "caption", str, place)


def _captions(path: Path) -> dict[int, str]:
    captions: dict[int, str] = {}
    for place, entry in enumerate(part(read_document(path), None, list, str(path)), start=1):
        image, text = _caption(entry, f"entry {place} of {path}")
        if image in captions:
            raise InputError(
                f"Expected one caption of image {image} in {path}, but got another in entry {place}: remove one."
            )
        captions[image] = text
    return captions


def _references(path: str | Path) -> dict[int, tuple[str, ...]]:
    """Return the human captions of each image, without empty ones."""
    captions: defaultdict[int, list[str]] = defaultdict(list)
    annotations = part(read_document(path), "annotations", list, str(path))
    for place, entry in enumerate(annotations, start=1):
        image, text = _caption(entry, f"annotation {place} of {path}")
        if text:
            captions[image].append(text)
    return {image: tuple(texts) for image, texts in captions.items()}
