"""How exactly products are made inside, and that the choice around comes back; processors; devices without float64."""

from types import SimpleNamespace

import pytest
import torch

from textmover import Scorer
from textmover.modules.devices import machine_of, own_arithmetic
from textmover.presets import build_metric, preset_config


@pytest.fixture
def products():
    """The setting for all devices, as it was before."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("products")
def test_products_are_whole_inside_and_as_chosen_outside():
    torch.set_float32_matmul_precision("medium")
    with own_arithmetic():
        assert torch.get_float32_matmul_precision() == "highest"
        with own_arithmetic():
            pass
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "medium"
    with pytest.raises(ZeroDivisionError), own_arithmetic():
        1 / 0  # noqa: B018
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.usefixtures("products")
def test_the_last_of_several_threads_puts_the_choice_back():
    torch.set_float32_matmul_precision("high")
    first, second = own_arithmetic(), own_arithmetic()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == "highest"
    second.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.usefixtures("products")
def test_a_choice_for_one_kind_of_device_stays_that_of_one_kind():
    torch.backends.cuda.matmul.allow_tf32 = True  # `products` puts all kinds back
    kinds = [part.matmul.fp32_precision for part in (torch.backends.cuda, torch.backends.mkldnn)]
    with own_arithmetic():
        assert torch.get_float32_matmul_precision() == "highest"
    assert [part.matmul.fp32_precision for part in (torch.backends.cuda, torch.backends.mkldnn)] == kinds


def test_a_choice_for_each_kind_of_device_is_kept(monkeypatch):
    def refuse():
        raise RuntimeError("mix of the legacy and new APIs")

    parts = {name: SimpleNamespace(matmul=SimpleNamespace(fp32_precision=one)) for name, one in CHOSEN.items()}
    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    for name, part in parts.items():
        monkeypatch.setattr(torch.backends, name, part)
    with own_arithmetic():
        assert {part.matmul.fp32_precision for part in parts.values()} == {"ieee"}
    assert {name: part.matmul.fp32_precision for name, part in parts.items()} == CHOSEN


CHOSEN = {"cuda": "tf32", "mkldnn": "bf16"}


@pytest.mark.usefixtures("products")
def test_scores_are_made_of_own_arithmetic(tiny_encoder, monkeypatch):
    torch.set_float32_matmul_precision("medium")
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), backend="torch", device="cpu")
    forward, seen = type(scorer.metric).text_features, []

    def spied(self, tokens):
        seen.append(torch.get_float32_matmul_precision())
        return forward(self, tokens)

    monkeypatch.setattr(type(scorer.metric), "text_features", spied)
    scorer.score(["a cat"], ["the old dog"])
    scorer.explain("a cat", "the old dog")
    assert set(seen) == {"highest"}
    assert torch.get_float32_matmul_precision() == "medium"


def test_a_processor_is_named_by_what_it_can_do():
    assert machine_of(torch.device("cpu")).endswith(torch.backends.cpu.get_cpu_capability())
    assert machine_of(torch.device("mps")) == "mps"


class OnMPS(torch.Tensor):
    """Tensors that say that they are on MPS."""

    @property
    def device(self):
        return torch.device("mps")


def test_a_metric_goes_to_a_device_without_float64(tiny_encoder):
    """As to MPS: what it keeps in float64, the baseline of unrelated texts, goes as float32."""

    def moved(tensor):
        if tensor.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as MPS does not support it.")
        return tensor.as_subclass(OnMPS)

    metric = build_metric(preset_config("twmd").override(encoder=str(tiny_encoder), rescale=True))
    assert any(one.dtype == torch.float64 for one in metric.buffers())
    assert all(one.dtype != torch.float64 for one in metric._apply(moved).buffers())
