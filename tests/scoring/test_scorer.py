"""The scoring door in Python."""

import copy
import pickle
from collections import UserDict

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import textmover
from textmover.modules.tokens.text_arguments import normalize_references
from textmover.scoring import Scorer, save_checkpoint
from textmover.types import InputError, SegmentScores


class Row:
    """Gives its keys, as rows of databases do that are no mappings."""

    def __init__(self, **cells):
        self.cells = cells

    def keys(self):
        return self.cells.keys()

    def __iter__(self):
        return iter(self.cells)


HYPOTHESES = ["the small dog ran home", "she will buy a book", "tea"]
REFERENCES = ["a little dog runs home", "she sold two books", "warm tea"]


@pytest.fixture(scope="module")
def scorer(tiny_encoder):
    return Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", backend="torch")


def test_the_log_names_the_device(tiny_encoder, caplog):
    with caplog.at_level("INFO", "textmover"):
        Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu")
    assert "twmd computes on cpu." in caplog.messages


def test_scores_are_float64_in_input_order_with_all_that_they_depend_on(scorer):
    found = scorer.score(HYPOTHESES, REFERENCES)
    assert isinstance(found, SegmentScores)
    for values in (found.scores, found.precision, found.recall, found.f):
        assert values.dtype == np.float64
        assert values.shape == (3,)
    assert list(found) == found.scores.tolist()
    assert found.mean == pytest.approx(found.scores.mean())
    alone = [scorer.score(h, r).scores[0] for h, r in zip(HYPOTHESES, REFERENCES, strict=True)]
    assert alone == pytest.approx(found.scores.tolist(), abs=1e-6)
    assert str(found.signature).startswith(f"textmover:{textmover.__version__}|metric:twmd|encoder:tiny@")
    assert str(found.signature).endswith("|precision:exact")
    assert found.counts == {}


@pytest.mark.parametrize("name", ["bertscore-f1", "sbert"])
def test_no_segment_gives_the_same_values_as_others(tiny_encoder, name):
    scorer = Scorer.from_pretrained(name, encoder=str(tiny_encoder), device="cpu")
    some, none = scorer.score(HYPOTHESES, REFERENCES), scorer.score([], [])
    for side in ("scores", "precision", "recall", "f"):
        expected, found = getattr(some, side), getattr(none, side)
        assert (found is None) == (expected is None)
        assert found is None or (found.shape, found.dtype) == ((0,), np.dtype("float64"))
    assert (some.precision is None) == (name == "sbert")  # a matching without sides
    assert str(none.signature) == str(some.signature)
    assert none.counts == {}
    assert np.isnan(none.mean)


def test_a_stream_is_scored_shard_by_shard_as_it_is_read(scorer):
    taken = []

    def pairs():
        for number in range(7):
            taken.append(number)
            yield HYPOTHESES[number % 3], [REFERENCES[number % 3], "tea"] if number == 4 else REFERENCES[number % 3]

    stream = scorer.score_stream(pairs(), shard_size=3)
    assert taken == []
    first = next(stream)
    assert taken == [0, 1, 2]
    parts = [first, *stream]
    assert [len(part) for part in parts] == [3, 3, 1]
    references = [[REFERENCES[n % 3], "tea"] if n == 4 else [REFERENCES[n % 3]] for n in range(7)]
    expected = scorer.score([HYPOTHESES[n % 3] for n in range(7)], references)
    assert np.concatenate([part.scores for part in parts]) == pytest.approx(expected.scores, abs=1e-6)
    assert list(scorer.score_stream([])) == []


def test_a_stream_tells_once_what_was_out_of_the_ordinary(scorer, caplog):
    list(Scorer(scorer.metric).score_stream([("", "tea"), ("tea", "tea"), ("", "tea")], shard_size=1))
    (said,) = [one for one in caplog.messages if "empty" in one]
    assert "2 " in said


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([("a", "b"), "ab"], TypeError, r"got str in segment 2\."),
        ([("a", "b"), ("c",)], TypeError, r"got tuple in segment 2\."),
        ([("a", "b"), ("c", "d"), ("e", [])], InputError, r"number 1 has none \(counted from 3, where its shard"),
        ([("a", 1)], TypeError, "got int in segment 1"),
    ],
)
def test_a_stream_names_the_segment_that_cannot_be_scored(scorer, pairs, error, message):
    with pytest.raises(error, match=message):
        list(scorer.score_stream(pairs, shard_size=2))


def test_a_stream_wants_its_statistics_and_a_size_before(tiny_encoder, scorer):
    waiting = Scorer.from_pretrained("bertscore-f1-idf", encoder=str(tiny_encoder), device="cpu")
    with pytest.raises(InputError, match="to be fitted"):
        waiting.score_stream([])
    waiting.fit_on_call(HYPOTHESES, [[one] for one in REFERENCES])
    expected = waiting.score(HYPOTHESES, REFERENCES).scores
    waiting.fit_on_call(HYPOTHESES, [[one] for one in REFERENCES])
    (found,) = waiting.score_stream(zip(HYPOTHESES, REFERENCES, strict=True))
    assert found.scores == pytest.approx(expected, abs=1e-6)
    for size in (0, 2.5, None, "8"):
        with pytest.raises(InputError, match=f"`shard_size` to be a whole number from 1 to .*, but got {size!r}"):
            scorer.score_stream([], shard_size=size)


@pytest.mark.parametrize(
    ("hypotheses", "references", "expected"),
    [
        (["a", "b"], ["x", "y"], [("x",), ("y",)]),
        (["a", "b"], [["x"], ["y", "z"]], [("x",), ("y", "z")]),
        (["a", "b"], ["x", ("y", "z")], [("x",), ("y", "z")]),
        (["a"], "x", [("x",)]),
        (["a", "b"], [["x", " ", "\u200b"], [""]], [("x",), ("",)]),
        ([], [], []),
    ],
)
def test_references_may_be_given_in_several_ways(hypotheses, references, expected):
    assert normalize_references(hypotheses, references) == expected


def test_whatever_gives_texts_in_order_is_taken(scorer):
    expected = scorer.score(HYPOTHESES, REFERENCES).scores.tolist()
    pairs = dict(zip(HYPOTHESES, REFERENCES, strict=True))
    for hypotheses, references in (
        (tuple(HYPOTHESES), (one for one in REFERENCES)),
        (np.array(HYPOTHESES), np.array(REFERENCES, dtype=object)),
        (pd.Series(HYPOTHESES), pd.Series(REFERENCES).to_frame()[0]),
        (pairs.keys(), pairs.values()),
        (HYPOTHESES, np.array(REFERENCES)[:, None]),
        (pa.array(HYPOTHESES), pa.chunked_array([REFERENCES[:1], REFERENCES[1:]])),
        (pa.array(HYPOTHESES).dictionary_encode(), pa.array([[one] for one in REFERENCES])),
    ):
        assert scorer.score(hypotheses, references).scores.tolist() == expected


def test_all_of_unicode_is_taken(scorer):
    texts = ["naïve café", "a \N{CAT FACE}", "a\0b", "茶", "\uffff"]  # the encoder knows nothing of the last two
    assert scorer.score(texts, texts).scores.tolist() == pytest.approx([1.0] * 3 + [0.0] * 2, abs=1e-6)


def test_a_single_text_may_be_given_as_it_is(scorer):
    assert scorer.score("tea", "tea").scores.tolist() == pytest.approx([1.0], abs=1e-6)
    assert scorer.score("tea", [["go", "tea"]]).scores.tolist() == pytest.approx([1.0], abs=1e-6)


@pytest.mark.parametrize(
    ("hypotheses", "references", "error", "message"),
    [
        (["a", "b"], ["x"], InputError, "got 1 for 2 hypotheses: give each its reference or a list of"),
        (["a"], ["x", "y"], InputError, "got 2 for 1 hypothesis"),
        (["a", "b"], ["x", []], InputError, "number 2 has none"),
        (["a", 3], ["x", "y"], TypeError, "got int in segment 2"),
        (["a", None], ["x", "y"], TypeError, "got NoneType in segment 2"),
        (["a"], [["x", float("nan")]], TypeError, "got float in segment 1"),
        (["a", "b"], ["x", None], TypeError, r"got NoneType in segment 2: .* missing \(`dropna`\)"),
        (pa.array(["a", None]), ["x", "y"], TypeError, "got NoneType in segment 2"),
        (["a"], [2.5], TypeError, "got float in segment 1"),
        ({"a cat": 1}, {"the dog": 2}, TypeError, "hypotheses to be a text or a list of texts, but got dict: give the"),
        (["a"], {"the dog": 2}, TypeError, "references to be a text or a list of texts, but got dict"),
        (UserDict(a=1), ["x"], TypeError, "hypotheses .* got UserDict"),
        ({"a", "b"}, ["x", "y"], TypeError, "hypotheses .* got set"),
        (["a", "b"], frozenset("xy"), TypeError, "references .* got frozenset"),
        (pd.DataFrame({"a": ["x"]}), ["x"], TypeError, "got DataFrame: give .* a single column of a table"),
        (b"a", ["x"], TypeError, "hypotheses .* got bytes"),
        (3, ["x"], TypeError, "hypotheses .* got int"),
        (["a"], None, TypeError, "Expected references, but they are missing: give each hypothesis its reference"),
        (["a", "b"], ["x", {"y": 1}], TypeError, "strings, but got dict in segment 2"),
        (["a"], [{"x", "y"}], TypeError, "strings, but got set in segment 1"),
        (["a"], [b"x"], TypeError, "strings, but got bytes in segment 1"),
        (["a"], [Row(x=1)], TypeError, "strings, but got Row in segment 1"),
        (["a"], [np.array("x")], TypeError, "strings, but got ndarray in segment 1"),
        (np.array("a"), ["x"], TypeError, "hypotheses .* got ndarray: give the texts in a list"),
        (["a", "b"], pd.Series([1, 2]), TypeError, r"got int in .*: convert numbers by `astype\(str\)`"),
        (["a", "b \ud800"], ["x", "y"], InputError, "half a surrogate pair in segment 2: repair such texts"),
        (["a", "b"], ["x", ["y", "\udfff"]], InputError, "half a surrogate pair in segment 2"),
    ],
)
def test_bad_input_is_refused_with_its_place(scorer, hypotheses, references, error, message):
    with pytest.raises(error, match=message):
        scorer.score(hypotheses, references)


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [("temperature", 0.1, "T:0.1|"), ("layer", 1, "layer:1|"), ("score", "recall", "score:recall|")],
)
def test_fields_of_a_preset_can_be_overridden_and_are_shown(tiny_encoder, scorer, field, value, shown):
    other = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), **{field: value})
    assert shown in str(other.signature)
    assert not np.allclose(other.score(HYPOTHESES, REFERENCES).scores, scorer.score(HYPOTHESES, REFERENCES).scores)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temprature": 1}, "did you mean `temperature`"),
        ({"temprature": 1, "presicion": "fast"}, "an argument of the scorer or a field .* did you mean `precision`"),
        ({"memry": None}, "did you mean `memory`"),
        ({"precision": "double"}, "`precision` to be one of 'exact', 'fast', 'int8', 'auto'"),
        ({"device": "toaster"}, "`device` to be one that this machine has, but got 'toaster'"),
        ({"device": "meta:x"}, "`device`"),
        *(
            ({"batch_tokens": one}, f"`batch_tokens` to be a whole number .* or None, but got {one!r}")
            for one in (0, 1e4, "a", True)
        ),
        *(
            ({"cache_bytes": one}, f"`cache_bytes` to be a number of bytes of at least 0, but got {one!r}")
            for one in (-1, None, "1GB", float("nan"))
        ),
    ],
)
def test_bad_options_are_refused(tiny_encoder, options, message):
    with pytest.raises(InputError, match=message):
        Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), **options)


@pytest.mark.parametrize("name", ["twdm", "./nowhere", "/no/such/folder", "a/b/c"])
def test_a_model_that_is_nowhere_is_refused_in_one_line(name):
    with pytest.raises(InputError) as caught:
        Scorer.from_pretrained(name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_statistic_has_to_be_fitted_first(tiny_encoder):
    scorer = Scorer.from_pretrained("twmd-b", encoder=str(tiny_encoder))
    with pytest.raises(InputError, match=r"\(mean\) .*call `Scorer\.fit\(texts\)`.*`Scorer\.load_statistics\(path\)`"):
        scorer.score(HYPOTHESES, REFERENCES)
    assert scorer.fit([*HYPOTHESES, *REFERENCES]) is scorer
    first = scorer.score(HYPOTHESES, REFERENCES)
    again = scorer.fit(HYPOTHESES).score(HYPOTHESES, REFERENCES)  # nothing of the old fit is kept
    assert not np.allclose(first.scores, again.scores)
    assert str(first.signature) != str(again.signature)
    assert str(scorer.fit(one for one in HYPOTHESES).signature) == str(again.signature)
    for texts, said in (([HYPOTHESES], "got list at position 0"), ([*HYPOTHESES, np.nan], "got float at position")):
        with pytest.raises(TypeError, match=said):
            scorer.fit(texts)
    fresh = Scorer.from_pretrained("twmd-b", encoder=str(tiny_encoder)).fit(HYPOTHESES).score(HYPOTHESES, REFERENCES)
    assert fresh.scores.tolist() == pytest.approx(again.scores.tolist(), abs=1e-6)


def test_the_cache_has_the_bound_that_was_given(tiny_encoder):
    options = {"encoder": str(tiny_encoder), "device": "cpu", "backend": "torch"}
    scorer = Scorer.from_pretrained("twmd", cache_bytes=1000, **options)
    usual = Scorer.from_pretrained("twmd", **options)
    texts = [f"the dog ran {number} times" for number in range(20)]
    np.testing.assert_allclose(
        scorer.score(texts, texts[::-1]).scores, usual.score(texts, texts[::-1]).scores, atol=1e-6
    )
    assert scorer._engine._cache.nbytes <= 1000 < usual._engine._cache.nbytes


def test_the_cache_is_emptied_on_request_and_where_weights_have_changed(tiny_metric):
    metric = tiny_metric()
    scorer, live = Scorer(metric), Scorer(metric, cache=False)
    before = scorer.score(HYPOTHESES, REFERENCES).scores
    with torch.no_grad():
        metric.encoder.model.embeddings.word_embeddings.weight.mul_(-0.5)
    after = live.score(HYPOTHESES, REFERENCES).scores
    assert not np.allclose(before, after)
    assert scorer.score(HYPOTHESES, REFERENCES).scores.tolist() == after.tolist()
    with torch.no_grad():
        metric.encoder.model.embeddings.word_embeddings.weight.data.mul_(-0.5)  # which torch does not count
    scorer.clear_cache()
    assert scorer.score(HYPOTHESES, REFERENCES).scores.tolist() == live.score(HYPOTHESES, REFERENCES).scores.tolist()


def test_trained_weights_have_a_signature_of_their_own(tiny_metric):
    metric = tiny_metric()
    plain, scorer = str(metric.signature), Scorer(metric)
    assert str(copy.deepcopy(metric).signature) == plain
    sum(one.sum() for one in metric.parameters()).backward()
    torch.optim.SGD(metric.parameters(), 0.01).step()
    trained = str(metric.signature)
    assert trained != plain
    assert str(scorer.score(HYPOTHESES, REFERENCES).signature).endswith(trained)
    copied = copy.deepcopy(metric)
    assert str(copied.signature) == str(pickle.loads(pickle.dumps(metric)).signature) == trained
    sum(one.sum() for one in copied.parameters()).backward()
    torch.optim.SGD(copied.parameters(), 0.01).step()
    assert str(copied.signature) not in (plain, trained)


def test_every_way_to_load_opens_the_same_door(tiny_metric, tiny_encoder, scorer, tmp_path):
    found = textmover.score(HYPOTHESES, REFERENCES, "twmd", encoder=str(tiny_encoder))
    expected = Scorer(scorer.metric).score(HYPOTHESES, REFERENCES).scores.tolist()
    assert found.scores.tolist() == expected
    assert str(found.signature) == str(scorer.signature)
    folder = save_checkpoint(tiny_metric(), tmp_path / "saved", card="A card.")
    for name in (folder, str(folder)):
        assert Scorer.from_pretrained(name).score(HYPOTHESES, REFERENCES).scores.tolist() == expected


def test_progress_is_silent_without_a_terminal(tiny_metric, capfd):
    Scorer(tiny_metric(), progress=True).score(HYPOTHESES, REFERENCES)
    assert capfd.readouterr().out == ""


def test_a_precision_that_waits_for_statistics_is_chosen_once_all_are_there(tiny_encoder, monkeypatch, tmp_path):
    from textmover.scoring import scorer as module

    chosen = []
    monkeypatch.setattr(module, "apply_precision", lambda metric, precision, **_: chosen.append(precision) or metric)
    options = {"encoder": str(tiny_encoder), "precision": "auto", "centering": "corpus", "rescale": True}
    path = Scorer.from_pretrained("twmd", **options).fit(REFERENCES).save_statistics(tmp_path / "all.safetensors")
    assert chosen == ["auto"]
    scorer = Scorer.from_pretrained("twmd", **options)
    scorer.fit(REFERENCES, ["mean"])
    assert chosen == ["auto"]
    scorer.load_statistics(path)
    assert chosen == ["auto", "auto"]
    Scorer.from_pretrained("twmd", statistics=[path], **options)
    assert chosen == ["auto", "auto", "auto"]


def test_what_is_no_list_of_texts_no_statistic_and_no_metric_is_refused(tiny_metric):
    metric = tiny_metric(weights="idf")
    with pytest.raises(InputError, match="`texts` to be a list of texts, but got 'cat'"):
        metric.tokenize("cat")
    with pytest.raises(InputError, match=r"`names` among mean, idf, .* but got 'a dog': give all texts as `texts`"):
        Scorer(metric).fit(HYPOTHESES, ["a dog"])
    with pytest.raises(TypeError, match="`metric` to be a metric, but got None: load one with from_pretrained"):
        Scorer(None)
    with pytest.raises(TypeError, match=r"got the name 'twmd': call Scorer\.from_pretrained\('twmd'\)"):
        Scorer("twmd")


def test_a_training_checkpoint_is_named_as_such(tmp_path, monkeypatch):
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("run.ckpt", "checkpoints/run.ckpt"):
        (tmp_path / name).write_bytes(b"of a run")
        with pytest.raises(InputError, match=f"but {name} is a file: .*`textmover export`"):
            Scorer.from_pretrained(name)


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({}, []),
        ({"temperature": 0.5}, ["calibration", "`temperature`"]),
        ({"score": "recall", "rescale": False}, ["calibration", "`score`"]),
        ({"temperature": 0.02, "multi_reference": "mean"}, []),
        ({"temperature": 0.5, "calibrate": False}, []),
        ({"long_texts": "window"}, []),
    ],
)
def test_changed_scores_on_a_fitted_scale_warn_once(tmp_path, tiny_metric, caplog, options, warned):
    folder = save_checkpoint(tiny_metric(calibrate=True, temperature=0.02), tmp_path / "metric", card="")
    Scorer.from_pretrained(folder, device="cpu", **options).score(["tea"], ["tea"])
    said = [one for one in caplog.messages if "of its training although" in one]
    assert len(said) == bool(warned)
    assert all(word in said[0] for word in warned)
