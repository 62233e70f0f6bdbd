"""Scorer networks that combine RoMe's features into a score: released, the authors', or untrained."""

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
from textmover.safe_reading import expanded, read_json
from textmover.types import InputError, check_whole

Activation = Literal["none", "relu", "tanh"]
ACTIVATIONS = {"none": nn.Identity, "relu": nn.ReLU, "tanh": nn.Tanh}

FEATURE_ENTRIES = ("encoder", "layer", "parser", "variant", "trees", "acceptability")
"""Signature entries of the features that a scorer is trained on."""

FEATURE_MEAN = 0.5  # assumed mean of the features for the initial biases


@dataclass(frozen=True)
class ScorerConfig:
    """Layers of a scorer network.

    Attributes:
        features: Names of the features, in input order.
        hidden: Width of each hidden layer; empty for logistic regression.
        activations: Activation after each hidden layer.
        monotone: Whether no feature can lower the score: positive weights, plus a skip connection.
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
            raise InputError(f"Expected `activations` to be among {', '.join(ACTIVATIONS)}, but got {unknown[0]!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON."""
        return {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ScorerConfig:
        """Rebuild a configuration from :meth:`to_dict`."""
        features, hidden, activations = (tuple(values[name]) for name in ("features", "hidden", "activations"))
        return cls(features, hidden, activations, values["monotone"])


class FeatureScorer(nn.Module):
    r"""Feed-forward network from features around [0, 1] to a score in (0, 1).

    .. math::
        s = \sigma\bigl(\alpha\, g(F) + \beta\bigr), \qquad
        g = W_n\, \phi_{n-1}(\ldots \phi_1(W_1 F + b_1)) + b_n

    With ``monotone`` every weight is :math:`\log(1 + e^w) > 0`, so that no feature can lower the score (Daniels and
    Velikova 2010). A further term of :math:`g`, linear in :math:`F` with positive weights, lets each feature raise the
    score where the hidden layers are saturated. :math:`\alpha` and :math:`\beta` are 1 and 0 until :meth:`calibrate`
    fits them on pairs outside the training data; scores estimate the share of such pairs that are good (Platt 1999).

    Args:
        config: Features, layers, activations.
        seed: Seed of the initial weights.
        learned_from: Signature of the features of its training, and the ``scorer``'s fingerprint; empty if unknown.

    Reference: Rony et al. 2022 (RoMe), section 3.4: a two-layer network with a sigmoid.

    Example:
        >>> scorer = FeatureScorer(ScorerConfig(("semantic", "syntactic", "acceptability")))
        >>> scorer(torch.tensor([[0.9, 0.8, 0.95]])).shape
        torch.Size([1])
    """

    def __init__(self, config: ScorerConfig, *, seed: int = 0, learned_from: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.config = config
        # Signature entries of the training features, and the fingerprint of the weights that they hold for as `scorer`.
        self.learned_from: Mapping[str, str] = learned_from or {}
        sizes = list(pairwise((len(config.features), *config.hidden, 1)))
        # A separate generator leaves the global random state unchanged.
        generator = torch.Generator().manual_seed(seed)
        self.weights = nn.ParameterList(self._weight(inputs, outputs, generator) for inputs, outputs in sizes)
        self.biases = nn.ParameterList(self._bias(weight.detach(), generator) for weight in self.weights)
        self.around = nn.Parameter(self._weight(sizes[0][0], 1, generator)) if config.monotone else None
        self.activations = nn.ModuleList(ACTIVATIONS[name]() for name in config.activations)
        self.log_scale = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.offset = nn.Parameter(torch.zeros(()), requires_grad=False)

    def _weight(self, inputs: int, outputs: int, generator: torch.Generator) -> Tensor:
        """Draw initial weights of a layer ``[outputs, inputs]``; if monotone, softplus gives 1 to 2 / ``inputs``."""
        noise = torch.rand(outputs, inputs, generator=generator)
        if self.config.monotone:
            return ((1 + noise) / inputs).expm1().log()
        return (2 * noise - 1) / math.sqrt(inputs)

    def _bias(self, weight: Tensor, generator: torch.Generator) -> Tensor:
        """Draw initial biases of a layer; if monotone, they center its outputs around 0."""
        noise = 2 * torch.rand(len(weight), generator=generator) - 1
        if self.config.monotone:
            return noise - FEATURE_MEAN * softplus(weight).sum(dim=1)
        return noise / math.sqrt(weight.shape[1])

    def logits(self, features: Tensor) -> Tensor:
        """Return :math:`g(F)`, the logits ``[B]`` before calibration, for features ``[B, F]``."""
        if features.ndim != 2 or features.shape[1] != len(self.config.features):
            raise ValueError(
                f"Expected `features` to be [B, {len(self.config.features)}] ({', '.join(self.config.features)}), but "
                f"got {list(features.shape)}."
            )
        constrain = softplus if self.config.monotone else nn.Identity()
        hidden = features
        for weight, bias, activation in zip(self.weights, self.biases, [*self.activations, nn.Identity()], strict=True):
            hidden = activation(linear(hidden, constrain(weight), bias))
        if self.around is not None:
            hidden = hidden + linear(features, constrain(self.around))
        return hidden[:, 0]

    def forward(self, features: Tensor) -> Tensor:
        """Return scores ``[B]`` in (0, 1) for features ``[B, F]`` in the order of ``config.features``."""
        return torch.sigmoid(self.log_scale.exp() * self.logits(features) + self.offset)

    def calibrate(self, features: Tensor, targets: Tensor) -> None:
        """Fit scale and offset of the logits to targets in [0, 1] by cross-entropy.

        Args:
            features: Features of pairs that the network was not trained on, ``[n, F]``.
            targets: Quality of each pair, 0 to 1, ``[n]``. Binary targets are smoothed as in Platt (1999), so that
                separable classes do not drive the scale to infinity.

        Raises:
            InputError: If all targets are equal, or they do not rise with the logits.
        """
        if len(targets) == 0 or bool((targets == targets[0]).all()):
            raise InputError(f"Expected different targets to calibrate on, but all {len(targets)} are equal.")
        with torch.no_grad():
            logits = self.logits(features).cpu().double().numpy()
        scale, offset = fitted_logistic(logits, _smoothed_targets(targets.cpu().double().numpy()))
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
        """First eight hex digits of a hash of configuration and weights, for the signature."""
        return hashlib.sha256(json.dumps(self.entries(), sort_keys=True).encode()).hexdigest()[:8]

    def other_features(self, signature: Mapping[str, str]) -> list[str]:
        """Return the entries of a metric's signature that differ from those of the training features."""
        return [name for name in FEATURE_ENTRIES if signature.get(name) != self.learned_from.get(name)]

    def origin(self, signature: Mapping[str, str]) -> dict[str, str]:
        """Return ``learned_from``, or for weights that were trained here, the entries of their metric's signature."""
        if self.learned_from.get("scorer") == self.fingerprint:
            return dict(self.learned_from)
        return {name: signature[name] for name in FEATURE_ENTRIES if name in signature} | {"scorer": self.fingerprint}

    def entries(self) -> dict[str, Any]:
        """Return configuration and weights as plain values, for JSON."""
        weights = {name: tensor.detach().cpu().double().tolist() for name, tensor in self.state_dict().items()}
        return {"config": self.config.to_dict(), "weights": weights}

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> FeatureScorer:
        """Rebuild a scorer from its :meth:`entries`.

        Raises:
            InputError: If an entry is missing or invalid, or the weights do not fit the layers.
        """
        try:
            scorer = cls(ScorerConfig.from_dict(entries["config"]))
            weights = {name: torch.tensor(one, dtype=torch.float32) for name, one in entries["weights"].items()}
            scorer.load_state_dict(weights)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"Expected the description of a scorer network, but got: {reason}") from error
        return scorer


def _smoothed_targets(targets: NDArray[np.float64]) -> NDArray[np.float64]:
    good = targets == 1
    if not (good | (targets == 0)).all():
        return targets
    positive, negative = int(good.sum()), int((~good).sum())
    return np.where(good, (positive + 1) / (positive + 2), 1 / (negative + 2))


def fitted_logistic(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Fit a logistic function of ``x`` to ``y`` by cross-entropy, and return its scale and offset."""
    from scipy.optimize import minimize

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        z = weights[0] * x + weights[1]
        rest = (1 / (1 + np.exp(-np.clip(z, -500, 500))) - y) / len(x)
        return float(np.mean(np.logaddexp(0, z) - y * z)), np.array([rest @ x, rest.sum()])

    result = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS", options={"gtol": 1e-9})
    return float(result.x[0]), float(result.x[1])


def named_features(values: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """Stack named features into ``[B, F]`` in the order of ``names``."""
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(f"Expected the features {', '.join(names)}, but {missing[0]} is missing.")
    return torch.stack([values[name] for name in names], dim=1)


OFFICIAL = ScorerConfig(("acceptability", "syntactic", "semantic"), (30, 20), ("none", "relu"))
"""The authors' layers: 3 -> 30 (no activation; dropout only in training) -> 20, ReLU -> 1, sigmoid."""


def read_official(path: Path | str) -> FeatureScorer:
    """Read the authors' trained network as a :class:`FeatureScorer`.

    Args:
        path: File of the authors' repository (``torch.save`` of the module or its state dict), or JSON with its
            tensors by name. No code in the file runs: only tensors and names of classes are read, and TorchScript is
            rejected.

    Returns:
        The network, with features in the authors' order: acceptability, syntactic, semantic.

    Raises:
        InputError: If the file is missing, cannot be read, or has other layers.

    Reference: Rony et al. 2022 (RoMe), section 3.4, and the authors' code, github.com/rashad101/RoMe.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"Expected the network of RoMe's authors, but there is no file {path}.")
    try:
        if path.read_bytes().lstrip()[:1] == b"{":
            tensors = {name: torch.tensor(values) for name, values in read_json(path).items()}
        else:
            tensors = _tensors(_load_without_code(path))
    except InputError:  # from JSON, with its line
        raise
    except Exception as error:  # invalid bytes can raise any error in the unpickler
        code = "torchscript" in str(error).lower()
        what = "TorchScript, which is code" if code else "a damaged file or objects that are no tensors"
        raise InputError(
            f"Expected {path} to be the network of RoMe's authors (a file of torch.save or JSON), but got {what}: save "
            "the weights again, torch.save(module.state_dict(), FILE)."
        ) from error
    scorer = FeatureScorer(OFFICIAL)
    state = scorer.state_dict()
    for number, layer in enumerate(("hid1", "hid2", "out")):  # the authors' layer names
        for name, ours in ((f"{layer}.weight", f"weights.{number}"), (f"{layer}.bias", f"biases.{number}")):
            shape, tensor = state[ours].shape, tensors.get(name)
            if tensor is None or tensor.shape != shape:
                raise InputError(
                    f"Expected {path} to hold {name} of shape {list(shape)}, but got "
                    f"{'none' if tensor is None else list(tensor.shape)}: give the scorer network of RoMe's authors."
                )
            state[ours] = tensor.detach().float()
    scorer.load_state_dict(state)
    return scorer.eval()


def _load_without_code(path: Path) -> Any:
    """Read a file of ``torch.save`` without its code: :class:`_OpaqueObject` replaces every class that is not safe."""
    names: list[str] = []
    if is_zipfile(path):
        with ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise BadZipFile
        names = get_unsafe_globals_in_checkpoint(path)
    with safe_globals([(_OpaqueObject, name) for name in names]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickles that torch did not write
        return torch.load(path, map_location="cpu", weights_only=True)


class _OpaqueObject:
    """Placeholder for an object whose class is not loaded; it accepts any state from the file."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def _tensors(value: Any, prefix: str = "") -> dict[str, Tensor]:
    """Return tensors by dotted name from a state dict or an unpickled module."""
    if isinstance(value, Tensor):
        return {prefix.rstrip("."): value}
    if isinstance(value, _OpaqueObject):
        state = vars(value)
        value = {**state.get("_parameters", {}), **state.get("_modules", {})}
    if not isinstance(value, Mapping):
        return {}
    return {name: tensor for key, part in value.items() for name, tensor in _tensors(part, f"{prefix}{key}.").items()}


OFFICIAL_NAME = "official"  # the authors' network, after a user has converted their file

UNTRAINED: Mapping[str, Mapping[str, Any]] = {
    "new-paper": {"hidden": (20,), "activations": ("relu",)},
    "new-monotone": {"hidden": (8, 8), "activations": ("tanh", "tanh"), "monotone": True},
}
"""Options of :class:`ScorerConfig` for untrained networks, by name; they work with any features."""

SHIPPED = Path(__file__).parent / "networks"


def build_scorer(name: str, features: tuple[str, ...]) -> FeatureScorer | None:
    """Return the scorer of a name or file, ``None`` for the mean; only an untrained one uses ``features``."""
    if name == MEAN:
        return None
    if name in UNTRAINED:
        return FeatureScorer(ScorerConfig(features, **UNTRAINED[name]))
    shipped = shipped_scorers()
    file = official_file() if name == OFFICIAL_NAME else shipped.get(name, expanded(name))
    if file.is_file():
        return _read_scorer(file)
    if name == OFFICIAL_NAME:
        raise InputError(
            "Expected the network of RoMe's authors, but it is not distributed with textmover: get its weights "
            "from github.com/rashad101/RoMe and convert them once: python -m textmover.rome.convert FILE."
        )
    choices = ", ".join((MEAN, OFFICIAL_NAME, *shipped, *UNTRAINED))
    raise InputError(f"Expected `scorer` to be one of {choices}, or a file, but got {name!r}.")


def shipped_scorers() -> dict[str, Path]:
    """Return the files of the trained networks in the package, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.json"))}


def official_file() -> Path:
    """Return the path of the authors' converted network in the user cache."""
    return user_cache() / "rome" / "official.json"


def write_scorer(scorer: FeatureScorer, path: Path, **about: Any) -> None:
    """Write a network and the entries ``about`` as JSON, atomically."""
    with atomic_file(path) as stream:
        json.dump({**about, **scorer.entries()}, stream, indent=1)
        stream.write("\n")


def convert_official(source: Path | str, target: Path | None = None) -> Path:
    """Convert the authors' file, by default for ``scorer="official"``, and return the path written."""
    target = target or official_file()
    write_scorer(read_official(source), target, about="network of RoMe's authors, github.com/rashad101/RoMe")
    return target


def _read_scorer(path: Path) -> FeatureScorer:
    try:
        entries = read_json(path)
        if not isinstance(entries, dict):
            raise InputError(f"Expected the description of a scorer network, but got {type(entries).__name__}")
        scorer = FeatureScorer.from_entries(entries).eval()
        about = entries.get("about")
        signature = about.get("features", "") if isinstance(about, dict) else ""  # of the training features
        learned_from = dict(part.split(":", 1) for part in str(signature).split("|") if ":" in part)
        scorer.learned_from = {**learned_from, "scorer": scorer.fingerprint} if learned_from else {}
        return scorer
    except (OSError, ValueError) as error:
        raise InputError(f"Expected {path} to hold a scorer network, but: {error}") from error
