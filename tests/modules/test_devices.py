"""What results depend on beside the versions of packages: the kind of processor; devices without float64."""

import torch

from textmover.modules.devices import machine_of
from textmover.presets import build_metric, preset_config


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
