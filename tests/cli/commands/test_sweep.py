import json
import logging
import math
import sys

import pytest
from tests.cli.shared import ROWS, SIGNALS, is_png, send, table_of

from textmover import Scorer
from textmover.checkpoints import statistics_files
from textmover.experiments import sweep as sweep_module
from textmover.modules.encoder.encoder import Encoder
from textmover.scoring import metric_set as settings_module
from textmover.scoring import save_checkpoint

RATED = ROWS[:8]
CORPUS = [text for row in RATED for text in row[1:3]]


@pytest.fixture
def ratings(write):
    return write("ratings.tsv", table_of(RATED))


@pytest.fixture
def base(ratings, tiny_encoder):
    return ("--data", ratings, "--encoder", tiny_encoder, "--samples", "20")


def swept(run, *arguments):
    ended = run("sweep", *arguments, "--format", "json").silent()
    return json.loads(ended.out)


def flag(name, value):
    return [{"output": "--metric-output"}.get(name, f"--{name.replace('_', '-')}"), json.dumps(value).strip('"')]


# --- every setting is what it is alone --------------------------------------------------------------------------------


def evaluated(run, *command) -> dict:
    (found,) = json.loads(run("evaluate", *command, "--format", "json").ok().out)["sets"]
    (metric,) = found["metrics"]
    return metric


def check_alone(run, told, command, fitting=()):
    """Each setting has the value, interval and signature that it has alone; some settings fit statistics."""
    for one in told["settings"]:
        values = one["fields"]
        fits = values.get("centering") == "corpus" or values.get("rescale") or values.get("weights")
        flags = [part for name, value in values.items() for part in flag(name, value)]
        found = evaluated(run, *command, *(fitting if fits else ()), *flags)
        sign = 1 if one["higher_is_better"] else -1
        assert sign * one["pearson"] == pytest.approx(found["value"], abs=1e-6)
        for end, other in zip(("low", "high"), ("low", "high")[::sign], strict=True):
            assert sign * one["interval"][end] == pytest.approx(found[other], abs=1e-6)
        assert one["signature"] == found["signature"]


SWEPT = """
temperature=0.01,0.1,1 layer=1,2
centering=none,corpus rescale=false,true --fit-on corpus.txt
weights=idf,tf-idf idf=smooth,plus-one --fit-on corpus.txt
long hypothesis-penalty=0.1,0.5,inf layer=null,2 --model lazy-emd-en
long centering=none,dimension,sentence,batch iterations=1,3
long alpha=0.3,0.7 subwords=all,first,mean --model bertscore-f1-idf
long matching=twmd,trwmd,bertscore,emd layer=null
long matching=emd,sbert aggregation=power-means,routing --last-layers 3
long powers=1,[1,inf] ngram=1,sentence --aggregation power-means --last-layers=2
long output=similarity,distance --normalize false --model wmd --no-cache
"""
"""Fields and their values, then further options; most are tested in the longest runs alone."""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.long) if line.startswith("long ") else line
        for line in SWEPT.strip().splitlines()
    ],
)
def test_a_sweep_is_each_setting_evaluated_alone(run, base, write, line):
    write("corpus.txt", CORPUS)
    swept_fields, dashes, rest = line.removeprefix("long ").partition(" --")
    options = (dashes + rest).split()
    fields = [part for field in swept_fields.split() for part in ("--field", field)]
    told = swept(run, *base, "--group", "lp", *fields, *options)
    assert len(told["settings"]) == math.prod(map(len, told["fields"].values()))
    fitting = options if "--fit-on" in options else []
    check_alone(run, told, (*base, "--group", "lp", *(options if not fitting else ())), fitting)


@pytest.fixture(scope="module")
def fitted(tiny_encoder):
    return Scorer.from_pretrained("twmd-b", encoder=str(tiny_encoder), layer=2).fit(CORPUS)


def test_checkpoints_and_statistics_of_files_serve_every_setting(
    run, refused, base, ratings, checkpoint, fitted, tmp_path, monkeypatch
):
    command = ("--data", ratings, "--model", checkpoint, "--samples", "20")
    check_alone(run, swept(run, *command, "--field", "temperature=0.02,0.2"), command)
    folder = save_checkpoint(fitted.metric, tmp_path / "metric", card="# card\n")
    command = ("--data", ratings, "--model", folder, "--samples", "20")
    check_alone(
        run, swept(run, *command, "--field", "centering=none,corpus,sentence", "--field", "score=f,recall"), command
    )
    path = fitted.save_statistics(tmp_path / "mean.safetensors")
    command = (*base, "--model", "twmd-b", "--layer", "2", "--statistics", path)
    read, plain = [], statistics_files._read
    with monkeypatch.context() as patch:
        patch.setattr(statistics_files, "_read", lambda path: read.append(path) or plain(path))
        told = swept(run, *command, "--field", "temperature=0.1,0.3", "--field", "score=f,recall")
    assert read == [path]
    check_alone(run, told, command)
    said = refused("sweep", *command, "--field", "centering=corpus,none", "--no-figure")
    assert "but got mean: set `--centering` to corpus" in said


@pytest.mark.parametrize("limit", [settings_module.STATES_BYTES, 3000, 0])
def test_each_text_is_encoded_once_for_each_layer_as_long_as_there_is_room(run, base, monkeypatch, limit):
    encoded, read = [], Encoder.encode
    grid = ("--field", "layer=1,2", "--field", "temperature=0.1,0.2,0.3")
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "encode", lambda self, batch: encoded.extend(batch.texts) or read(self, batch))
        patch.setattr(settings_module, "STATES_BYTES", limit)
        told = swept(run, *base, *grid)
    assert len(told["settings"]) == 6
    if limit > 1_000_000:
        assert sorted(encoded) == sorted([*CORPUS, *CORPUS])
    else:
        assert len(encoded) > 2 * 2 * len(CORPUS)
        roomy = swept(run, *base, *grid)
        for one, other in zip(told["settings"], roomy["settings"], strict=True):
            assert one["pearson"] == pytest.approx(other["pearson"], abs=1e-6)


def test_statistics_are_fitted_once_for_all_settings_that_share_them(run, base, write, monkeypatch):
    fitted, fit = [], Scorer.fit
    monkeypatch.setattr(Scorer, "fit", lambda self, texts, names: fitted.extend(names) or fit(self, texts, names))
    write("corpus.txt", CORPUS)
    swept(run, *base, "--model", "twmd-b", "--field", "temperature=0.1,0.2,0.3", "--fit-on", "corpus.txt")
    assert fitted == ["mean"]


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_table_file_and_figure_of_a_grid(run, base, tmp_path):
    grid = ("--field", "temperature=0.01,0.1", "--field", "layer=1,2,3")
    told = swept(run, *base, "--group", "lp", *grid)
    ended = run("sweep", *base, "--group", "lp", *grid).silent()
    header, *lines = ended.out.splitlines()
    assert header.split("  ")[0] == "temperature"
    assert header.split()[-2:] == ["Kendall", "best"]
    assert [line.split()[:2] for line in lines[:6]] == [[t, layer] for t in ("0.01", "0.1") for layer in "123"]
    (best,) = [index for index, line in enumerate(lines[:6]) if line.endswith("*")]
    assert best == told["best"] == max(range(6), key=lambda index: told["settings"][index]["pearson"])
    setting = ", ".join(f"{name}={value:g}" for name, value in told["settings"][best]["fields"].items())
    assert lines[7] == "Intervals are those of the mean Pearson (bootstrap, 20 draws of whole references)."
    assert lines[8].startswith(
        f"Best: {setting}. The best of 6 settings was chosen on the ratings that it is judged on"
    )
    assert "optimistic" in lines[8]
    assert "optimistic" in told["note"]
    assert is_png(tmp_path / "ratings.sweep.png")
    header, *rows = (line.split("\t") for line in (tmp_path / "ratings.sweep.tsv").read_text().splitlines())
    assert header == [
        "temperature", "layer", "n", "groups", "pearson", "spearman", "kendall", "pearson_low", "pearson_high",
        "signature",
    ]  # fmt: skip
    for cells, one in zip(rows, told["settings"], strict=True):
        assert [json.loads(cell) for cell in cells[:4]] == [*one["fields"].values(), 8, 2]
        assert float(cells[4]) == one["pearson"]
        assert cells[-1] == one["signature"]
    (tmp_path / "ratings.sweep.tsv").write_text("mine\n")
    assert "which no option names, to be new or from an earlier run" in run("sweep", *base, *grid).complaint()
    assert (tmp_path / "ratings.sweep.tsv").read_text() == "mine\n"


def test_one_field_is_a_line_and_three_have_no_figure(run, base, tmp_path, monkeypatch):
    ended = run("sweep", *base, "--field", "alpha=0,0.5,1", "--output", "out/alpha.svg", "--quiet").ok()
    assert (tmp_path / "out" / "alpha.svg").read_text().startswith("<?xml")
    assert ended.out.splitlines()[-1].startswith("Best: ")  # quiet has no files, but keeps the warning
    three = [part for field in ("alpha=0,1", "iterations=1,2", "layer=1,2") for part in ("--field", field)]
    ended = run("sweep", *base, *three)
    assert "No figure: it shows how one or two fields vary, but here 3 do." in ended.out
    assert not list(tmp_path.glob("*.png"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = run("sweep", *base, "--field", "alpha=0,1", "--no-figure").ok()
    assert "No figure" not in ended.out
    assert not list(tmp_path.glob("*.png"))


def test_lower_is_better(run, base):
    told = swept(run, *base, "--model", "lazy-emd-en", "--field", "reference-penalty=0.1,0.5,inf")
    pearsons = [one["pearson"] for one in told["settings"]]
    assert told["best"] == pearsons.index(min(pearsons))
    assert [one["fields"]["reference_penalty"] for one in told["settings"]] == [0.1, 0.5, "inf"]
    ended = run("sweep", *base, "--model", "lazy-emd-en", "--field", "reference-penalty=0.1,inf")
    assert "Lower scores are better, so negative correlations mean agreement there." in ended.out


def test_a_constant_score_has_no_correlation_and_is_not_the_best_and_warnings_come_once(run, write, tiny_encoder):
    header = "hypothesis\treference\tscore"
    table = write("constant.tsv", [header, *(f"a dog\tthe dog\t{one}" for one in (1, 2, 3))])
    command = ("--encoder", tiny_encoder, "--field", "temperature=0.1,0.2", "--samples", "20", "--data")
    told = swept(run, *command, table)
    assert [(one["pearson"], one["interval"]) for one in told["settings"]] == [(None, {"low": None, "high": None})] * 2
    assert told["best"] is None
    ended = run("sweep", *command, table).ok()
    assert ended.out.splitlines()[1].split() == ["0.1", "-", "-", "to", "-", "-", "-"]
    assert "Best" not in ended.out
    assert "Left out of the mean: all (fewer than 3 segments, or scores that are all equal)" in ended.out
    table = write("empty.tsv", [header, "\ta dog\t1", "a cat\ta dog\t2", "no\tthe cat\t3"])
    assert run("sweep", *command, table).ok().err.count("scored as texts with nothing in common") == 1


def test_a_setting_that_loses_a_group_is_counted_and_not_the_best(run, base, monkeypatch):
    from textmover.meta_evaluation import Interval, MeanCorrelation

    def judged(scorer, segments, values, **drawn):
        lost = values["temperature"] == 0.2
        mean = MeanCorrelation(4, 0.9, 0.9, 0.9, 1, ("fi-en",)) if lost else MeanCorrelation(8, 0.5, 0.5, 0.5, 2, ())
        return sweep_module.SettingResult(values, mean, Interval(mean.pearson, 0, 1), True, "signature")

    monkeypatch.setattr(sweep_module, "judge", judged)
    ended = run("sweep", *base, "--field", "temperature=0.1,0.2")
    assert ended.out.splitlines()[1].split()[-2:] == ["2", "*"]
    assert ended.out.splitlines()[2].split()[-1] == "1"
    assert "Left out of the mean of some settings: fi-en" in ended.out


@SIGNALS
def test_what_is_done_survives_an_interruption(run, base, monkeypatch, tmp_path, sent, code):
    judge = sweep_module.judge

    def interrupted(scorer, segments, values, **drawn):
        if values["temperature"] == 0.3:
            send(sent)
        return judge(scorer, segments, values, **drawn)

    monkeypatch.setattr(sweep_module, "judge", interrupted)
    arguments = ("sweep", *base, "--no-figure", "--field")
    assert run(*arguments, "temperature=0.1,0.2").code == 0
    earlier = (tmp_path / "ratings.sweep.tsv").read_text()
    ended = run(*arguments, "temperature=0.1,0.2,0.3,0.4")
    assert ended.code == code
    assert ended.out == ""
    assert ended.err == "textmover: interrupted: the scores so far are in ratings.sweep.partial.tsv\n"
    assert len((tmp_path / "ratings.sweep.partial.tsv").read_text().splitlines()) == 3
    assert (tmp_path / "ratings.sweep.tsv").read_text() == earlier
    assert run(*arguments, "temperature=0.1").code == 0
    assert len((tmp_path / "ratings.sweep.tsv").read_text().splitlines()) == 2
    assert not (tmp_path / "ratings.sweep.partial.tsv").exists()


def test_no_progress_where_nobody_watches(run, base):
    ended = run("sweep", *base, "--field", "temperature=0.1", "--no-figure")
    assert ended.err == "Written: ratings.sweep.tsv\n"
    assert "optimistic" not in ended.out  # one setting was not chosen from others
    assert logging.getLogger("textmover").level == logging.WARNING
