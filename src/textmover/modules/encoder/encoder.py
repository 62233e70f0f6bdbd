"""Any Hugging Face encoder as a module that runs only the layers that are needed."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from textmover.modules.devices import has_whole_products
from textmover.modules.encoder.known_encoders import POST_NORM_TYPES, first_position
from textmover.modules.encoder.pretrained import load_model
from textmover.modules.encoder.windows import encode_by_length, encode_windows
from textmover.types import EncoderRunner, InputError, RowRunner, TokenBatch

logger = logging.getLogger(__name__)


def weights_stamp(model: nn.Module) -> int:
    """A number that changes when weights of a model are changed in place, as optimisers do."""
    return sum(0 if one.is_inference() else one._version for one in model.parameters())


class Encoder(nn.Module):
    """Hidden states of the wanted ``layers`` of token batches; 0 are the embeddings.

    ``depth`` counts the layers before any were cut off. ``freeze_layers=n`` keeps the embeddings and ``n`` layers from
    training. Texts longer than ``window`` tokens are read in overlapping windows.
    """

    whole_words = False

    def __init__(
        self,
        model: Any,
        depth: int,
        layers: Sequence[int],
        freeze_layers: int | None = None,
        *,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.depth = depth
        self.layers = tuple(layers)
        self.window = window
        self.computed = self.layers
        """The layers that are computed: the wanted ones, and those of encoders that share their states with this."""
        self._runner: EncoderRunner | None = None
        self._stamp = 0
        self._states: Any = None  # hidden states that several encoders share (``EncoderMemory``)
        self._copied_together = False
        if freeze_layers is not None:
            if freeze_layers > depth:
                raise InputError(
                    f"Expected `freeze_layers` to be at most {depth}, the layers of the encoder, but got "
                    f"{freeze_layers}: lower it; 0 keeps the embeddings alone as they are."
                )
            self._freeze(freeze_layers)

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
        """An encoder of a Hugging Face configuration, cut above its layers, with the weights of ``folder``.

        Without ``dtype`` its weights are random, to be filled from a checkpoint, whose configuration is cut already:
        ``depth`` is that before.
        """
        depth = depth or config.num_hidden_layers
        if config.model_type in POST_NORM_TYPES:  # elsewhere a cut changes the layers below
            config.num_hidden_layers = max(*layers, 1)
        return cls(load_model(config, folder, dtype), depth, layers, freeze_layers, window=window)

    @property
    def dimension(self) -> int:
        """Width ``D`` of the hidden states."""
        return self.model.config.hidden_size

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.model.parameters()).device

    @property
    def runner(self) -> EncoderRunner | None:
        """Back-end that computes the hidden states while no gradients are asked for."""
        return self._runner

    def run_with(self, runner: EncoderRunner | None) -> None:
        """Let another back-end compute the hidden states, or the model again.

        The model still serves wherever gradients are recorded or the encoder is in training mode; the runner is
        forgotten as soon as weights are trained, loaded, moved or cast.
        """
        for encoder in (self,) if self._states is None else self._states.encoders:
            encoder._runner, encoder._stamp = runner, weights_stamp(encoder.model)
        if self._states is not None:
            self._states.forget()

    @property
    def concurrent(self) -> bool:
        """Return whether several threads may run it at a time."""
        return self.graph().concurrent if self._runner is None else self._runner.concurrent

    @property
    def row_runner(self) -> RowRunner | None:
        """Back-end that reads several texts side by side; ``None`` if each is read by itself.

        States that are shared are looked up text by text.
        """
        if self._runner is None or self._states is not None or self._stamp != weights_stamp(self.model):
            return None
        return self._runner.row_runner

    def graph(self) -> EncoderGraph:
        """The computation as one module on plain tensors, for back-ends to export."""
        return EncoderGraph(self.model, self.computed)

    def share(self, states: Any, model: Any, computed: Sequence[int]) -> None:
        """Compute with a model of the same weights, and hand out states that are shared with other encoders."""
        self.model, self.computed, self._states, self._runner = model, tuple(computed), states, None

    def leave(self) -> None:
        """Share states no longer; encoders that go on sharing get a copy of the weights, so that these may change."""
        states, self._states = self._states, None
        if states is not None:
            states.leave(self)
            self.computed, self._runner = self.layers, None  # which computed the layers of all
        elif self._copied_together:
            self.model, self._copied_together = self.copied_model(), False

    def let_go(self) -> bool:
        """Let go of hidden states that are kept in the memory of the device; whether there were any."""
        return self._states is not None and self._states.let_go()

    def copied_model(self) -> Any:
        """A model of its own with the same weights."""
        drop_capturing_hooks(self.model)
        return copy.deepcopy(self.model)

    @property
    def learns(self) -> bool:
        """Return whether any weight can be trained."""
        return any(one.requires_grad for one in self.model.parameters())

    def train(self, mode: bool = True) -> Encoder:
        """Training mode, in which neither states are shared nor another back-end computes, or evaluation mode."""
        if mode and self.learns:
            self.leave()
            self.run_with(None)
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        drop_capturing_hooks(self.model)
        # Copies may be trained. Those of several encoders that share weights, in one pickle, still do.
        shared = self._copied_together or self._states is not None
        runner = self._runner if self._stamp == weights_stamp(self.model) else None
        return {**self.__dict__, "_states": None, "_copied_together": shared, "_runner": runner}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._stamp = weights_stamp(self.model)  # which counts from 0 again

    def _apply(self, fn: Any, recurse: bool = True) -> Encoder:
        before = self._weights_place()
        device, dtype, _ = before
        with torch.no_grad():
            moved = fn(torch.empty(0, device=device, dtype=dtype))
        if (moved.device, moved.dtype) != (device, dtype):
            self.leave()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self._weights_place() != before:
            self.run_with(None)
        return self

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        """Other weights: encoders that share the present ones keep them, and no other back-end goes with them."""
        self.leave()
        self.run_with(None)
        super()._load_from_state_dict(*args, **options)

    def _weights_place(self) -> tuple[Any, ...]:
        """Address and dtype of the weights, which change when they are moved or cast."""
        weight = next(self.model.parameters())
        return weight.device, weight.dtype, weight.data_ptr()

    def forward(self, batch: TokenBatch) -> list[Tensor]:
        """Hidden states of the wanted layers, ``[B, L, D]`` each; what stands in padded places means nothing."""
        if batch.states is not None:
            return self._wanted(list(batch.states))
        learns = self.learns
        trained = torch.is_grad_enabled() and learns
        if self.model.training and not learns:
            self.model.eval()  # dropout would hide what stays as it is
        if self._states is not None and trained:
            self.leave()
        with torch.set_grad_enabled(trained or (torch.is_grad_enabled() and batch.embeddings is not None)):
            shared = self._states if batch.embeddings is None and self._takes_states else None
            return self._wanted(self.encode(batch) if shared is None else shared.states(batch, self.encode))

    @property
    def _takes_states(self) -> bool:
        return self._states is not None and (self._scores or (self._states.any_arithmetic and not self.learns))

    @property
    def _scores(self) -> bool:
        """Return whether nothing is trained, and the arithmetic is that of the weights."""
        learns = torch.is_grad_enabled() or (self.training and self.learns)
        return not learns and not torch.is_autocast_enabled(self.device.type) and has_whole_products()

    def _wanted(self, states: list[Tensor]) -> list[Tensor]:
        """States of the layers that are read, among those computed."""
        return states if self.computed == self.layers else [states[self.computed.index(one)] for one in self.layers]

    def encode(self, batch: TokenBatch) -> list[Tensor]:
        """Hidden states of the layers in :attr:`computed`, ``[B, L, D]`` each, made again."""
        if self.window is not None and batch.mask.shape[1] > self.window:
            return encode_windows(self._hidden_states, batch, self.window)
        # A batch of training has texts of all lengths; a processor gains nothing by encoding their padding.
        if torch.is_grad_enabled() and batch.mask.device.type == "cpu" and not batch.mask.all():
            return encode_by_length(self._hidden_states, batch.inputs, batch.mask)
        return self._hidden_states(batch.inputs, batch.mask, batch.padded)

    def embed(self, input_ids: Tensor) -> Tensor:
        """Input embeddings of token ids, ``[..., E]``, which soft tokens stand in for."""
        return self.model.get_input_embeddings()(input_ids)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens that have an input embedding."""
        return len(self.model.get_input_embeddings().weight)

    def _hidden_states(self, inputs: Tensor, mask: Tensor, padded: bool | None = None) -> list[Tensor]:
        if self._runner is not None and self._scores and not inputs.is_floating_point():
            if self._stamp == weights_stamp(self.model):
                return self._runner(inputs, mask)
            logger.warning("The encoder's weights changed: the copy that %s prepared is dropped.", self._runner.name)
            self.run_with(None)
        padded = not bool(mask.all()) if padded is None else padded
        # Where nothing is padded, no mask lets attention take its fastest path.
        return list(self.graph()(inputs, mask.long() if padded else None))

    def _freeze(self, count: int) -> None:
        lists = (one for one in self.model.modules() if isinstance(one, nn.ModuleList) and len(one) > 0)
        embeddings = getattr(self.model, "embeddings", self.model.get_input_embeddings())
        for part in (embeddings, *next(lists, [])[:count]):
            part.requires_grad_(False)


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

        Embeddings ``[B, L, E]`` can stand in for ids. With positions, the mask may hold for each token the others that
        it sees, bool ``[B, 1, L, L]``.
        """
        told = {"inputs_embeds" if input_ids.is_floating_point() else "input_ids": input_ids}
        told |= {} if position_ids is None else {"position_ids": position_ids}
        output = self.model(attention_mask=attention_mask, output_hidden_states=not self.is_top, **told)
        if self.is_top:
            return (output.last_hidden_state,)
        return tuple(output.hidden_states[layer] for layer in self.layers)


class RowGraph(nn.Module):
    """Hidden states of rows in which several texts stand side by side; a token sees those of its own text alone."""

    def __init__(self, graph: EncoderGraph, first: int) -> None:
        super().__init__()
        self.inner, self.first = graph, first

    def forward(self, input_ids: Tensor, positions: Tensor, texts: Tensor) -> tuple[Tensor, ...]:
        """Hidden states of the wanted layers, ``[R, C, D]`` each; what is given is int64 ``[R, C]``."""
        seen = texts[:, None, :, None] == texts[:, None, None, :]
        return self.inner(input_ids, seen, positions + self.first)


def row_graph(graph: nn.Module) -> RowGraph | None:
    """The computation of an encoder for rows of several texts; ``None`` where its model reads each for itself."""
    import transformers

    # Hugging Face 4 refuses masks with the tokens that each token sees.
    if not isinstance(graph, EncoderGraph) or int(transformers.__version__.split(".")[0]) < 5:
        return None
    first = first_position(graph.model.config)
    return None if first is None else RowGraph(graph, first)


def drop_capturing_hooks(model: Any) -> None:
    """Take off the hooks by which Hugging Face 5 collects hidden states, until it needs them: no pickle holds them."""
    for module in model.modules():
        for number, hook in list(module._forward_hooks.items()):
            if getattr(hook, "__module__", "") == "transformers.utils.output_capturing":
                del module._forward_hooks[number]
        if getattr(module, "_output_capturing_hooks_installed", False):
            module._output_capturing_hooks_installed = False
