"""``textmover list``: list released metrics and presets with descriptions."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from textmover.checkpoints.checkpoint_files import CARD
from textmover.checkpoints.hub import DEFAULT_METRIC, released_metrics
from textmover.modules.encoder.known_encoders import languages_of
from textmover.presets import PRESETS, Preset, measured, preset_config
from textmover.safe_reading import read_json
from textmover.terminal import print_table

HEADERS = ("name", "agreement", "pairs/s", "formula or use", "source")
NOTES = """
agreement: mean Pearson correlation with people on six test sets
pairs/s: float32, two CPU cores
Presets read English; all but `rome` take --encoder multilingual.
All fields: --format json.
"""


def run(options: argparse.Namespace) -> None:
    """Print the released metrics, with the default one marked, and the presets."""
    chosen = tuple(dict.fromkeys(options.names))
    released = released_metrics()
    for name in chosen:
        if name not in released:
            preset_config(name)  # raises an error that lists the presets
    if options.cite:
        from textmover.checkpoints.citations import bibtex, cited  # imports torch, as nothing else here does

        sys.stdout.write(bibtex(cited(name) for name in chosen or (*released, *PRESETS)))
        return
    entries = [_released_entry(name, folder) for name, folder in released.items() if name in chosen or not chosen]
    entries += [_entry(name, preset) for name, preset in PRESETS.items() if name in chosen or not chosen]
    if options.format == "json":
        sys.stdout.write(json.dumps(entries, indent=2) + "\n")
        return
    print_table(HEADERS, map(_row, entries), numbers=HEADERS[1:3], narrow=HEADERS[:3], fold=True)
    sys.stdout.write("" if chosen else NOTES)
    multilingual = [entry for entry in entries if chosen and len(entry["languages"]) > 1]
    sys.stdout.writelines(f"{entry['name']} reads: {', '.join(entry['languages'])}\n" for entry in multilingual)


def _entry(name: str, preset: Preset) -> dict[str, Any]:
    return {
        "name": name,
        **measured()[name],
        "formula": preset.formula,
        "higher_is_better": preset.higher_is_better,
        "trainable": hasattr(preset.config, "calibrate"),  # of a TrainableMetric
        "languages": languages_of(preset.config.encoder),
        "source": preset.source,
        "config": preset.config.to_dict(),
    }


def _released_entry(name: str, folder: Path) -> dict[str, Any]:
    """Return the entry of a released metric; its purpose is the heading of its card."""
    stored = read_json(folder / "config.json")
    config = stored["metric"]
    headings = re.findall(r"^# .*?: (.*)$", (folder / CARD).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        "name": name,
        **measured()[name],
        "formula": headings[0],
        "higher_is_better": True,
        "trainable": "table" not in stored["encoder"],
        "languages": languages_of(config["encoder"]),
        "source": f"trained by this project{', the default' if name == DEFAULT_METRIC else ''}",
        "config": config,
    }


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    formula = entry["formula"] + ("" if entry["higher_is_better"] else "; lower is better")
    return entry["name"], f"{entry['agreement']:.3f}", f"{entry['pairs_per_second']:,.0f}", formula, entry["source"]
