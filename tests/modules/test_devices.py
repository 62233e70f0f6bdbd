"""What results depend on beside the versions of packages: the kind of processor."""

import torch

from textmover.modules.devices import machine_of


def test_a_processor_is_named_by_what_it_can_do():
    assert machine_of(torch.device("cpu")).endswith(torch.backends.cpu.get_cpu_capability())
    assert machine_of(torch.device("mps")) == "mps"
