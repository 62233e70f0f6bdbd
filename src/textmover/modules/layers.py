"""From the hidden states of several layers to one vector per token."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

__all__ = ["SingleLayer"]


class SingleLayer(nn.Module):
    """The token vectors of one layer as they are.

    Args:
        layer: Which one, counted from 0, the embeddings.
    """

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.needed = (layer,)
        """Layers that the encoder has to give, in this order."""

    def forward(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Hidden states of the needed layers, ``[B, L, D]`` each, to token vectors ``[B, L, D]``."""
        return hidden_states[0]
