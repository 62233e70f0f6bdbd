"""Scores are the same whatever the program around a call has chosen for torch, and its choices stay as they were."""

import contextlib
import functools

import numpy as np
import pytest
import torch

from textmover.experiments.anisotropy import analyse_layers, with_all_layers
from textmover.explaining.transport import align_words
from textmover.metrics import TextMoverBERTScore, TextMoverScore
from textmover.presets import PRESETS
from textmover.scoring import EncoderMemory, Scorer, load_checkpoint, save_checkpoint

HYPOTHESES = ["the small dog ran home", "she will buy a book", "tea", ""]
REFERENCES = ["a little dog runs home", "she sold two books", "warm tea and a long walk by the river", "tea"]
CORPUS = [*HYPOTHESES, *REFERENCES, "never go to town"]


@contextlib.contextmanager
def setting(put, value, now):
    before = now()
    put(value)
    try:
        yield
        assert now() == (value if value is not None else before)
    finally:
        put(before)


SURROUNDINGS = {
    "autocast-bf16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast-fp16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "float64": lambda: setting(torch.set_default_dtype, torch.float64, torch.get_default_dtype),
    "bfloat16": lambda: setting(torch.set_default_dtype, torch.bfloat16, torch.get_default_dtype),
    "inference": torch.inference_mode,
    "no-grad": torch.no_grad,
    "gradients": torch.enable_grad,
    "deterministic": lambda: setting(
        torch.use_deterministic_algorithms, True, torch.are_deterministic_algorithms_enabled
    ),
    "fewer-digits": lambda: setting(torch.set_float32_matmul_precision, "medium", torch.get_float32_matmul_precision),
    "device": lambda: torch.device("meta"),
}


USUAL = ("autocast-bf16", "float64", "inference", "device")
"""Those that every run of the tests tries; a slow run tries all."""


@pytest.fixture(params=[pytest.param(one, marks=() if one in USUAL else pytest.mark.slow) for one in SURROUNDINGS])
def surrounded(request):
    return SURROUNDINGS[request.param]


@pytest.fixture(scope="module")
def made(load_tiny, tiny_metric, tmp_path_factory):
    """Loads a preset; a feature of RoMe is another metric."""
    other = save_checkpoint(tiny_metric(), tmp_path_factory.mktemp("other") / "metric", card="A card.")
    fields = {"rome": {"features": ("semantic", str(other))}}

    def make(name, fit=True, **options):
        scorer = load_tiny(name, **fields.get(name, {}), **options)
        return scorer.fit(CORPUS) if fit and scorer.metric.needs_fit else scorer

    return make


@pytest.fixture(scope="module")
def expected(made):
    """Scores and signature of a scorer that is made and scores without surroundings."""
    return functools.cache(lambda name, **options: scored(made(name, **options)))


def same(found, expected, surrounding=""):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=surrounding)


def scored(scorer):
    result = scorer.score(HYPOTHESES, REFERENCES)
    return result.scores, str(result.signature)


# --- every preset -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["twmd-b", pytest.param("bertscore-f1-idf", marks=pytest.mark.slow), "rome"])
def test_a_preset_is_loaded_fitted_and_scores_as_anywhere_else(surrounded, name, made, expected):
    with surrounded():
        inside = made(name)
        found = scored(inside)
    same(found, expected(name))
    same(scored(inside), expected(name))
    if inside.metric.statistics:
        inside.fit(CORPUS[:4])  # they are no inference tensors


def test_idf_tables_of_the_call_are_fitted_as_anywhere_else(surrounded, made):
    scorer = made("bertscore-f1-idf", cache=False, fit=False)
    expected = scored(scorer)
    with surrounded():
        same(scored(scorer), expected)
        same(scored(made("bertscore-f1-idf", fit=False)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_scores_as_anywhere_else(name, made):
    scorer = made(name, cache=False)
    expected = scored(scorer)
    for surrounding, surrounded in SURROUNDINGS.items():
        with surrounded():
            found = scored(scorer)
        same(found, expected, surrounding)


# --- every door -------------------------------------------------------------------------------------------------------


def explained(scorer):
    found = scorer.explain(HYPOTHESES[0], [REFERENCES[0], REFERENCES[1]])
    return found.score, found.contributions, *(one.plan for one in found.matches)


def chosen(scorer):
    found = scorer.mbr([HYPOTHESES, REFERENCES], matrices=True)
    return tuple(one.matrix for one in found.choices)


def aligned(scorer):
    return (np.array(align_words(scorer.metric, HYPOTHESES[0], REFERENCES[0]).links),)


def analysed(scorer):
    parts = with_all_layers(scorer.metric.parts)
    return [str(row) for row in analyse_layers(parts, CORPUS, pairs=20).rows]


def collected(scorer):
    metric = TextMoverScore(scorer, reduction="none")
    metric.update(HYPOTHESES, REFERENCES)
    return metric.compute().tolist()


def weighed(scorer):
    metric = TextMoverBERTScore(scorer, idf=True)
    metric.update(HYPOTHESES, REFERENCES)
    return [one.tolist() for one in metric.compute().values()]


DOORS = {
    "explain": explained,
    "mbr": chosen,
    "align": aligned,
    "layers": analysed,
    "torchmetrics": collected,
    "bert-score": weighed,
    "stream": lambda scorer: [one.scores for one in scorer.score_stream(zip(HYPOTHESES, REFERENCES, strict=True))],
    "module": lambda scorer: scored(Scorer(scorer.metric, cache=False)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_what_it_gives_anywhere_else(door, made):
    scorer = made("bertscore-f1", subwords="first", rescale=True)
    expected = DOORS[door](scorer)
    for surrounding, surrounded in SURROUNDINGS.items():
        if surrounding == "device" and door in ("torchmetrics", "bert-score"):
            continue  # torchmetrics keeps its states on the default device
        scorer.clear_cache()
        with surrounded():
            found = DOORS[door](scorer)
        same(found, expected, surrounding)


def test_a_checkpoint_is_written_and_loaded_as_anywhere_else(surrounded, made, expected, tmp_path):
    scorer = made("twmd-b", calibrate=True)
    with surrounded():
        save_checkpoint(scorer.metric, tmp_path / "saved", card="A card.")
        found = scored(Scorer(load_checkpoint(tmp_path / "saved")))
    same(found, expected("twmd-b", calibrate=True))


def test_what_is_kept_inside_serves_outside(surrounded, made, expected):
    memory = EncoderMemory()
    scorer, other = (made(name, memory=memory) for name in ("twmd", "trwmd"))
    with surrounded():
        with torch.no_grad():
            scorer.metric(*(scorer.metric.tokenize(CORPUS).to("cpu"),) * 2)  # as a program around may call it
        scored(scorer), scored(other)
    np.testing.assert_allclose(scored(scorer)[0], expected("twmd")[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("surrounding", ["autocast-bf16", "fewer-digits"])
def test_states_that_a_program_made_in_other_arithmetic_are_not_kept(surrounding, made, monkeypatch):
    scorer, read = made("twmd", memory=EncoderMemory()), []
    batch = scorer.metric.tokenize(CORPUS).to("cpu")
    with SURROUNDINGS[surrounding](), torch.no_grad():
        scorer.metric(batch, batch)
    encode = scorer.metric.encoder.encode
    monkeypatch.setattr(scorer.metric.encoder, "encode", lambda batch: (read.extend(batch.texts), encode(batch))[1])
    scored(scorer)
    assert set(HYPOTHESES[:3]) <= set(read)


# --- other programs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param("autocast-bf16", "openvino", marks=pytest.mark.slow),
        pytest.param("autocast-fp16", "onnxruntime", marks=pytest.mark.long),
    ],
)
def test_a_back_end_is_prepared_as_anywhere_else(name, backend, made, expected, tmp_path, monkeypatch, real_backends):
    pytest.importorskip(backend)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with SURROUNDINGS[name]():
        inside = made("twmd", backend=backend)
        found = scored(inside)
    np.testing.assert_allclose(found[0], expected("twmd")[0], rtol=0, atol=1e-5)
    assert f"|backend:{backend}" in found[1]
