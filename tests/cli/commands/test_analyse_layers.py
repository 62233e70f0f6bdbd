import json
import sys

import pytest
from tests.cli.shared import is_png

from textmover.experiments.anisotropy import CENTERINGS, analyse_layers, with_all_layers
from textmover.modules import MetricConfig
from textmover.modules.encoder_parts import assemble

TEXTS = [
    "the cat sat on the street",
    "a dog and a cat in the rain",
    "many people walk in the rain",
    "",
    "she will sing a small song",
    "people sing in the street",
    "a song",
]


@pytest.fixture
def data(write):
    return write("texts.txt", TEXTS)


@pytest.fixture
def command(data, tiny_encoder):
    return ("analyse-layers", "--data", data, "--encoder", tiny_encoder)


@pytest.fixture
def expected(tiny_encoder):
    parts = with_all_layers(assemble(MetricConfig(encoder=str(tiny_encoder), layer=-1, subwords="first")))
    return analyse_layers(parts, TEXTS, pairs=50, seed=2)


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_table_files_and_figure(run, command, expected, tmp_path):
    ended = run(*command, "--pairs", "50", "--seed", "2").silent()
    header, *lines = ended.out.splitlines()
    assert header.split() == ["centering", "layer", "baseline", "self-similarity", "intra-similarity"]
    assert [line.split()[:2] for line in lines[:16]] == [[one, str(layer)] for one in CENTERINGS for layer in range(4)]
    for line, row in zip(lines, expected.rows, strict=False):
        mean, plus_minus, error = line.split()[2:5]
        assert (float(mean), plus_minus) == (pytest.approx(row.baseline.mean, abs=6e-4), "±")
        assert float(error) == pytest.approx(row.baseline.error, abs=6e-4)
    assert lines[17].startswith(
        "Mean cosine and its standard error over 50 pairs of each kind, drawn from 35 tokens of 6 "
    )
    assert lines[18].startswith("Encoder: tiny@")
    assert is_png(tmp_path / "analyse-layers.png")

    header, *rows = (line.split("\t") for line in (tmp_path / "analyse-layers.tsv").read_text().splitlines())
    assert header[:5] == ["centering", "layer", "baseline", "baseline_standard_error", "baseline_pairs"]
    assert len(rows) == 16
    for cells, row in zip(rows, expected.rows, strict=True):
        assert cells[:2] == [row.centering, str(row.layer)]
        values = [value for estimate in row[2:] for value in estimate]
        assert [float(cell) for cell in cells[2:]] == pytest.approx(values, abs=1e-5)


def test_json_and_the_table_alone(run, command, expected, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # not needed here
    given = ("--pairs", "50", "--seed", "2", "--format", "json", "--no-figure")
    told = json.loads(run(*command, *given, "--centering", "corpus", "none", "corpus").out)
    assert {key: told[key] for key in ("texts", "tokens", "words", "pairs", "seed")} == {
        "texts": 6, "tokens": 35, "words": expected.words, "pairs": 50, "seed": 2,
    }  # fmt: skip
    assert told["files"] == ["analyse-layers.tsv"]
    assert [(one["centering"], one["layer"]) for one in told["layers"]] == [
        (one, layer) for one in ("corpus", "none") for layer in range(4)
    ]
    by_key = {(row.centering, row.layer): row for row in expected.rows}
    for one in told["layers"]:
        row = by_key[one["centering"], one["layer"]]
        assert one["intra_similarity"]["mean"] == pytest.approx(row.intra_similarity.mean, abs=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["analyse-layers.tsv", "texts.txt"]


def test_where_files_go(run, command, tmp_path):
    for output, names in (("out/", ["analyse-layers.png", "analyse-layers.tsv"]), ("new/a.svg", ["a.svg", "a.tsv"])):
        ended = run(*command, "--pairs", "5", "--quiet", "--output", output).ok()
        assert sorted(path.name for path in (tmp_path / output.partition("/")[0]).iterdir()) == names
        assert len(ended.out.splitlines()) == 17  # quiet has no notes


def test_a_choice_of_texts_is_that_of_the_seed_and_a_table_is_read_by_its_column(run, command, write):
    given = ("--pairs", "20", "--no-figure", "--format", "json")
    first, same, other = (json.loads(run(*command, *given, "--texts", "4", "--seed", seed).out) for seed in (0, 0, 1))
    assert first == same
    assert first["texts"] == 4
    assert first["layers"] != other["layers"]
    table = write("texts.tsv", ["id\ttext", *(f"{row}\t{text or 'a'}" for row, text in enumerate(TEXTS))])
    plain = write("same.txt", [text or "a" for text in TEXTS])
    by_column, lines = (
        json.loads(run("analyse-layers", *command[3:], *given, "--data", *data).ok().out)["layers"]
        for data in ((table, "--column", "text"), (plain,))
    )
    assert by_column == lines
    assert "--column" in run("analyse-layers", *command[3:], "--data", table).complaint()


def test_what_cannot_be_drawn_is_a_dash_null_and_nan(run, write, tiny_encoder, tmp_path):
    data = write("few.txt", ["dog", "cat"])
    command = ("analyse-layers", "--data", data, "--encoder", tiny_encoder, "--pairs", "5", "--centering", "none")
    assert run(*command).out.splitlines()[1].split()[-2:] == ["-", "-"]
    assert (tmp_path / "analyse-layers.tsv").read_text().splitlines()[1].endswith("nan\tnan\t0\tnan\tnan\t0")
    told = json.loads(run(*command, "--format", "json").out)
    assert told["layers"][0]["self_similarity"] == {"mean": None, "standard_error": None, "pairs": 0}


def test_static_vectors_are_one_layer(run, data, write, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = sorted({word for text in TEXTS for word in text.split()})
    vectors = write("vectors.txt", [f"{word} {number / 7} {number % 3 - 1} 1.5" for number, word in enumerate(words)])
    ended = run("analyse-layers", "--data", data, "--encoder", vectors, "--pairs", "20", "--format", "json")
    rows = {row["centering"]: row for row in json.loads(ended.out)["layers"]}
    assert [(row["centering"], row["layer"]) for row in rows.values()] == [(one, 0) for one in CENTERINGS]
    assert rows["none"]["self_similarity"]["mean"] == pytest.approx(1)  # a word has one vector wherever it stands
    assert is_png(tmp_path / "analyse-layers.png")


def test_a_file_that_no_option_names_is_not_replaced(run, command, write):
    command = (*command, "--pairs", "5", "--centering", "none")
    for name in ("analyse-layers.tsv", "analyse-layers.png"):
        path = write(name, ["mine"])
        assert f"Expected {name}, which no option names, to be new or from an earlier run" in run(*command).complaint()
        assert path.read_text() == "mine\n"
        path.unlink()
    for _ in range(2):  # its own are
        run(*command).ok()


def test_a_metric_is_no_encoder(refused, data):
    said = refused("analyse-layers", "--data", data, "--encoder", "textmover-static")
    assert "which is a metric: name an encoder, or, to score with this metric, name it as the metric" in said
