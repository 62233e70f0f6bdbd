"""Cards of released models: what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from textmover.checkpoints.adapter import AdapterReport, adapter_report


def stored_adapter(folder: Path) -> AdapterReport:
    """Facts about the adapter in a folder."""
    report = adapter_report(folder)
    if report is None:
        raise RuntimeError(f"Expected an adapter in {folder}, but got full weights.")
    return report


def card(
    spec: Mapping[str, Any], tag: str, usage: str, results: tuple[str, Sequence[str]], command: str, made: str, end: str
) -> str:
    """A model card, Markdown; ``results`` are a heading and lines, ``made`` stands before the stages."""
    data = "\n".join(f"| {one['name']} | {one['use']} | {one['licence']} |" for one in spec["data"])
    stages = yaml.safe_dump(spec["stages"], sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    heading, found = results
    return (
        f"---\nlibrary_name: textmover\nlanguage: {spec.get('language', 'en')}\nlicense: apache-2.0\n"
        f"base_model: {spec.get('base_model', 'sentence-transformers/all-MiniLM-L6-v2')}\n"
        f"tags: [textmover, {tag}]\n---\n\n"
        f"# {spec['name']}: {spec['title']}\n\n{spec['about'].strip()}\n\n"
        f"{usage}\n\n## {heading}\n\n" + "\n".join(found).strip() + "\n\n"
        "## Data and their terms\n\n"
        f"| data | use | terms |\n|---|---|---|\n{data}\n\n{spec['terms'].strip()}\n\n"
        f"## Made with\n\n```bash\npython {command}\n```\n\n{made}\n\n```yaml\n{stages.strip()}\n```\n\n{end}\n"
    )
