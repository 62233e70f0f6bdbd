"""Fitting on the command line: what is written can be scored with, and what is printed says how."""

import io
import json
import shlex
import sys

import pytest
from safetensors import safe_open

from textmover.scoring import Scorer, scorer_from_options

CORPUS = ["the small dog ran home", "she will buy a book", "warm tea", "a little dog", "go home", "the old tree"]


@pytest.fixture(autouse=True)
def six_are_enough(monkeypatch):
    monkeypatch.setattr(scorer_from_options, "ENOUGH", len(CORPUS))


@pytest.fixture
def corpus(write):
    return write("corpus.txt", CORPUS)


@pytest.fixture
def expected(tiny_encoder, pairs):
    def score(preset: str, *names: str, **fields) -> list[float]:
        scorer = Scorer.from_pretrained(preset, encoder=str(tiny_encoder), **fields).fit(CORPUS)
        return scorer.score(*zip(*pairs, strict=True)).scores.tolist()

    return score


def score_as_told(run, texts, out: str) -> list[float]:
    """The scores of the command that was printed, on our texts."""
    command = shlex.split(out.splitlines()[-1])
    assert command[:5] == ["textmover", "score", "-i", "hypotheses.txt", "references.txt"]
    ended = run("score", "-i", *texts, *command[5:], "--format", "json").ok()
    return json.loads(ended.out)["scores"]


def about(path) -> dict[str, str]:
    with safe_open(str(path), framework="pt") as content:
        return content.metadata()


def test_few_texts_are_warned_of_and_the_way_out_is_an_option(run, refused, texts, corpus, tiny_encoder, monkeypatch):
    monkeypatch.setattr(scorer_from_options, "ENOUGH", 7)
    command = ("fit-idf", "--data", corpus, "--encoder", tiny_encoder, "--output", "i.safetensors", "--quiet")
    assert "Fitted on few texts (6) for idf weights: give at least 7." in run(*command).ok().err
    said = refused("score", "-i", *texts, "--model", "twmd", "--encoder", tiny_encoder, "--statistics", "i.safetensors")
    assert "got idf: set `--weights` to idf, or leave the file out." in said


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_a_mean_for_a_preset_that_has_one(run, texts, corpus, tiny_encoder, expected, tmp_path):
    ended = run(
        "fit-mean", "--data", corpus, "--model", "twmd-b", "--encoder", tiny_encoder, "--output", "m.safetensors"
    ).ok()
    assert ended.err == "Written: m.safetensors\n"
    fitted, written, _ = ended.out.splitlines()
    assert fitted.startswith("Fitted on 6 texts: mean (")
    assert fitted.endswith(" tokens).")
    assert written == "Score with it:"
    assert score_as_told(run, texts, ended.out) == pytest.approx(expected("twmd-b"), abs=1e-6)
    told = about(tmp_path / "m.safetensors")
    assert (told["names"], told["corpus"]) == ("mean", "corpus.txt")


@pytest.mark.parametrize(
    ("command", "flag", "fields"),
    [
        ("fit-idf", "--weights idf", {"weights": "idf"}),
        ("fit-mean", "--centering corpus", {"centering": "corpus"}),
        ("fit-baseline", "--rescale true", {"rescale": True}),
    ],
)
def test_a_preset_without_room_gets_it_and_is_told(run, texts, corpus, tiny_encoder, expected, command, flag, fields):
    given = ("--encoder", tiny_encoder, "--normalize", "false", "--layer", "2")
    ended = run(command, "--data", corpus, "--model", "bertscore-f1", *given, "--output", "s.safetensors").silent()
    assert ended.out.startswith("bertscore-f1 uses no ")
    assert f": the file counts only with {flag}.\n" in ended.out
    assert flag in ended.out.splitlines()[-1]
    told = expected("bertscore-f1", normalize=False, layer=2, **fields)
    assert score_as_told(run, texts, ended.out) == pytest.approx(told, abs=1e-6)


def test_a_table_of_one_corpus_serves_presets_with_two(run, texts, corpus, tiny_encoder, expected, tmp_path):
    given, small = ("--data", corpus, "--encoder", tiny_encoder), ("--last-layers", "2")
    for model, flags in (("moverscore-wmd1", small), ("bertscore-f1-idf", ())):
        assert run("fit-idf", *given, "--model", model, *flags, "--output", f"{model}.safetensors").code == 0
        assert about(tmp_path / f"{model}.safetensors")["names"] == "idf"
    command = ("score", "-i", *texts, "--model", "moverscore-wmd1", "--encoder", tiny_encoder, *small)
    ended = run(*command, "--statistics", "bertscore-f1-idf.safetensors", "--format", "json")
    told = json.loads(ended.out)
    assert told["scores"] == pytest.approx(expected("moverscore-wmd1", last_layers=2), abs=1e-6)
    assert "weights:idf-smooth:corpus@" in told["signature"]


def test_a_baseline_with_what_it_needs_is_one_file(run, texts, corpus, tiny_encoder, expected, tmp_path):
    given = ("--model", "moverscore-smd", "--encoder", tiny_encoder, "--centering", "corpus", "--last-layers", "2")
    ended = run("fit-baseline", "--data", corpus, *given, "--output", "b.safetensors").silent()
    assert about(tmp_path / "b.safetensors")["names"] == "mean,idf,baseline"
    assert "\nBaseline: recall " in ended.out
    assert "\nRescaled scores run from " in ended.out
    told = expected("moverscore-smd", centering="corpus", last_layers=2, rescale=True)
    assert score_as_told(run, texts, ended.out) == pytest.approx(told, abs=1e-6)


def test_a_baseline_over_given_statistics_holds_no_others(run, texts, corpus, tiny_encoder, write, tmp_path):
    model = ("--model", "twmd-b", "--encoder", tiny_encoder)
    other = write("other.txt", ["a red house", "the boat", "it is cold"])
    assert run("fit-mean", "--data", other, *model, "--output", "mean.safetensors").code == 0
    ended = run(
        "fit-baseline", "--data", corpus, *model, "--statistics", "mean.safetensors", "--output", "base.safetensors"
    ).ok()
    assert about(tmp_path / "base.safetensors")["names"] == "baseline"
    assert ended.out.endswith("--rescale true --statistics mean.safetensors --statistics base.safetensors\n")
    assert len(score_as_told(run, texts, ended.out)) == 4


@pytest.mark.parametrize(("command", "names"), [("fit-idf", "idf,baseline"), ("fit-baseline", "baseline")])
def test_a_rescaled_metric_gets_a_baseline_as_well(run, texts, corpus, command, names, tmp_path):
    model = () if command == "fit-baseline" else ("--model", "textmover-general")  # the default of score
    ended = run(command, "--data", corpus, *model, "--output", "s.safetensors").ok()
    assert about(tmp_path / "s.safetensors")["names"] == names
    assert " --model textmover-general " in ended.out
    assert len(score_as_told(run, texts, ended.out)) == 4


def test_a_checkpoint_gets_a_mean(run, texts, corpus, checkpoint, expected):
    ended = run("fit-mean", "--data", corpus, "--model", checkpoint, "--output", "mean.safetensors").ok()
    assert score_as_told(run, texts, ended.out) == pytest.approx(expected("twmd", centering="corpus"), abs=1e-6)


def test_quiet_prints_warnings_alone(run, write, corpus, tiny_encoder, tmp_path):
    given = ("--encoder", tiny_encoder, "--output", "new/s.safetensors", "--quiet", "--data")
    assert run("fit-baseline", *given, corpus) == (0, "", "")
    assert (tmp_path / "new" / "s.safetensors").is_file()
    ended = run("fit-idf", *given, write("same.txt", ["a dog", "a dog"])).ok()
    assert [line.split(" (")[0] for line in ended.err.splitlines()] == [
        "idf was fitted on texts with equal tokens: weights are uniform.",
        "Fitted on few texts",
    ]


# --- what goes in -----------------------------------------------------------------------------------------------------


def test_texts_of_several_files_of_tables_and_of_standard_input(
    run, write, corpus, tiny_encoder, tmp_path, monkeypatch
):
    command = ("fit-idf", "--encoder", tiny_encoder, "--quiet")
    write("a.txt", CORPUS[:2])
    write("b.txt", CORPUS[2:])
    table = write("c.tsv", ["id\ttext", *(f"{row}\t{text}" for row, text in enumerate(CORPUS))])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(corpus.read_bytes())))
    inputs = ([corpus], ["a.txt", "b.txt"], [table, "--column", "text"], ["-"])
    for number, data in enumerate(inputs):
        assert run(*command, "--output", f"{number}.safetensors", "--data", *data) == (0, "", "")
    assert len({about(tmp_path / f"{number}.safetensors")["sha256"] for number in range(4)}) == 1
    assert about(tmp_path / "1.safetensors")["corpus"] == "a.txt, b.txt"
    run(*command, "--output", "x.safetensors", "--corpus", "mine, CC0", "--data", corpus)
    assert about(tmp_path / "x.safetensors")["corpus"] == "mine, CC0"


# --- statistics for other commands ------------------------------------------------------------------------------------


def test_other_commands_take_statistics_that_fit(run, refused, texts, corpus, tiny_encoder, write, pairs):
    rated = write("rated.tsv", ["hypothesis\treference\tscore", *(f"{h}\t{r}\t{i}" for i, (h, r) in enumerate(pairs))])
    model = ("--model", "twmd-b", "--encoder", tiny_encoder)
    run("fit-mean", "--data", corpus, *model, "--output", "mean.safetensors")
    ended = run("evaluate", "--data", rated, *model, "--statistics", "mean.safetensors", "--samples", "20").ok()
    assert "centering:corpus@" in ended.out
    said = refused("score", "-i", *texts, *model, "--statistics", "mean.safetensors", "--layer", "1")
    assert "layer:3 instead of layer:1" in said
