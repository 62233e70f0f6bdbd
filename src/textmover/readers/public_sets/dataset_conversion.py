"""Conversion of published files to the rows of recipe tables, by layout.

A pattern names a file as ``PATH`` or ``ARCHIVE!MEMBER``, with ``{variables}``. The column options of a part map a new
name to a published column, to ``=TEXT`` (a constant) or to ``=#`` (the line number).
"""

from __future__ import annotations

import csv
import io
import pickle
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from textmover.readers.public_sets.catalogue import Part
from textmover.safe_reading import load_json
from textmover.types import InputError

Row = dict[str, Any]

Published = Callable[[str], Path]  # local path of a published file


class LayoutError(InputError):
    """Published files whose structure differs from the table of sets."""


def paths_of(part: Part, layout: str) -> list[str]:
    """Return the published files to download for a part, without archive members."""
    needed = _texts(part.options) if layout == "side-by-side" else part.options.get("files", [part.source])
    paths = [pattern.partition("!")[0].format_map(values) for values in part.each for pattern in needed]
    return list(dict.fromkeys(paths))


def _texts(options: Mapping[str, Any]) -> list[str]:
    columns = (value if isinstance(value, list) else [value] for value in options["columns"].values())
    return [name for names in columns for name in names if not name.startswith("=")]


def _open(published: Published, name: str) -> IO[bytes]:
    path, _, member = name.partition("!")
    archive = published(path)
    if not member:
        return archive.open("rb")
    try:
        if zipfile.is_zipfile(archive):
            return zipfile.ZipFile(archive).open(member)
        found = tarfile.open(archive).extractfile(member)  # noqa: SIM115  closed with its last member
    except KeyError:
        found = None
    except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        raise LayoutError(f"Expected {path} to be a zip or tar archive, but it is none") from error
    if found is None:
        raise LayoutError(f"Expected {path} to hold {member}, but it does not")
    return found


def _lines(published: Published, name: str) -> list[str]:
    with _open(published, name) as stream:
        try:
            text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise LayoutError(
                f"Expected {name} to be UTF-8, but got the byte 0x{error.object[error.start]:02x}"
            ) from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _records(published: Published, name: str, options: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the records of a table as dicts. ``names`` gives the columns of a table without header."""
    form: str = options.get("format", "tsv")
    with _open(published, name) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        if form == "jsonl":
            yield from (load_json(line, name) for line in stream)
            return
        style: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if form == "tsv" else {}
        reader = csv.reader(stream, **style)
        header = options.get("names") or next(reader, [])
        for number, cells in enumerate(reader, start=1):
            if len(cells) < len(header):
                if options.get("ragged"):
                    continue
                raise LayoutError(f"Expected {len(header)} columns in {name}, but record {number} has {len(cells)}")
            yield dict(zip(header, cells, strict=False))


def _table(published: Published, part: Part) -> Iterator[Row]:
    """Tables with renamed columns: rows that match ``where``, without rows that have values of ``skip``."""
    options = part.options
    where, skip = options.get("where", {}), options.get("skip", {})
    for values in part.each:
        name = part.source.format_map(values)
        columns = {key: column.format_map(values) for key, column in options["columns"].items()}
        for record in _records(published, name, options):
            lacking = {column for column in (*columns.values(), *where) if not column.startswith("=")} - {*record}
            if lacking:
                raise LayoutError(f"Expected {name} to have a column {min(lacking)}, but it has {', '.join(record)}")
            if any(not re.fullmatch(pattern.format_map(values), record[key]) for key, pattern in where.items()):
                continue
            if any(record[columns[key]] in unwanted for key, unwanted in skip.items()):
                continue
            yield {key: column[1:] if column.startswith("=") else record[column] for key, column in columns.items()}


def _side_by_side(published: Published, part: Part) -> Iterator[Row]:
    """Parallel plain text files; a list of files gives a list in each row."""
    for values in part.each:
        files = [pattern.format_map(values) for pattern in _texts(part.options)]
        lines_by_name = {name: _lines(published, name) for name in files}
        if len(counts := {len(lines) for lines in lines_by_name.values()}) > 1:
            counted = ", ".join(f"{len(lines)} in {name}" for name, lines in lines_by_name.items())
            raise LayoutError(f"Expected the same number of lines in each file, but got {counted}")
        for place in range(counts.pop()):
            row: Row = {}
            for key, value in part.options["columns"].items():
                if isinstance(value, list):
                    row[key] = [lines_by_name[pattern.format_map(values)][place].strip() for pattern in value]
                elif value.startswith("="):
                    row[key] = place + 1 if value == "=#" else value[1:].format_map(values)
                else:
                    row[key] = lines_by_name[value.format_map(values)][place].strip()
            if all(row[key] for key in part.options.get("required", ())):
                yield row


def _plain(published: Published, part: Part) -> Iterator[Row]:
    """Text lines, or the first group of a regular expression in each line."""
    pattern = re.compile(part.options.get("match", "(.*)"))
    for values in part.each:
        for line in _lines(published, part.source.format_map(values)):
            if (match := pattern.fullmatch(line)) is not None:
                yield {"text": match[1]}


def _quality_estimation(published: Published, part: Part) -> Iterator[Row]:
    """MLQE-PE: a table of ratings, and tokenised post-edits in another archive."""
    ratings, edits = part.options["files"]
    for values in part.each:
        pair, name = values["lp"].replace("-", ""), values["part"]
        table = f"{ratings.format_map(values)}!{values['lp']}-{name}/{name}.{pair}.df.short.tsv"
        member = f"{edits.format_map(values)}!{values['lp']}-{name}/{name}"
        rated = list(_records(published, table, {}))
        columns = [_lines(published, f"{member}.{kind}") for kind in ("mt", "pe", "hter", "tags")]
        if {len(lines) for lines in columns} != {len(rated)}:
            raise LayoutError(f"Expected {len(rated)} lines in each file of {member}, but got {[*map(len, columns)]}")
        for record, hypothesis, reference, hter, tags in zip(rated, *columns, strict=True):
            try:
                row = {
                    "part": name,
                    "lp": values["lp"],
                    "source": record["original"],
                    "hypothesis": record["translation"],
                    "reference": detokenised(reference, values["lp"].partition("-")[2]),
                    "z_mean": record["z_mean"],
                    "da_mean": record["mean"],
                }
            except KeyError as error:
                raise LayoutError(
                    f"Expected {table} to have the column {error}, but it has {', '.join(record)}"
                ) from error
            tokens = {"hypothesis_tokens": hypothesis, "reference_tokens": reference, "tags": tags}
            yield row | {key: text.strip() for key, text in {"hter": hter, **tokens}.items()}


CLOSING = re.compile(r"[,.?!:;\\%}\])…]+|\.\.\.")
OPENING = re.compile(r"[\[({¿¡“\$£€₽]+")


def detokenised(text: str, language: str = "en") -> str:
    """Join the Moses tokens of an English, German or Chinese sentence.

    Example:
        >>> detokenised("' Yes , ' said the man 's friend ( 40 % ) .")
        "'Yes,' said the man's friend (40%)."
    """
    if language == "zh":
        return text.replace(" ", "").strip()
    if language == "de":
        text = text.replace("„ ", "„").replace(" “", "“")
    joined, space, opened, last = "", "", {'"': False, "'": False}, ""
    for token in text.split():
        glued = bool(CLOSING.fullmatch(token) or (last and re.match(r"'\w", token)))
        if token in opened:
            glued = opened[token] or (token == "'" and last.endswith("s"))
            opened[token] = not glued
        joined += token if glued else space + token
        opens = OPENING.fullmatch(token) or opened.get(token, False)
        space, last = "" if opens else " ", token
    return joined


def _systems_of_2017(published: Published, part: Part) -> Iterator[Row]:
    """WMT17: ratings refer to systems and line numbers; ``A+B`` denotes systems with identical output."""
    ratings, *texts = part.options["files"]
    renamed: Mapping[str, str] = part.options.get("renamed", {})
    rated: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
    for line in _lines(published, ratings)[1:]:
        match = re.fullmatch(r"(\S+) \S+ (\S+) (\d+) (\S+)", line.strip())
        if match is None:
            raise LayoutError(f"Expected {ratings} to have the columns LP DATA SYSTEM SID HUMAN, but got {line[:60]!r}")
        first = match[2].split("+")[0]
        rated.setdefault((match[1], renamed.get(first, first)), []).append((match[2], int(match[3]), match[4]))
    for values in part.each:
        names = [text.format_map(values) for text in texts]
        source, reference, hypothesis = (_lines(published, name) for name in names)
        for systems, number, score in rated.get((values["lp"], values["system"]), []):
            if not 0 < number <= min(map(len, (source, reference, hypothesis))):
                raise LayoutError(f"Expected {' and '.join(names)} to have a line {number}, but they are shorter")
            cells = [lines[number - 1].strip() for lines in (source, reference, hypothesis)]
            about = {"year": "2017", "lp": values["lp"], "system": systems, "seg_id": number}
            yield {**about, **dict(zip(("source", "reference", "hypothesis"), cells, strict=True)), "score": score}


class _PlainPickle(pickle.Unpickler):
    """Unpickler of numbers, texts, lists and dicts only; other classes could run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise LayoutError(f"Expected plain values in a pickle, but got {module}.{name}")


ASPECTS = ("informativeness", "naturalness", "quality")


def _data_to_text(published: Published, part: Part) -> Iterator[Row]:
    """BAGEL, SFHOTEL and SFREST: texts in one pickle each, and a table with the systems in the same order."""
    texts, systems = part.options["files"]
    records_by_dataset: dict[str, list[dict[str, str]]] = {}
    for record in _records(published, systems, {"format": "csv"}):
        records_by_dataset.setdefault(record.get("dataset", ""), []).append(record)
    for values in part.each:
        path, records = texts.format_map(values), records_by_dataset.get(values["dataset"], [])
        with _open(published, path) as stream:
            try:
                items = list(_PlainPickle(stream).load().values())
                rows = [
                    {"mr": one["src"], "hypothesis": one["sys_summ"], "references": one["ref_summs"]} for one in items
                ]
                rated = [[float(item["scores"][key]) for key in ASPECTS] for item in items]
                expected = [[float(record[key]) for key in ASPECTS] for record in records]
            except (pickle.UnpicklingError, EOFError, AttributeError, KeyError, TypeError, ValueError) as error:
                raise LayoutError(
                    f"Expected {path} and {systems} to hold texts and ratings, but got: {error!r}"
                ) from error
        if rated != expected:
            raise LayoutError(
                f"Expected {path} and {systems} to hold the same ratings in the same order, but they differ"
            )
        for number, (row, record, scores) in enumerate(zip(rows, records, rated, strict=True)):
            row["references"] = list(dict.fromkeys(row["references"]))
            about = {"dataset": values["dataset"], "id": str(number), "system": record["system"]}
            yield {**about, **row, **dict(zip(ASPECTS, scores, strict=True))}


READERS: Mapping[str, Callable[[Published, Part], Iterator[Row]]] = {
    "table": _table,
    "side-by-side": _side_by_side,
    "lines": _plain,
    "mlqe-pe": _quality_estimation,
    "wmt17": _systems_of_2017,
    "data-to-text": _data_to_text,
}


def converted(layout: str, published: Published, part: Part) -> Iterator[Row]:
    """Yield the rows of a part, with ``numbers`` as floats; of rows with equal ``distinct`` columns, only the first."""
    keys, seen = part.options.get("distinct", ()), set[tuple[Any, ...]]()
    try:
        for row in READERS[layout](published, part):
            row |= {key: float(row[key]) for key in part.options.get("numbers", ())}
            key = tuple(row[name] for name in keys)
            if not keys or key not in seen:
                seen.add(key)
                yield row
    except LayoutError:
        raise
    except (ValueError, KeyError, EOFError, csv.Error, zlib.error, zipfile.BadZipFile, tarfile.TarError) as error:
        raise LayoutError(f"Expected published files that can be read, but got: {error!r}") from error
