"""Comparing systems on the command line: what is printed, written and refused."""

import json

import numpy as np
import pytest


@pytest.fixture
def metric(tiny_encoder):
    """Options of a small metric, and few samples."""
    return ["--model", "twmd", "--encoder", tiny_encoder, "--backend", "torch", "--samples", 50, "--trials", 50]


REFERENCES = ["the cat sat on the mat", "a dog ran home", "she will buy a book", "rain in the old town"]
GOOD = ["the cat sat on a mat", "a dog ran home", "she will buy a book", "rain in the town"]
BAD = ["book", "a small dog is big", "he sold it", "rain in the old town"]


@pytest.fixture
def files(tmp_path):
    """Files of two systems and their references."""
    for name, lines in (("good.en", GOOD), ("bad.en", BAD), ("ref.en", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return [tmp_path / name for name in ("bad.en", "good.en", "ref.en")]


def options(files):
    return ["--hypotheses", *files[:-1], "--references", files[-1]]


def test_systems_are_compared(run, metric, files):
    ended = run("compare", *options(files), *metric).ok()
    lines = ended.out.splitlines()
    assert lines[0].split() == ["system", "rank", "mean", "95", "%", "interval"]
    assert lines[1].split()[0] == "good"
    assert lines[2].split()[0] == "bad"
    sentence = next(line for line in lines if line.startswith("good against bad: +"))
    assert "better in 3, equal in 0, worse in 1 of 4 segments" in sentence
    assert "These are 4 segments: intervals and tests say little of fewer than 30." in lines
    assert "Segments on which they differ most:" in lines
    assert any(line.startswith("line ") for line in lines)
    assert "Signature: textmover:" in ended.err
    assert "test:paired-bootstrap|samples:50|seed:12345" in ended.err
    assert run("compare", *options(files), *metric, "--quiet").err == ""


def test_scores_are_those_of_the_command_score(run, metric, files):
    found = json.loads(run("compare", *options(files), *metric, "--format", "json").out)
    by_name = {one["name"]: one for one in found["systems"]}
    for name, path in (("bad", files[0]), ("good", files[1])):
        scores = [float(one) for one in run("score", "-i", path, files[2], *metric[:6]).out.split()]
        assert by_name[name]["scores"] == pytest.approx(scores, abs=1e-6)
        assert by_name[name]["mean"] == pytest.approx(sum(scores) / 4, abs=1e-6)
    (pair,) = found["pairs"]
    assert (pair["baseline"], pair["system"]) == ("bad", "good")
    assert pair["wins"] + pair["ties"] + pair["losses"] == 4
    assert found["differing"][0]["systems"].keys() == {"good", "bad"}
    assert found["signature"].startswith("textmover:")


def test_columns_of_a_table(run, metric, tmp_path, files):
    table = tmp_path / "table.tsv"
    rows = [("ours", "theirs", "reference"), *zip(GOOD, BAD, REFERENCES, strict=True)]
    table.write_text("".join("\t".join(row) + "\n" for row in rows))
    columns = ["--hypothesis-column", "theirs", "--hypothesis-column", "ours"]
    found = json.loads(run("compare", "--data", table, *columns, *metric, "--format", "json").out)
    other = json.loads(run("compare", *options(files), *metric, "--format", "json").out)
    assert [one["name"] for one in found["systems"]] == ["ours", "theirs"]
    assert [one["scores"] for one in found["systems"]] == [one["scores"] for one in other["systems"]]


def test_names_and_files(run, metric, tmp_path, files):
    output = tmp_path / "table.tex"
    ended = run("compare", *options(files), *metric, "--names", "A_1", "B&C", "--format", "latex", "--output", output)
    assert (ended.code, ended.out) == (0, "")
    text = output.read_text()
    assert r"\textbf{" in text
    assert r"B\&C" in text
    assert r"A\_1" in text
    assert text.count(r"\begin{tabular}") == 2
    assert text.isascii()


def test_metrics_that_fit_on_a_call_fit_on_all_systems(run, files, tiny_encoder):
    metric = ["--model", "bertscore-f1-idf", "--encoder", tiny_encoder, "--backend", "torch", "--samples", 9]
    one = json.loads(run("compare", *options(files), *metric, "--format", "json").out)
    other = json.loads(run("compare", *options([files[1], files[0], files[2]]), *metric, "--format", "json").out)
    scores, others = ({two["name"]: two["scores"] for two in found["systems"]} for found in (one, other))
    assert scores.keys() == others.keys()
    for name, of_system in scores.items():
        assert of_system == pytest.approx(others[name], abs=1e-6)


def test_files_of_one_name_are_told_apart(run, metric, tmp_path, files):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder, path in zip(folders, files, strict=False):
        folder.mkdir()
        (folder / "out.txt").write_text(path.read_text())
    given = [folder / "out.txt" for folder in folders]
    found = json.loads(run("compare", *options([*given, files[2]]), *metric, "--format", "json").out)
    assert {one["name"] for one in found["systems"]} == set(map(str, given))


def test_systems_with_the_same_output_tie(run, metric, tmp_path, files):
    """Whatever stands beside it in a batch: a score may move by its last digits with its batch mates."""
    long = " ".join(["the old town by the river"] * 8)
    first, second = tmp_path / "first.en", tmp_path / "second.en"
    references = tmp_path / "references.en"
    first.write_text("".join(f"{line}\n" for line in [*GOOD, long]))
    second.write_text("".join(f"{line}\n" for line in [*GOOD, "a dog"]))
    references.write_text("".join(f"{line}\n" for line in [*REFERENCES, long]))
    given = ["--hypotheses", first, second, "--references", references]
    found = json.loads(run("compare", *given, *metric, "--format", "json").out)
    assert (found["pairs"][0]["ties"], found["pairs"][0]["losses"]) == (4, 1)


# --- scores that are there already ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["tsv", "csv", "txt", "json", "jsonl", "parquet"])
def test_scores_of_the_command_score_are_read_in_every_format(run, metric, files, suffix):
    output = f"scores.{suffix}"
    assert run("score", *options(files), *metric[:6], "--output", output, "--quiet").code == 0
    names = ["--names", "bad", "good"] if suffix == "jsonl" else []
    ended = run("compare", "--scores", output, *names, *metric[6:], "--format", "json").ok()
    found = json.loads(ended.out)
    expected = json.loads(run("compare", *options(files), *metric, "--format", "json").out)
    by_name = [
        {one["name"].removesuffix(".en"): one["scores"] for one in each["systems"]} for each in (found, expected)
    ]
    assert by_name[0].keys() == by_name[1].keys() or suffix != "jsonl"
    for ours, theirs in zip(by_name[0].values(), by_name[1].values(), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
    assert found["differing"][0]["references"] == []
    assert found["differing"][0]["systems"].keys() == {one["name"] for one in found["systems"]}


def test_ready_scores_with_their_texts(run, metric, files, write):
    table = write("bleu.csv", ["id,A.v1,A.v2", *(f"{place},{place},{1 - place}" for place in range(4))])
    columns = ["--score-columns", "A.v2", "A.v1"]
    ended = run("compare", "--scores", table, *columns, *options(files), *metric[6:], "--segments", 1).ok()
    assert "good against bad: +2.0000" in ended.out  # named after the texts, in the order of the columns
    assert "  good 3.000: rain in the town" in ended.out
    assert "line 4" in ended.out
    assert "Signature: scores of a file:bleu.csv|sha256:" in ended.err
    alone = run("compare", "--scores", table, *columns, *metric[6:], "--segments", 1)
    assert "A.v1 against A.v2" in alone.out
    assert "line 5" in alone.out  # of the table


def test_lower_is_better(run, metric, write):
    table = write("ter.tsv", ["a\tb", *(f"{place}\t{place + 1}" for place in range(40))])
    given = ["compare", "--scores", table, *metric[6:]]
    assert run(*given).out.splitlines()[1].split()[0] == "b"
    falling = run(*given, "--lower-is-better", "--segments", 1).out
    assert falling.splitlines()[1].split()[0] == "a"
    assert "a is better." in falling
    assert falling.index("  a 0.000") < falling.index("  b 1.000")


def test_a_file_of_scores_for_each_system(run, metric, write):
    one, other = write("one.txt", ["0.5", "0.25"]), write("two.txt", ["0.75", "0.5"])
    assert "two against one: +0.2500" in run("compare", "--scores", one, other, *metric[6:]).out


def test_many_systems_are_told_each_beside_the_next(run, metric, write):
    rng = np.random.default_rng(0)
    base = rng.normal(size=40)
    names = [f"s{place}" for place in range(8)]
    rows = np.stack([base + 0.2 * place + rng.normal(size=40) for place in range(8)], axis=1)
    table = write("many.csv", [",".join(names), *(",".join(map(str, row)) for row in rows)])
    out = run("compare", "--scores", table, "--trials", 100, "--samples", 100).out
    assert out.count(" against ") == 7
    assert "These are 7 of 28 pairs" in out
    assert len(json.loads(run("compare", "--scores", table, "--format", "json", "--trials", 9).out)["pairs"]) == 28


def test_a_decision_that_few_segments_cannot_carry_is_doubted(run, metric, write):
    table = write("few.csv", ["a,b", *(f"{place},{place + (place < 3)}" for place in range(12))])
    out = run("compare", "--scores", table, *metric[6:8], "--trials", 2000).out
    assert "Between a and b only 3 segments differ: the exact p is at least 0.25. Smaller" in out
    many = write("many.csv", ["a,b", *(f"{place},{place + 1}" for place in range(12))])
    assert "segments differ" not in run("compare", "--scores", many, *metric[6:]).out


@pytest.mark.parametrize(("form", "said"), [("text", "p ≥ 1 (bootstrap)"), ("latex", r"$\geq$ 1"), ("html", "≥ 1")])
def test_a_single_segment_has_no_small_p_in_any_format(run, write, form, said):
    table = write("one.csv", ["a,b", "0.9,0.1"])
    out = run("compare", "--scores", table, "--trials", 2000, "--samples", 2000, "--format", form).out
    assert said in out
    assert "< 0.001" not in out.replace("&lt;", "<")
    assert "0.0005" not in out
    (pair,) = json.loads(run("compare", "--scores", table, "--format", "json").out)["pairs"]
    assert pair["bootstrap"]["p_value"] == pair["randomisation"]["p_value"] == 1
    assert pair["bootstrap"]["sacrebleu_p_value"] < 0.001


# --- the page ---------------------------------------------------------------------------------------------------------


def test_a_page(run, metric, files, tmp_path):
    output = tmp_path / "page.html"
    ended = run("compare", *options(files), *metric, "--output", output, "--names", "<b>bad</b>", "good & new")
    assert (ended.code, ended.out) == (0, "")
    page = output.read_text(encoding="utf-8")
    assert "&lt;b&gt;bad&lt;/b&gt;" in page
    assert "<b>bad</b>" not in page
    assert "good &amp; new" in page
    assert "test:paired-bootstrap|samples:50|seed:12345" in page
    assert "textmover compare --hypotheses" in page.replace("<span>", "").replace("</span>", "")
    assert run("compare", *options(files), *metric, "--format", "html", "--quiet").out.startswith("<!DOCTYPE html>")


# --- whatever texts, scores and names hold ----------------------------------------------------------------------------

FEW = ["--samples", 50, "--trials", 50]


def test_the_signature_depends_on_the_scores(run, write):
    said = []
    for number in ("0.5", "0.75"):
        path = write("s.csv", ["a,b", f"{number},1"])
        said.append(json.loads(run("compare", "--scores", path, *FEW, "--format", "json").out)["signature"])
    assert said[0] != said[1]


def test_ready_scores_beside_their_texts_in_every_format(run, files, write):
    scores = write("scores.csv", ["x,y", *(f"{place},{4 - place}" for place in range(4))])
    given = ["compare", "--scores", scores, *options(files), *FEW, "--segments", 1]
    assert json.loads(run(*given, "--format", "json").out)["differing"] == [
        {
            "line": 1,
            "references": [REFERENCES[0]],
            "systems": {"bad": {"score": 0, "text": BAD[0]}, "good": {"score": 4, "text": GOOD[0]}},
        }
    ]
    page = run(*given, "--format", "html").out
    assert GOOD[0] in page
    assert GOOD[1] not in page


@pytest.mark.parametrize(
    ("suffix", "beginning"),
    [("json", "{"), ("tex", "% Needs"), ("html", "<!DOCTYPE html>"), ("HTM", "<!DOCTYPE html>")],
)
def test_the_suffix_decides_on_the_format(run, write, tmp_path, suffix, beginning):
    path = write("s.csv", ["a,b", "1,2", "2,3"])
    output = tmp_path / f"made.{suffix}"
    ended = run("compare", "--scores", path, *FEW, "--output", output)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert output.read_text(encoding="utf-8").startswith(beginning)
    assert run("compare", "--scores", path, *FEW, "--output", output, "--format", "json").code == 0
    assert json.loads(output.read_text(encoding="utf-8"))["segments"] == 2


def test_texts_of_every_kind(run, metric, write):
    nasty = ["<b>a cat</b>", "مرحبا بالعالم", "a\x1b[31m dog", "x " * 2000]
    first, second = write("one.txt", nasty), write("two.txt", ["a cat", "hello world", "dog", "y"])
    given = ["compare", "--hypotheses", first, second, "--references", second, *metric]
    ended = run(*given).ok()
    assert "مرحبا بالعالم" in ended.out
    assert r"a\x1b[31m dog" in ended.out
    assert "\x1b" not in ended.out
    assert max(map(len, ended.out.splitlines())) < 400
    page = run(*given, "--format", "html").ok()
    assert "<b>a cat" not in page.out
    assert "&lt;b&gt;a cat" in page.out


@pytest.mark.parametrize("command", ["compare", "rank"])
def test_names_do_nothing_to_a_terminal(run, write, command):
    path = write("s.csv", ["[/b],[red]x[/red],a\x1b[31mz", "1,2,3", "2,3,1"])
    ended = run(command, "--scores", path, *FEW).ok()
    assert "\x1b" not in ended.out
    assert all(name in ended.out for name in ("[/b]", "[red]x[/red]", r"a\x1b[31mz"))
