"""Statistics as files: the same values come back, and only into a metric that they were fitted for."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from textmover.checkpoints.citations import cited
from textmover.checkpoints.statistics_files import load_statistics, save_statistics, size_of, unfitted_statistics
from textmover.scoring import Scorer, save_checkpoint
from textmover.types import InputError

CORPUS = ["the small dog ran home", "she will buy a book", "warm tea", "a little dog", "go home", "the old tree"]
HYPOTHESES = ["the small dog ran home", "she will buy a book", "tea"]
REFERENCES = ["a little dog runs home", "she sold two books", "warm tea"]

EVERYTHING = {"centering": "corpus", "weights": "idf", "rescale": True, "matching": "bertscore", "normalize": False}


def scores(metric) -> list[float]:
    return Scorer(metric, cache=False).score(HYPOTHESES, REFERENCES).scores.tolist()


def about(path) -> dict[str, str]:
    with safe_open(str(path), framework="pt") as content:
        return content.metadata()


def fitted(tiny_metric, **fields):
    metric = tiny_metric(**fields)
    metric.fit(CORPUS)
    return metric


@pytest.fixture(scope="module")
def everything(tiny_metric):
    """A metric with all statistics, fitted."""
    return fitted(tiny_metric, **EVERYTHING)


@pytest.fixture(scope="module")
def files(everything, tmp_path_factory):
    """Each statistic in a file of its own."""
    folder = tmp_path_factory.mktemp("statistics")
    return {name: save_statistics(everything, folder / f"{name}.safetensors", [name]) for name in everything.statistics}


# --- the same values --------------------------------------------------------------------------------------------------


def test_statistics_come_back_in_one_file(everything, tiny_metric, tmp_path):
    path = save_statistics(everything, tmp_path / "new" / "all.safetensors")
    again = tiny_metric(**EVERYTHING)
    load_statistics(again, path)
    assert again.signature == everything.signature
    assert scores(again) == scores(everything)
    assert [one.name for one in path.parent.iterdir()] == ["all.safetensors"]


@pytest.mark.parametrize("order", [("mean", "idf", "baseline"), ("baseline", "idf", "mean")])
def test_statistics_come_back_in_files_of_their_own_in_any_order(everything, files, tiny_metric, order):
    again = tiny_metric(**EVERYTHING)
    load_statistics(again, *(files[name] for name in order))
    assert scores(again) == scores(everything)


def test_the_file_says_what_is_in_it(everything, tmp_path):
    told = about(save_statistics(everything, tmp_path / "all.safetensors", corpus="six sentences"))
    assert told["statistics_format"] == "1"
    assert told["names"] == "mean,idf,baseline"
    assert told["corpus"] == "six sentences"
    assert told["encoder"] == everything.encoder_identity
    sizes = json.loads(told["fitted_on"])
    assert (sizes["idf"], sizes["mean"]) == ("6 texts", size_of(everything, "mean"))
    assert sizes["baseline"].endswith(" pairs")
    assert json.loads(told["basis"])["mean"]["layer"] == everything.signature.entries["layer"]


def test_an_idf_table_of_one_corpus_serves_both_sides(tiny_metric, tmp_path):
    sides = {"weights": "idf", "idf_from": "sides"}
    one, two = fitted(tiny_metric, weights="idf"), fitted(tiny_metric, **sides)
    path = save_statistics(one, tmp_path / "idf.safetensors")
    again = tiny_metric(**sides)
    assert again.fits_on_call
    load_statistics(again, path)
    assert not again.fits_on_call
    assert scores(again) == scores(two) == pytest.approx(scores(one), abs=1e-6)
    assert about(save_statistics(two, tmp_path / "both.safetensors"))["names"] == "idf"  # once


def test_tables_of_two_sides_stay_two(tiny_metric, tmp_path):
    sides = {"weights": "idf", "idf_from": "sides"}
    metric = tiny_metric(**sides)
    metric.fit(CORPUS, HYPOTHESES)
    path = save_statistics(metric, tmp_path / "idf.safetensors")
    assert about(path)["names"] == "idf,idf_hypothesis"
    again = tiny_metric(**sides)
    load_statistics(again, path)
    assert scores(again) == scores(metric)


def test_the_formula_of_idf_is_that_of_the_metric(files, tiny_metric):
    metric = tiny_metric(weights="idf", idf="plus-one")
    load_statistics(metric, files["idf"])
    assert scores(metric) == scores(fitted(tiny_metric, weights="idf", idf="plus-one"))


def test_what_a_statistic_does_not_depend_on_may_differ(everything, files, tiny_encoder, tiny_metric, tmp_path):
    """Matching, scale and length, the precision of the encoder, and its name."""
    load_statistics(tiny_metric(centering="corpus", matching="trwmd", temperature=0.3, max_length=64), files["mean"])
    (tmp_path / "elsewhere").symlink_to(tiny_encoder)
    encoder = str(tmp_path / "elsewhere")
    changed = tiny_metric(**EVERYTHING, encoder=encoder, score="recall", multi_reference="mean", calibrate=True)
    assert changed.encoder_identity.startswith("elsewhere@")
    load_statistics(changed, *files.values())
    assert not changed.needs_fit
    coarse = tiny_metric(**EVERYTHING)
    coarse.cast_encoder(torch.bfloat16)
    load_statistics(coarse, *files.values())
    assert scores(coarse) == pytest.approx(scores(everything), abs=0.05)


# --- another metric ---------------------------------------------------------------------------------------------------

MISFITS = {
    "no mean": ("mean", {}, r"got mean: set `centering` to corpus, or leave the file out"),
    "no idf": ("idf", {"centering": "corpus"}, r"got idf: set `weights` to idf, or"),
    "no baseline": ("baseline", {}, r"got baseline: set `rescale` to true"),
    "another layer": ("mean", {"centering": "corpus", "layer": 1}, r"was for layer:3 instead of layer:1: fit it again"),
    "several layers": ("mean", {"centering": "corpus", "aggregation": "scalar-mix", "last_layers": 2}, "layer"),
    "another matching": ("baseline", {**EVERYTHING, "matching": "twmd"}, r"metric:bertscore instead of metric:twmd"),
    "another mean": ("baseline", EVERYTHING, r"for centering:corpus@\w{8} instead of centering:corpus@"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_statistic_that_does_not_fit_is_refused(files, tiny_metric, name):
    statistic, fields, message = MISFITS[name]
    metric = tiny_metric(**fields)
    with pytest.raises(InputError, match=message) as caught:
        load_statistics(metric, files[statistic])
    assert str(files[statistic]) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not any(one.fitted for one in metric.statistics.values())


def test_the_way_out_counts_the_baseline_in(files, tiny_metric):
    metric = tiny_metric(rescale=True)
    metric.fit(REFERENCES)
    with pytest.raises(InputError, match="set `weights` to idf and `rescale` to false"):
        load_statistics(metric, files["idf"])


@pytest.mark.parametrize("statistic", ["mean", "idf"])
def test_another_encoder_is_refused(everything, tiny_metric, tmp_path, monkeypatch, statistic):
    metric = tiny_metric(**EVERYTHING)
    monkeypatch.setattr(metric, "encoder_identity", "tiny@01234567")
    path = save_statistics(everything, tmp_path / "one.safetensors", [statistic])
    with pytest.raises(InputError, match=r"for encoder:tiny@\w{8} instead of encoder:tiny@01234567"):
        load_statistics(metric, path)


def test_an_encoder_that_has_been_trained_is_another_one_except_for_idf(files, tiny_metric):
    metric = tiny_metric(**EVERYTHING)
    with torch.no_grad():
        next(iter(dict(metric.encoder_parameters()).values())).mul_(1.1)
    load_statistics(metric, files["idf"])
    with pytest.raises(InputError, match=r"the mean in .* for encoder weights:"):
        load_statistics(metric, files["mean"])


def test_a_metric_stays_as_it_was_where_a_file_cannot_be_used(everything, files, tiny_metric, tmp_path):
    metric = tiny_metric(**EVERYTHING)
    metric.fit(REFERENCES)
    before = scores(metric)
    with pytest.raises(InputError, match="a baseline fitted with mean and idf"):
        load_statistics(metric, files["mean"], files["idf"])
    with pytest.raises(InputError, match="for centering"):
        load_statistics(metric, files["baseline"])
    assert scores(metric) == before
    load_statistics(metric, *files.values())
    assert scores(metric) == scores(everything)


def test_a_statistic_is_given_once(files, everything, tiny_metric, tmp_path):
    both = save_statistics(everything, tmp_path / "both.safetensors", ["mean", "idf"])
    with pytest.raises(InputError, match="each statistic once, but got mean from"):
        load_statistics(tiny_metric(**EVERYTHING), files["mean"], both)


# --- files that cannot be used ----------------------------------------------------------------------------------------


def rewrite(path, change=None, **metadata) -> None:
    tensors, told = load_file(path), about(path) | metadata
    if change is not None:
        change(tensors)
    save_file(tensors, path, metadata={name: value for name, value in told.items() if value is not None})


def cut(path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


DAMAGES = {
    "gone": (lambda at: at.unlink(), "there is no such file: give one that `textmover fit-idf`"),
    "a folder": (lambda at: (at.unlink(), at.mkdir()), "it is a folder"),
    "text": (lambda at: at.write_text("the dog\n"), "damaged or of another kind"),
    "empty": (lambda at: at.write_bytes(b""), "damaged or of another kind"),
    "cut": (cut, "damaged or of another kind"),
    "other values": (lambda at: rewrite(at, lambda one: one["mean.mean"].add_(1)), "another hash"),
    "a value lacks": (lambda at: rewrite(at, lambda one: one.pop("mean.count")), "another hash"),
    "weights": (lambda at: save_file({"x": torch.zeros(1)}, at, metadata={"format": "pt"}), "holds something else"),
    "no metadata": (lambda at: save_file({"x": torch.zeros(1)}, at), "holds something else"),
    "later": (lambda at: rewrite(at, statistics_format="2"), "format 1 or earlier, but got 2: install a newer"),
    "no basis": (lambda at: rewrite(at, basis=None), "damaged or of another kind .KeyError: 'basis'"),
    "basis no JSON": (lambda at: rewrite(at, basis="{"), "damaged or of another kind"),
    "unknown": (lambda at: rewrite(at, names="mood", basis='{"mood": {}}'), "got mood: install a newer textmover"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_cannot_be_used_is_one_sentence_that_names_it(everything, tiny_metric, tmp_path, name):
    damage, message = DAMAGES[name]
    path = save_statistics(everything, tmp_path / "mean.safetensors", ["mean"])
    damage(path)
    with pytest.raises(InputError, match=message) as caught:
        load_statistics(tiny_metric(centering="corpus"), path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_of_another_shape_are_refused_where_the_hash_is_that_of_the_encoder(everything, tiny_metric, tmp_path):
    path = save_statistics(everything, tmp_path / "idf.safetensors", ["idf"])
    metric = tiny_metric(weights="idf")
    table = metric.statistics["idf"]
    table.counts = table.counts[:-1].clone()
    with pytest.raises(InputError, match=r"damaged or of another kind .*counts"):
        load_statistics(metric, path)


# --- saving -----------------------------------------------------------------------------------------------------------


def test_only_what_has_been_fitted_on_a_corpus_is_written(tiny_metric, tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(InputError, match=r"the metric has none: fit them with `Scorer\.fit"):
        save_statistics(tiny_metric(), path)
    with pytest.raises(InputError, match="baseline has not been fitted"):
        save_statistics(fitted(tiny_metric, centering="corpus"), path, ["mean", "baseline"])
    called = tiny_metric(weights="idf", idf_from="references")
    scores(called)
    assert not called.statistics["idf"].fitted  # the call keeps its tables to itself
    called.fit(CORPUS, from_call=True)
    assert called.statistics["idf"].fitted
    with pytest.raises(InputError, match="the metric has none"):
        save_statistics(called, path)
    assert not path.exists()


def test_a_place_that_cannot_be_written_to_is_one_sentence(everything, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Expected to be able to write"):
        save_statistics(everything, tmp_path / "file" / "x.safetensors")


def test_what_lacks_is_named(tiny_metric):
    metric = tiny_metric(**EVERYTHING)
    assert unfitted_statistics(metric) == ["mean", "idf", "baseline"]
    metric.fit(CORPUS, names=["mean"])
    assert unfitted_statistics(metric) == ["idf", "baseline"]
    assert unfitted_statistics(tiny_metric(weights="idf", idf_from="sides")) == []


# --- by way of the scorer ---------------------------------------------------------------------------------------------


def test_the_scorer_loads_and_saves(everything, files, tiny_encoder, tiny_metric, tmp_path):
    expected = Scorer(everything).score(HYPOTHESES, REFERENCES)
    options = {"encoder": str(tiny_encoder), **EVERYTHING, "statistics": list(files.values())}
    found = Scorer.from_pretrained("twmd", **options).score(HYPOTHESES, REFERENCES)
    assert found.scores.tolist() == expected.scores.tolist()
    scorer = Scorer(tiny_metric(centering="corpus")).fit(CORPUS)
    path = scorer.save_statistics(tmp_path / "mean.safetensors", corpus="mine")
    assert about(path)["corpus"] == "mine"
    one = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), centering="corpus", statistics=path)
    assert one.score(HYPOTHESES, REFERENCES).scores.tolist() == scorer.score(HYPOTHESES, REFERENCES).scores.tolist()


def test_nothing_of_the_old_statistics_is_kept(files, tiny_metric):
    scorer = Scorer(tiny_metric(centering="corpus")).fit(["yes", "no"])
    before = scorer.score(HYPOTHESES, REFERENCES)
    assert scorer.load_statistics(files["mean"]) is scorer
    after = scorer.score(HYPOTHESES, REFERENCES)
    assert after.scores.tolist() != before.scores.tolist()
    assert after.scores.tolist() == Scorer(scorer.metric).score(HYPOTHESES, REFERENCES).scores.tolist()


def test_idf_that_is_given_is_not_fitted_on_the_call(files, tiny_encoder):
    options = {"encoder": str(tiny_encoder), "normalize": False}
    called = Scorer.from_pretrained("bertscore-f1-idf", **options)
    given = Scorer.from_pretrained("bertscore-f1-idf", statistics=files["idf"], **options)
    alone = [given.score(h, r).scores[0] for h, r in zip(HYPOTHESES, REFERENCES, strict=True)]
    assert given.score(HYPOTHESES, REFERENCES).scores.tolist() == pytest.approx(alone, abs=1e-6)
    assert given.score(HYPOTHESES, REFERENCES).scores.tolist() != called.score(HYPOTHESES, REFERENCES).scores.tolist()


def test_a_checkpoint_takes_statistics_and_reads_each_file_once(files, tiny_metric, tmp_path, monkeypatch):
    from textmover.checkpoints import checkpoint_files, statistics_files

    folder = save_checkpoint(tiny_metric(), tmp_path / "saved", card="")
    monkeypatch.setattr("textmover.checkpoints.hub.released_metrics", lambda: {"ours": folder})
    opened = []
    for module, name in ((statistics_files, "safe_open"), (checkpoint_files, "file_sha256")):
        opener = getattr(module, name)
        counted = lambda path, opener=opener, **options: opened.append(Path(path)) or opener(path, **options)  # noqa: E731
        monkeypatch.setattr(module, name, counted)
    scorer = Scorer.from_pretrained("ours", centering="corpus", statistics=files["mean"])
    assert scores(scorer.metric) == scores(fitted(tiny_metric, centering="corpus"))
    assert "release" not in scorer.signature.entries
    cited("ours", centering="corpus")
    assert files["mean"] in opened
    assert folder / "model.safetensors" in opened
    assert len(opened) == len(set(opened))


def test_a_part_of_the_statistics_is_fitted_on_request(files, tiny_metric):
    scorer = Scorer(tiny_metric(**EVERYTHING)).load_statistics(files["mean"], files["idf"])
    mean = scorer.metric.statistics["mean"].mean.clone()
    scorer.fit(REFERENCES, ["baseline"])
    assert torch.equal(scorer.metric.statistics["mean"].mean, mean)
    assert not scorer.metric.needs_fit
