"""Sources on the command line: files of lines, columns of tables, and what cannot be used."""

import json

import pytest

HYPOTHESES = ["the small dog ran home", "she sells books", "tea and water"]
OTHERS = ["one cat ran", "he bought paper", "she sells books"]
REFERENCES = ["a little dog ran", "she sold a book", "warm tea"]
SOURCES = ["hot dog water", "she sells books", "cup of tea"]


@pytest.fixture
def metric(tiny_multilingual):
    return ["--model", "twmd", "--encoder", tiny_multilingual, "--layer", "2", "--quiet"]


@pytest.fixture(scope="module")
def checkpoints(tiny_multilingual, tmp_path_factory):
    """Folders of metrics that read references, sources, or both."""
    from textmover.scoring import load_metric, save_checkpoint

    fields = {"plain": {}, "source": {"mode": "source"}, "both": {"mode": "both"}}
    fields["fallback"] = {"mode": "both", "fallback": True}
    folder = tmp_path_factory.mktemp("checkpoints")
    return {
        name: str(
            save_checkpoint(load_metric("twmd", encoder=str(tiny_multilingual), **one), folder / name, card="#\n")
        )
        for name, one in fields.items()
    }


@pytest.fixture
def files(write, tmp_path):
    columns = {"hypothesis": HYPOTHESES, "other": OTHERS, "reference": REFERENCES, "source": SOURCES}
    for name, lines in columns.items():
        write(f"{name}.txt", lines)
    first, second, third = zip(*columns.values(), strict=True)
    gap = (*second[:2], "\u2060", second[3])  # invisible
    for name, rows in (("table.csv", (first, second, third)), ("gaps.csv", (first, gap, third))):
        write(name, map(",".join, [columns, *rows]))
    write("blank.txt", [SOURCES[0], "\ufeff\u200b", SOURCES[2]])
    return tmp_path


@pytest.fixture
def rated(write):
    """Writes ``rated.tsv``: columns, over and over again, beside scores."""

    def rated(scores=range(12), **columns):
        rows = zip(*(cells * (len(scores) // len(cells)) for cells in columns.values()), scores, strict=True)
        write("rated.tsv", ["\t".join([*columns, "score"]), *("\t".join(map(str, row)) for row in rows)])

    return rated


def scores(ended):
    return [float(line) for line in ended.ok().out.split()]


@pytest.mark.parametrize("mode", ["source", "both"])
def test_lines_columns_and_python_give_the_same_scores(run, files, metric, tiny_multilingual, mode):
    from textmover import Scorer

    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_multilingual), layer=2, mode=mode, backend="torch")
    expected = scorer.score(HYPOTHESES, None if mode == "source" else REFERENCES, SOURCES).scores.tolist()
    given = ["reference.txt"] if mode == "both" else []
    lines = scores(run("score", "-i", "hypothesis.txt", *given, "-s", "source.txt", "--mode", mode, *metric))
    table = scores(run("score", "--data", "table.csv", "--mode", mode, *metric))
    assert lines == pytest.approx(expected, abs=1e-6)
    assert lines == table
    assert scores(run("score", "-i", "hypothesis.txt", "reference.txt", *metric)) != lines


@pytest.mark.parametrize("command", ["score", "compare", "rank", "rank-long", "errors", "evaluate", "sweep"])
def test_a_checkpoint_that_reads_sources_reads_their_column(run, rated, checkpoints, command):
    rated(hypothesis=HYPOTHESES, other=OTHERS, source=SOURCES, system="ab")
    more = {
        "compare": SYSTEMS,
        "rank": SYSTEMS,
        "rank-long": ["--system-column", "system", "--item-column", "score"],
        "evaluate": ["--samples", "20", "--permutations", "20"],
        "sweep": ["--samples", "20", "--no-figure", "--field", "alpha=0.5"],
    }
    given = [command.partition("-")[0], "--data", "rated.tsv", *more.get(command, ())]
    found = run(*given, "--model", checkpoints["source"]).ok().out
    typed = run(*given, "--model", checkpoints["plain"], "--mode", "source").ok().out
    assert found.replace("/source", "/plain") == typed


def test_a_checkpoint_that_falls_back_reads_the_columns_that_are_there(run, write, files, checkpoints):
    columns = {"hypothesis": HYPOTHESES, "reference": REFERENCES, "source": SOURCES}
    for left in ("reference", "source"):
        names = [name for name in columns if name != left]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*(columns[name] for name in names), strict=True)]
        write(f"{left}.jsonl", map(json.dumps, rows))
        write(f"{left}.tsv", ["\t".join(names), *("\t".join(row.values()) for row in rows)])
    model = ["--quiet", "--model", checkpoints["fallback"]]
    for form in ("jsonl", "tsv"):
        by_source = scores(run("score", "--data", f"reference.{form}", *model))
        assert by_source == scores(run("score", "-i", "hypothesis.txt", "-s", "source.txt", *model))
        assert by_source == scores(run("score", "--data", f"reference.{form}", "--source-column", "source", *model))
        by_reference = scores(run("score", "--data", f"source.{form}", *model))
        assert by_reference == scores(run("score", "-i", "hypothesis.txt", "reference.txt", *model))
        said = run("score", "--data", f"source.{form}", "--source-column", "src", *model).complaint()
        assert "Expected a column 'src' in source." in said
        strict = run("score", "--data", f"source.{form}", "--model", checkpoints["both"]).complaint()
        assert f"Expected a column 'source' in source.{form}" in strict
    for form, side in (("reference.tsv", "source"), ("source.tsv", "reference"), ("table.csv", "reference+source")):
        for more in ([], ["--output", f"{side}.json", "--format", "json", "--resume"]):
            told = run("score", "--data", form, "--only-mean", *more, *model[1:]).ok()
            kept = json.loads((files / f"{side}.json").read_text())["signature"] if more else told.err
            assert kept.strip().endswith(f"|compared:{side}")
    write("alone.tsv", ["hypothesis", *HYPOTHESES])
    assert "Expected a column 'reference' in alone.tsv" in run("score", "--data", "alone.tsv", *model).complaint()


def test_a_metric_without_fallback_needs_its_column_beside_one_that_falls_back(run, rated, checkpoints):
    rated(hypothesis=HYPOTHESES, source=SOURCES)
    given = ["evaluate", "--data", "rated.tsv", "--samples", "20", "--model", checkpoints["fallback"]]
    run(*given).ok()
    said = run(*given, "--model", checkpoints["plain"]).complaint()
    assert "Expected a column 'reference' in rated.tsv" in said
    assert said.endswith("or take textmover-multilingual, which reads the column 'source'.\n")


def test_a_row_without_a_reference_falls_back_to_its_source(run, files, metric):
    table = ["--data", "gaps.csv", *metric]
    said = run("score", *table, "--mode", "both").complaint()
    assert "Expected a reference in column 'reference' of gaps.csv, line 3, since `mode` is 'both', but got" in said
    found = scores(run("score", *table, "--fallback", "true"))
    by_source = scores(run("score", *table, "--mode", "source"))
    by_reference = scores(run("score", "-i", "hypothesis.txt", "reference.txt", *metric))
    assert found == [by_reference[0], by_source[1], by_reference[2]]
    loud = run("score", *table[:-1], "--fallback", "true").ok().err
    assert loud.count("1 segment lacked a reference: the source stood in for it") == 1
    left = run("score", *table, "--fallback", "true", "--missing-references", "leave-out").ok().out.split()
    assert left == [str(found[0]), "nan", str(found[2])]


def test_compare_and_rank_by_the_source(run, files, metric):
    texts = ["-t", "hypothesis.txt", "other.txt", "-s", "source.txt", "--mode", "source", *metric]
    compared = json.loads(run("compare", *texts, "--format", "json").ok().out)
    table = ["--data", "table.csv", "--hypothesis-column", "hypothesis", "--hypothesis-column", "other"]
    same = json.loads(run("compare", *table, "--mode", "source", *metric, "--format", "json").ok().out)
    assert [one["mean"] for one in compared["systems"]] == [one["mean"] for one in same["systems"]]
    expected = scores(run("score", "-i", "other.txt", "-s", "source.txt", "--mode", "source", *metric))
    ranked = run("rank", *texts, "--format", "csv").ok().out
    assert f"{sum(expected) / 3:.4f}"[1:] in ranked


def test_explain_aligns_a_translation_with_its_source(run, files, metric):
    given = ["--mode", "source", *metric, "--format", "json"]
    found = json.loads(run("explain", "-i", "hypothesis.txt", "-s", "source.txt", "--line", "3", *given).ok().out)
    assert found["reference"]["words"][1:-1] == ["cup", "of", "tea"]
    assert "source" in run("explain", HYPOTHESES[2], "-s", SOURCES[2], *given[:-1], "text").ok().out.split()
    assert found["score"] == pytest.approx(
        scores(run("score", "-i", "hypothesis.txt", "-s", "source.txt", "--mode", "source", *metric))[2], abs=1e-6
    )
    same = json.loads(run("explain", HYPOTHESES[2], "-s", SOURCES[2], *given).ok().out)
    assert same["contributions"] == found["contributions"]
    both = ["-i", "other.txt", "reference.txt", "-s", "source.txt", "--lines", "2-3", "--mode", "both", *metric]
    printed = run("explain", *both).ok().out
    assert printed.count("0.5 * reference + 0.5 * source") == 2
    assert f"\nsource      {SOURCES[1]}\n" in printed
    page = run("explain", *both, "--format", "html").ok().out
    assert "2 lines" in page
    assert "<h2>Line 3, against the source</h2>" in page
    assert 'id="line-2-source"' in page


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-i", "hypothesis.txt", "reference.txt", "-s", "source.txt"], "set `mode` to source or both"),
        (["-i", "hypothesis.txt", "-s", "short.txt", "--mode", "source"], "3 in hypothesis.txt, 2 in short.txt"),
        (
            ["-i", "hypothesis.txt", "reference.txt", "--mode", "both"],
            "a source for each hypothesis, since `mode` is 'both', but got none: name their file (--sources)",
        ),
        (["-i", "hypothesis.txt", "--mode", "source"], "add a second file"),
        (["--data", "blank.csv", "--mode", "source"], "a source in column 'source' of blank.csv, line 2, but got none"),
        (["--data", "table.csv", "-s", "source.txt"], "Expected `--source-column` together with --data"),
        (["-i", "hypothesis.txt", "reference.txt", "--source-column", "a"], "Expected `--source-column` together with"),
        (["--data", "table.csv", "--source-column", "src", "--mode", "both"], "set `--source-column` to the name of"),
    ],
)
def test_what_cannot_be_used_is_refused(run, files, metric, arguments, expected):
    (files / "short.txt").write_text("a\nb\n")
    (files / "blank.csv").write_text("hypothesis,source\na,\n")
    assert expected in run("score", *arguments, *metric).complaint()


LINES, TABLE, SETS = (
    "line 2 of blank.txt",
    "column 'source' of blank.csv, line 3",
    "column 'source' of blank.jsonl, line 2",
)
SYSTEMS = ["--hypothesis-column", "hypothesis", "--hypothesis-column", "other"]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("score -i hypothesis.txt reference.txt -s blank.txt", LINES),
        ("score -t hypothesis.txt other.txt -r reference.txt -s blank.txt --shard-size 2", LINES),
        ("score --data blank.csv", TABLE),
        ("score --data blank.jsonl", SETS),
        ("compare -t hypothesis.txt other.txt -r reference.txt -s blank.txt", LINES),
        ("compare --data blank.csv --hypothesis-column hypothesis --hypothesis-column other", TABLE),
        ("rank -t hypothesis.txt other.txt -r reference.txt -s blank.txt", LINES),
        ("rank --data blank.csv --system-column score --item-column other --hypothesis-column hypothesis", TABLE),
        ("evaluate --data blank.csv", "line 3 of blank.csv"),
        ("evaluate --data blank.jsonl", "line 2 of blank.jsonl"),
        ("mbr -i hypothesis.txt other.txt -s blank.txt", LINES),
        ("mbr --data blank.jsonl --source-column source", SETS),
        ("explain -i hypothesis.txt reference.txt -s blank.txt --lines 1-3", LINES),
    ],
)
def test_a_missing_source_is_named_by_file_and_line(run, write, files, metric, command, place):
    names = ["hypothesis", "other", "reference", "source", "score"]
    rows = list(zip(HYPOTHESES, ["a", "a", "b"], REFERENCES, [SOURCES[0], "", SOURCES[2]], "123", strict=True))
    write("blank.csv", map(",".join, [names, *rows]))
    sets = [{**dict(zip(names, row, strict=True)), "candidates": row[:2], "score": int(row[4])} for row in rows]
    write("blank.jsonl", map(json.dumps, sets))
    said = run(*command.split(), "--mode", "both", *metric).complaint()
    assert said.count("\n") <= 1
    assert f"Expected a source in {place}, since `mode` is 'both', but got none: give one, or set `fallback`" in said


@pytest.mark.parametrize("command", ["score", "compare", "rank", "evaluate"])
def test_missing_references_fall_back_and_are_told_once(run, rated, metric, command):
    rated(hypothesis=HYPOTHESES, other=OTHERS, reference=["", *REFERENCES[1:]], source=SOURCES)
    several = SYSTEMS if command in ("compare", "rank") else []
    told = run(command, "--data", "rated.tsv", *several, "--fallback", "true", *metric[:-1]).ok().err
    assert told.count("stood in for it") == 1
    wanted = "hypothesis (4), other (4): 8 segments lacked" if several else "4 segments lacked"
    assert wanted in told


def test_sources_need_an_encoder_of_many_languages(run, files, tiny_encoder):
    given = ["-i", "hypothesis.txt", "reference.txt", "-s", "source.txt", "--model", "twmd", "--encoder", tiny_encoder]
    for more in ([], ["--mode", "both"]):
        said = run("score", *given, *more).complaint()
        assert "Expected a metric that reads sources, but got one with the encoder" in said


def test_a_resumed_run_notices_another_source(run, files, metric):
    given = ["score", "-i", "hypothesis.txt", "-s", "source.txt", "--mode", "source", *metric, "--output", "out.jsonl"]
    run(*given, "--resume").ok()
    run(*given, "--resume").ok()
    (files / "source.txt").write_text("hot dog water\nother\ncup of tea\n")
    assert run(*given, "--resume").code == 2


def test_mbr_reads_sources_from_lines_and_columns(run, write, files, metric):
    given = ["--mode", "source", *metric, "--format", "jsonl"]
    lines = run("mbr", "-i", "hypothesis.txt", "other.txt", "-s", "source.txt", *given).ok().out.splitlines()
    groups = [list(pair) for pair in zip(HYPOTHESES, OTHERS, strict=True)]
    rows = [{"candidates": group, "src": source} for group, source in zip(groups, SOURCES, strict=True)]
    write("sets.jsonl", map(json.dumps, rows))
    table = run("mbr", "--data", "sets.jsonl", "--source-column", "src", *given).ok().out.splitlines()
    assert [json.loads(one) for one in lines] == [json.loads(one) for one in table]
    write("named.jsonl", (json.dumps({**one, "source": one["src"]}) for one in rows))
    assert run("mbr", "--data", "named.jsonl", *given).ok().out.splitlines() == table
    told = run("mbr", "--data", "named.jsonl", "--fallback", "true", "--mode", "both", *metric[:-1]).ok().err
    assert "|mbr:others+source" in told
    (files / "short.txt").write_text("a\n")
    said = run("mbr", "-i", "hypothesis.txt", "other.txt", "-s", "short.txt", *given).complaint()
    assert "Expected a line of short.txt for each segment, but segment 2 lacks its source" in said


def test_a_sweep_over_modes_reads_sources(run, rated, metric):
    rated(hypothesis=HYPOTHESES, reference=REFERENCES, source=SOURCES)
    given = ["--data", "rated.tsv", *metric, "--samples", "20", "--no-figure", "--format", "json"]
    modes = ("source", "both")
    found, *alone = (
        json.loads(run("sweep", *given, "--field", f"mode={one}").ok().out)["settings"]
        for one in (",".join(modes), *modes)
    )
    assert found == [one for several in alone for one in several]


def test_evaluate_a_metric_without_references(run, rated, files, metric):
    rated(hypothesis=HYPOTHESES, source=SOURCES)
    given = ["--data", "rated.tsv", "--mode", "source", *metric, "--samples", "20"]
    run("evaluate", *given, "--report", "page").ok()
    lines = (files / "rated.scores.tsv").read_text().splitlines()
    assert lines[0].split("\t")[:3] == ["hypothesis", "source", "human_score"]
    expected = scores(run("score", "-i", "hypothesis.txt", "-s", "source.txt", "--mode", "source", *metric))
    assert [float(line.split("\t")[-1]) for line in lines[1:4]] == pytest.approx(expected, abs=1e-6)
    said = run("evaluate", *given, "--baselines", "chrf", "--output", "other.tsv").complaint()
    assert "Expected references to compute chrf, but number 1 has none: leave chrf out." in said


@pytest.mark.parametrize(("mode", "sources", "references"), [("source", 3, 0), ("both", 2, 3), ("reference", 0, 3)])
def test_the_page_aligns_the_worst_segments_with_what_mode_reads(
    run, rated, tmp_path, metric, mode, sources, references
):
    rated((3, 2, 5), hypothesis=HYPOTHESES, reference=REFERENCES, source=SOURCES)  # the second one copies its source
    run("evaluate", "--data", "rated.tsv", "--mode", mode, *metric, "--samples", "20", "--report", "page").ok()
    page = (tmp_path / "page" / "index.html").read_text()
    titles = [f'<p class="label">{title}</p>' for title in ("Source", "Reference", "Hypothesis")]
    found = list(map(page.count, titles))
    assert found == [sources, references, sources + references]
    assert page.count("data-aligned>") == sources + references
    assert page.count("data-l=") > 4 * (sources + references)


SKIPPED, LEFT_OUT = ("twmd", "--on-error skip"), ("bertscore-f1-idf", "--missing-references leave-out")  # fits idf


@pytest.mark.parametrize(
    ("given", "how", "place"),
    [
        ("-i hypothesis.txt reference.txt -s blank.txt --mode both", LEFT_OUT, LINES),
        ("-i hypothesis.txt reference.txt -s blank.txt --mode source --shard-size 1", SKIPPED, LINES),
        ("-i hypothesis.txt blank.txt -s source.txt --mode both", SKIPPED, LINES),
        ("--data gaps.csv --mode both", SKIPPED, "column 'reference' of gaps.csv, line 3"),
        ("--data gaps.csv", LEFT_OUT, "column 'reference' of gaps.csv, line 3"),
    ],
)
def test_rows_that_the_metric_refuses_are_left_out(run, files, metric, given, how, place):
    model, left = how
    arguments = ["score", *given.split(), *metric[2:], "--model", model]
    assert place in run(*arguments).complaint()
    ended = run(*arguments, *left.split()).ok()
    assert [one == "nan" for one in ended.out.split()] == [False, True, False]
    assert ended.err.startswith("No score (nan): 1 row; the first: Expected a ")
    assert place in ended.err
