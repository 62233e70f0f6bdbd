"""Whether a checkpoint of a run is one that a module can go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from textmover.scoring.encoder_weights import encoder_misfit
from textmover.types import InputError

if TYPE_CHECKING:
    from textmover.training.stage import StageModule

__all__ = ["check_same_run", "unfit_weights"]


def check_same_run(module: StageModule, saved: Mapping[str, Any]) -> None:
    """Refuse what a checkpoint says of its run, where the module trains something else.

    Args:
        module: The module that is to go on.
        saved: What a checkpoint holds under ``textmover``; what is not said there, as in checkpoints of earlier
            versions, fits.

    Raises:
        InputError: If a field of the metric's configuration, or of its low-rank updates, is another one, the encoder
            has been replaced since, or layers were treated alike there and are not here.
    """
    here = {**module.metric.config.to_dict(), "lora": None if module.lora is None else asdict(module.lora)}
    there = {**saved.get("config", {}), "lora": saved.get("lora")}
    for name, value in there.items():
        if name in here and here[name] != value:
            raise InputError(
                f"Expected a checkpoint of the metric that is trained here, but its `{name}` is {value!r} instead "
                f"of {here[name]!r}: give one of this recipe, or export that one and name it as `metric` to start "
                "from."
            )
    misfit = encoder_misfit(module.metric, saved.get("encoder", {}))
    if misfit is not None:
        raise InputError(f"{misfit}: put that one back, or start anew without the checkpoint.")
    by_depth = module.optimizer_config.by_depth
    if saved.get("by_depth", by_depth) != by_depth:
        kinds = ("all layers at one rate", "each layer at a rate of its own (`layer_decay`, `thaw`)")
        raise InputError(
            f"Expected a checkpoint of a run that trains {kinds[by_depth]}, as this recipe does, but it trains "
            f"{kinds[not by_depth]}: set `layer_decay` and `thaw` as there, or export it and name it as `metric` "
            "to start from."
        )


def unfit_weights(error: RuntimeError) -> str:
    """What is wrong with weights that torch cannot load: the first of what it lists."""
    lines = [line.strip() for line in str(error).splitlines()]
    found = lines[1] if len(lines) > 1 else str(error)
    return (
        f"Expected weights that fit the module of this recipe, but got: {found.rstrip('. ')}. Give a checkpoint of "
        "this recipe, put back the encoder that it was trained from, or start anew without it."
    )
