"""Perturbing on the command line: what is written, what is listed, and what is refused."""

import json

import pytest

from textmover.cli.commands import perturb as command
from textmover.perturbations.registry import ALIASES, KINDS

TEXTS = ["We live in a beautiful house near Oslo.", "", "The lake was frozen.", "The dog chased the cat."]
HEADER = ["original", "perturbed", "type", "degree", "severity", "rating"]


@pytest.fixture
def texts(write):
    return write("texts.txt", TEXTS)


def rows(out: str) -> list[dict[str, str]]:
    header, *lines = (line.split("\t") for line in out.splitlines())
    assert header == HEADER
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_a_table_on_standard_output(run, texts):
    ended = run("perturb", "-i", texts, "--types", "synonym", "negate,entity").ok()
    found = rows(ended.out)
    assert (found[0]["type"], found[0]["perturbed"]) == ("synonym", "We live in a lovely house near Oslo.")
    last = ["The lake was frozen.", "The lake was not frozen.", "negate", "1", "0.754", "24.6"]
    assert list(found[-1].values()) == last
    assert ended.err == "3 versions of 4 texts; texts that each type applied to: synonym 1, negate 1, entity 1\n"


def test_texts_that_nothing_changes_are_an_error(run, write, tmp_path):
    ended = run("perturb", "-i", write("same.txt", ["Hm", ""]), "--types", "negate", "number", "-o", "o.jsonl")
    assert (ended.code, ended.out) == (2, "")
    assert (
        "Expected a text in same.txt that negate, number can change, but got none: give other texts"
        in ended.err.replace(str(tmp_path) + "/", "")
    )
    assert not (tmp_path / "o.jsonl").exists()


def test_json_lines_into_a_file_by_its_suffix(run, texts, tmp_path):
    given = ("--types", "deletion", "--degrees", "1", "2", "--versions", "2")
    ended = run("perturb", "-i", texts, *given, "-o", "o.jsonl")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.endswith("Written: o.jsonl\n")
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert all(list(row) == HEADER for row in found)
    assert len(found) == 3 * 2 * 2
    assert {row["type"] for row in found} == {"drop"}
    assert all(row["rating"] == pytest.approx(100 * (1 - row["severity"]), abs=0.05) for row in found)
    given = ("perturb", "-i", texts, "--types", "drop", "random-word", "--quiet")
    first, again, other = run(*given), run(*given), run(*given, "--seed", "3")
    assert first == again
    assert first.err == ""
    assert first.out != other.out


def test_everything_that_needs_nothing_where_no_type_is_named(run, texts):
    ended = run("perturb", "-i", texts)
    assert {row["type"] for row in rows(ended.out)} <= {name for name, kind in KINDS.items() if not kind.needs}
    assert "Left out: passive and active (give --parser NAME)\n" in ended.err
    assert "Left out: substitute (give --neighbours ENCODER)\n" in ended.err
    every = run("perturb", "-i", texts, "--degrees", "all", "--quiet")
    assert len(rows(every.out)) > len(rows(ended.out))
    assert {row["degree"] for row in rows(run("perturb", "-i", texts, "--degrees", "70", "--quiet").out)} == {"70"}


def test_a_parser_makes_the_passive_possible(run, texts, parser):
    ended = run("perturb", "-i", texts, "--types", "passive", "active", "--parser", "stand-in")
    assert parser == ["stand-in"]
    assert [row["perturbed"] for row in rows(ended.out)] == ["The cat was chased by the dog."]
    assert ended.err == "1 version of 4 texts; texts that each type applied to: passive 1, active 0\n"


def test_an_encoder_makes_substitution_possible(run, write, tiny_encoder, any_neighbour):
    path = write("more.txt", ["the big dog ran home", "she will buy the book"])
    ended = run("perturb", "-i", path, "--types", "substitute", "--neighbours", tiny_encoder, "--quiet").silent()
    for row in rows(ended.out):
        differing = [a for a, b in zip(row["original"].split(), row["perturbed"].split(), strict=True) if a != b]
        assert len(differing) == 1
    assert len(rows(ended.out)) == 2


def test_a_column_of_a_table_whose_line_breaks_need_json_lines(run, refused, write):
    path = write("table.jsonl", [json.dumps({"id": 1, "text": "The lake\nwas frozen."})])
    given = ("perturb", "-i", path, "--column", "text", "--types", "negate")
    assert "without tabs and line breaks for a .tsv, but got one in text 1" in refused(*given)
    made = json.loads(run(*given, "--format", "jsonl").out)
    assert made["original"] == "The lake\nwas frozen."
    assert made["perturbed"] == "The lake was not frozen."


def test_the_list_names_everything(run):
    ended = run("perturb", "--list").silent()
    assert [line.split()[0] for line in ended.out.splitlines()] == ["type", *KINDS]
    assert all(name in ended.out for name in ALIASES)


def test_an_interrupted_run_leaves_no_file(run, texts, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        yield 0, []
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "perturb_texts", interrupted)
    assert run("perturb", "-i", texts, "-o", "out.tsv").code == 130
    assert not (tmp_path / "out.tsv").exists()


@pytest.mark.parametrize(
    ("text", "warned"), [("今天天气很好，我们去公园散步。", True), ("The dog ran home to the garden.", False)]
)
@pytest.mark.parametrize("command", ["perturb --types", "robustness --baselines chrf --samples 20 --types"])
def test_texts_that_are_not_english_are_warned_of(run, write, text, warned, command):
    name, *options = command.split()
    texts = write("texts.txt", [text, f"{text} {text}"])
    ended = run(name, "-i", texts, *options, "swap", "drop", "repeat").ok()
    assert ("Some texts do not look English" in ended.err) is warned
