"""Hugging Face encoder as a module that computes only the required layers."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from textmover.modules.devices import has_full_precision_matmul, weights_version
from textmover.modules.encoder.known_encoders import POST_NORM_TYPES, first_position
from textmover.modules.encoder.pretrained import LOADING, StoredModel, load_model
from textmover.modules.encoder.windows import encode_by_length, encode_windows
from textmover.types import EncoderRunner, InputError, RowRunner, TokenBatch

logger = logging.getLogger(__name__)


class Encoder(nn.Module):
    """Encoder that returns the hidden states of the selected ``layers``; layer 0 is the embeddings.

    ``depth`` is the number of layers before any were removed. ``freeze_layers=n`` freezes the embeddings and the first
    ``n`` layers. Texts longer than ``window`` tokens are encoded in overlapping windows.
    """

    whole_words = False

    def __init__(
        self, model: Any, depth: int, layers: Sequence[int], freeze_layers: int | None = None, *, window: int | None
    ) -> None:
        super().__init__()
        self.model = model
        self.dimension: int = model.config.hidden_size  # width ``D`` of the hidden states
        self.depth = depth
        self.layers = tuple(layers)
        self.window = window
        self.computed = self.layers
        """Computed layers: the selected ones and those of encoders that share hidden states with this one."""
        self.runner: EncoderRunner | None = None
        """Back-end that computes the hidden states when no gradients are recorded."""
        self._stamp = 0
        self._states: Any = None  # hidden states shared by several encoders (``EncoderMemory``)
        self._copied_together = False
        if freeze_layers is not None:
            if freeze_layers > depth:
                raise InputError(
                    f"Expected `freeze_layers` to be at most {depth}, the layers of the encoder, but got "
                    f"{freeze_layers}: lower it; 0 freezes only the embeddings."
                )
            lists = (one for one in model.modules() if isinstance(one, nn.ModuleList) and len(one) > 0)
            embeddings = model.embeddings if hasattr(model, "embeddings") else model.get_input_embeddings()
            for part in (embeddings, *next(lists, [])[:freeze_layers]):
                part.requires_grad_(False)

    @classmethod
    def load(
        cls,
        folder: Path,
        config: Any,
        layers: Sequence[int],
        *,
        depth: int | None = None,
        dtype: torch.dtype | None = None,
        freeze_layers: int | None = None,
        window: int | None = None,
    ) -> Encoder:
        """Build the encoder of a Hugging Face configuration, without the layers above ``layers``.

        The weights come from ``folder``. Without ``dtype`` they are random, to be filled from a checkpoint. The
        configuration in a checkpoint lacks the removed layers, so ``depth`` gives the original number.
        """
        depth = depth or config.num_hidden_layers
        if config.model_type in POST_NORM_TYPES:  # other types apply a final norm after the last layer
            config.num_hidden_layers = max(*layers, 1)
        model = StoredModel.find(config, folder, dtype) or load_model(config, folder, dtype)
        return cls(model, depth, layers, freeze_layers, window=window)

    @property
    def weights(self) -> Any:
        """Module that holds the weights and the configuration: the model, or what it will be built of."""
        return self._modules["model"]

    @property
    def model(self) -> Any:
        """Hugging Face model, built on first use."""
        with LOADING:  # threads wait for the first to build it
            if isinstance(self.weights, StoredModel):
                self.model = self.weights.built()
        return self.weights

    @model.setter
    def model(self, model: Any) -> None:
        self._modules["model"] = model

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.weights.parameters()).device

    def run_with(self, runner: EncoderRunner | None) -> None:
        """Compute hidden states with a back-end, or with the model again if ``None``.

        The model still computes when gradients are recorded or the encoder is in training mode. Training, loading,
        moving or casting the weights removes the runner.
        """
        for encoder in (self,) if self._states is None else self._states.encoders:
            encoder.runner, encoder._stamp = runner, weights_version(encoder.weights)
        if self._states is not None:
            self._states.forget()

    @property
    def concurrent(self) -> bool:
        """Return whether several threads may run the encoder at the same time."""
        return self.graph().concurrent if self.runner is None else self.runner.concurrent

    @property
    def row_runner(self) -> RowRunner | None:
        """Back-end that encodes several texts in one row; ``None`` if each text needs a separate row.

        It is also ``None`` with shared states, which are looked up text by text.
        """
        if self.runner is None or self._states is not None or self._stamp != weights_version(self.weights):
            return None
        return self.runner.row_runner

    def graph(self) -> EncoderGraph:
        """Return the computation as one module on plain tensors, for export to back-ends."""
        return EncoderGraph(self.model, self.computed)

    def share(self, states: Any, model: Any, computed: Sequence[int]) -> None:
        """Share the hidden states and a model with the same weights with other encoders."""
        self.model, self.computed, self._states, self.runner = model, tuple(computed), states, None

    def leave(self) -> None:
        """Stop sharing states; the encoders that keep sharing get a copy of the weights, so these may change."""
        states, self._states = self._states, None
        if states is not None:
            states.leave(self)
            self.computed, self.runner = self.layers, None  # the runner computed the layers of all encoders
        elif self._copied_together:
            self.model, self._copied_together = self.copied_model(), False

    def let_go(self) -> bool:
        """Free cached hidden states on the device; return whether there were any."""
        return self._states is not None and self._states.let_go()

    def copied_model(self) -> Any:
        """Return a copy of the model."""
        drop_capturing_hooks(self.weights)
        return copy.deepcopy(self.weights)

    @property
    def learns(self) -> bool:
        """Return whether any weight is trainable."""
        return any(one.requires_grad for one in self.weights.parameters())

    def train(self, mode: bool = True) -> Encoder:
        """Set training or evaluation mode; training a trainable encoder stops shared states and other back-ends."""
        if mode and self.learns:
            self.leave()
            self.run_with(None)
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        drop_capturing_hooks(self.weights)
        # A copy may be trained, so it shares no states. Encoders in one pickle still share their weights.
        shared = self._copied_together or self._states is not None
        runner = self.runner if self._stamp == weights_version(self.weights) else None
        return {**self.__dict__, "_states": None, "_copied_together": shared, "runner": runner}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._stamp = weights_version(self.weights)  # versions of copied weights restart at 0

    def _apply(self, fn: Any, recurse: bool = True) -> Encoder:
        before = self._weights_location()
        device, dtype, _ = before
        with torch.no_grad():
            moved = fn(torch.empty(0, device=device, dtype=dtype))
        if (moved.device, moved.dtype) != (device, dtype):
            self.leave()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self._weights_location() != before:
            self.run_with(None)
        return self

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        """Load weights; encoders that share the current ones keep them, and the back-end is removed."""
        self.leave()
        self.run_with(None)
        super()._load_from_state_dict(*args, **options)

    def _weights_location(self) -> tuple[Any, ...]:
        """Return device, dtype and address of the weights, which change when they are moved or cast."""
        weight = next(self.weights.parameters())
        return weight.device, weight.dtype, weight.data_ptr()

    def forward(self, batch: TokenBatch) -> list[Tensor]:
        """Return the hidden states of the selected layers, ``[B, L, D]`` each; values at padding are undefined."""
        if batch.states is not None:
            return self._selected(list(batch.states))
        learns = self.learns
        trained = torch.is_grad_enabled() and learns
        if self.weights.training and not learns:
            self.weights.eval()  # a frozen encoder needs no dropout
        if self._states is not None and trained:
            self.leave()
        with torch.set_grad_enabled(trained or (torch.is_grad_enabled() and batch.embeddings is not None)):
            states = self._states if batch.embeddings is None else None
            if states is not None and (self._scores or (states.any_arithmetic and not learns)):
                return self._selected(states.states(batch, self.encode))
            return self._selected(self.encode(batch))

    @property
    def _scores(self) -> bool:
        """Return whether no weights are trained and the arithmetic is that of the weights."""
        learns = torch.is_grad_enabled() or (self.training and self.learns)
        return not learns and not torch.is_autocast_enabled(self.device.type) and has_full_precision_matmul()

    def _selected(self, states: list[Tensor]) -> list[Tensor]:
        """Return the states of the selected layers from those of all computed layers."""
        return states if self.computed == self.layers else [states[self.computed.index(one)] for one in self.layers]

    def encode(self, batch: TokenBatch) -> list[Tensor]:
        """Compute the hidden states of the layers in :attr:`computed`, ``[B, L, D]`` each, without shared states."""
        if self.window is not None and batch.mask.shape[1] > self.window:
            return encode_windows(self._hidden_states, batch, self.window)
        # Training batches mix lengths; on a CPU, encoding padding costs as much as encoding tokens.
        if torch.is_grad_enabled() and batch.mask.device.type == "cpu" and not batch.mask.all():
            return encode_by_length(self._hidden_states, batch.inputs, batch.mask)
        return self._hidden_states(batch.inputs, batch.mask, batch.padded)

    def embed(self, input_ids: Tensor) -> Tensor:
        """Return the input embeddings of token ids, ``[..., E]``."""
        return self.model.get_input_embeddings()(input_ids)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens with an input embedding."""
        return len(self.model.get_input_embeddings().weight)

    def _hidden_states(self, inputs: Tensor, mask: Tensor, padded: bool | None = None) -> list[Tensor]:
        if self.runner is not None and self._scores and not inputs.is_floating_point():
            if self._stamp == weights_version(self.weights):
                return self.runner(inputs, mask)
            logger.warning("The encoder's weights changed: the copy that %s prepared is dropped.", self.runner.name)
            self.run_with(None)
        padded = not bool(mask.all()) if padded is None else padded
        # Without padding, omitting the mask lets attention take its fastest path.
        return list(self.graph()(inputs, mask.long() if padded else None))


class EncoderGraph(nn.Module):
    """Module from token ids and mask to hidden states, on plain tensors."""

    def __init__(self, model: Any, layers: Sequence[int]) -> None:
        super().__init__()
        self.model, self.layers = model, tuple(layers)
        # If the layers above were removed, the last hidden state is the selected layer.
        self.is_top = model.config.model_type in POST_NORM_TYPES and self.layers == (model.config.num_hidden_layers,)

    @property
    def concurrent(self) -> bool:
        """Return whether several threads may run it: transformers 4 collects hidden states in shared variables."""
        import transformers

        return self.is_top or int(transformers.__version__.split(".")[0]) >= 5

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the hidden states of the selected layers, ``[B, L, D]`` each, of ids and mask, int64 ``[B, L]``.

        Embeddings ``[B, L, E]`` may replace the ids. With positions, the mask may give the tokens that each token
        attends to, bool ``[B, 1, L, L]``.
        """
        inputs = {"inputs_embeds" if input_ids.is_floating_point() else "input_ids": input_ids}
        inputs |= {} if position_ids is None else {"position_ids": position_ids}
        output = self.model(attention_mask=attention_mask, output_hidden_states=not self.is_top, **inputs)
        if self.is_top:
            return (output.last_hidden_state,)
        return tuple(output.hidden_states[layer] for layer in self.layers)


class RowGraph(nn.Module):
    """Module for rows that hold several texts each; a token attends only to tokens of its own text."""

    def __init__(self, graph: EncoderGraph, first: int) -> None:
        super().__init__()
        self.inner, self.first = graph, first

    def forward(self, input_ids: Tensor, positions: Tensor, texts: Tensor) -> tuple[Tensor, ...]:
        """Return the hidden states of the selected layers, ``[R, C, D]`` each; the inputs are int64 ``[R, C]``."""
        attended = texts[:, None, :, None] == texts[:, None, None, :]
        return self.inner(input_ids, attended, positions + self.first)


def row_graph(graph: nn.Module) -> RowGraph | None:
    """Return an encoder's computation on rows of several texts; ``None`` if its model cannot read such rows."""
    import transformers

    # transformers 4 accepts no attention mask per token.
    if not isinstance(graph, EncoderGraph) or int(transformers.__version__.split(".")[0]) < 5:
        return None
    first = first_position(graph.model.config)
    return None if first is None else RowGraph(graph, first)


def drop_capturing_hooks(model: Any) -> None:
    """Remove the hooks by which transformers 5 collects hidden states: they cannot be pickled and are reinstalled."""
    for module in model.modules():
        for number, hook in list(module._forward_hooks.items()):
            if getattr(hook, "__module__", "") == "transformers.utils.output_capturing":
                del module._forward_hooks[number]
        if getattr(module, "_output_capturing_hooks_installed", False):
            module._output_capturing_hooks_installed = False
