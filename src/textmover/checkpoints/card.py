"""Model cards of exported metrics, including the cards of the metrics they were made from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from textmover._version import __version__
from textmover.checkpoints.adapter import adapter_report
from textmover.checkpoints.encoder_state import name_weights
from textmover.checkpoints.loading import load_metric
from textmover.checkpoints.saving import METRIC_USAGE
from textmover.markdown_escaping import markdown_code, markdown_fence, markdown_text
from textmover.modules.score_deviation import PROBES, probe_scores
from textmover.types import SegmentMetric

EXCLUDED_SECTIONS = ("Adapter", "Configuration")  # sections that are not copied: they describe the card's own weights
DATA = "Data"  # heading of data sections, at any level


def write_card(
    title: str,
    origin: str,
    metric: SegmentMetric,
    fields: Mapping[str, Any] | None = None,
    *,
    data: Mapping[str, str] | None = None,
    notices: Sequence[str] = (),
) -> str:
    """Return the model card of an exported metric; ``origin`` continues the sentence "Exported by textmover …"."""
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
    """Return the section "Made from" of a card, from the names and cards of the metrics that a metric was made from.

    Data sections and notices come from all cards, since the weights of each metric were trained on its own data. Other
    sections come from the first card. Return an empty string if there is nothing to copy.
    """
    (first, card), *others = cards
    (_, introduction), *sections = _split(card, "##")
    copied = [text for title, text in sections if title.strip() not in EXCLUDED_SECTIONS]
    all_notices = [*_notices(introduction), *(one for _, other in others for one in _notices(other))]
    notices = [one for one in dict.fromkeys(all_notices) if not any(one in text for text in copied)]
    data_texts = _data(card)
    for name, other in others:
        for text in _data(other):
            if text not in data_texts:
                data_texts.append(text)
                copied.append(f"## {DATA} of {markdown_code(name)}\n\n{text}")
    if not copied and not notices:
        return ""
    names = ", ".join(markdown_code(name) for name, _ in cards)
    whose = markdown_code(first) + (f", the first of {names}, with other data from the others' cards" if others else "")
    lines = [
        "## Made from",
        f"The following is from the card of {whose}. Correlations are those of the source metrics, not of this one.",
        *notices,
        *(_lower_headings(text).strip() for text in copied),
    ]
    return "\n" + "\n\n".join(lines) + "\n"


def _split(card: str, marks: str) -> list[tuple[str, str]]:
    """Split a card at headings of a level into titles and texts with headings; the first is the text before them."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line, is_code in _lines(card):
        heading = None if is_code else re.match(rf"{marks} (.*)", line)
        if heading:
            sections.append((heading[1], []))
        sections[-1][1].append(line)
    return [(title, "\n".join(lines)) for title, lines in sections]


def _data(card: str) -> list[str]:
    """Return the texts of all data sections, without headings or duplicates."""
    sections = [one for one in _split(card, "#{2,6}") if one[0].strip() == DATA or one[0].startswith(f"{DATA} of ")]
    return list(dict.fromkeys(filter(None, (text.partition("\n")[2].strip() for _, text in sections))))


def _lower_headings(text: str) -> str:
    return "\n".join(f"#{line}" if re.match("#{2,5} ", line) and not code else line for line, code in _lines(text))


def _notices(text: str) -> list[str]:
    """Return the paragraphs that are entirely bold."""
    prose = "\n".join("" if code else line for line, code in _lines(text))
    paragraphs = (one.strip() for one in re.split(r"\n\s*\n", prose))
    return [one for one in paragraphs if re.fullmatch(r"\*\*[^*].*\*\*", one, re.DOTALL)]


def _lines(text: str) -> list[tuple[str, bool]]:
    """Return each line, and whether it is in a code block, where ``#`` does not begin a heading."""
    lines, code = [], False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        lines.append((line, code or fence))
        code ^= fence
    return lines


def without_adapter(card: str) -> str:
    """Remove the section about an adapter from a card."""
    return re.sub(r"\n## Adapter\n.*?(?=\n## |\Z)", "", card, flags=re.DOTALL)


def describe_adapter(metric: SegmentMetric, folder: Path) -> str:
    """Describe an adapter in one line: size, approximation error and score deviation from the original metric."""
    report = adapter_report(folder)
    assert report is not None  # the adapter was just written
    parts = [f"{report.size / 1e6:.2f} MB"]
    if report.matrix is not None:
        parts.append(f"relative error of all matrices {report.error:.1e}")
        parts.append(f"largest of one {report.largest_error:.1e} ({report.matrix})")
    else:
        parts.append("no weight differs from the encoder's")
    loaded = load_metric(folder)
    if not metric.needs_fit:
        deviation = float((probe_scores(loaded) - probe_scores(metric)).abs().max())
        parts.append(f"largest deviation of an uncalibrated score on {len(PROBES)} pairs {deviation:.1e}")
    return (
        f"Adapter of rank {report.rank} ({report.dtype}) over {report.base} (sha256 {report.sha256[:16]}…): "
        f"{', '.join(parts)}.\n"
    )


def adapter_card(card: str, folder: Path, line: str) -> str:
    """Append a section about the adapter to a model card."""
    signature = load_metric(folder).signature
    return (
        f"{card.rstrip()}\n\n## Adapter\n\n{line}\nThe encoder is stored as its difference from that base, which must "
        f"be available with the same hash. Signature as an adapter:\n`textmover:{__version__}|{signature}`\n"
    )
