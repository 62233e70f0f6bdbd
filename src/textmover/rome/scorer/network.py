"""The network that makes one score of RoMe's features: a released one, that of the authors, or a new one to train."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, softplus
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from textmover.files import atomic_file, user_cache
from textmover.rome.config import MEAN
from textmover.safe_reading import read_json
from textmover.types import InputError, check_whole

Activation = Literal["none", "relu", "tanh"]
ACTIVATIONS = {"none": nn.Identity, "relu": nn.ReLU, "tanh": nn.Tanh}

START = 0.5  # assumed mean of features before a network is fitted, in the middle of [0, 1]


@dataclass(frozen=True)
class ScorerConfig:
    """Layers of a scorer.

    Attributes:
        features: Names of the features, in the order in which they enter.
        hidden: Width of each hidden layer; none makes it a logistic regression.
        activations: What follows each of them.
        monotone: Whether no feature can lower the score: weights above 0, and a direct way around the hidden layers.
    """

    features: tuple[str, ...]
    hidden: tuple[int, ...] = (20,)
    activations: tuple[Activation, ...] = ("relu",)
    monotone: bool = False

    def __post_init__(self) -> None:
        if not self.features or len(set(self.features)) != len(self.features):
            raise InputError(f"Expected `features` to be one or more different names, but got {self.features}.")
        check_whole("activations", len(self.activations), place=", as their number,")
        for width in self.hidden:
            check_whole("hidden", width, least=1)
        if len(self.activations) != len(self.hidden):
            raise InputError(
                f"Expected `activations` to name one for each of the {len(self.hidden)} hidden layers, but got "
                f"{len(self.activations)}."
            )
        unknown = [name for name in self.activations if name not in ACTIVATIONS]
        if unknown:
            raise InputError(f"Expected `activations` to be of {', '.join(ACTIVATIONS)}, but got {unknown[0]!r}.")

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, for JSON."""
        return {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ScorerConfig:
        """The configuration that :meth:`to_dict` wrote."""
        features, hidden, activations = (tuple(values[name]) for name in ("features", "hidden", "activations"))
        return cls(features, hidden, activations, values["monotone"])


class FeatureScorer(nn.Module):
    r"""Feed-forward network from features in about [0, 1] to a score in (0, 1).

    .. math::
        s = \sigma\bigl(\alpha\, g(F) + \beta\bigr), \qquad
        g = W_n\, \phi_{n-1}(\ldots \phi_1(W_1 F + b_1)) + b_n

    With ``monotone`` every weight is :math:`\log(1 + e^w) > 0` and :math:`g` has a further term :math:`w^\top F`, so
    that no feature can lower the score (Daniels and Velikova 2010), and each can raise it wherever the hidden layers
    are saturated. :math:`\alpha > 0` and :math:`\beta` are 1 and 0 until :meth:`calibrate` fits them on pairs that the
    network was not trained on, so that the score can be read as the share of such pairs that are good (Platt 1999).

    Args:
        config: Features, layers, activations.
        seed: Seed of the first weights.

    Reference: Rony et al. 2022 (RoMe), section 3.4: a two-layer network with a sigmoid.

    Example:
        >>> scorer = FeatureScorer(ScorerConfig(("semantic", "syntactic", "acceptability")))
        >>> scorer(torch.tensor([[0.9, 0.8, 0.95]])).shape
        torch.Size([1])
    """

    def __init__(self, config: ScorerConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.learned_from: Mapping[str, str] = {}  # what the features depended on, where it is known
        sizes = list(pairwise((len(config.features), *config.hidden, 1)))
        # A generator of its own, so that building a metric draws nothing from the global one.
        generator = torch.Generator().manual_seed(seed)
        self.weights = nn.ParameterList(self._weight(inputs, outputs, generator) for inputs, outputs in sizes)
        self.biases = nn.ParameterList(self._bias(weight.detach(), generator) for weight in self.weights)
        self.around = nn.Parameter(self._weight(sizes[0][0], 1, generator)) if config.monotone else None
        self.activations = nn.ModuleList(ACTIVATIONS[name]() for name in config.activations)
        self.log_scale = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.offset = nn.Parameter(torch.zeros(()), requires_grad=False)

    def _weight(self, inputs: int, outputs: int, generator: torch.Generator) -> Tensor:
        """First weights of a layer ``[outputs, inputs]``; of a monotone one, about 1/inputs behind softplus."""
        drawn = torch.rand(outputs, inputs, generator=generator)
        if self.config.monotone:
            return ((1 + drawn) / inputs).expm1().log()
        return (2 * drawn - 1) / math.sqrt(inputs)

    def _bias(self, weight: Tensor, generator: torch.Generator) -> Tensor:
        """First offsets of a layer; those of a monotone one put its values around 0."""
        drawn = 2 * torch.rand(len(weight), generator=generator) - 1
        if self.config.monotone:
            return drawn - START * softplus(weight).sum(dim=1)
        return drawn / math.sqrt(weight.shape[1])

    def logits(self, features: Tensor) -> Tensor:
        """:math:`g(F)` ``[B]`` before calibration, from features ``[B, F]``."""
        if features.ndim != 2 or features.shape[1] != len(self.config.features):
            raise ValueError(
                f"Expected `features` to be [B, {len(self.config.features)}] ({', '.join(self.config.features)}), but "
                f"got {list(features.shape)}."
            )
        used = softplus if self.config.monotone else nn.Identity()
        hidden = features
        for weight, bias, activation in zip(self.weights, self.biases, [*self.activations, nn.Identity()], strict=True):
            hidden = activation(linear(hidden, used(weight), bias))
        if self.around is not None:
            hidden = hidden + linear(features, used(self.around))
        return hidden[:, 0]

    def forward(self, features: Tensor) -> Tensor:
        """Scores ``[B]`` in (0, 1), from features ``[B, F]`` in the order of ``config.features``."""
        return torch.sigmoid(self.log_scale.exp() * self.logits(features) + self.offset)

    def calibrate(self, features: Tensor, targets: Tensor) -> None:
        """Fit scale and offset of the logits to targets in [0, 1] by cross-entropy.

        Args:
            features: ``[n, F]``, of pairs that the network was not trained on.
            targets: Share of them that are good, 0 to 1, ``[n]``. Where all are 0 or 1 they are drawn in a little as
                Platt (1999) does, so that classes that can be told apart do not drive the scale to infinity.

        Raises:
            InputError: If all targets are the same, or fall where the logits rise.
        """
        if len(targets) == 0 or bool((targets == targets[0]).all()):
            raise InputError(f"Expected targets that differ to calibrate on, but got {len(targets)} of one value.")
        with torch.no_grad():
            logits = self.logits(features).cpu().double().numpy()
        scale, offset = fitted_logistic(logits, _platt(targets.cpu().double().numpy()))
        if not scale > 0:
            raise InputError(
                "Expected targets that rise with the scores, but they do not: the network has learned "
                "nothing from them."
            )
        with torch.no_grad():
            self.log_scale.fill_(math.log(scale))
            self.offset.fill_(offset)

    @property
    def fingerprint(self) -> str:
        """First eight digits of a hash of layers and weights: what the signature names."""
        return hashlib.sha256(json.dumps(self.entries(), sort_keys=True).encode()).hexdigest()[:8]

    def entries(self) -> dict[str, Any]:
        """Configuration and weights as plain values, for a JSON file."""
        weights = {name: tensor.detach().cpu().double().tolist() for name, tensor in self.state_dict().items()}
        return {"config": self.config.to_dict(), "weights": weights}

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> FeatureScorer:
        """Rebuild a scorer from its :meth:`entries`.

        Raises:
            InputError: If something is missing, or the weights do not fit the layers.
        """
        try:
            scorer = cls(ScorerConfig.from_dict(entries["config"]))
            weights = {name: torch.tensor(one, dtype=torch.float32) for name, one in entries["weights"].items()}
            scorer.load_state_dict(weights)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"Expected the description of a scorer network, but got: {reason}") from error
        return scorer


def _platt(targets: NDArray[np.float64]) -> NDArray[np.float64]:
    good = targets == 1
    if not (good | (targets == 0)).all():
        return targets
    positive, negative = int(good.sum()), int((~good).sum())
    return np.where(good, (positive + 1) / (positive + 2), 1 / (negative + 2))


def fitted_logistic(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Scale and offset of the logistic function of ``x`` that agrees best with ``y`` by cross-entropy."""
    from scipy.optimize import minimize

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        z = weights[0] * x + weights[1]
        rest = (1 / (1 + np.exp(-np.clip(z, -500, 500))) - y) / len(x)
        return float(np.mean(np.logaddexp(0, z) - y * z)), np.array([rest @ x, rest.sum()])

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS", options={"gtol": 1e-9})
    return float(found.x[0]), float(found.x[1])


def named_features(values: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """Features ``[B, F]`` in the order of their names."""
    lacking = [name for name in names if name not in values]
    if lacking:
        raise ValueError(f"Expected the features {', '.join(names)}, but {lacking[0]} is missing.")
    return torch.stack([values[name] for name in names], dim=1)


OFFICIAL = ScorerConfig(("acceptability", "syntactic", "semantic"), (30, 20), ("none", "relu"))
"""The authors' layers: 3 -> 30 (no activation; their dropout rests in evaluation) -> 20, ReLU -> 1, sigmoid."""


def read_official(path: Path | str) -> FeatureScorer:
    """The authors' trained network as a scorer of ours.

    Args:
        path: The file that their repository holds (``torch.save`` of the module or of its weights), or JSON with its
            tensors by name. Nothing in the file runs: classes are read as names, tensors as numbers, and TorchScript
            is refused.

    Returns:
        The network; its features enter in the authors' order, acceptability, syntactic, semantic.

    Raises:
        InputError: If there is no such file, or it holds other layers.

    Reference: Rony et al. 2022 (RoMe), section 3.4, and the authors' code, github.com/rashad101/RoMe.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"Expected the network of RoMe's authors, but there is no file {path}.")
    try:
        if path.read_bytes().lstrip()[:1] == b"{":
            found = {name: torch.tensor(one) for name, one in read_json(path).items()}
        else:
            found = _tensors(_load(path))
    except InputError:  # of JSON, with its line
        raise
    except Exception as error:  # bytes that are no checkpoint fail in the unpickler in any way
        code = "torchscript" in str(error).lower()
        what = "TorchScript, which is code" if code else "a damaged file or objects that are no tensors"
        raise InputError(
            f"Expected {path} to be the network of RoMe's authors (a file of torch.save or JSON), but got {what}: save "
            "the weights again, torch.save(module.state_dict(), FILE)."
        ) from error
    scorer = FeatureScorer(OFFICIAL)
    state = scorer.state_dict()
    for number, layer in enumerate(("hid1", "hid2", "out")):  # their names of the layers
        for name, ours in ((f"{layer}.weight", f"weights.{number}"), (f"{layer}.bias", f"biases.{number}")):
            shape, tensor = state[ours].shape, found.get(name)
            if tensor is None or tensor.shape != shape:
                raise InputError(
                    f"Expected {path} to hold {name} of shape {list(shape)}, but got "
                    f"{'none' if tensor is None else list(tensor.shape)}: give the scorer network of RoMe's authors."
                )
            state[ours] = tensor.detach().float()
    scorer.load_state_dict(state)
    return scorer.eval()


def _load(path: Path) -> Any:
    """Read a file of ``torch.save``: every class that it names stands for its data alone."""
    names: list[str] = []
    if is_zipfile(path):
        with ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise BadZipFile
        names = get_unsafe_globals_in_checkpoint(path)
    with safe_globals([(_Opaque, name) for name in names]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickles that torch did not write
        return torch.load(path, map_location="cpu", weights_only=True)


class _Opaque:
    """Stands for an object of a class that is not loaded: it takes whatever state the file gives it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def _tensors(found: Any, prefix: str = "") -> dict[str, Tensor]:
    """Tensors by name, of a mapping of weights or of a module's insides."""
    if isinstance(found, Tensor):
        return {prefix.rstrip("."): found}
    if isinstance(found, _Opaque):
        insides = vars(found)
        found = {**insides.get("_parameters", {}), **insides.get("_modules", {})}
    if not isinstance(found, Mapping):
        return {}
    return {name: one for key, value in found.items() for name, one in _tensors(value, f"{prefix}{key}.").items()}


OFFICIAL_NAME = "official"  # the network of RoMe's authors, once a user has converted their file

NEW: Mapping[str, Mapping[str, Any]] = {
    "new-paper": {"hidden": (20,), "activations": ("relu",)},
    "new-monotone": {"hidden": (8, 8), "activations": ("tanh", "tanh"), "monotone": True},
}
"""Networks to train, by name: layers for any features."""

SHIPPED = Path(__file__).parent / "networks"


def build_scorer(name: str, features: tuple[str, ...]) -> FeatureScorer | None:
    """The scorer of a name, with the features that a new one is to see; ``None`` for the mean."""
    if name == MEAN:
        return None
    if name in NEW:
        return FeatureScorer(ScorerConfig(features, **NEW[name]))
    shipped = shipped_scorers()
    file = official_file() if name == OFFICIAL_NAME else shipped.get(name, Path(name).expanduser())
    if file.is_file():
        return _read(file)
    if name == OFFICIAL_NAME:
        raise InputError(
            "Expected the network of RoMe's authors, but it is not here, since it is theirs: get scorer weights "
            "from github.com/rashad101/RoMe and convert them once: python -m textmover.rome.convert FILE."
        )
    choices = ", ".join((MEAN, OFFICIAL_NAME, *shipped, *NEW))
    raise InputError(f"Expected `scorer` to be one of {choices}, or a file, but got {name!r}.")


def shipped_scorers() -> dict[str, Path]:
    """Files of the trained networks that come along, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.json"))}


def official_file() -> Path:
    """Path of the converted network of RoMe's authors, in the user's cache."""
    return user_cache() / "rome" / "official.json"


def write_scorer(scorer: FeatureScorer, path: Path, **about: Any) -> None:
    """Write a network as JSON, with its description; the file appears when it is complete."""
    with atomic_file(path) as stream:
        json.dump({**about, **scorer.entries()}, stream, indent=1)
        stream.write("\n")


def convert_official(source: Path | str, target: Path | None = None) -> Path:
    """Convert the file of RoMe's authors, so that ``scorer="official"`` finds it."""
    target = target or official_file()
    write_scorer(read_official(source), target, about="network of RoMe's authors, github.com/rashad101/RoMe")
    return target


def _read(path: Path) -> FeatureScorer:
    try:
        entries = read_json(path)
        if not isinstance(entries, dict):
            raise InputError(f"Expected the description of a scorer network, but got {type(entries).__name__}")
        scorer = FeatureScorer.from_entries(entries).eval()
        about = entries.get("about")
        seen = about.get("features", "") if isinstance(about, dict) else ""  # the signature of what gave the features
        scorer.learned_from = dict(part.split(":", 1) for part in str(seen).split("|") if ":" in part)
        return scorer
    except (OSError, ValueError) as error:
        raise InputError(f"Expected {path} to hold a scorer network, but: {error}") from error
