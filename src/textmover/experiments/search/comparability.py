"""Whether all trials of a search are judged on the same: values of other texts or ratings cannot be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from textmover.data.datamodule import SourcesDataModule
from textmover.data.sources import RatedSource, Source
from textmover.types import InputError

JUDGED = "judged"
"""Attribute of the study: the print of the judged parts by seed, and the values of the trial that it is of."""


def judged_print(data: SourcesDataModule) -> str:
    """SHA-256 of all that trials are judged on: texts, ratings or labels, and the groups of a correlation.

    Args:
        data: A data module whose sources have been read.
    """
    digest = hashlib.sha256()
    for source, part in data.judged:
        # Partners are looked for within a batch, so that the smaller it is, the more are found.
        batch = None if isinstance(source, RatedSource) else source.validation_batch_size
        for entry in [(data.label(source, part), batch), *_items(source, part)]:
            digest.update(f"{entry!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _items(source: Source[Any], part: str) -> list[tuple[Any, ...]]:
    items = source.parts[part]
    groups = source.groups_of(items) if isinstance(source, RatedSource) else [None] * len(items)
    told = ((getattr(item, "score", None), getattr(item, "label", None)) for item in items)
    return [(source.texts(item), *one, group) for item, one, group in zip(items, told, groups, strict=True)]


class JudgedParts:
    """The parts that one trial is judged on, beside those of the first trial that ended well.

    Args:
        study: The study, which keeps them for the trials to come, and for ``--resume``.
        values: What the trial sets, by key.
    """

    def __init__(self, study: Any, values: Mapping[str, Any]) -> None:
        self.study, self.values = study, dict(values)
        self.found: dict[str, str] = {}

    def check(self, seed: int | None, found: str) -> None:
        """Compare the parts of a fit with the known ones.

        Args:
            seed: That of the fit: damage, and the choice of sentences, may follow from it.
            found: Print of the parts.

        Raises:
            InputError: If they are other parts.
        """
        self.found[str(seed)] = found
        known = self.study.user_attrs.get(JUDGED, {}).get(str(seed))
        if known is None or known["print"] == found:
            return
        other = [key for key, value in self.values.items() if known["values"].get(key) != value]
        likely = [key for key in other if key.startswith("data.")] or other
        way = f"leave {' and '.join(likely)} out of the space" if likely else "the files have changed: search anew"
        raise InputError(
            "Expected the parts that trials are judged on to stay the same, but they are not those of the first trial: "
            f"{way}."
        )

    def keep(self) -> None:
        """Have the trials to come be compared with this one, which has ended well, unless they are with another."""
        new = {seed: {"print": found, "values": self.values} for seed, found in self.found.items()}
        self.study.set_user_attr(JUDGED, {**new, **self.study.user_attrs.get(JUDGED, {})})
