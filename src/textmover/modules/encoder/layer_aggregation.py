"""Aggregation of hidden states from several layers into one vector per token."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from textmover.functional import unit_vectors
from textmover.functional.layer_aggregation import power_mean, routing


class Layers(nn.Module):
    """Base of modules that map hidden states of layers to one vector per token."""

    width_factor = 1  # width of the token vectors, as a multiple of the hidden size ``D``

    def __init__(self, layers: Sequence[int]) -> None:
        super().__init__()
        self.needed = tuple(layers)  # layers that the encoder must return, in this order

    def signature_entries(self) -> dict[str, str]:
        """Return the entries for the signature."""
        return {"layers": _ranges(self.needed)}

    def unit_layers(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Scale hidden states ``[B, L, D]`` per layer to unit vectors ``[layers, B, L, D]``, in at least float32."""
        precise = (state.to(torch.promote_types(state.dtype, torch.float32)) for state in hidden_states)
        return torch.stack([unit_vectors(state) for state in precise])


class SingleLayer(Layers):
    """Token vectors of one layer, unchanged."""

    def signature_entries(self) -> dict[str, str]:
        """Return the entries for the signature."""
        return {"layer": str(self.needed[0])}

    def forward(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Map hidden states of the needed layers, ``[B, L, D]`` each, to token vectors ``[B, L, D]``."""
        return hidden_states[0]


class PowerMeans(Layers):
    """Concatenated power means of several layers' unit vectors (Zhao et al. 2019, MoverScore, Eq. 4 and 5)."""

    def __init__(self, layers: Sequence[int], powers: Sequence[float]) -> None:
        super().__init__(layers)
        self.powers = tuple(float(power) for power in powers)
        self.width_factor = len(self.powers)

    def signature_entries(self) -> dict[str, str]:
        """Return the entries for the signature: layers and powers."""
        return super().signature_entries() | {"powers": ",".join(f"{power:g}" for power in self.powers)}

    def forward(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Map hidden states of the needed layers, ``[B, L, D]`` each, to token vectors ``[B, L, len(powers) * D]``."""
        layers = self.unit_layers(hidden_states)
        return torch.cat([power_mean(layers, power) for power in self.powers], dim=-1)


class ScalarMix(Layers):
    r"""Learned weighted mean of the unit vectors of several layers, :math:`\sum_l \mathrm{softmax}(s)_l\, z_l`.

    Weights start equal. ELMo's factor before the sum is omitted, since token vectors are scaled to unit length.

    Reference: Peters et al. 2018 (ELMo), Eq. 1.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        super().__init__(layers)
        self.logits = nn.Parameter(torch.zeros(len(self.needed)))

    def signature_entries(self) -> dict[str, str]:
        """Return the entries for the signature: layers and their current weights."""
        weights = self.logits.detach().softmax(dim=0).tolist()
        return super().signature_entries() | {"mix": ",".join(f"{weight:.6g}" for weight in weights)}

    def forward(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Map hidden states of the needed layers, ``[B, L, D]`` each, to token vectors ``[B, L, D]``."""
        layers = self.unit_layers(hidden_states)
        return (self._weights(layers.dtype) * layers).sum(dim=0)

    def _weights(self, dtype: torch.dtype) -> Tensor:
        return self.logits.to(dtype).softmax(dim=0)[:, None, None, None]


class SideBySide(ScalarMix):
    r"""Concatenated weighted unit vectors of several layers, :math:`[\sqrt{w_1}\, z_1; \sqrt{w_2}\, z_2; \dots]`.

    The weights :math:`w = \mathrm{softmax}(s)` are learned and start equal. The cosine of two tokens is
    :math:`\sum_l w_l \cos_l`, the weighted mean of their cosines in each layer.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        super().__init__(layers)
        self.width_factor = len(self.needed)

    def signature_entries(self) -> dict[str, str]:
        """Return the entries for the signature: layers and their current weights."""
        entries = super().signature_entries()
        return {"layers": entries["layers"], "side-by-side": entries["mix"]}

    def forward(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Map hidden states of the needed layers, ``[B, L, D]`` each, to token vectors ``[B, L, layers * D]``."""
        layers = self.unit_layers(hidden_states)
        return torch.cat((self._weights(layers.dtype).sqrt() * layers).unbind(), dim=-1)


class Routing(Layers):
    """Mode of the unit vectors of several layers by mean shift (Zhao et al. 2019, MoverScore, appendix A.2)."""

    def __init__(self, layers: Sequence[int], **options: Any) -> None:
        super().__init__(layers)
        self.options = {"kernel": "gaussian", "step": 1.0, "tolerance": 1e-5, "max_iterations": 20, **options}

    def signature_entries(self) -> dict[str, str]:
        """Return the entries for the signature: layers, kernel, step and stopping criterion."""
        stated = "{kernel},step{step:g},to{tolerance:g},max{max_iterations}".format(**self.options)
        return super().signature_entries() | {"routing": stated}

    def forward(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Map hidden states of the needed layers, ``[B, L, D]`` each, to token vectors ``[B, L, D]``."""
        return routing(self.unit_layers(hidden_states), **self.options)


def _ranges(layers: Sequence[int]) -> str:
    """Format layers as text, three or more consecutive ones as a range: ``0,4-6``."""
    numbered = itertools.groupby(enumerate(layers), lambda entry: entry[1] - entry[0])  # the same within a range
    runs = [[layer for _, layer in group] for _, group in numbered]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
