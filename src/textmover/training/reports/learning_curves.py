"""Learning curves of a run as a table and a figure, independent of its loggers."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from textmover.csv_cells import CsvWriter
from textmover.files import atomic_file, check_folder
from textmover.markdown_escaping import figure_label
from textmover.report.figures.matplotlib_figures import MARKERS, line_style, plain_axes, rows_and_columns, save_figure
from textmover.types import InputError, check_share, fixed, needs_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

TRAIN, RATE = "train/", "learning rate/"  # prefixes of losses and learning rates; other names are statistics of parts
TWIN = " without decay"  # suffix of optimiser groups that share the learning rate of another group
PANEL_WIDTH, PANEL_HEIGHT = 4.2, 3.0  # size of a panel, in inches
MOST_NAMES = 7  # maximum number of names in a legend; beyond it only the first and last line are named


class LearningCurves(pl.Callback):
    """Collect losses, validation statistics and learning rates, and write ``curves.csv`` and ``curves.png``.

    Both are written when training ends, also after an interruption or error; if that fails, a warning says so.
    Collected values are saved in the checkpoints, so a resumed run has the curves of an unbroken one. Steps are
    optimiser steps, from 1; the loss of a step is the mean over its accumulated batches.

    Args:
        folder: Output folder; by default that of the first logger, or ``trainer.default_root_dir``.
        picture: Whether to draw the figure; ``auto`` draws it if matplotlib is installed.
        smoothing: Window of the smoothed line as a share of the loss curve, 0 to 1; 0 draws only raw values.

    Raises:
        InputError: If an option has another value or, when a fit begins, the folder cannot be written, or matplotlib is
            not installed though ``picture`` is true.
    """

    def __init__(
        self, folder: str | None = None, picture: bool | Literal["auto"] = True, smoothing: float = 0.05
    ) -> None:
        if not isinstance(picture, bool) and picture != "auto":
            raise InputError(f"Expected `picture` to be true, false or auto, but got {picture!r}: choose one of them.")
        self.folder, self.picture, self.smoothing = folder, picture, check_share("smoothing", smoothing)
        self._draws = picture is not False
        self.values: dict[str, dict[int, float]] = {}
        """Value by step, for each name."""
        self._step = 0
        self._batches: list[dict[str, float]] = []
        self._place: Path | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Determine the folder, in all processes together, and check that matplotlib is installed if needed."""
        if stage != "fit":
            return
        self._draws = self.picture is not False
        if self._draws:
            try:
                with needs_extra("report", "matplotlib to draw the learning curves", ", or set `picture` to false"):
                    import matplotlib  # noqa: F401
            except InputError as error:
                if self.picture is True:
                    raise
                self._draws = False
                if trainer.is_global_zero:
                    logger.info("Learning curves: a table and no picture. %s", error)
        self._place = check_folder(self.folder or trainer.log_dir or trainer.default_root_dir, "folder")

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Record the learning rates of the step."""
        step = trainer.global_step + 1
        if step != self._step:
            self._step, self._batches = step, []
        self._note("epoch", step, trainer.current_epoch + 1)
        for optimizer in trainer.optimizers:
            for place, group in enumerate(optimizer.param_groups):
                name = str(group.get("name", f"group {place}"))
                if not name.endswith(TWIN):
                    self._note(RATE + name, step, group["lr"])

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Record the losses of the batch."""
        logged = trainer.callback_metrics
        # In steps of other sources, Lightning still reports the last loss of a source.
        own = f"{TRAIN}{getattr(batch, 'source', '')}/"
        found = {name: float(value) for name, value in logged.items() if name.startswith(TRAIN)}
        self._batches.append({name: one for name, one in found.items() if name.count("/") == 1 or name.startswith(own)})
        for name in {name for one in self._batches for name in one}:
            values = [one[name] for one in self._batches if name in one]
            self._note(name, self._step, math.fsum(values) / len(values))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the statistics."""
        if trainer.sanity_checking or trainer.state.fn != TrainerFn.FITTING:
            return
        for name, value in trainer.callback_metrics.items():
            if not name.startswith(TRAIN):
                self._note(name, trainer.global_step, float(value))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write table and figure."""
        self.write(trainer)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Write table and figure."""
        self.write(trainer)

    def write(self, trainer: pl.Trainer) -> None:
        """Write table and figure in the first process if anything was collected; warn if they cannot be written."""
        if self._place is None or not self.values or not trainer.is_global_zero:
            return
        try:
            with atomic_file(self._place / "curves.csv") as stream:
                CsvWriter(stream).writerows(_rows(self.values))
            if self._draws:
                save_figure(_figure(self.values, self.smoothing), self._place / "curves.png")
        except InputError as error:  # it would lose the trained weights, or hide why training ended
            logger.warning("The learning curves are not written. %s", error)
            return
        logger.info("Learning curves: %s", self._place / ("curves.png" if self._draws else "curves.csv"))

    def state_dict(self) -> dict[str, Any]:
        """Return the collected values as tensors ``[n, 2]`` of steps and values."""
        return {
            "values": {
                name: torch.tensor(list(of.items()), dtype=torch.float64).reshape(-1, 2)
                for name, of in self.values.items()
            }
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the collected values."""
        values: Mapping[str, Tensor] = state_dict["values"]
        self.values = {name: {int(step): value for step, value in rows.tolist()} for name, rows in values.items()}

    def _note(self, name: str, step: int, value: float) -> None:
        self.values.setdefault(name, {})[step] = float(value)


def smoothed(values: Sequence[float], span: float) -> NDArray[np.float64]:
    r"""Return the exponential moving average of finite values with bias correction; ``span`` is the window size ``n``.

    .. math:: m_t = \frac{\sum_{i \le t} d^{t-i} v_i}{\sum_{i \le t} d^{t-i}}, \qquad d = \frac{n-1}{n+1}

    Example:
        >>> smoothed([1.0, 1.0, 4.0], 3).round(2).tolist()
        [1.0, 1.0, 2.71]
    """
    from scipy.signal import lfilter

    decay = (max(1.0, span) - 1) / (max(1.0, span) + 1)
    total, weight = (lfilter([1.0], [1.0, -decay], one) for one in (values, np.ones(len(values))))
    return np.asarray(total / weight)


def _rows(values: Mapping[str, Mapping[int, float]]) -> Iterator[list[Any]]:
    """Return a header and one row per step; cells without a value are empty."""
    names = sorted(values, key=lambda name: (name != "epoch", not name.startswith(TRAIN), name.startswith(RATE)))
    yield ["step", *names]
    for step in sorted({step for of in values.values() for step in of}):
        cells = (values[name].get(step) for name in names)
        yield [step, *("" if one is None else f"{one:.9g}" for one in cells)]


def _panels(values: Mapping[str, Mapping[int, float]]) -> dict[str, dict[str, Mapping[int, float]]]:
    """Group the lines into panels: losses, statistics of each part, learning rates; keys are short names."""
    found: dict[str, dict[str, Mapping[int, float]]] = {}
    rates = {name.removeprefix(RATE): of for name, of in values.items() if name.startswith(RATE)}
    for name, of in values.items():
        if name.startswith(TRAIN):
            line = name.removeprefix(TRAIN).removesuffix("/loss")
            found.setdefault("training loss", {})[line] = of
    for name, of in values.items():
        if name != "epoch" and not name.startswith((TRAIN, RATE)):
            part, _, statistic = name.rpartition("/")
            found.setdefault(part or "validation", {})[statistic] = of
    return {**found, **({RATE.removesuffix("/"): rates} if rates else {})}


def _figure(values: Mapping[str, Mapping[int, float]], smoothing: float) -> Figure:
    from matplotlib.figure import Figure

    panels = _panels(values)
    rows, columns = rows_and_columns(len(panels))
    figure = Figure(figsize=(PANEL_WIDTH * columns, PANEL_HEIGHT * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    last = max(step for of in values.values() for step in of)
    for axes, (title, lines) in zip(grid.flat, panels.items(), strict=False):
        drawn = {figure_label(name): of for name, of in lines.items() if any(map(math.isfinite, of.values()))}
        if title == "training loss":
            _draw_losses(axes, drawn, smoothing)
        elif title == RATE.removesuffix("/"):
            _draw_rates(axes, drawn)
        else:
            _draw_statistics(axes, drawn)
            title = f"{title} (kept from training)"
        axes.set_title(figure_label(title), fontsize=11)
        axes.set_xlim(0, last * 1.02)
        axes.set_xlabel("optimiser step", fontsize=10)
        plain_axes(axes)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=9, frameon=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    return figure


def _draw_losses(axes: Axes, lines: Mapping[str, Mapping[int, float]], smoothing: float) -> None:
    """Draw raw values pale and smoothed values strong; outliers do not set the range."""
    low, high = math.inf, -math.inf
    for place, (name, of) in enumerate(lines.items()):
        steps, raw = _points(of)
        style = line_style(place, len(lines))
        low, high = min(low, float(np.quantile(raw, 0.005))), max(high, float(np.quantile(raw, 0.995)))
        if smoothing and len(raw) > 2:
            axes.plot(steps, raw, color=style["color"], linewidth=0.7, alpha=0.3)
            line = smoothed(raw.tolist(), max(3.0, smoothing * len(raw)))
            axes.plot(steps, line, linewidth=1.8, label=name if len(lines) > 1 else "smoothed", **style)
        else:
            axes.plot(steps, raw, linewidth=1.2, label=name if len(lines) > 1 else None, **style)
    if high > low:
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.set_ylabel("loss", fontsize=10)


def _draw_statistics(axes: Axes, lines: Mapping[str, Mapping[int, float]]) -> None:
    """Draw a point per validation; the highest is filled and labelled."""
    for place, (name, of) in enumerate(lines.items()):
        steps, found = _points(of)
        best = int(np.argmax(found))
        style, marker = line_style(place, len(lines)), MARKERS[place % len(MARKERS)]
        label = f"{name}, best {fixed(found[best], 3)} at {steps[best]}"
        axes.plot(steps, found, linewidth=1.4, zorder=2, **style)
        axes.plot(steps, found, marker, color=style["color"], markersize=4.5, markerfacecolor="white", zorder=3)
        axes.plot(steps[best], found[best], marker, color=style["color"], markersize=6.5, label=label, zorder=4)
    axes.margins(y=0.12)
    axes.set_ylabel("statistic (higher is better)", fontsize=10)


def _draw_rates(axes: Axes, lines: Mapping[str, Mapping[int, float]]) -> None:
    """Draw learning rates on a logarithmic scale, since those of heads are much larger than those of encoders."""
    names = list(lines)
    for place, name in enumerate(names):
        steps, rates = _points(lines[name])
        style = line_style(place, len(lines))
        told = len(names) <= MOST_NAMES or place in (0, len(names) - 2, len(names) - 1)
        axes.plot(steps, np.where(rates > 0, rates, np.nan), linewidth=1.6, label=name if told else None, **style)
    peaks = [peak for peak in (max(of.values()) for of in lines.values()) if peak > 0]
    if peaks:
        axes.set_yscale("log")
        axes.set_ylim(min(peaks) / 100, max(peaks) * 2)  # the ends, where rates approach 0, would stretch the scale
    axes.set_ylabel("learning rate", fontsize=10)


def _points(of: Mapping[int, float]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the steps in order and their values, without NaN and infinity."""
    kept = sorted((step, value) for step, value in of.items() if math.isfinite(value))
    return np.array([step for step, _ in kept]), np.array([value for _, value in kept], dtype=np.float64)
