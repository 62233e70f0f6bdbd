import json
import re
from collections import Counter

import pytest

from textmover.checkpoints.hub import DEFAULT_METRIC, released_metrics
from textmover.presets import PRESETS, measured


def test_every_preset_is_listed_with_what_there_is_to_know(run, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # which would fold the lines
    ended = run("list").silent()
    table, _, notes = ended.out.partition("\n\n")
    header, *rows = table.splitlines()
    assert "--format json" in notes
    assert header.split("  ")[0] == "name"
    released = list(released_metrics())
    assert [row.split()[0] for row in rows] == [*released, *PRESETS]
    assert [row.split()[0] for row in rows if row.endswith("trained by this project, the default")] == [DEFAULT_METRIC]
    rows = rows[len(released) :]
    for row, preset in zip(rows, PRESETS.values(), strict=True):
        assert preset.formula in row
        assert row.endswith(preset.source)  # neither cut nor padded
        agreement, speed = measured()[row.split()[0]].values()
        assert row.split()[1:3] == [f"{agreement:.3f}", f"{speed:,.0f}"]
        assert ("; lower is better  " in row) == ("lazy-emd" in row or "divergence" in row)
    assert "\x1b" not in ended.out


@pytest.mark.parametrize("command", [["list"], ["data", "list"]])
@pytest.mark.parametrize("terminal", [True, False])
def test_tables_fit_80_columns_and_keep_every_word(run, monkeypatch, command, terminal):
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = run(*command).silent().out
    monkeypatch.setenv("COLUMNS", "80")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    folded = re.sub(r"\x1b\[[0-9;]*m", "", run(*command).silent().out)
    assert max(map(len, folded.splitlines())) <= 80 < max(map(len, whole.splitlines()))
    assert Counter(re.sub(r"[\s─]", "", whole)) == Counter(re.sub(r"[\s─]", "", folded))


def test_json_holds_the_whole_configuration(run):
    listed = {entry["name"]: entry for entry in json.loads(run("list", "--format", "json").out)}
    assert list(listed) == [*released_metrics(), *PRESETS]
    for name, preset in PRESETS.items():
        assert listed[name]["config"] == preset.config.to_dict()
        assert listed[name]["formula"] == preset.formula
        assert {key: listed[name][key] for key in ("agreement", "pairs_per_second")} == measured()[name]
        assert listed[name]["higher_is_better"] == preset.higher_is_better
        assert listed[name]["trainable"]
        assert listed[name]["languages"] == ["en"]


def test_the_languages_of_a_named_metric_are_told(run):
    told = run("list", "textmover-multilingual", "twmd").silent().out.splitlines()[-1]
    codes = told.removeprefix("textmover-multilingual reads: ").split(", ")
    assert len(codes) == 93
    assert {"de", "zh", "si", "sw"} < set(codes)
    assert "reads" not in run("list", "twmd").silent().out
