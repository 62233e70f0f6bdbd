"""`textmover data`: what it prints, and what it refuses."""

import json

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the sets, which has one of three parts of CoLA and STS-B."""
    monkeypatch.setenv("TEXTMOVER_DATA", str(tmp_path))
    for name in ("cola/in_domain_train.tsv", "sts/stsb_en.tsv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    return tmp_path


def test_the_list_says_what_is_here(run, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # which would fold the lines
    table = run("data", "list").ok().out.partition("\n\n")[0]
    rows = {line.split()[0]: line for line in table.splitlines()}
    for name, expected in {"stsb": "stsb  yes", "cola": "out-of-domain-dev  train", "rte": "train, dev  no"}.items():
        assert " ".join(expected.split()) in " ".join(rows[name].split())
    sets = {one["name"]: one for one in json.loads(run("data", "list", "--format", "json").ok().out)}
    assert list(sets) == [name for name in rows if name in sets]
    assert (sets["sick"]["licence"], sets["rte"]["files"]) == ("CC BY-NC-SA 3.0", "rte-train, rte-dev")


def test_what_is_there_is_not_fetched(run, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    ended = run("data", "get", "stsb", "cola-train", "--folder", folder.name).ok()
    said = [
        f"{name} is there already: {folder / file}"
        for name, file in (("stsb", "sts/stsb_en.tsv"), ("cola", "cola/in_domain_train.tsv"))
    ]
    assert ended.out.splitlines() == [*said, f"Recipes find these files where TEXTMOVER_DATA={folder}."]
    said = run("data", "get", "rte").complaint()
    assert "HF_HUB_OFFLINE is set: unset it, or put nli_paraphrase/rte_train.tsv into" in said
    assert said.count("\n") == 1
