import json

from textmover.checkpoints.hub import DEFAULT_METRIC, released_metrics
from textmover.presets import PRESETS


def test_every_preset_is_listed_with_what_there_is_to_know(run):
    ended = run("list").silent()
    header, *rows = ended.out.splitlines()
    assert header.split("  ")[0] == "name"
    released = list(released_metrics())
    assert [row.split()[0] for row in rows] == [*released, *PRESETS]
    assert [row.split()[0] for row in rows if row.endswith("trained by this project, the default")] == [DEFAULT_METRIC]
    rows = rows[len(released) :]
    for row, preset in zip(rows, PRESETS.values(), strict=True):
        assert preset.formula in row
        assert row.endswith(preset.source)  # neither cut nor padded
        assert ("  lower  " if "lazy-emd" in row or "divergence" in row else "  higher  ") in row
        assert "  yes  " in row
        assert ("  en or --encoder multilingual  " if preset.config.kind == "transport" else "  en  ") in row
    assert "\x1b" not in ended.out


def test_json_holds_the_whole_configuration(run):
    listed = {entry["name"]: entry for entry in json.loads(run("list", "--format", "json").out)}
    assert list(listed) == [*released_metrics(), *PRESETS]
    for name, preset in PRESETS.items():
        assert listed[name]["config"] == preset.config.to_dict()
        assert listed[name]["formula"] == preset.formula
        assert listed[name]["higher_is_better"] == preset.higher_is_better
        assert listed[name]["trainable"]
        assert listed[name]["languages"] == ["en"]
