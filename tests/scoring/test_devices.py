"""What results depend on beside the versions of packages: the kind of processor, and how exactly it multiplies."""

from types import SimpleNamespace

import pytest
import torch

from textmover.scoring.devices import float32_products, machine_of


def test_a_processor_is_named_by_what_it_can_do():
    assert machine_of(torch.device("cpu")).endswith(torch.backends.cpu.get_cpu_capability())
    assert machine_of(torch.device("mps")) == "mps"


@pytest.mark.parametrize("chosen", ["high", "highest"])
def test_how_exactly_torch_multiplies_is_what_the_program_has_chosen(chosen):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(chosen)
        assert float32_products(torch.device("cpu")) == chosen
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_choice_for_one_kind_of_device_is_found(monkeypatch):
    def refuse():
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    for name, chosen in (("mkldnn", "bf16"), ("cuda", "ieee")):
        monkeypatch.setattr(torch.backends, name, SimpleNamespace(matmul=SimpleNamespace(fp32_precision=chosen)))
    assert float32_products(torch.device("cpu")) == "bf16"
    assert float32_products(torch.device("cuda")) == "ieee"
