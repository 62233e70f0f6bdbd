import json
import logging
import os
import signal
import struct
import sys

import pytest

from textmover import Scorer
from textmover.cli.commands import sweep as sweep_module
from textmover.modules.encoder.encoder import Encoder
from textmover.scoring import metric_set as settings_module
from textmover.scoring import save_checkpoint

ROWS = [  # language pair, hypothesis, reference, rating
    ("de-en", "the cat sat on the street", "a cat sat in the street", 0.1),
    ("de-en", "a dog", "the dog", 0.3),
    ("de-en", "many people walk in the rain", "people walk under the rain", 0.5),
    ("de-en", "she will sing a song", "he can not sing", -0.7),
    ("fi-en", "a good friend", "my friend", 0.2),
    ("fi-en", "two big trees", "three small trees", -1.5),
    ("fi-en", "it is warm today", "today it is cold", 0.4),
    ("fi-en", "it is late", "come with me", -0.25),
]
CORPUS = [text for row in ROWS for text in row[1:3]]


@pytest.fixture
def ratings(write):
    return write("ratings.tsv", ["lp\thypothesis\treference\tscore", *("\t".join(map(str, row)) for row in ROWS)])


@pytest.fixture
def base(ratings, tiny_encoder):
    return ("--data", ratings, "--encoder", tiny_encoder, "--samples", "20")


def swept(run, *arguments):
    ended = run("sweep", *arguments, "--format", "json").silent()
    return json.loads(ended.out)


def flag(name, value):
    return [{"output": "--metric-output"}.get(name, f"--{name.replace('_', '-')}"), json.dumps(value).strip('"')]


def is_png(path):
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    return data[:8] == b"\x89PNG\r\n\x1a\n" and 700 < width < 2000 and 400 < height < 2000


# --- every setting is what it is alone --------------------------------------------------------------------------------


def evaluated(run, *command) -> dict:
    """What `textmover evaluate` says of the one metric."""
    (found,) = json.loads(run("evaluate", *command, "--format", "json").ok().out)["sets"]
    (metric,) = found["metrics"]
    return metric


def agreement(setting) -> float:
    """The mean Pearson of a setting, with its sign turned where lower scores are better."""
    return setting["pearson"] if setting["higher_is_better"] else -setting["pearson"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--field", "temperature=0.01,0.1,1", "--field", "layer=1,2"],
        pytest.param(
            ["--field", "hypothesis-penalty=0.1,0.5,inf", "--field", "layer=null,2", "--model", "lazy-emd-en"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            ["--field", "centering=none,dimension,sentence,batch", "--field", "iterations=1,3"], marks=pytest.mark.long
        ),
        ["--field", "centering=none,corpus", "--field", "rescale=false,true", "--fit-on", "corpus.txt"],
        ["--field", "weights=idf,tf-idf", "--field", "idf=smooth,plus-one", "--fit-on", "corpus.txt"],
        pytest.param(
            ["--field", "alpha=0.3,0.7", "--field", "subwords=all,first,mean", "--model", "bertscore-f1-idf"],
            marks=pytest.mark.long,
        ),
        pytest.param(["--field", "matching=twmd,trwmd,bertscore,emd", "--field", "layer=null"], marks=pytest.mark.long),
        pytest.param(
            ["--field", "matching=emd,sbert", "--field", "aggregation=power-means,routing", "--last-layers", "3"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            [
                "--field",
                "powers=1,[1,inf]",
                "--field",
                "ngram=1,sentence",
                "--aggregation",
                "power-means",
                "--last-layers=2",
            ],
            marks=pytest.mark.long,
        ),
        pytest.param(
            ["--field", "output=similarity,distance", "--normalize", "false", "--model", "wmd", "--no-cache"],
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_sweep_is_each_setting_evaluated_alone(run, base, write, arguments):
    write("corpus.txt", CORPUS)
    told = swept(run, *base, "--group", "lp", *arguments)
    settings = told["settings"]
    expected = 1
    for values in told["fields"].values():
        expected *= len(values)
    assert len(settings) == expected
    rest, fields = list(arguments), list(told["fields"])
    for _ in fields:
        at = rest.index("--field")
        del rest[at : at + 2]
    for one in settings:
        fits = one["fields"].get("centering") == "corpus" or one["fields"].get("rescale")
        fits = fits or one["fields"].get("weights") in ("idf", "tf-idf")
        alone = [part for part in rest if fits or part not in ("--fit-on", "corpus.txt")]
        flags = [part for name in fields for part in flag(name, one["fields"][name])]
        found = evaluated(run, *base, "--group", "lp", *alone, *flags)
        ends = ("low", "high") if one["higher_is_better"] else ("high", "low")
        assert agreement(one) == pytest.approx(found["value"], abs=1e-6)
        for end, other in zip(("low", "high"), ends, strict=True):
            sign = 1 if one["higher_is_better"] else -1
            assert sign * one["interval"][end] == pytest.approx(found[other], abs=1e-6)
        assert one["signature"] == found["signature"]


def test_a_checkpoint_keeps_its_weights_and_what_belongs_to_them(run, ratings, checkpoint):
    told = swept(run, "--data", ratings, "--model", checkpoint, "--field", "temperature=0.02,0.2", "--samples", "20")
    for one in told["settings"]:
        temperature = one["fields"]["temperature"]
        alone = evaluated(run, "--data", ratings, "--model", checkpoint, "--temperature", temperature)
        assert agreement(one) == pytest.approx(alone["value"], abs=1e-6)


@pytest.fixture(scope="module")
def fitted(tiny_encoder):
    return Scorer.from_pretrained("twmd-b", encoder=str(tiny_encoder), layer=2).fit(CORPUS)


def test_a_checkpoint_with_a_mean_goes_without_it_and_back(run, ratings, fitted, tmp_path):
    folder = save_checkpoint(fitted.metric, tmp_path / "metric", card="# card\n")
    command = ("--data", ratings, "--model", folder, "--samples", "20")
    told = swept(run, *command, "--field", "centering=none,corpus,sentence", "--field", "score=f,recall")
    for one in told["settings"]:
        flags = [part for name, value in one["fields"].items() for part in flag(name, value)]
        alone = evaluated(run, *command, *flags)
        assert agreement(one) == pytest.approx(alone["value"], abs=1e-6)
        assert one["signature"] == alone["signature"]


def test_statistics_from_a_file_serve_every_setting(run, base, fitted, tmp_path):
    path = fitted.save_statistics(tmp_path / "mean.safetensors")
    command = (*base, "--model", "twmd-b", "--layer", "2", "--statistics", path)
    told = swept(run, *command, "--field", "temperature=0.1,0.3")
    for one in told["settings"]:
        flags = flag("temperature", one["fields"]["temperature"])
        alone = evaluated(run, *command, *flags)
        assert agreement(one) == pytest.approx(alone["value"], abs=1e-6)
        assert one["signature"] == alone["signature"]


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
    assert lines[9] == "Files: ratings.sweep.tsv, ratings.sweep.png"
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


@pytest.mark.long
def test_a_constant_score_has_no_correlation_and_is_not_the_best(run, write, tiny_encoder):
    rows = ["a dog\tthe dog\t1", "a dog\tthe dog\t2", "a dog\tthe dog\t3"]
    table = write("constant.tsv", ["hypothesis\treference\tscore", *rows])
    command = ("--data", table, "--encoder", tiny_encoder, "--field", "temperature=0.1,0.2", "--samples", "5")
    told = swept(run, *command)
    assert [(one["pearson"], one["interval"]) for one in told["settings"]] == [(None, {"low": None, "high": None})] * 2
    assert told["best"] is None
    ended = run("sweep", *command).ok()
    assert ended.out.splitlines()[1].split() == ["0.1", "-", "-", "to", "-", "-", "-"]
    assert "Best" not in ended.out
    assert "Left out of the mean: all (fewer than 3 segments, or scores that are all equal)" in ended.out


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


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_is_done_survives_an_interruption(run, base, monkeypatch, tmp_path, sent, code):
    judge = sweep_module.judge

    def interrupted(scorer, segments, values, **drawn):
        if values["temperature"] == 0.3:
            assert signal.getsignal(sent) is not signal.SIG_DFL, "the tests would end here"
            os.kill(os.getpid(), sent)
        return judge(scorer, segments, values, **drawn)

    monkeypatch.setattr(sweep_module, "judge", interrupted)
    ended = run("sweep", *base, "--field", "temperature=0.1,0.2,0.3,0.4")
    assert ended.code == code
    assert ended.out == ""
    assert ended.err.splitlines() == [
        "2 of 4 settings are done; they are in ratings.sweep.tsv.",
        "textmover: interrupted",
    ]
    assert len((tmp_path / "ratings.sweep.tsv").read_text().splitlines()) == 3


def test_a_warning_that_every_setting_has_is_given_once(run, write, tiny_encoder):
    table = write("ratings.tsv", ["hypothesis\treference\tscore", "\ta dog\t1", "a cat\ta dog\t2", "no\tthe cat\t3"])
    ended = run(
        "sweep", "--data", table, "--encoder", tiny_encoder, "--field", "temperature=0.1,0.2", "--samples", "5"
    ).ok()
    assert ended.err.count("had an empty side") == 1


def test_no_progress_where_nobody_watches(run, base):
    ended = run("sweep", *base, "--field", "temperature=0.1", "--no-figure")
    assert ended.err == ""
    assert "optimistic" not in ended.out  # one setting was not chosen from others
    assert logging.getLogger("textmover").level == logging.WARNING
