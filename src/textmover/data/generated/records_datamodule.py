"""Ratings of synthetic records: the same facts paraphrased, or other facts in similar words; and their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from textmover.data.generated.datamodule import ATTEMPTS, GeneratedDataModule, distinct_versions, synthetic_notice
from textmover.data.generated.records import SIZES, STYLES, Act, Domain, RecordDomains, in_style, verbalise
from textmover.data.split import HELD_BACK_SHARE
from textmover.data.training_sources import Source
from textmover.perturbations.editable_sentences import keyed_random, random_choice
from textmover.safe_reading import YamlPosition, check_filled, check_keys, converted, read_yaml
from textmover.types import InputError, Segment, plural

SHIPPED = Path(__file__).with_name("records.yaml")

PLACEHOLDERS = ("one", "kind", "a kind", "rest", "asked", "count")  # in the wordings of an act
HEAVIEST = 1e6  # maximum weight of an act
UNRELATED = 0.04  # share of the texts about an unrelated record
OWN_STYLE = 0.85  # share of the texts in the style of their reference
SEVERITIES = ("omitted", "altered", "added", "name", "count", "asked", "act", "unrelated", "most")


def load_records(path: str | Path | None = None) -> RecordDomains:
    """Read a YAML file of domains; default: the shipped ``textmover/data/records.yaml``.

    Without ``acts`` or ``severities``, those of the shipped file are used.

    Example:
        >>> len(load_records().domains)
        16
    """
    raw = _shipped() if path is None else read_yaml(path)
    place = YamlPosition(str(path or SHIPPED))
    book = converted(RecordDomains, {**_shipped(), "domains": {}, **raw} if isinstance(raw, dict) else raw, place)
    check_filled({"domains": book.domains, "acts": book.acts}, place)
    for name, domain in book.domains.items():
        _check_domain(domain, place.inner("domains", name))
    check_keys(book.acts, list(SIZES), str(place.inner("acts")))
    for name, act in book.acts.items():
        _check_act(name, act, place.inner("acts", name))
    _check_severities(book.severities, place.inner("severities"))
    return book


@cache
def _shipped() -> Any:
    return read_yaml(SHIPPED)


def _check_domain(domain: Domain, place: YamlPosition) -> None:
    check_filled({"kinds": domain.kinds, "names": domain.names}, place)
    if len(domain.facts) < 2:
        raise InputError(f"Expected {place.inner('facts')} to hold at least two, but got {len(domain.facts)}: add one.")
    for name, fact in domain.facts.items():
        inside = place.inner("facts", name)
        check_filled({"says": fact.says, "values": fact.values}, inside)
        check_filled(dict(enumerate(fact.values)), inside.inner("values"))
        all_wordings = [wording for wordings in fact.values for wording in wordings]
        if twice := next((one for one in all_wordings if all_wordings.count(one) > 1), None):
            raise InputError(f"Expected {inside.inner('values')} to differ, but got {twice!r} twice: remove one.")
        for pattern in (*fact.says, *fact.adds):
            if pattern.count("{}") != 1 or pattern.count("{") != 1 or pattern.count("}") != 1:
                raise InputError(
                    f"Expected {{}} once in `says` and `adds` of {inside}, but got {pattern!r}: correct it."
                )


def _check_act(name: str, act: Act, place: YamlPosition) -> None:
    if not 0 < act.weight <= HEAVIEST:
        raise InputError(
            f"Expected {place.inner('weight')} to be above 0 and at most {HEAVIEST:g}, but got {act.weight:g}: correct "
            "it, or leave the act out."
        )
    if name == "state":
        return
    check_filled({"ways": act.ways}, place)
    for way in act.ways:
        _check_way(way, name, place.inner("ways"))


def _check_way(way: str, act: str, place: YamlPosition) -> None:
    try:
        parts = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(way) if name is not None]
    except ValueError as error:
        raise InputError(f"Expected {place} to have pairs of braces, but got {way!r}: {error}.") from error
    used = {name for name, _, _ in parts}
    if used - set(PLACEHOLDERS) or any(spec or conversion for _, spec, conversion in parts):
        raise InputError(f"Expected {place} to use {{{'}, {'.join(PLACEHOLDERS)}}} alone, but got {way!r}: correct it.")
    needed = {"ask": "asked", "count": "count"}.get(act)
    if (needed is not None and needed not in used) or (act != "ask") != bool(used & {"one", "rest"}):
        expected = "{asked}, and neither {one} nor {rest}" if act == "ask" else "{one}, or {kind} and {rest}"
        expected += " and {count}" * (act == "count")
        raise InputError(f"Expected {place} to have {expected}, but got {way!r}: correct it.")


def _check_severities(severities: Mapping[str, float], place: YamlPosition) -> None:
    check_keys(severities, SEVERITIES, str(place))
    for name in SEVERITIES:
        if (cost := severities.get(name)) is None:
            raise InputError(f"Expected {place} to have the key {name!r}, but it has not: add it.")
        most = 1.0 if name in {"most", "unrelated"} else 2.0
        if not 0 <= cost <= most:
            raise InputError(f"Expected {place.inner(name)} to be from 0 to {most:g}, but got {cost:g}: correct it.")


class RecordsDataModule(GeneratedDataModule):
    """Facts about synthetic things, verbalised as reference and, with or without changes, as hypothesis.

    The rating is the share of the facts of the reference that are stated correctly, in any wording: the informativeness
    of data-to-text output. No human texts are needed.

    Args:
        records: Number of distinct references.
        versions: Hypotheses for each reference.
        book: YAML file of domains, acts and severities in place of ``textmover/data/records.yaml``, such as for a new
            domain.
        held_back: Share of the references to hold back for validation, by a hash of their text; other references may
            state the same facts in other words.
        batch_size: Segments per batch over all processes.
        validation_batch_size: Segments per validation batch.
        seed: Seed of records, wordings and batch order; if None, that of the mixture, or 0.
        workers: Worker processes for tokenisation; 0 tokenises in the main process.
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
        notice = synthetic_notice("generated records", "change of the facts")
        super().__init__(seed, workers, (batch_size, validation_batch_size), notice=notice)
        self.records, self.versions, self.book, self.held_back = records, versions, book, held_back

    def read(self) -> list[Source[Any]]:
        """Draw the records and verbalise them."""
        book = load_records(self.book)
        return self._rated(
            "records",
            record_segments(book, self.records, self.versions, self.seed),
            {"records": f"{self.records} of {plural(len(book.domains), 'domain')} ({self.book or 'records.yaml'})"},
            drawn=f"Synthetic records: {plural(len(book.domains), 'domain')}",
            way_out="give more `records`",
        )


def record_segments(book: RecordDomains, records: int, versions: int, seed: int) -> list[Segment]:
    """Return records verbalised as reference and hypothesis, rated from 0 (worthless) to 100 (the same facts).

    There are as many distinct references as ``records``, each with ``versions`` hypotheses, or fewer if fewer differ.
    Each record follows from its number and the seed only. The segments have the group ``domain``.

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
        versions_of_record = distinct_versions(_versions(book, versions, f"{seed}\n{number}"), versions)
        if versions_of_record[0].references[0] not in references:
            references.add(versions_of_record[0].references[0])
            segments += versions_of_record
        if len(references) == records:
            return segments
    raise InputError(
        f"Expected domains for {records} different texts, but {ATTEMPTS * records} tries gave {len(references)}: ask "
        "for fewer `records`, or give the book more names and facts."
    )


def _versions(book: RecordDomains, versions: int, key: str) -> Iterator[Segment]:
    rng = keyed_random(key)
    record, style = book.draw(rng), random_choice(STYLES, rng)
    reference = in_style(verbalise(record, book, rng), style)
    for _ in range(ATTEMPTS * versions):
        other = book.draw(rng) if rng.random() < UNRELATED else book.change(record, rng)
        other_style = style if rng.random() < OWN_STYLE else random_choice(STYLES, rng)
        hypothesis = in_style(verbalise(other, book, rng), other_style)
        rating = round(100 * (1 - book.severity(record, other)), 1)
        yield Segment(hypothesis, (reference,), score=rating, groups={"domain": record.domain})
