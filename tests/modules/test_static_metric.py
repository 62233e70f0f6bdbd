"""Metrics on static word vectors from end to end: values by hand, presets, unknown words, checkpoints."""

import json
import math
from collections import Counter

import numpy as np
import ot
import pytest
import torch

from textmover.modules import MetricModel
from textmover.presets import PRESETS, preset_config
from textmover.scoring import Scorer, load_checkpoint, precision_and_backend, save_checkpoint
from textmover.types import InputError

VOCABULARY = """
    the a dog cat house river runs sleeps old new well known green book reads quickly in of tree street , . ! 's Paris
""".split()  # noqa: SIM905 - a list that is read as text
HYPOTHESES = {
    "The old dog runs, in the house.": "the old dog runs , in the house .",
    "A well-known cat reads a green book!": "a well known cat reads a green book !",
    "zyx sleeps of Paris": "sleeps of Paris",
    "the river": "the river",
}
REFERENCES = {
    "A new cat sleeps in the house's river.": "a new cat sleeps in the house 's river .",
    "the dog reads the well-known book quickly": "the dog reads the well known book quickly",
    "the dog sleeps in the old house, zyx, in Paris": "the dog sleeps in the old house , , in Paris",
    "a green tree": "a green tree",
}
"""Texts, and the words of theirs that have a vector."""

MOVER_PRESETS = {"moverscore-wmd1": 1, "moverscore-wmd2": 2, "moverscore-smd": None}
TRANSPORT = [name for name, one in PRESETS.items() if one.config.kind == "transport"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Where the vectors are kept, which are parsed once for all tests here."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def table():
    values = np.random.default_rng(0).normal(size=(len(VOCABULARY), 8)).round(4)
    return dict(zip(VOCABULARY, values, strict=True))


@pytest.fixture(scope="module")
def file(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in table.items()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def build(file):
    """Builds a preset on the vectors; power means of layers, which there are none of, give way to the vectors."""

    def build(preset, encoder=file, **fields):
        if PRESETS[preset].config.aggregation != "single":
            fields = {"aggregation": "single", **fields}
        return MetricModel.from_config(preset_config(preset, encoder=str(encoder), **fields)).eval()

    return build


def texts() -> tuple[list[str], list[str]]:
    return list(HYPOTHESES), list(REFERENCES)


def words() -> tuple[list[list[str]], list[list[str]]]:
    return [line.split() for line in HYPOTHESES.values()], [line.split() for line in REFERENCES.values()]


# --- by hand ----------------------------------------------------------------------------------------------------------


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def smooth_idf(corpus):
    held = Counter(word for one in corpus for word in set(one))
    return lambda word: math.log((len(corpus) + 1) / (held[word] + 1))


def units_of(table, one, weight, n):
    """Unit vectors and weights of stretches of ``n`` words; ``None`` takes the text as one."""
    weights = np.array([weight(word) for word in one])
    vectors = np.array([table[word] for word in one])
    if n == 1:
        return unit(vectors), weights / weights.sum()
    size = len(one) if n is None else min(n, len(one))
    stretches = [slice(start, start + size) for start in range(len(one) - size + 1)]
    means = np.array([np.average(vectors[part], axis=0, weights=weights[part]) for part in stretches])
    totals = np.array([weights[part].sum() for part in stretches])
    return unit(means), totals / totals.sum()


def distance(reference, hypothesis, kind):
    (x, a), (y, b) = reference, hypothesis
    cosines = x @ y.T
    squared = 2 - 2 * cosines
    cost = {"cosine": 1 - cosines, "squared-euclidean": squared, "euclidean": np.sqrt(squared.clip(min=0))}[kind]
    return ot.emd2(a, b, cost)


@pytest.mark.parametrize("n", [1, 2, None])
@pytest.mark.parametrize("kind", ["cosine", "squared-euclidean", "euclidean"])
def test_word_and_sentence_movers_against_a_plain_solver(table, build, n, kind):
    metric = build("wmd", ngram="sentence" if n is None else n, cost=kind, output="distance")
    found = Scorer(metric).score(*texts())
    expected = [
        distance(units_of(table, reference, lambda _: 1.0, n), units_of(table, hypothesis, lambda _: 1.0, n), kind)
        for hypothesis, reference in zip(*words(), strict=True)
    ]
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)
    assert found.counts == {"unknown": 1}
    assert found.precision is None


@pytest.mark.parametrize(("preset", "n"), MOVER_PRESETS.items())
def test_moverscore_on_word2vec_against_a_plain_solver(table, build, preset, n):
    """Inverse frequencies of each side; punctuation counts in neither text nor transport."""
    kept = [[[word for word in one if word not in ",.!"] for one in side] for side in words()]
    idf = [smooth_idf(side) for side in words()]
    expected = [
        1
        - distance(
            units_of(table, reference, idf[1], n), units_of(table, hypothesis, idf[0], n), kind="squared-euclidean"
        )
        for hypothesis, reference in zip(*kept, strict=True)
    ]
    found = Scorer(build(preset)).score(*texts())
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)


def test_greedy_matching_with_idf_against_numpy(table, build):
    scorer = Scorer(build("bertscore-f1-idf"))
    found = scorer.score(*texts())
    idf = smooth_idf(words()[1])
    for row, (hypothesis, reference) in enumerate(zip(*words(), strict=True)):
        (x, a), (y, b) = (units_of(table, one, idf, 1) for one in (reference, hypothesis))
        cosines = x @ y.T
        assert found.recall[row] == pytest.approx(a @ cosines.max(axis=1), abs=1e-6)
        assert found.precision[row] == pytest.approx(b @ cosines.max(axis=0), abs=1e-6)
    counts = scorer.fitted_metric.statistics["idf"].counts
    assert len(counts) == len(VOCABULARY) + 1
    held = Counter(word for one in words()[1] for word in set(one))
    assert counts.tolist() == [held[word] for word in VOCABULARY] + [0]  # dropped words are counted nowhere


# --- presets ----------------------------------------------------------------------------------------------------------


def fitted(metric):
    if metric.needs_fit and not metric.fits_on_call:
        metric.fit([*HYPOTHESES, *REFERENCES])
    return metric


@pytest.fixture(scope="module", params=TRANSPORT)
def metric(request, build):
    """A metric of each preset."""
    return fitted(build(request.param))


def test_every_preset_works_on_static_vectors(metric):
    scorer, sign = Scorer(metric), 1 if metric.higher_is_better else -1
    same, other = scorer.score(list(HYPOTHESES), list(HYPOTHESES)), scorer.score(*texts())
    best = max(metric.range, key=lambda end: sign * end)
    assert (sign * same.scores > sign * other.scores + 0.01).all()
    bound = 1e-3 if "lazy" in metric.config.matching else 1e-6
    assert same.scores.tolist() == pytest.approx([best] * len(HYPOTHESES), abs=bound)
    assert other.counts == {"unknown": 1}
    small = Scorer(metric, batch_tokens=1).score(*texts())
    np.testing.assert_allclose(small.scores, other.scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layer", [None, 0, -1])
def test_the_vectors_are_the_first_and_the_last_layer(build, layer):
    metric = build("moverscore-v2", layer=layer)
    assert metric.encoder.layers == (0,)
    assert (
        Scorer(metric).score(*texts()).scores.tolist() == Scorer(build("moverscore-v2")).score(*texts()).scores.tolist()
    )


@pytest.mark.parametrize(
    ("preset", "fields"),
    [
        ("wmd", {"layer": 2}),
        ("wmd", {"layer": -2}),
        ("wmd", {"aggregation": "scalar-mix"}),
        ("wmd", {"aggregation": "routing"}),
        ("twmd", {"same_token_loss": 2.0}),
        *((preset, {}) for preset in MOVER_PRESETS),
    ],
)
def test_there_are_no_layers_to_aggregate_and_no_contexts_to_compare(file, preset, fields):
    told = "are the same in all contexts" if "same_token_loss" in fields else "they have no layers"
    with pytest.raises(InputError, match=f"static vectors.* {told}"):
        MetricModel.from_config(preset_config(preset, encoder=str(file), **fields))


# --- which words take part --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["wmd", "twmd", "bertscore-f1", "lazy-emd-en", "moverscore-smd"])
@pytest.mark.parametrize("fields", [{"punctuation": "drop"}, {"stop_words": "english"}, {"stop_words": "the a dog"}])
def test_words_that_are_left_out_change_nothing(build, preset, fields):
    """Leaving words out gives the score of texts that are written without them."""
    ((field, choice),) = fields.items()
    out = (
        set(",.!")
        if field == "punctuation"
        else {"the", "a", "dog"}
        if choice != "english"
        else {"the", "a", "in", "of", "'s"}
    )
    written = [[" ".join(word for word in one if word not in out) for one in side] for side in words()]
    written[1][0] = written[1][0].replace(" 's", "'s")
    found = Scorer(build(preset, weights="uniform", **fields)).score(*texts())
    plain = Scorer(build(preset, weights="uniform")).score(*written)
    np.testing.assert_allclose(found.scores, plain.scores, rtol=0, atol=1e-6)


def test_stop_words_alone_make_an_empty_text(build):
    found = Scorer(build("wmd", stop_words="english")).score(["The of the", "the dog"], ["the dog", "the dog"])
    assert found.scores.tolist() == pytest.approx([0, 1], abs=1e-6)
    assert found.counts == {"empty": 1}


def test_a_text_of_unknown_words_alone_is_empty(metric):
    hypotheses, references = ["zyx qqq", "", "the dog", "zyx"], ["the dog", "a cat", "zyx", ""]
    pairs = [([one], [other]) for one, other in zip(hypotheses, references, strict=True)]
    nothing = metric.matching.nothing
    for one, other in [*pairs, ([*hypotheses, "old dog"], [*references, "old dog"])]:
        found = Scorer(metric).score(one, other)
        known = [[not set(VOCABULARY).isdisjoint(text.split()) for text in side] for side in (one, other)]
        empty = ~np.all(known, axis=0)
        assert found.scores[empty].tolist() == pytest.approx([nothing] * empty.sum())
        lacking = sum("zyx" in pair or "zyx qqq" in pair for pair in zip(one, other, strict=True))
        assert Counter(found.counts) == Counter(empty=int(empty.sum()), unknown=lacking)


def test_unknown_words_that_are_kept(table, build):
    one, other = ["the dog zyx"], ["the dog"]
    mean = {**table, "zyx": np.mean(list(table.values()), axis=0)}
    sides = [units_of(mean, text[0].split(), lambda _: 1.0, 1) for text in (other, one)]
    found = Scorer(build("wmd", unknown_words="mean")).score(one, other)
    assert found.scores[0] == pytest.approx(1 - distance(*sides, "cosine"), abs=1e-6)
    # The zero vector costs 1 against anything: what the two other words have to give is 1/3 short.
    x, y = unit(np.array([table["the"], table["dog"]])), unit(np.array([table["the"], table["dog"]]))
    cost = np.c_[1 - x @ y.T, np.ones(2)]
    expected = 1 - ot.emd2(np.full(2, 1 / 2), np.full(3, 1 / 3), cost)
    found = Scorer(build("wmd", unknown_words="zero")).score(one, other)
    assert found.scores[0] == pytest.approx(expected, abs=1e-6)
    assert found.counts == {"unknown": 1}
    for policy in ("mean", "zero"):
        found = Scorer(build("wmd", unknown_words=policy)).score(["zyx", "zyx"], ["qqq", "zyx"])
        assert (found.scores.tolist(), found.counts) == ([0, 0], {"empty": 2, "unknown": 2})
    scorer = Scorer(build("wmd", unknown_words="error"))
    assert scorer.score(["the dog"], ["old dog"]).counts == {}
    with pytest.raises(InputError, match=r"a vector in .*vectors\.txt, but 'zyx' has none: correct it, or set"):
        scorer.score(one, other)


def test_unknown_words_have_a_weight_of_their_own(build):
    scorer = Scorer(build("bertscore-r-idf", unknown_words="zero"))
    scorer.score(["the dog"] * 3, ["zyx dog", "qqq cat", "the dog"])
    assert scorer.fitted_metric.statistics["idf"].counts[-1] == 2


def test_longer_texts_are_cut_and_counted(build):
    hypotheses, references = ["the dog runs in the house", "zyx the dog runs"], ["the dog runs", "the dog runs"]
    found = Scorer(build("wmd", max_length=3)).score(hypotheses, references)
    assert found.scores.tolist() == pytest.approx([1, 1], abs=1e-6)
    assert found.counts == {"truncated": 1, "unknown": 1}  # what takes no part does not count
    whole = Scorer(build("wmd")).score(hypotheses, references)
    windows = Scorer(build("wmd", max_length=3, long_texts="window")).score(hypotheses, references)
    assert windows.scores.tolist() == whole.scores.tolist() != found.scores.tolist()
    assert windows.counts == {"unknown": 1}
    with pytest.raises(InputError, match="at most 3 tokens, but the one that starts with 'the dog runs in"):
        Scorer(build("wmd", max_length=3, long_texts="error")).score(hypotheses, references)


# --- names, files, arithmetic -----------------------------------------------------------------------------------------


def test_the_signature_names_file_hash_and_policy(build, file, tiny_metric, tmp_path):
    own = tmp_path / "vectors.txt"
    own.write_bytes(file.read_bytes())
    metric = build("wmd", own, unknown_words="mean")
    signature = str(metric.signature)
    assert f"encoder:vectors.txt@{metric.encoder.vectors.sha256[:8]}|" in signature
    assert "|unknown:mean|" in signature
    assert "|precision:exact" in signature
    assert "unknown:" not in str(tiny_metric().signature)
    own.write_text(file.read_text().replace("0.", "1."))
    assert str(build("wmd", own, unknown_words="mean").signature) != signature


@pytest.mark.parametrize("preset", ["wmd", "twmd-b", "moverscore-smd", "bertscore-f1-idf"])
def test_a_checkpoint_names_the_vectors_and_does_not_copy_them(build, file, tmp_path, preset):
    metric = build(preset, unknown_words="zero", calibrate=True, **({"idf_from": "corpus"} if "idf" in preset else {}))
    fitted(metric)
    with torch.no_grad():
        metric.calibration.scale.fill_(3.0)
    folder = save_checkpoint(metric, tmp_path / "checkpoint", card="# card\n")
    held = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert held == ["README.md", "config.json", "encoder/static_vectors.json", "model.safetensors"]
    assert json.loads((folder / "config.json").read_text())["encoder"] == {
        "identity": metric.encoder_identity,
        "static": True,
    }
    again = load_checkpoint(folder)
    assert str(again.signature) == str(metric.signature)
    first, second = (Scorer(one).score(*texts()) for one in (metric, again))
    assert second.scores.tolist() == first.scores.tolist()
    assert again.calibration.scale.item() == 3
    dropped = load_checkpoint(folder, unknown_words="drop")
    assert dropped.encoder.vectors.unknown_words == dropped.tokenizer.vectors.unknown_words == "drop"


def test_a_checkpoint_finds_vectors_that_were_named_from_another_folder(file, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.chdir(file.parent)
    metric = MetricModel.from_config(preset_config("wmd", encoder=file.name))
    folder = save_checkpoint(metric, tmp_path / "checkpoint", card="# card\n")
    cache.rename(tmp_path / "old cache")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Scorer(load_checkpoint(folder)).score(*texts()).counts == {"unknown": 1}


@pytest.mark.parametrize("hardware", [True, False])
@pytest.mark.parametrize("unknown_words", ["drop", "error"])
@pytest.mark.parametrize("arithmetic", ["fast", "auto"])
def test_static_vectors_have_one_arithmetic(file, monkeypatch, hardware, unknown_words, arithmetic):
    """Nothing is cast, so nothing has to be tried out, on words that may have no vector."""
    monkeypatch.setattr(precision_and_backend, "has_bfloat16", lambda _: hardware)
    options = {"encoder": str(file), "unknown_words": unknown_words, "device": "cpu"}
    scorer = Scorer.from_pretrained("twmd", precision=arithmetic, **options)
    hypotheses, references = ["the old dog"], ["a cat runs"]
    expected = Scorer.from_pretrained("twmd", **options).score(hypotheses, references)
    assert scorer.score(hypotheses, references).scores.tolist() == expected.scores.tolist()
    assert str(scorer.signature) == str(expected.signature)


# --- training ---------------------------------------------------------------------------------------------------------


def test_there_is_nothing_to_train_but_the_head(build):
    metric = build("twmd", learn_temperature=True, calibrate=True).train()
    assert list(metric.encoder_parameters()) == []
    sides = [metric.tokenize(side) for side in texts()]
    (metric(*sides).score.sum()).backward()
    heads = dict(metric.head_parameters())
    assert {"log_temperature", "scale", "offset"} <= {name.rsplit(".", 1)[-1] for name in heads}
    assert all(torch.isfinite(one.grad).all() for one in heads.values())
    assert all(one.grad.abs().max() > 0 for one in heads.values())
    assert set(heads.values()) == set(metric.parameters())
