"""Every family of encoders on every back-end: packed weights and exported graphs give the hidden states of torch."""

import copy
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from textmover.modules.encoder.encoder import Encoder, EncoderGraph
from textmover.scoring import Scorer
from textmover.scoring.backends import onnxruntime, openvino, torch_runners
from textmover.scoring.backends.preparation import set_backend
from textmover.scoring.backends.torch_runners import PackedRunner, packed_runner

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
FAMILIES = {  # more settings, the linear maps, and those with GELU behind them
    "bert": ({}, 12, 2),
    "roberta": ({}, 12, 2),
    "xlm-roberta": ({}, 12, 2),
    "electra": ({"embedding_size": 16}, 13, 2),
    "mpnet": ({}, 12, 2),
    "distilbert": ({"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}, 12, 2),
    "albert": ({"embedding_size": 16, "hidden_act": "gelu"}, 7, 1),
    "deberta-v2": ({"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, 16, 2),
    "modernbert": ({"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}, 8, 0),
}
PAIRS = ["the small dog ran home", "she will buy a book"], ["a little dog runs home", "she sold two books"]


def graph_of(family: str, **more) -> EncoderGraph:
    """An encoder with random weights, large enough that every part of it matters."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(1)
    settings = {"vocab_size": 100, **SIZES, **FAMILIES[family][0], **more}
    model = AutoModel.from_config(AutoConfig.for_model(family, **settings)).eval()
    model.pooler = None
    with torch.no_grad():
        for one in model.parameters():
            one.normal_(std=0.3)
    return EncoderGraph(model, (1, 2))


def runner_of(graph: nn.Module) -> PackedRunner:
    runner = packed_runner(graph)
    if runner is None:
        pytest.skip("needs torch with oneDNN on an x86-64 processor")
    return runner


def inputs(padded: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(5, 100, (3, 17), generator=torch.Generator().manual_seed(2))
    mask = torch.arange(17) < torch.tensor([17, 9 if padded else 17, 1 if padded else 17])[:, None]
    return ids, mask


def assert_close(runner: PackedRunner, graph: nn.Module, padded: bool = True) -> None:
    ids, mask = inputs(padded)
    with torch.inference_mode():
        for one, other in zip(runner(ids, mask), graph(ids, mask.long()), strict=True):
            torch.testing.assert_close(one[mask], other[mask], rtol=1e-5, atol=1e-5)


def packed_maps(runner: PackedRunner) -> list[nn.Module]:
    return [one for one in runner._ready_graph.modules() if isinstance(one, torch_runners.PackedLinear)]


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_its_hidden_states(family, padded):
    graph = graph_of(family)
    runner = runner_of(graph)
    assert_close(runner, graph, padded)
    _, maps, fused = FAMILIES[family]
    assert len(packed_maps(runner)) == maps
    assert sum(one._activation == "gelu" for one in packed_maps(runner)) == fused


def test_the_model_is_left_as_it_is_and_its_weights_are_not_copied():
    graph = graph_of("bert")
    before = {name: (type(one), id(one)) for name, one in graph.named_modules()}
    runner = runner_of(graph)
    with torch.inference_mode():
        runner(*inputs())
    assert {name: (type(one), id(one)) for name, one in graph.named_modules()} == before
    own = {one.data_ptr() for one in graph.parameters()}
    assert {one.data_ptr() for one in runner._ready_graph.parameters()} <= own


def test_an_approximation_of_gelu_is_not_taken_for_it():
    graph = graph_of("bert", hidden_act="gelu_new")
    runner = runner_of(graph)
    assert_close(runner, graph)
    assert {one._activation for one in packed_maps(runner)} == {"none"}


def test_what_hangs_on_a_linear_map_goes_on():
    graph = graph_of("bert")
    layer = graph.model.encoder.layer[0]
    layer.output.dense.register_forward_hook(lambda module, given, found: found * 2)
    layer.intermediate.dense = nn.Sequential(layer.intermediate.dense, nn.Tanh())
    runner = runner_of(graph)
    assert_close(runner, graph)
    assert len(packed_maps(runner)) == 11


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_threads_do_not_get_in_each_others_way(family):
    graph = graph_of(family)
    runner, (ids, mask) = runner_of(graph), inputs()
    assert runner.concurrent == graph.concurrent

    def run(_):
        with torch.inference_mode():
            return runner(ids, mask)[1][mask]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(16)))
    assert all(torch.equal(one, found[0]) for one in found)


def test_what_is_not_in_float32_or_cannot_be_packed_stays(monkeypatch):
    graph = graph_of("bert")
    runner_of(graph)
    monkeypatch.setattr(torch_runners.platform, "machine", lambda: "arm64")
    assert packed_runner(graph) is None
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert packed_runner(graph) is None
    monkeypatch.undo()
    assert packed_runner(nn.Linear(2, 2)) is None
    assert packed_runner(graph.to(torch.bfloat16)) is None


# --- within a metric --------------------------------------------------------------------------------------------------


@pytest.fixture
def metric(tiny_metric):
    """A metric whose encoder runs with packed weights."""
    found = tiny_metric()
    runner_of(found.encoder.graph())
    set_backend(found, "torch", "exact")
    assert isinstance(found.encoder.runner, PackedRunner)
    return found


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_and_pickles_pack_anew(metric, way):
    wanted = Scorer(metric).score(*PAIRS)
    other = way(metric)
    assert isinstance(other.encoder.runner, PackedRunner)
    assert other.encoder.runner._graph.model is other.encoder.model
    assert (Scorer(other).score(*PAIRS).scores == wanted.scores).all()


def test_trained_weights_are_not_scored_with_the_old_ones(metric, caplog):
    batch = metric.tokenize(PAIRS[0])
    with torch.inference_mode():
        old = metric.encoder(batch)[0]
    with torch.no_grad():
        for one in metric.encoder.parameters():
            one.mul_(1.5)
    with torch.inference_mode():
        new = metric.encoder(batch)[0]
    assert metric.encoder.runner is None
    assert not torch.allclose(new, old)
    assert "the copy that torch prepared is dropped" in caplog.text
    set_backend(metric, "torch", "exact")
    with torch.inference_mode():
        torch.testing.assert_close(metric.encoder(batch)[0], new, rtol=0, atol=1e-5)


def test_gradients_come_from_the_model(metric):
    batch = metric.tokenize(PAIRS[0])
    metric.encoder(batch)[0].sum().backward()
    assert any(one.grad is not None for one in metric.encoder.parameters())


def test_an_encoder_whose_states_would_change_is_left_alone(tiny_metric, monkeypatch, caplog):
    metric = tiny_metric()
    runner_of(metric.encoder.graph())
    honest = torch_runners._packed

    def wrong(graph):
        found = honest(graph)
        next(one for one in found.modules() if isinstance(one, torch_runners.PackedLinear))._activation = "relu"
        return found

    monkeypatch.setattr(torch_runners, "_packed", wrong)
    caplog.set_level(logging.WARNING)
    set_backend(metric, "torch", "exact")
    assert metric.encoder.runner is None
    assert "Weights stay unpacked" in caplog.text


# --- exported graphs: padded batches of unlike lengths ----------------------------------------------------------------


LENGTHS = ([17, 9, 1], [2, 1], [64, 5], [200, 3, 2], [300, 140, 3, 1])
DEEP = {"modernbert": {"num_hidden_layers": 3}}  # what one layer makes of padding, another one spreads to the texts

BACKENDS = {"openvino": openvino, "onnxruntime": onnxruntime}
FREQUENT = {
    ("modernbert", "openvino"): (),
    ("mpnet", "openvino"): pytest.mark.slow,
    ("deberta-v2", "onnxruntime"): pytest.mark.slow,
}
"""Those that are tried more often than now and then: the kinds of attention."""


def batches():
    draw = torch.Generator().manual_seed(2)
    for lengths in LENGTHS:
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        yield torch.randint(5, 100, mask.shape, generator=draw).where(mask, 1), mask


@pytest.mark.parametrize(
    ("family", "backend"),
    [
        pytest.param(family, backend, marks=FREQUENT.get((family, backend), pytest.mark.long))
        for family in FAMILIES
        for backend in BACKENDS
    ],
)
def test_unlike_lengths_in_a_padded_batch(family, backend, tmp_path):
    pytest.importorskip(backend)
    model = graph_of(family, **DEEP.get(family, {})).model
    top = model.config.num_hidden_layers
    encoder = Encoder(model, top, (1, top), window=None).eval()
    (ids, mask), *_ = batches()
    BACKENDS[backend].export(encoder, (ids, mask.long()), "exact", tmp_path)
    runner = BACKENDS[backend].Runner(tmp_path, "exact")
    for ids, mask in batches():
        with torch.inference_mode():
            wanted, found = encoder.graph()(ids, mask.long()), runner(ids, mask)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one[mask], other[mask], rtol=1e-5, atol=1e-5)
            assert one.isfinite().all()  # padding too: what is masked afterwards is multiplied by 0
