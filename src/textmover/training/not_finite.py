"""Errors of losses, gradients and weights that are infinite or NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.training.stage import StageModule

SHOWN_TEXTS, SHOWN = 2, 60
"""Texts of a batch that an error quotes, and how many characters of each."""


class NotFiniteError(InputError):
    """A loss, a gradient or a weight that is infinite or NaN: going on would ruin the weights."""


def not_finite(module: StageModule, what: str) -> NotFiniteError:
    """Build the error, with the batch that was the last one.

    Args:
        module: The module that is trained.
        what: What was expected, and what it got.
    """
    return NotFiniteError(f"Expected {what} at step {module.global_step}{_told(module)}: lower the learning rate.")


def _told(module: StageModule) -> str:
    """Items of the last batch, and the texts by which they are found in the files."""
    if module._batch is None:
        return ""
    positions, source = module._batch.positions.tolist(), module.data.sources[module._batch.source]
    texts = [source.texts(source.items[at])[0] for at in positions[:SHOWN_TEXTS]]
    shown = [repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…") for text in texts]
    return f" ({source.name}: items {positions} of the training part, the first of them {' and '.join(shown)})"
