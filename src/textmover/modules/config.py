"""The configuration of a transport metric: everything that rebuilds it, in one flat frozen dataclass."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from textmover.types import InputError

__all__ = ["DEFAULT_ENCODER", "MetricConfig", "SpecialTokens", "check_choice"]

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

SpecialTokens = Literal["keep", "drop", "first", "targets"]
"""What happens to special tokens: all kept; all dropped; only those that open the text kept ([CLS], not [SEP]);
or weight 0, though other tokens may still be matched with them (BERTScore)."""

Matching = Literal["twmd", "trwmd", "bertscore", "sbert", "wordset-cka"]
Centering = Literal["none", "dimension", "sentence", "batch", "corpus"]


def check_choice(name: str, value: object, choices: tuple[Any, ...]) -> None:
    """Raise an :class:`InputError` that lists the choices unless ``value`` is one of them."""
    if value not in choices:
        raise InputError(f"Expected `{name}` to be one of {', '.join(map(repr, choices))}, but got {value!r}.")


@dataclass(frozen=True)
class MetricConfig:
    """A transport metric from encoder to calibration; the class for ``kind: transport``.

    Example:
        >>> MetricConfig(matching="trwmd").override(temperature=0.1).temperature
        0.1
    """

    kind: Literal["transport"] = "transport"  # class of the metric; this one is the transport family
    matching: Matching = "twmd"  # how the tokens of two texts are matched
    encoder: str = DEFAULT_ENCODER  # name on the hub, or folder
    revision: str | None = None  # commit or tag of the encoder on the hub; None: its main branch
    layer: int | None = None  # hidden layer (0: embeddings, negative: from the end); None: table per encoder
    max_length: int | None = None  # longest text in tokens, special ones included; None: what the encoder allows
    long_texts: Literal["truncate", "error"] = "truncate"  # what happens to longer texts
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # of the encoder's weights and arithmetic
    freeze_layers: int | None = None  # not trained: 0 the embeddings, n also the first n layers; None: all trained
    centering: Centering = "none"  # mean that is subtracted from the token vectors
    hypothesis_special_tokens: SpecialTokens = "first"  # which special tokens of the hypothesis take part
    reference_special_tokens: SpecialTokens = "first"  # which special tokens of the reference take part
    weights: Literal["uniform"] = "uniform"  # weight of each token
    temperature: float = 0.02  # T of twmd and trwmd, in units of the cosine
    learn_temperature: bool = False  # train T (its logarithm) along with the encoder
    iterations: int = 1  # Sinkhorn iterations of twmd, where no tolerance is given
    tolerance: float | None = None  # marginal error that twmd converges to, instead of a number of iterations
    value: Literal["transport", "objective"] = "transport"  # number of the plan that twmd and trwmd report
    normalize: bool = True  # divide by the similarity of each text with itself
    score: Literal["f", "precision", "recall"] = "f"  # which value is the score
    multi_reference: Literal["best", "mean"] = "best"  # of several references: maximum of each value, or mean
    calibrate: bool = False  # a learned scale and offset that map the score to the human scale

    def __post_init__(self) -> None:
        """Check every field."""
        annotations = {
            "matching": get_args(Matching),
            "centering": get_args(Centering),
            "hypothesis_special_tokens": get_args(SpecialTokens),
            "reference_special_tokens": get_args(SpecialTokens),
            "kind": ("transport",),
            "long_texts": ("truncate", "error"),
            "dtype": ("float32", "bfloat16", "float16"),
            "weights": ("uniform",),
            "value": ("transport", "objective"),
            "score": ("f", "precision", "recall"),
            "multi_reference": ("best", "mean"),
            "learn_temperature": (True, False),
            "normalize": (True, False),
            "calibrate": (True, False),
        }
        for name, choices in annotations.items():
            check_choice(name, getattr(self, name), choices)
        self._check_number("temperature", self.temperature, 0.0)
        if self.tolerance is not None:
            self._check_number("tolerance", self.tolerance, 0.0)
        self._check_integer("iterations", self.iterations, 1)
        if self.max_length is not None:
            self._check_integer("max_length", self.max_length, 3)
        if self.freeze_layers is not None:
            self._check_integer("freeze_layers", self.freeze_layers, 0)
        if self.layer is not None and (not isinstance(self.layer, int) or isinstance(self.layer, bool)):
            raise InputError(f"Expected `layer` to be a whole number or null, but got {self.layer!r}.")
        if not isinstance(self.encoder, str) or not self.encoder:
            raise InputError(f"Expected `encoder` to be a name or a folder, but got {self.encoder!r}.")
        if self.revision is not None and (not isinstance(self.revision, str) or not self.revision):
            raise InputError(
                f"Expected `revision` to be a commit or tag in quotes, or null, but got {self.revision!r}."
            )

    @staticmethod
    def _check_number(name: str, value: object, above: float) -> None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not above < value < float("inf"):  # type: ignore[operator]
            raise InputError(f"Expected `{name}` to be a finite number above {above:g}, but got {value!r}.")

    @staticmethod
    def _check_integer(name: str, value: object, least: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(f"Expected `{name}` to be a whole number of at least {least}, but got {value!r}.")

    def override(self, **changes: Any) -> MetricConfig:
        """The same configuration with some fields changed.

        Raises:
            InputError: If a field does not exist or a value does not fit; names the nearest field.
        """
        check_fields(changes, type(self))
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, for JSON and YAML."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MetricConfig:
        """The configuration that :meth:`to_dict` wrote.

        Raises:
            InputError: If a field does not exist or a value does not fit.
        """
        check_fields(values, cls)
        return cls(**values)


def check_fields(values: Mapping[str, Any], config_class: type) -> None:
    """Raise an :class:`InputError` unless all keys are fields of the configuration class."""
    known = [entry.name for entry in fields(config_class)]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"the fields are {', '.join(known)}."
            raise InputError(f"Expected a field of the metric's configuration, but got `{name}`: {hint}")
