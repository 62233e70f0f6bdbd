"""What docs/torchmetrics.md shows runs, in the order in which it is shown."""

import re
from pathlib import Path

import matplotlib as mpl

PAGE = (Path(__file__).parents[2] / "docs" / "torchmetrics.md").read_text(encoding="utf-8")


def test_code_blocks_run(embedded, capsys, tmp_path, monkeypatch):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "torchmetrics.md", "exec"), names)
        assert capsys.readouterr().out
    assert names["figure"].axes
    assert names["score"].compute().shape == (2,)
