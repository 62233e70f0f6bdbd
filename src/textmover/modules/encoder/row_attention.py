"""Encoder models as modules on plain tensors, for one text a row or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from textmover.modules.encoder.known_encoders import POST_NORM_TYPES, first_position


class EncoderGraph(nn.Module):
    """Token ids and mask to hidden states, on plain tensors."""

    def __init__(self, model: Any, layers: Sequence[int]) -> None:
        super().__init__()
        self.model, self.layers = model, tuple(layers)
        # With the layers above cut off, the last hidden state is the one wanted layer.
        self.is_top = model.config.model_type in POST_NORM_TYPES and self.layers == (model.config.num_hidden_layers,)

    @property
    def concurrent(self) -> bool:
        """Return whether several threads may run it: Hugging Face 4 collects hidden states in shared places."""
        import transformers

        return self.is_top or int(transformers.__version__.split(".")[0]) >= 5

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Hidden states of the wanted layers, ``[B, L, D]`` each, of ids and mask, int64 ``[B, L]``.

        Embeddings ``[B, L, E]`` can stand in for ids.
        Where positions are given as well, the mask may hold for each token the others that it sees, bool ``[B, 1, L,
        L]``.
        """
        told = {"inputs_embeds" if input_ids.is_floating_point() else "input_ids": input_ids}
        told |= {} if position_ids is None else {"position_ids": position_ids}
        output = self.model(attention_mask=attention_mask, output_hidden_states=not self.is_top, **told)
        if self.is_top:
            return (output.last_hidden_state,)
        return tuple(output.hidden_states[layer] for layer in self.layers)


class RowGraph(nn.Module):
    """Hidden states of rows in which several texts stand side by side.

    Token :math:`i` of a row attends to token :math:`j` if both are of the same text, so that the states of a text are
    those that it has alone, to the rounding of the arithmetic.
    """

    def __init__(self, graph: EncoderGraph, first: int) -> None:
        super().__init__()
        self.inner, self.first = graph, first

    def forward(self, input_ids: Tensor, positions: Tensor, texts: Tensor) -> tuple[Tensor, ...]:
        """Hidden states of the wanted layers, ``[R, C, D]`` each; what is given is int64 ``[R, C]``."""
        seen = texts[:, None, :, None] == texts[:, None, None, :]
        states: tuple[Tensor, ...] = self.inner(input_ids, seen, positions + self.first)
        return states


def row_graph(graph: nn.Module) -> RowGraph | None:
    """The computation of an encoder for rows of several texts; ``None`` where its model reads each for itself."""
    import transformers

    # Hugging Face 4 refuses masks with the tokens that each token sees.
    if not isinstance(graph, EncoderGraph) or int(transformers.__version__.split(".")[0]) < 5:
        return None
    first = first_position(graph.model.config)
    return None if first is None else RowGraph(graph, first)
