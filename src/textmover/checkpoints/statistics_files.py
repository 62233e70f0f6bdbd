"""Save and load fitted statistics (corpus mean, idf tables, baseline) as files separate from checkpoints.

A ``.safetensors`` file holds one or more statistics. Its metadata record the settings each statistic was fitted with,
so that a mean of another layer, or the baseline of another metric, is rejected.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from textmover._version import __version__
from textmover.files import atomic_bytes
from textmover.modules.devices import lasting
from textmover.modules.encoder.encoder_identity import tensors_sha256
from textmover.safe_reading import load_json
from textmover.types import InputError, SegmentMetric, TrainableMetric

FORMAT = 1  # version of the file format; later versions are rejected

FIT_COMMANDS = {"mean": "fit-mean", "idf": "fit-idf", "idf_hypothesis": "fit-idf", "baseline": "fit-baseline"}
UNITS = {"mean": "tokens", "idf": "texts", "idf_hypothesis": "texts", "baseline": "pairs"}
SETTINGS = {"mean": "`centering` to corpus", "idf": "`weights` to idf", "baseline": "`rescale` to true"}
SETTINGS["idf_hypothesis"] = "`weights` to idf and `idf_from` to sides"
"""For each statistic: the command that fits it, the unit it counts, and the settings that make a metric use it."""

ORIGIN = "that `textmover fit-idf`, `fit-mean`, `fit-baseline` or `Scorer.save_statistics` wrote"


@dataclass(frozen=True)
class _SavedStatistic:
    path: Path
    state: Mapping[str, Tensor]
    basis: Mapping[str, str]  # settings that it was fitted with


def fitted_names(metric: SegmentMetric) -> list[str]:
    """Return the names of statistics that are fitted on a corpus, not on the texts of each call."""
    return [name for name in metric.statistics if not (metric.fits_on_call and name.startswith("idf"))]


def unfitted_statistics(metric: SegmentMetric) -> list[str]:
    """Return the names of missing statistics, except idf if each call fits it on its own texts."""
    return [name for name in fitted_names(metric) if not metric.statistics[name].fitted]


def size_of(metric: SegmentMetric, name: str) -> str:
    """Return the amount of data a statistic was fitted on, such as ``"350,123 tokens"``."""
    state = metric.statistics[name].state_dict()
    return f"{int(state['documents' if name.startswith('idf') else 'count']):,} {UNITS[name]}"


def save_statistics(
    metric: SegmentMetric, path: Path | str, names: Sequence[str] | None = None, corpus: str = ""
) -> Path:
    """Write fitted statistics, by default all, to a file atomically, and return its path."""
    # Exclude statistics fitted only on the texts of one call.
    fitted = [name for name, one in metric.statistics.items() if one.fitted and not getattr(one, "from_call", False)]
    if names is None:
        names = [name for name in fitted if not (name == "idf_hypothesis" and _same_idf_on_both_sides(metric))]
    missing = [name for name in names if name not in fitted]
    if missing or not names:
        raise InputError(
            f"Expected fitted statistics to write, but {missing[0] if missing else 'the metric'} has "
            f"{'not been fitted' if missing else 'none'}: fit them with `Scorer.fit(texts)` first."
        )
    tensors = {
        f"{name}.{key}": tensor.detach().cpu().contiguous()
        for name in names
        for key, tensor in metric.statistics[name].state_dict().items()
    }
    basis = {name: _basis(metric, name) for name in names}
    metadata = {
        "statistics_format": str(FORMAT),
        "textmover": __version__,
        "names": ",".join(names),
        "encoder": basis[names[0]]["encoder"],
        "basis": json.dumps(basis),
        "fitted_on": json.dumps({name: size_of(metric, name) for name in names}),
        "corpus": corpus,
        "sha256": tensors_sha256(tensors),
    }
    with atomic_bytes(path) as stream:
        stream.write(save(tensors, metadata=metadata))
    return Path(path)


@lasting()
def read_statistics(*paths: Path | str) -> dict[str, _SavedStatistic]:
    """Read saved statistics by name; raise an error for a file that no metric can use."""
    saved: dict[str, _SavedStatistic] = {}
    for path in paths:
        for name, one in _read(Path(path)).items():
            if name in saved:
                raise InputError(f"Expected each statistic once, but got {name} from {saved[name].path} and {path}.")
            saved[name] = one
    return saved


def load_statistics(metric: SegmentMetric, *paths: Path | str) -> None:
    """Load saved statistics into a metric; on error, the metric is not changed."""
    take_statistics(metric, read_statistics(*paths))


def take_statistics(metric: SegmentMetric, saved: dict[str, _SavedStatistic]) -> None:
    """Load statistics that :func:`read_statistics` read; on error, the metric is not changed."""
    current = metric.statistics
    for name, one in saved.items():
        if name not in current:
            advice = f"set {SETTINGS[name]}" if name in SETTINGS else "install a newer textmover"
            if name != "baseline" and "baseline" in current and current["baseline"].fitted and "baseline" not in saved:
                advice += f" and `rescale` to false (the metric's baseline was fitted without {name})"
            raise InputError(
                f"Expected {one.path} to hold statistics that the metric reads, but got {name}: {advice}, or "
                "leave the file out."
            )
    if "idf" in saved and "idf_hypothesis" in current and "idf_hypothesis" not in saved:
        saved = {**saved, "idf_hypothesis": saved["idf"]}
    before = {name: copy.deepcopy(one.state_dict()) for name, one in current.items()}
    try:
        _load_states(metric, saved)
    except InputError:
        for name, state in before.items():
            current[name].load_state_dict(state)
        raise


def _load_states(metric: SegmentMetric, saved: Mapping[str, _SavedStatistic]) -> None:
    """Load the states of statistics, the baseline last since it depends on the others."""
    current = metric.statistics
    rescaled = "baseline" in current and "baseline" not in saved and current["baseline"].fitted
    for_baseline = _basis(metric, "baseline") if rescaled else {}
    for name in sorted(saved, key=lambda name: name == "baseline"):
        one = saved[name]
        _check_basis(one.path, name, one.basis, _basis(metric, name))
        try:
            current[name].load_state_dict(one.state)
        except RuntimeError as error:
            raise _damaged(one.path, " ".join(str(error).split())) from error
    if rescaled and _basis(metric, "baseline") != for_baseline:
        raise InputError(
            f"Expected a baseline fitted with {' and '.join(saved)}, since the metric's own was not, but got "
            "none: fit one with `textmover fit-baseline`, or set `rescale` to false."
        )


def _check_basis(path: Path, name: str, theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    for key in dict.fromkeys([*ours, *theirs]):
        saved, current = theirs.get(key, "none"), ours.get(key, "none")
        # Compare encoders by hash only, since folders can be renamed.
        same = saved.rpartition("@")[2] == current.rpartition("@")[2] if key == "encoder" else saved == current
        if not same:
            raise InputError(
                f"Expected the {name} in {path} to be fitted for this metric, but it was for {key}:{saved} instead of "
                f"{key}:{current}: fit it again with `textmover {FIT_COMMANDS[name]}` and the --model and metric "
                "fields that you score with."
            )


def _basis(metric: SegmentMetric, name: str) -> dict[str, str]:
    """Return the settings that a statistic's values depend on, besides its texts."""
    basis = metric.statistic_basis(name)
    if not name.startswith("idf") and isinstance(metric, TrainableMetric):
        basis["encoder weights"] = _weights_print(metric)
    return basis


def _weights_print(metric: TrainableMetric) -> str:
    """Return a short hash of the first values of each weight in bfloat16: fast, and the same in both precisions."""
    digest = hashlib.sha256()
    with torch.no_grad():
        for _, parameter in metric.encoder_parameters():
            start = parameter.detach().reshape(-1)[:256].to(torch.bfloat16).cpu()
            digest.update(start.view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:8]


def _same_idf_on_both_sides(metric: SegmentMetric) -> bool:
    sides = [metric.statistics[name].state_dict() for name in ("idf", "idf_hypothesis")]
    return all(torch.equal(tensor, sides[1][key]) for key, tensor in sides[0].items())


def _read(path: Path) -> dict[str, _SavedStatistic]:
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "there is no such file"
        raise InputError(f"Expected {path} to be a file of statistics, but {problem}: give one {ORIGIN}.")
    try:
        with safe_open(str(path), framework="pt") as content:
            metadata: dict[str, str] = content.metadata() or {}
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, UnicodeDecodeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if "statistics_format" not in metadata:
        raise InputError(f"Expected {path} to be a file of statistics, but it holds something else: give one {ORIGIN}.")
    version = metadata["statistics_format"]
    if version.isdecimal() and int(version) > FORMAT:
        raise InputError(
            f"Expected {path} to have format {FORMAT} or earlier, but got {version}: install a newer textmover."
        )
    if metadata.get("sha256") != tensors_sha256(tensors):
        raise _damaged(path, "its values have another hash than the file names")
    try:
        bases: dict[str, dict[str, str]] = load_json(metadata["basis"], str(path))
        saved = {}
        for name in metadata["names"].split(","):
            state = {key.partition(".")[2]: one for key, one in tensors.items() if key.startswith(f"{name}.")}
            saved[name] = _SavedStatistic(path, state, dict(bases[name]))
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    for name, one in saved.items():
        for key, value in one.basis.items():
            if not isinstance(value, str):
                raise _damaged(path, f"`{key}` of {name} is {value!r}, no text")
    return saved


def _damaged(path: Path, reason: Any) -> InputError:
    return InputError(
        f"Expected {path} to be a whole file of statistics, but it is damaged or of another kind ({reason}): give one "
        f"{ORIGIN}."
    )
