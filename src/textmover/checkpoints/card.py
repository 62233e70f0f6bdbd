"""Model cards of what ``textmover export`` writes: what a metric is, and what is known of those it was made from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from textmover._version import __version__
from textmover.checkpoints.adapter import adapter_report
from textmover.checkpoints.encoder_weights import name_weights
from textmover.checkpoints.loading import load_metric
from textmover.checkpoints.saving import METRIC_USAGE
from textmover.markdown_escaping import markdown_code, markdown_fence, markdown_text
from textmover.modules.probe_sentences import PROBES, probe_scores
from textmover.types import SegmentMetric

NOT_HANDED_ON = ("Adapter", "Configuration")  # sections that hold for the very weights of their card alone
DATA = "Data"  # headings of data sections, at any level


def write_card(
    title: str,
    origin: str,
    metric: SegmentMetric,
    fields: Mapping[str, Any] | None = None,
    *,
    data: Mapping[str, str] | None = None,
    notices: Sequence[str] = (),
) -> str:
    """The model card of an exported metric: its title, origin (behind "Exported by textmover"), data and notices."""
    name_weights(metric)
    config = yaml.safe_dump(
        dict(metric.config.to_dict() if fields is None else fields), sort_keys=False, allow_unicode=True
    ).strip()
    notice = "".join(f"\n**{markdown_text(one)}**\n" for one in notices)
    about = "".join(f"* {markdown_text(key)}: {markdown_text(value)}\n" for key, value in (data or {}).items())
    return (
        "---\nlibrary_name: textmover\ntags: [textmover, text-generation-metric]\n---\n\n"
        f"# {title}\n{notice}\n"
        f"Signature: {markdown_code(f'textmover:{__version__}|{metric.signature}')}\n\n"
        f"{METRIC_USAGE}\n"
        f"Exported by textmover {__version__} {origin}. How well it agrees with ratings was not measured here: "
        "`textmover evaluate` does that.\n\n"
        + (f"## Data\n\n{about}\n" if about else "")
        + f"## Configuration\n\n{markdown_fence(config, 'yaml')}"
    )


def made_from(cards: Sequence[tuple[str, str]]) -> str:
    """The section of a card that hands on those of the named metrics that another one was made from.

    Agreement, recipe and whatever else is a section are those of the first; notices are those of all, and so are the
    data, for the weights of each have seen their own. Nothing where the cards tell nothing.
    """
    (first, card), *others = cards
    (_, head), *sections = _split(card, "##")
    kept = [text for title, text in sections if title.strip() not in NOT_HANDED_ON]
    told = [*_notices(head), *(one for _, other in others for one in _notices(other))]
    notices = [one for one in dict.fromkeys(told) if not any(one in text for text in kept)]
    told_data = _data(card)
    for name, other in others:
        for text in _data(other):
            if text not in told_data:
                told_data.append(text)
                kept.append(f"## {DATA} of {markdown_code(name)}\n\n{text}")
    if not kept and not notices:
        return ""
    names = ", ".join(markdown_code(name) for name, _ in cards)
    whose = markdown_code(first) + (
        f", the first of {names}, data not the same also from those of the others" if others else ""
    )
    lines = [
        "## Made from",
        f"The following is from the card of {whose}. Correlations are those of what this metric was made from, not its "
        "own.",
        *notices,
        *(_one_lower(text).strip() for text in kept),
    ]
    return "\n" + "\n\n".join(lines) + "\n"


def _split(card: str, marks: str) -> list[tuple[str, str]]:
    """Titles and texts, headings included, of what begins with a heading of these marks; first what is before them."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line, code in _lines(card):
        heading = None if code else re.match(rf"{marks} (.*)", line)
        if heading:
            found.append((heading[1], []))
        found[-1][1].append(line)
    return [(title, "\n".join(lines)) for title, lines in found]


def _data(card: str) -> list[str]:
    """Texts under all headings of data, without the headings."""
    titled = [one for one in _split(card, "#{2,6}") if one[0].strip() == DATA or one[0].startswith(f"{DATA} of ")]
    return list(dict.fromkeys(filter(None, (text.partition("\n")[2].strip() for _, text in titled))))


def _one_lower(text: str) -> str:
    return "\n".join(f"#{line}" if re.match("#{2,5} ", line) and not code else line for line, code in _lines(text))


def _notices(text: str) -> list[str]:
    """Paragraphs that are bold from end to end."""
    prose = "\n".join("" if code else line for line, code in _lines(text))
    paragraphs = (one.strip() for one in re.split(r"\n\s*\n", prose))
    return [one for one in paragraphs if re.fullmatch(r"\*\*[^*].*\*\*", one, re.DOTALL)]


def _lines(text: str) -> list[tuple[str, bool]]:
    """Each line, and whether it is code, in which ``#`` begins a comment."""
    found, code = [], False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        found.append((line, code or fence))
        code ^= fence
    return found


def without_adapter(card: str) -> str:
    """A card without its section about an adapter."""
    return re.sub(r"\n## Adapter\n.*?(?=\n## |\Z)", "", card, flags=re.DOTALL)


def describe_adapter(metric: SegmentMetric, folder: Path) -> str:
    """One line on an adapter's size, and on how far it is from the metric that it was made of."""
    report = adapter_report(folder)
    if report is None:
        raise RuntimeError(f"Expected {folder} to hold the adapter that was written there, but it does not.")
    parts = [f"{report.size / 1e6:.2f} MB"]
    if report.matrix is not None:
        parts.append(f"relative error of all matrices {report.error:.1e}")
        parts.append(f"largest of one {report.largest_error:.1e} ({report.matrix})")
    else:
        parts.append("no weight differs from the encoder's")
    again = load_metric(folder)
    if not metric.needs_fit:
        deviation = float((probe_scores(again) - probe_scores(metric)).abs().max())
        parts.append(f"largest deviation of an uncalibrated score on {len(PROBES)} pairs {deviation:.1e}")
    return (
        f"Adapter of rank {report.rank} ({report.dtype}) over {report.base} (sha256 {report.sha256[:16]}…): "
        f"{', '.join(parts)}.\n"
    )


def adapter_card(card: str, folder: Path, line: str) -> str:
    """The model card with what an adapter's reader has to know."""
    signature = load_metric(folder).signature
    return (
        f"{card.rstrip()}\n\n## Adapter\n\n{line}\nThe encoder is stored as its difference from that base, which has "
        f"to be at hand with the same hash. Signature as an adapter:\n`textmover:{__version__}|{signature}`\n"
    )
