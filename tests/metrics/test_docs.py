"""The section on torchmetrics of docs/interfaces.md runs, block by block."""

import re
from pathlib import Path

import matplotlib as mpl

PAGE = (Path(__file__).parents[2] / "docs" / "interfaces.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## torchmetrics\n")[1].split("\n## ")[0]


def test_code_blocks_run(embedded, capsys, tmp_path, monkeypatch):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "interfaces.md", "exec"), names)
        assert capsys.readouterr().out
    assert names["figure"].axes
    assert names["score"].compute().shape == (2,)
