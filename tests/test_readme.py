"""What the README and the page of the family say is true; their code blocks are run by tests/docs."""

import re
from pathlib import Path

from textmover.presets import PRESETS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_preset_is_named():
    table = (ROOT / "docs" / "family.md").read_text(encoding="utf-8").split("## The presets")[1].split("\n## ")[0]
    for name in PRESETS:
        base, _, ending = name.rpartition("-")
        assert f"`{name}`" in table or (f"`-{ending}`" in table and base in table), name


def test_every_file_that_is_named_exists():
    named = set(re.findall(r"\b(?:configs|docs|examples|benchmarks|tests)/[\w./-]+\w", README))
    assert len(named) > 5
    for path in named:
        assert (ROOT / path).exists() or path.startswith("runs/"), path


def test_ci_runs_the_same_install_and_test_commands():
    development = README.split("## Development")[1]
    install, test = re.search(r"```bash\n(.*)\n(.*)\n```", development).groups()
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert test in script
    assert install.replace("pip install", "pip install --quiet") in script
