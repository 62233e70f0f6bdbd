"""Comparing systems on the command line: what is printed and written."""

import json
from pathlib import Path

import numpy as np
import pytest

FEW = ["--samples", 50, "--trials", 50]
REFERENCES = ["the cat sat on the mat", "a dog ran home", "she will buy a book", "rain in the old town"]
GOOD = ["the cat sat on a mat", "a dog ran home", "she will buy a book", "rain in the town"]
BAD = ["book", "a small dog is big", "he sold it", "rain in the old town"]


@pytest.fixture
def metric(metric):
    """Options of a small metric, and few samples."""
    return [*metric, *FEW]


@pytest.fixture
def files(write):
    return [write(name, lines) for name, lines in (("bad.en", BAD), ("good.en", GOOD), ("ref.en", REFERENCES))]


def options(files):
    return ["--hypotheses", *files[:-1], "--references", files[-1]]


@pytest.fixture
def compared(run):
    return lambda *arguments: json.loads(run("compare", *arguments, "--format", "json").ok().out)


def test_systems_are_compared(run, compared, metric, files):
    ended = run("compare", *options(files), *metric).ok()
    lines = ended.out.splitlines()
    assert lines[0].split() == ["system", "rank", "mean", "95", "%", "interval"]
    assert [line.split()[0] for line in lines[1:3]] == ["good", "bad"]
    sentence = next(line for line in lines if line.startswith("good against bad: +"))
    assert "better in 3, equal in 0, worse in 1 of 4 segments" in sentence
    assert "Only 4 segments: intervals and tests are unreliable with fewer than 30." in lines
    assert "Segments on which they differ most:" in lines
    assert any(line.startswith("line ") for line in lines)
    assert "Signature: textmover:" in ended.err
    assert "test:paired-bootstrap|samples:50|seed:12345" in ended.err
    assert run("compare", *options(files), *metric, "--quiet").err == ""

    found = compared(*options(files), *metric)
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


def test_stock_answers_are_counted_by_system(run, metric, write):
    """Also where systems share outputs, each of which is scored once, and where the last one has some of its own."""
    answers = {"one": ["yes"] * 6 + ["a cat"] * 4, "two": ["no"] * 7 + ["a cat"] * 3, "three": list("abcdefghij")}
    given = [write(f"{name}.txt", lines) for name, lines in answers.items()]
    references = write("ref.txt", [f"{place} cats" for place in range(10)])
    for command, order in (
        ("compare", given[::-1]),
        ("compare", given),
        ("rank", given[1:] + given[:1]),
        ("score", given),
    ):
        options = metric[:6] if command == "score" else metric
        said = run(command, "-t", *order, "-r", references, *options, "--quiet").ok().err
        counts = {"one": (6, "yes"), "two": (7, "no")}
        named = [path for path in order if path.stem in counts]
        systems = [f"{path if command == 'score' else path.stem} ({counts[path.stem][0]})" for path in named]
        assert f"{', '.join(systems)}: 13 segments had a hypothesis that recurs" in said
        assert f"such as {', '.join(repr(counts[path.stem][1]) for path in named)}: check" in said


def test_columns_of_a_table_and_files_of_one_name(compared, metric, tmp_path, files, write):
    other = compared(*options(files), *metric)
    rows = zip(GOOD, BAD, REFERENCES, strict=True)
    table = write("table.tsv", ["ours\ttheirs\treference", *("\t".join(row) for row in rows)])
    columns = ["--hypothesis-column", "theirs", "--hypothesis-column", "ours"]
    found = compared("--data", table, *columns, *metric)
    assert [one["name"] for one in found["systems"]] == ["ours", "theirs"]
    assert [one["scores"] for one in found["systems"]] == [one["scores"] for one in other["systems"]]
    for path in files[:2]:
        (tmp_path / path.stem).mkdir()
        path.rename(tmp_path / path.stem / "out.txt")
    given = [tmp_path / path.stem / "out.txt" for path in files[:2]]
    assert {one["name"] for one in compared(*options([*given, files[2]]), *metric)["systems"]} == set(map(str, given))


def test_metrics_that_fit_on_a_call_fit_on_all_systems(compared, files, tiny_encoder):
    metric = ["--model", "bertscore-f1-idf", "--encoder", tiny_encoder, "--backend", "torch", "--samples", 20]
    scores, others = (
        {two["name"]: two["scores"] for two in compared(*options(given), *metric)["systems"]}
        for given in (files, [files[1], files[0], files[2]])
    )
    assert scores.keys() == others.keys()
    for name, of_system in scores.items():
        assert of_system == pytest.approx(others[name], abs=1e-6)


def test_systems_with_the_same_output_tie(compared, metric, write):
    """Whatever stands beside it in a batch: a score may move by its last digits with its batch mates."""
    long = " ".join(["the old town by the river"] * 8)
    given = [write("first", [*GOOD, long]), write("second", [*GOOD, "a dog"]), write("ref", [*REFERENCES, long])]
    (pair,) = compared(*options(given), *metric)["pairs"]
    assert (pair["ties"], pair["losses"]) == (4, 1)


def test_latex_and_a_page_are_written(run, metric, files, tmp_path):
    for name in ("table.tex", "page.html"):
        ended = run("compare", *options(files), *metric, "--names", "A_1", "<b>B</b>&C", "--output", name)
        assert (ended.code, ended.out) == (0, "")
    text, page = ((tmp_path / name).read_text(encoding="utf-8") for name in ("table.tex", "page.html"))
    assert all(part in text for part in (r"\textbf{", r"\&C", r"A\_1"))
    assert text.count(r"\begin{tabular}") == 2
    assert text.isascii()
    assert "&lt;b&gt;B&lt;/b&gt;&amp;C" in page
    assert "<b>B</b>" not in page
    assert "test:paired-bootstrap|samples:50|seed:12345" in page
    assert "textmover compare --hypotheses" in page.replace("<span>", "").replace("</span>", "")


# --- scores that are there already ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["tsv", "csv", "txt", "json", "jsonl", "parquet"])
def test_scores_of_the_command_score_are_read_in_every_format(run, compared, files, metric, suffix):
    output = f"scores.{suffix}"
    assert run("score", *options(files), *metric[:6], "--output", output, "--quiet").code == 0
    names = ["--names", "bad", "good"] if suffix == "jsonl" else []
    found = compared("--scores", output, *names, *FEW)
    expected = {path.stem: run("score", "-i", path, files[2], *metric[:6]).out.split() for path in files[:2]}
    for one in found["systems"]:
        assert one["scores"] == pytest.approx(list(map(float, expected[Path(one["name"]).stem])), abs=1e-6)
    assert found["differing"][0]["references"] == []
    assert found["differing"][0]["systems"].keys() == {one["name"] for one in found["systems"]}


def test_ready_scores_with_their_texts(run, compared, files, write):
    table = write("bleu.csv", ["id,A.v1,A.v2", *(f"{place},{place},{1 - place}" for place in range(4))])
    given = ["compare", "--scores", table, "--score-columns", "A.v2", "A.v1", *FEW, "--segments", 1]
    ended = run(*given, *options(files)).ok()
    assert "good against bad: +2.0000" in ended.out  # named after the texts, in the order of the columns
    assert "  good 3.000: rain in the town" in ended.out
    assert "line 4" in ended.out
    assert "Signature: scores of a file:bleu.csv|sha256:" in ended.err
    alone = run(*given)
    assert "A.v1 against A.v2" in alone.out
    assert "line 5" in alone.out  # of the table
    systems = {"bad": {"score": -2, "text": BAD[3]}, "good": {"score": 3, "text": GOOD[3]}}
    (differing,) = compared(*given[1:], *options(files))["differing"]
    assert differing == {"line": 4, "references": [REFERENCES[3]], "systems": systems}
    page = run(*given, *options(files), "--format", "html").out
    assert GOOD[3] in page
    assert GOOD[1] not in page


def test_ready_scores_of_other_segments_than_the_data_are_refused(run, refused, write):
    data = write("data.csv", ["id,a,b,ref", *(f"s{place},x {place},y {place},z {place}" for place in range(4))])
    given = ["--data", data, "--hypothesis-column", "a", "--hypothesis-column", "b", "--reference-column", "ref", *FEW]
    scores = [f"s{place},{place},{1 - place}" for place in range(4)]
    run("compare", *given, "--scores", write("same.csv", ["id,a,b", *scores]), "--score-columns", "a", "b").ok()
    turned = write("turned.csv", ["id,a,b", *scores[::-1]])
    said = refused("compare", *given, "--scores", turned, "--score-columns", "a", "b")
    assert f"got id 's3' in line 2 of {turned} and 's0' in line 2 of {data}: sort both files alike" in said


def test_ready_scores_in_another_order_than_their_texts_are_refused(run, refused, files, write):
    scores = {"good": [3, 2, 4, 1], "bad": [1, 0, 2, 0]}
    one_each = [write(f"{name}.chrf", values) for name, values in scores.items()]
    table = write(
        "both.tsv", ["good.en\tbad.en", *(f"{one}\t{other}" for one, other in zip(*scores.values(), strict=True))]
    )
    bad, good, references = files
    for given in (one_each, [table]):
        out = run("compare", "--scores", *given, *options([good, bad, references]), *FEW).ok().out
        assert out.splitlines()[1].startswith("good")
        said = refused("compare", "--scores", *given, *options(files))
        assert "but got scores of good, bad and texts of bad, good: name both in the same order" in said
    columns = ["--scores", table, "--score-columns", "bad.en", "good.en"]
    assert run("compare", *columns, *options(files), *FEW).ok().out.splitlines()[1].startswith("good")


def test_lower_is_better_and_a_file_for_each_system(run, write):
    table = write("ter.tsv", ["a\tb", *(f"{place}\t{place + 1}" for place in range(40))])
    given = ["compare", "--scores", table, *FEW]
    assert run(*given).out.splitlines()[1].split()[0] == "b"
    falling = run(*given, "--lower-is-better", "--segments", 1).out
    assert falling.splitlines()[1].split()[0] == "a"
    assert "a is better." in falling
    assert falling.index("  a 0.000") < falling.index("  b 1.000")
    direction = "Lower scores are better."
    assert (direction in falling, direction in run(*given).out) == (True, False)
    assert direction in run(*given, "--lower-is-better", "--format", "latex").out
    one, other = write("one.txt", ["0.5", "0.25"]), write("two.txt", ["0.75", "0.5"])
    assert "two against one: +0.2500" in run("compare", "--scores", one, other, *FEW).out


@pytest.mark.parametrize("command", ["compare", "rank"])
@pytest.mark.parametrize("form", ["text", "latex"])
def test_zero_has_no_minus_sign(run, write, command, form):
    rows = ["-1e-5,-2e-5,-0.0"] * 3 + ["-0.00002,-0.00001,0"] * 3
    scores = write("scores.csv", ["a,b,c", *rows])
    options = ("--lower-is-better", "--samples", 20, "--trials", 20, "--format", form)
    assert "-0.0" not in run(command, "--scores", scores, *options).ok().out.replace("$-$", "-")


def test_many_systems_are_told_each_beside_the_next(run, compared, write):
    rng = np.random.default_rng(0)
    base = rng.normal(size=40)
    rows = np.stack([base + 0.2 * place + rng.normal(size=40) for place in range(8)], axis=1)
    names = ",".join(f"s{place}" for place in range(8))
    table = write("many.csv", [names, *(",".join(map(str, row)) for row in rows)])
    out = run("compare", "--scores", table, "--trials", 100, "--samples", 100).out
    assert out.count(" against ") == 7
    assert "Only 7 of 28 pairs" in out
    assert len(compared("--scores", table, "--trials", 9)["pairs"]) == 28


def test_a_decision_that_few_segments_cannot_carry_is_doubted(run, write):
    table = write("few.csv", ["a,b", *(f"{place},{place + (place < 3)}" for place in range(12))])
    out = run("compare", "--scores", table, "--samples", 50, "--trials", 2000).out
    assert "Not significant: only 3 segments differ, so p cannot be below 0.25.\n" in out
    assert "p ≥ 0.25 (bootstrap), p ≥ 0.25 (randomisation)" in out
    assert "smaller" not in out
    many = write("many.csv", ["a,b", *(f"{place},{place + 1}" for place in range(12))])
    assert "segments differ" not in run("compare", "--scores", many, *FEW).out


def test_a_single_segment_has_no_small_p_in_any_format(run, compared, write):
    given = ("--scores", write("one.csv", ["a,b", "0.9,0.1"]), "--trials", 2000, "--samples", 2000)
    for form, said in (
        ("text", "), one segment allows no test; better in 0"),
        ("latex", "& = 1 &"),
        ("html", "= 1<"),
    ):
        out = run("compare", *given, "--format", form).out
        assert said in out
        assert "< 0.001" not in out.replace("&lt;", "<")
        assert "0.0005" not in out
    (pair,) = compared(*given)["pairs"]
    assert pair["bootstrap"]["p_value"] == pair["randomisation"]["p_value"] == 1
    assert pair["bootstrap"]["sacrebleu_p_value"] < 0.001


# --- whatever texts, scores and names hold ----------------------------------------------------------------------------


def test_the_signature_depends_on_the_scores(compared, write):
    said = [compared("--scores", write("s.csv", ["a,b", f"{one},1"]), *FEW)["signature"] for one in ("0.5", "0.75")]
    assert said[0] != said[1]


def test_the_suffix_decides_on_the_format_unless_it_is_named(run, write, tmp_path):
    path = write("s.csv", ["a,b", "1,2", "2,3"])
    page = "<!DOCTYPE html>"
    for suffix, beginning in {"json": "{", "tex": "% Needs", "html": page, "HTM": page}.items():
        output = tmp_path / f"made.{suffix}"
        assert run("compare", "--scores", path, *FEW, "--output", output) == (0, "", f"Written: {output}\n")
        assert output.read_text(encoding="utf-8").startswith(beginning)
    output = tmp_path / "made.scores"
    assert run("compare", "--scores", path, *FEW, "--output", output, "--format", "json").code == 0
    assert json.loads(output.read_text(encoding="utf-8"))["segments"] == 2
    for command in ("compare", "rank"):
        printed = run(command, "--scores", path, *FEW).ok().out
        for output in (["made.txt"], ["made", "--format", "text"]):
            assert run(command, "--scores", path, *FEW, "--output", *output).ok().out == ""
            assert (tmp_path / output[0]).read_text(encoding="utf-8") == printed


def test_texts_of_every_kind(run, metric, write):
    nasty = ["<b>a cat</b>", "مرحبا بالعالم", "a\x1b[31m dog", "x " * 2000]
    first, second = write("one.txt", nasty), write("two.txt", ["a cat", "hello world", "dog", "y"])
    out = run("compare", *options([first, second, second]), *metric).ok().out
    assert "مرحبا بالعالم" in out
    assert r"a\x1b[31m dog" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) < 400


@pytest.mark.parametrize("command", ["compare", "rank"])
def test_names_do_nothing_to_a_terminal(run, write, command):
    path = write("s.csv", ["[/b],[red]x[/red],a\x1b[31mz", "1,2,3", "2,3,1"])
    out = run(command, "--scores", path, *FEW).ok().out
    assert "\x1b" not in out
    assert all(name in out for name in ("[/b]", "[red]x[/red]", r"a\x1b[31mz"))


def test_a_system_worse_than_the_first_ends_with_1_where_asked(run, write):
    rows = [f"{0.2 + one / 100}\t{0.1 + one / 100}\t{0.3 + one / 100}" for one in range(40)]
    path = write("s.tsv", ["first\tworse\tbetter", *rows])
    common = ("compare", "--scores", path, *FEW)
    ended = run(*common, "--fail-if-worse", "--format", "json")
    assert (ended.code, ended.err) == (1, "Worse than first: worse\n")
    told = json.loads(ended.out)
    assert told["worse_than_first"] == ["worse"]
    assert [one["winner"] for one in told["pairs"]] == ["first", "better", "better"]
    assert all(one["verdict"] == f"{one['winner']} is better." for one in told["pairs"])
    assert run(*common).code == 0
    assert run(*common, "--fail-if-worse", "--score-columns", "first", "better").code == 0
    assert run(*common, "--fail-if-worse", "--score-columns", "better", "first", "--lower-is-better").code == 0
