"""Records told in words as ratings: the same facts in other words, and other facts in much the same; their files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from textmover.data.generated.datamodule import ATTEMPTS, GeneratedDataModule, distinct_versions
from textmover.data.generated.records import SIZES, STYLES, Act, Domain, Fact, RecordBook, in_style, tell
from textmover.data.split import HELD_BACK_SHARE
from textmover.data.training_sources import Source
from textmover.perturbations.sentences import keyed_random, one_by_chance
from textmover.safe_reading import read_yaml
from textmover.types import InputError, Segment, plural

SHIPPED = Path(__file__).with_name("records.yaml")

PLACEHOLDERS = ("one", "kind", "a kind", "rest", "asked", "count")
"""Placeholders in the wordings of an act."""

HEAVIEST = 1e6
"""Greatest weight of an act."""

SEVERITIES = ("omitted", "altered", "added", "name", "count", "asked", "act", "unrelated", "most")


def load_records(path: str | Path | None = None) -> RecordBook:
    """Read a YAML file of domains like ``textmover/data/records.yaml``, which is read if ``None``.

    Where it has no ``acts`` or no ``severities``, those of that file stand.

    Example:
        >>> len(load_records().domains)
        16
    """
    raw, file = _shipped() if path is None else read_yaml(Path(path)), str(SHIPPED if path is None else path)
    if not isinstance(raw, dict) or not isinstance(raw.get("domains"), dict) or not raw["domains"]:
        raise InputError(f"Expected {file} to hold `domains`, as textmover/data/records.yaml does, but it has none.")
    _check_keys(raw, {"domains", "acts", "severities"}, file)
    domains = {
        _text(name, f"{file}, domains"): _domain(one, f"{file}, domain {name}") for name, one in raw["domains"].items()
    }
    raw = {**_shipped(), **raw}
    return RecordBook(domains, _acts(raw["acts"], file), _severities(raw["severities"], file))


@cache
def _shipped() -> Any:
    return read_yaml(SHIPPED)


def _domain(raw: Any, where: str) -> Domain:
    _check_keys(raw, {"kinds", "names", "relative", "pronoun", "facts"}, where)
    facts = raw.get("facts")
    if not isinstance(facts, dict) or len(facts) < 2:
        raise InputError(f"Expected {where}, to have at least two `facts`, but got {_shown(facts)}.")
    pronoun = raw.get("pronoun", "it")
    return Domain(
        _texts(raw, "kinds", where),
        _texts(raw, "names", where),
        {_text(name, f"{where}, facts"): _fact(name, one, f"{where}, fact {name}") for name, one in facts.items()},
        _text(raw.get("relative", "that"), f"{where}, relative"),
        None if pronoun is None else _text(pronoun, f"{where}, pronoun"),
    )


def _fact(name: str, raw: Any, where: str) -> Fact:
    _check_keys(raw, {"asked", "values", "says", "adds"}, where)
    given = raw.get("values")
    if not isinstance(given, list) or not given:
        raise InputError(f"Expected {where}, to have `values`, a list of what it can be, but got {_shown(given)}.")
    values = tuple(_texts({"values": one if isinstance(one, list) else [one]}, "values", where) for one in given)
    wordings = [wording for one in values for wording in one]
    if len(set(wordings)) < len(wordings):
        raise InputError(f"Expected {where}, to have words of its own for each of `values`, but got {_shown(given)}.")
    says = _texts(raw, "says", where)
    adds = () if raw.get("adds", []) == [] else _texts(raw, "adds", where)
    for pattern in (*says, *adds):
        if pattern.count("{}") != 1 or pattern.count("{") != 1 or pattern.count("}") != 1:
            raise InputError(f"Expected {where}, to have {{}} once in each of `says` and `adds`, but got {pattern!r}.")
    return Fact(_text(raw.get("asked", name), f"{where}, asked"), values, says, adds)


def _acts(raw: Any, file: str) -> dict[str, Act]:
    if not isinstance(raw, dict) or not raw or not set(raw) <= set(SIZES):
        raise InputError(f"Expected `acts` of {file} to be some of {', '.join(SIZES)}, but got {_shown(raw)}.")
    found = {}
    for name, one in raw.items():
        where = f"{file}, act {name}"
        _check_keys(one, {"weight", "ways"}, where)
        weight = _number(one.get("weight", 1), f"{where}, weight", HEAVIEST)
        if weight == 0:
            raise InputError(f"Expected {where}, weight, to be above 0: leave the act out.")
        ways = () if name == "state" else _texts(one, "ways", where)
        for way in ways:
            _check_way(way, name, where)
        found[name] = Act(weight, ways)
    return found


def _check_way(way: str, act: str, where: str) -> None:
    """Refuse a way of an act that does not tell what it has to, or cannot be filled."""
    try:
        parts = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(way) if name is not None]
    except ValueError as error:
        raise InputError(f"Expected {where}, to have pairs of braces, but got {way!r}: {error}.") from error
    used = {name for name, _, _ in parts}
    if used - set(PLACEHOLDERS) or any(spec or conversion for _, spec, conversion in parts):
        raise InputError(f"Expected {where}, to use {{{'}, {'.join(PLACEHOLDERS)}}} alone, but got {way!r}.")
    needed = {"ask": "asked", "count": "count"}.get(act)
    if (needed is not None and needed not in used) or (act != "ask") != bool(used & {"one", "rest"}):
        told = "{asked}, and neither {one} nor {rest}" if act == "ask" else "{one}, or {kind} and {rest}"
        raise InputError(f"Expected {where}, to have {told}{' and {count}' * (act == 'count')}, but got {way!r}.")


def _severities(raw: Any, file: str) -> dict[str, float]:
    if not isinstance(raw, dict) or set(raw) != set(SEVERITIES):
        raise InputError(f"Expected `severities` of {file} to be of {', '.join(SEVERITIES)}, but got {_shown(raw)}.")
    return {
        name: _number(value, f"`severities` of {file}, {name}", 1.0 if name in {"most", "unrelated"} else 2.0)
        for name, value in raw.items()
    }


def _check_keys(raw: Any, known: set[str], where: str) -> None:
    if not isinstance(raw, dict) or not set(raw) <= known:
        wrong = next((key for key in raw if key not in known), None) if isinstance(raw, dict) else raw
        raise InputError(f"Expected {where}, to have {', '.join(sorted(known))}, but got {_shown(wrong)}.")


def _texts(raw: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = raw.get(key)
    if not isinstance(found, list) or not found:
        raise InputError(f"Expected {where}, to have `{key}`, a list of texts, but got {_shown(found)}.")
    return tuple(_text(one, f"{where}, {key}") for one in found)


def _text(raw: Any, where: str) -> str:
    number = isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw)
    if not number and not (isinstance(raw, str) and raw.strip()):
        raise InputError(
            f"Expected {where}, to be a text, but got {_shown(raw)}: quote it if YAML takes it for another."
        )
    return str(raw).strip()


def _number(raw: Any, where: str, most: float) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= most:
        raise InputError(f"Expected {where}, to be from 0 to {most:g}, but got {_shown(raw)}.")
    return float(raw)


def _shown(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= 80 else f"{text[:77]}..."


NOTICE = (
    "The ratings of generated records are synthetic: each change of the facts has a fixed rating. Agreeing with them "
    "is not agreeing with people."
)

UNRELATED = 0.04
"""Share of the texts that tell another record altogether."""

OWN_STYLE = 0.85
"""Share of the texts that are written in the style of their reference."""


class RecordsDataModule(GeneratedDataModule):
    """Facts about made-up things, verbalised twice: as reference, and with or without changes as hypothesis.

    The rating is the share of the reference's facts that are stated, and stated rightly, whatever the words: what makes
    texts of data informative. No text of a person is needed, and none is used.

    Args:
        records: Distinct references.
        versions: Hypotheses of each.
        book: YAML file of domains, acts and severities in place of ``textmover/data/records.yaml``, as for a domain of
            one's own.
        held_back: Share of the references to hold back for validation, by a hash of their text; other references can
            tell the same facts in other words.
        batch_size: Segments to a batch, those of all processes together.
        validation_batch_size: Segments to a batch of validation.
        seed: Seed of records, words and the order of batches; if None, that of the mixture that it is part of, and 0 by
            itself.
        workers: Processes that tokenise ahead; 0 tokenises in between.
    """

    def __init__(
        self,
        records: int = 3000,
        versions: int = 2,
        book: str | None = None,
        held_back: float = HELD_BACK_SHARE,
        batch_size: int = 16,
        validation_batch_size: int = 64,
        seed: int | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(seed, workers, batch_sizes=(batch_size, validation_batch_size), notice=NOTICE)
        self.records, self.versions, self.book, self.held_back = records, versions, book, held_back

    def read(self) -> list[Source[Any]]:
        """Draw the records and verbalise them."""
        book = load_records(self.book)
        return self._rated(
            "records",
            record_segments(book, self.records, self.versions, self.seed),
            {"records": f"{self.records} of {plural(len(book.domains), 'domain')} ({self.book or 'records.yaml'})"},
            drawn=f"Synthetic records: {plural(len(book.domains), 'domain')}",
            unit="records",
            way_out=": give more `records`, or another share `held_back`",
        )


def record_segments(book: RecordBook, records: int, versions: int, seed: int) -> list[Segment]:
    """Records told as reference and hypothesis, rated from 0 (worthless) to 100 (the same facts).

    Each record follows from its number and the seed alone. The segments have the group ``domain``.

    Args:
        book: What is drawn from.
        records: How many distinct references.
        versions: Hypotheses of each; fewer where fewer differ.
        seed: Seed of all choices.

    Example:
        >>> one, _ = record_segments(load_records(), 1, 2, seed=1)
        >>> one.hypothesis, one.score
        ('what battery life would you like for the mobile phone?', 100.0)
        >>> one.references
        ('which battery life do you have in mind for the mobile phone?',)
    """
    segments: list[Segment] = []
    references: set[str] = set()
    for number in range(ATTEMPTS * records):
        made = distinct_versions(_versions(book, versions, f"{seed}\n{number}"), versions)
        if made[0].references[0] not in references:
            references.add(made[0].references[0])
            segments += made
        if len(references) == records:
            return segments
    raise InputError(
        f"Expected domains for {records} different texts, but {ATTEMPTS * records} tries gave {len(references)}: ask "
        "for fewer `records`, or give the book more names and facts."
    )


def _versions(book: RecordBook, versions: int, key: str) -> Iterator[Segment]:
    rng = keyed_random(key)
    record, style = book.draw(rng), one_by_chance(STYLES, rng)
    reference = in_style(tell(record, book, rng), style)
    for _ in range(ATTEMPTS * versions):
        told = book.draw(rng) if rng.random() < UNRELATED else book.change(record, rng)
        written = style if rng.random() < OWN_STYLE else one_by_chance(STYLES, rng)
        hypothesis = in_style(tell(told, book, rng), written)
        rating = round(100 * (1 - book.severity(record, told)), 1)
        yield Segment(hypothesis, (reference,), score=rating, groups={"domain": record.domain})
