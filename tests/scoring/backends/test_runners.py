"""Exported graphs compute what torch computes, however they are called, copied and sent away."""

import copy
import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from textmover.scoring import EncoderMemory, Scorer
from textmover.scoring.backends import graph, openvino, preparation
from textmover.scoring.backends.graph import ArtefactRunner
from textmover.scoring.backends.names import BackendError
from textmover.scoring.backends.preparation import prepare, probe_states, set_backend
from textmover.scoring.engine import text_features as text_work
from textmover.scoring.precision_and_backend import AUTO_BOUND
from textmover.types import InputError, TokenBatch

TEXTS = [
    "",
    "a",
    "the small dog ran home",
    "she will buy a big blue book in the old town, I hear",
    "little letters " * 20,
    "many people walk in the rain " * 30,
    "no",
]
PAIRS = ["the small dog ran home", "she will buy a book"], ["a little dog runs home", "she sold two books"]
EXPORTED = ("openvino", "onnxruntime")
NAMES = (*EXPORTED, pytest.param("torch-compile", marks=pytest.mark.long))

pytestmark = pytest.mark.usefixtures("real_backends")


@pytest.fixture(params=["openvino", pytest.param("onnxruntime", marks=pytest.mark.slow)])
def exported(request):
    """Name of a back-end that runs exported graphs."""
    return request.param


def states(metric, *batches, backend="torch", precision="exact") -> list[torch.Tensor]:
    """Hidden states of batches, of texts alone where they are padded."""
    set_backend(metric, backend, precision)
    with torch.inference_mode():
        return [one[batch.mask] for batch in batches for one in metric.encoder(batch)]


def assert_agree(metric, backend, *batches):
    for one, wanted in zip(states(metric, *batches, backend=backend), states(metric, *batches), strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-5)


def test_batches_of_any_size_and_texts_of_any_length(tiny_metric, exported):
    metric = tiny_metric()
    batches = [metric.tokenize(TEXTS[:count]) for count in (1, 2, 3, 7)]
    for length in (1, 2, 3, 63, 127, 128):
        ids = torch.randint(5, 200, (2, length), generator=torch.Generator().manual_seed(length))
        mask = torch.ones_like(ids, dtype=torch.bool)
        batches.append(TokenBatch(ids, mask, torch.zeros_like(mask, dtype=torch.int8), ("x", "y"), (False, False)))
    assert_agree(metric, exported, *batches)


def test_metrics_that_refuse_long_texts_get_a_back_end_too(tiny_encoder, exported):
    options = {"encoder": str(tiny_encoder), "device": "cpu", "long_texts": "error", "max_length": 40}
    scorer = Scorer.from_pretrained("twmd", backend=exported, **options)
    assert scorer.score(*PAIRS).signature.entries["backend"].startswith(exported)


def test_what_is_padded_does_not_matter(tiny_metric, exported):
    metric = tiny_metric()
    set_backend(metric, exported, "exact")
    with torch.inference_mode():
        together = metric.encoder(metric.tokenize(TEXTS[2:5]))[0]
        alone = metric.encoder(metric.tokenize(TEXTS[2:3]))[0]
    torch.testing.assert_close(together[:1, : alone.shape[1]], alone, rtol=0, atol=1e-5)


def test_long_texts_are_read_in_windows(tiny_metric, exported):
    metric = tiny_metric(long_texts="window")
    batch = metric.tokenize(["the old road to the sea is long and cold, " * 40, "a dog"])
    assert batch.mask.shape[1] > 300
    assert_agree(metric, exported, batch)


@pytest.mark.parametrize("backend", NAMES)
def test_scores_and_signature(tiny_encoder, backend):
    options = {"encoder": str(tiny_encoder), "device": "cpu"}
    other = Scorer.from_pretrained("twmd", backend=backend, **options).score(*PAIRS)
    exact = Scorer.from_pretrained("twmd", backend="torch", **options).score(*PAIRS)
    assert abs(other.scores - exact.scores).max() <= 1e-5
    assert other.signature.entries["backend"].startswith(f"{backend}-")
    assert other.signature.entries["precision"] == "exact"
    assert exact.signature.entries["backend"] == "torch"


@pytest.mark.parametrize("backend", NAMES)
def test_copies_and_pickles_compute_the_same(tiny_metric, backend):
    metric = tiny_metric()
    batch = metric.tokenize(TEXTS[:3])
    set_backend(metric, backend, "exact")
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert other.signature == metric.signature
        with torch.inference_mode():
            for one, wanted in zip(other.encoder(batch), metric.encoder(batch), strict=True):
                torch.testing.assert_close(one[batch.mask], wanted[batch.mask])
        assert other.encoder.runner is not None


@pytest.mark.parametrize("backend", NAMES)
def test_threads_do_not_get_in_each_others_way(tiny_metric, backend):
    metric = tiny_metric()
    batches = [metric.tokenize(TEXTS[start : start + 3]) for start in range(5)] * 4
    set_backend(metric, backend, "exact")
    runner = metric.encoder.runner
    assert runner.concurrent is (backend in EXPORTED)

    def run(batch):
        with torch.inference_mode():
            return runner(batch.input_ids, batch.mask)[0][batch.mask].clone()

    alone = [run(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(run, batches), alone, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


WORDS = "the small dog ran home she will buy a big blue book in town".split()  # noqa: SIM905 - reads like text
LENGTHS = [0, 1, 70, *(random.Random(3).choices(range(2, 40), k=100)), 110, 63, 62]
MANY = [" ".join(random.Random(seed).choices(WORDS, k=size)) for seed, size in enumerate(LENGTHS)]


@pytest.mark.parametrize("preset", ["twmd", "bertscore-f1"])
def test_many_texts_are_read_in_rows_and_score_as_alone(tiny_encoder, monkeypatch, preset):
    options = {"encoder": str(tiny_encoder), "device": "cpu"}
    scorer = Scorer.from_pretrained(preset, backend="openvino", **options)
    runner = scorer.metric.encoder.row_runner
    assert runner is not None
    calls = []
    monkeypatch.setattr(type(runner), "rows", counted(type(runner).rows, calls))
    hypotheses, references = MANY, MANY[1:] + MANY[:1]
    found = scorer.score(hypotheses, references).scores
    assert len(calls) > 5
    exact = Scorer.from_pretrained(preset, backend="torch", **options).score(hypotheses, references).scores
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)
    others = Scorer.from_pretrained(preset, backend="openvino", batch_tokens=600, **options)
    np.testing.assert_allclose(others.score(hypotheses[40:90], references[40:90]).scores, found[40:90], atol=1e-6)
    one = Scorer.from_pretrained(preset, backend="openvino", cache=False, **options)
    for row in (0, 2, 50):
        np.testing.assert_allclose(one.score(hypotheses[row], references[row]).scores, found[row], atol=1e-6)


def counted(function, calls):
    def call(*given):
        calls.append(1)
        return function(*given)

    return call


def test_small_budgets_and_shared_states_have_no_rows(tiny_encoder, monkeypatch):
    options = {"encoder": str(tiny_encoder), "device": "cpu", "backend": "openvino"}
    wanted = Scorer.from_pretrained("twmd", **options).score(MANY[:60], MANY[1:61]).scores
    grouped = []
    monkeypatch.setattr(text_work, "encoded_in_rows", counted(text_work.encoded_in_rows, grouped))
    for more in ({"batch_tokens": 100}, {"memory": EncoderMemory()}):
        scorer = Scorer.from_pretrained("twmd", **options, **more)
        np.testing.assert_allclose(scorer.score(MANY[:60], MANY[1:61]).scores, wanted, rtol=0, atol=1e-6)
    assert not grouped


@pytest.mark.slow  # the families' tests export one
def test_an_encoder_that_reads_each_text_for_itself_has_no_rows(tiny_metric, monkeypatch, tmp_path):
    monkeypatch.setattr(graph, "row_graph", lambda _: None)  # as it is with relative positions
    metric = tiny_metric()
    prepare(metric, "openvino", "exact", tmp_path)
    set_backend(metric, "openvino", "exact", tmp_path)
    runner, batch = metric.encoder.runner, metric.tokenize(TEXTS)
    assert runner is not None
    assert runner.row_runner is None
    (wanted,) = states(metric, batch)
    torch.testing.assert_close(runner(batch.input_ids, batch.mask)[0][batch.mask], wanted, rtol=0, atol=1e-5)


def test_what_a_call_returned_outlives_the_next(tiny_metric, exported):
    metric = tiny_metric()
    set_backend(metric, exported, "exact")
    one, other = metric.tokenize(TEXTS[:2]), metric.tokenize(TEXTS[2:4])
    first = metric.encoder.runner(one.input_ids, one.mask)[0]
    before = first.clone()
    metric.encoder.runner(other.input_ids, other.mask)
    assert torch.equal(first, before)


@pytest.mark.parametrize("change", ["load", "cast"])
def test_other_weights_run_on_torch_again(tiny_metric, exported, change):
    metric = tiny_metric()
    set_backend(metric, exported, "exact")
    if change == "load":
        metric.load_state_dict(metric.state_dict())
    else:
        metric.cast_encoder(torch.bfloat16)
    assert metric.encoder.runner is None
    assert metric.signature.entries["backend"] == "torch"


@pytest.mark.slow
def test_an_export_leaves_the_model_as_it_was(tiny_metric, tmp_path):
    metric = tiny_metric()
    metric.train()
    before = {name: value.clone() for name, value in metric.state_dict().items()}
    gradients = [one.requires_grad for one in metric.parameters()]
    prepare(metric, "openvino", "exact", tmp_path)
    assert all(part.training for part in metric.modules())
    assert [one.requires_grad for one in metric.parameters()] == gradients
    assert all(torch.equal(value, before[name]) for name, value in metric.state_dict().items())
    assert all(one.grad is None for one in metric.parameters())


@pytest.mark.usefixtures("converted")
@pytest.mark.parametrize(("amx", "tolerance"), [(False, 1e-5), (True, 0.02)])  # with AMX, vectors have 8 bits
def test_int8_is_close_and_a_text_keeps_its_vectors_in_any_company(tiny_metric, exported, monkeypatch, amx, tolerance):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    metric = tiny_metric()
    batch = metric.tokenize(TEXTS)
    (exact,), (coarse,) = states(metric, batch), states(metric, batch, backend=exported, precision="int8")
    assert 1e-4 < (1 - torch.cosine_similarity(exact, coarse, dim=-1)).max() < 0.05
    assert metric.signature.entries["precision"] == "int8"
    with torch.inference_mode():
        together = metric.encoder(batch)[0][2]
        alone = metric.encoder(metric.tokenize([TEXTS[2]]))[0][0]
    torch.testing.assert_close(together[: len(alone)], alone, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("precision", "amx", "hint"), [("int8", False, "f32"), ("int8", True, "bf16"), ("exact", True, "f32")]
)
def test_vectors_are_bfloat16_beside_int8_weights_where_that_is_faster(monkeypatch, precision, amx, hint):
    compiled = {}
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    core = SimpleNamespace(compile_model=lambda model, device, settings: compiled.update(settings))
    monkeypatch.setattr(openvino, "_core", lambda: core)
    runner = SimpleNamespace(precision=precision, streams=1, threads=1, folder=Path(), _graphs={})
    openvino.Runner._compile(runner, None, in_rows=False)
    assert compiled["INFERENCE_PRECISION_HINT"] == hint


def test_a_back_end_that_is_not_exact_is_refused_and_torch_runs(tiny_metric, exported, monkeypatch):
    metric = tiny_metric()
    run = ArtefactRunner.__call__
    monkeypatch.setattr(ArtefactRunner, "__call__", lambda *given: [one.round(decimals=2) for one in run(*given)])
    with pytest.raises(InputError, match=r"to be exact to 1e-05, but .* set backend='torch'"):
        set_backend(metric, exported, "exact")
    assert metric.encoder.runner is None


@pytest.mark.long
@pytest.mark.parametrize("backend", EXPORTED)
def test_nothing_reports_its_use(tiny_encoder, real_backends, backend):
    """The packages do, unless they are told not to; in a process of its own, where nothing has imported them yet."""
    code = (
        "import sys; from textmover import Scorer\n"
        f"Scorer.from_pretrained('twmd', encoder={str(tiny_encoder)!r}, device='cpu', backend={backend!r})\n"
        "print('openvino_telemetry' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "False\n"), ran.stderr
    assert [one.name for one in real_backends.iterdir()] == ["textmover"]


@pytest.mark.long
@pytest.mark.parametrize("preset", ["twmd", "bertscore-f1"])
def test_deviations_with_a_real_encoder(embedded_metric, preset):
    metric = embedded_metric(preset)
    for backend in EXPORTED:
        assert set_backend(metric, backend, "exact") <= 1e-6
        assert 1e-4 < set_backend(metric, backend, "int8") <= AUTO_BOUND


@pytest.mark.parametrize("spoilt", [torch.nan, 1.0])
def test_rows_are_measured_like_everything_else(tiny_metric, monkeypatch, spoilt):
    metric = tiny_metric()
    set_backend(metric, "openvino", "exact")
    runner, encoder = metric.encoder.runner, metric.encoder
    assert preparation._deviation(metric, encoder, runner, None) <= 1e-5
    assert probe_states(metric, encoder, runner) <= 1e-5
    made = type(runner).rows

    def rows(self, ids, positions, texts, into):
        made(self, ids, positions, texts, into)
        into[0][texts > 1] = spoilt  # as if texts saw their neighbours

    monkeypatch.setattr(type(runner), "rows", rows)
    assert not preparation._deviation(metric, encoder, runner, None) <= 1e-2
    assert not probe_states(metric, encoder, runner) <= 1e-2
    with pytest.raises(BackendError, match="on the probe pairs it deviates from torch"):
        set_backend(metric, "openvino", "exact")
