"""Classifier of texts or text pairs: a metric's encoder, pooling, and a small head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from textmover.modules.devices import evaluating, own_arithmetic
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.text_arguments import Texts, listed_texts, normalize_references
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.types import InputError, TokenBatch, check_choice, check_whole

Encoding = Literal["single", "joint", "separate"]
Pooling = Literal["mean", "cls"]

BATCH = 64  # texts classified at a time


@dataclass(frozen=True)
class ClassifierConfig:
    """Configuration of a classifier, without its encoder."""

    classes: tuple[str, ...]  # names of the classes, in the order of the outputs
    encoding: Encoding = "joint"  # ``single`` texts; pairs in one sequence (``joint``) or read ``separate``
    pooling: Pooling = "mean"  # from token vectors to one: their ``mean``, or the vector of the first token (``cls``)
    hidden: int = 0  # width of a tanh layer between encoder and outputs; 0 for none
    dropout: float = 0.1  # share of the features dropped in training

    def __post_init__(self) -> None:
        check_choice("encoding", self.encoding, ("single", "joint", "separate"))
        check_choice("pooling", self.pooling, ("mean", "cls"))
        if len(set(self.classes)) < max(2, len(self.classes)):
            raise InputError(f"Expected at least two `classes` with different names, but got {list(self.classes)}.")
        check_whole("hidden", self.hidden)
        if not 0 <= self.dropout < 1:
            raise InputError(f"Expected `dropout` to be from 0 to below 1, but got {self.dropout}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ClassifierConfig:
        """Build the configuration from the result of :meth:`to_dict`."""
        return cls(**{**fields, "classes": tuple(fields["classes"])})


class JoinedTexts(NamedTuple):
    """Pairs of texts, each joined into one sequence."""

    input_ids: Tensor  # token ids, int64 ``[B, L]``; 0 where padded
    mask: Tensor  # true where there is a token, bool ``[B, L]``
    types: Tensor  # token types of the tokenizer, usually 0 for the first and 1 for the second text, int64 ``[B, L]``


class PairTemplate(NamedTuple):
    """Special tokens with which a tokenizer joins two texts, and the token type of each section."""

    opening: tuple[int, ...]  # ids before the first text
    middle: tuple[int, ...]  # ids between the texts
    closing: tuple[int, ...]  # ids after the second text
    types: tuple[int, ...]  # token types: opening, first text, middle, second text, closing

    @property
    def size(self) -> int:
        """Number of special tokens of a pair."""
        return len(self.opening) + len(self.middle) + len(self.closing)

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> PairTemplate:
        """Derive the template of a tokenizer from its output for a pair."""
        encoded = tokenizer._tokenizer(
            "a", "b", return_special_tokens_mask=True, return_token_type_ids=True, verbose=False
        )
        columns = zip(encoded["special_tokens_mask"], encoded["input_ids"], encoded["token_type_ids"], strict=True)
        stretches = [[], *(list(group) for _, group in groupby(columns, key=itemgetter(0))), []]
        places = [place for place, stretch in enumerate(stretches) if stretch and not stretch[0][0]]
        if len(places) != 2:
            raise InputError(
                "Expected a tokenizer that puts special tokens between two texts, but it has none: take the encoding "
                "`separate`."
            )
        sections = stretches[places[0] - 1 : places[1] + 2]
        opening, _, middle, _, closing = (tuple(token for _, token, _ in section) for section in sections)
        return cls(opening, middle, closing, tuple(section[0][2] if section else 0 for section in sections))


def kept_tokens(first: Tensor, second: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """Return how many tokens ``[B]`` of two texts fit into ``room`` tokens; the longer text is truncated first."""
    half = room // 2
    fits = first + second <= room
    cut = torch.where(first > second, room - second.clamp(max=half), first.clamp(max=half))
    return torch.where(fits, first, cut), torch.where(fits, second, room - cut)


def join_texts(first: TokenBatch, second: TokenBatch, template: PairTemplate, limit: int) -> JoinedTexts:
    """Join each pair of texts into one sequence like the tokenizer, truncating the longer text first to a limit.

    Texts that were both truncated to the limit before count as equally long, which may shift one token between them.
    """
    device = first.mask.device
    ordinary = [one.ordinary for one in (first, second)]
    counts = kept_tokens(ordinary[0].sum(dim=1), ordinary[1].sum(dim=1), limit - template.size)
    texts = [inside & (inside.cumsum(dim=1) <= count[:, None]) for inside, count in zip(ordinary, counts, strict=True)]
    rows = len(first)

    def special(ids: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        tokens = torch.tensor(ids, dtype=torch.long, device=device).expand(rows, -1)
        return tokens, torch.ones_like(tokens, dtype=torch.bool)

    pieces = [
        special(template.opening), (first.input_ids, texts[0]), special(template.middle),
        (second.input_ids, texts[1]), special(template.closing),
    ]  # fmt: skip
    ids = torch.cat([tokens for tokens, _ in pieces], dim=1)
    present = torch.cat([mask for _, mask in pieces], dim=1)
    widths = torch.tensor([tokens.shape[1] for tokens, _ in pieces], device=device)
    types = torch.tensor(template.types, device=device).repeat_interleave(widths).expand(rows, -1)
    order = (~present).int().argsort(dim=1, stable=True)[:, : int(present.sum(dim=1).max()) if rows else 0]
    mask = present.gather(1, order)
    return JoinedTexts(ids.gather(1, order) * mask, mask, types.gather(1, order) * mask)


def joint_vectors(metric: MetricModel, joined: JoinedTexts) -> Tensor:
    """Return float32 token vectors ``[B, L, D]`` of joined texts, with gradients."""
    encoder: Any = metric.encoder
    model = encoder.model
    typed = (getattr(model.config, "type_vocab_size", None) or 0) > 1
    output = model(
        input_ids=joined.input_ids,
        attention_mask=joined.mask.long(),
        output_hidden_states=not encoder.graph().is_top,
        **({"token_type_ids": joined.types} if typed else {}),
    )
    top = model.config.num_hidden_layers
    states = [output.last_hidden_state if one == top else output.hidden_states[one] for one in encoder.layers]
    return metric.layers(states).float()


class ClassifierHead(nn.Module):
    r"""Classification head from pooled vectors to one logit per class.

    The features of a text or a joined pair are :math:`u`; those of a pair encoded separately are
    :math:`(u, v, |u - v|, u \odot v)`.

    Reference: Conneau et al. 2017 (InferSent), section 3.1, and Reimers and Gurevych 2019 (Sentence-BERT), section 3.
    """

    def __init__(self, config: ClassifierConfig, dimension: int) -> None:
        super().__init__()
        self.config = config
        width = dimension * (4 if config.encoding == "separate" else 1)
        self.dropout = nn.Dropout(config.dropout)
        self.between = nn.Linear(width, config.hidden) if config.hidden else None
        self.outputs = nn.Linear(config.hidden or width, len(config.classes))

    def forward(self, first: Tensor, second: Tensor | None = None) -> Tensor:
        """Map pooled vectors ``[B, D]``, two for a pair encoded separately, to logits ``[B, C]`` in float32."""
        with torch.autocast(first.device.type, enabled=False):
            u = first.float()
            if second is not None:
                v = second.float()
                u = torch.cat([u, v, (u - v).abs(), u * v], dim=1)
            u = self.dropout(u)
            if self.between is not None:
                u = self.dropout(torch.tanh(self.between(u)))
            return self.outputs(u)


class TextClassifier(nn.Module):
    """Classification head on a metric's encoder, layers and tokenizer, which are shared, so training changes them."""

    def __init__(self, metric: MetricModel, head: ClassifierHead) -> None:
        super().__init__()
        if not isinstance(metric.encoder, Encoder) or not isinstance(metric.tokenizer, Tokenizer):
            raise InputError(
                "Expected a metric on a pretrained encoder to classify with, but got one on static vectors: choose "
                "another `encoder`."
            )
        self.metric, self.head, self.config = metric, head, head.config
        self.template = PairTemplate.of(metric.tokenizer) if self.config.encoding == "joint" else None
        self.limit: int = metric.tokenizer.max_length
        if self.template is not None and self.limit < self.template.size + 2:
            raise InputError(
                f"Expected `max_length` to leave room for two texts beside {self.template.size} special tokens, but "
                f"got {self.limit}: raise it."
            )

    @classmethod
    def untrained(cls, metric: MetricModel, config: ClassifierConfig) -> TextClassifier:
        """Build a classifier with an untrained head."""
        if not hasattr(metric, "layers"):
            raise InputError(
                f"Expected a transport metric to classify with, but got a {type(metric).__name__}: choose a preset "
                "such as twmd."
            )
        return cls(metric, ClassifierHead(config, metric.encoder.dimension * metric.layers.width_factor))

    @property
    def device(self) -> torch.device:
        """Device of the weights and of the batches."""
        return self.metric.device

    def tokenize(self, texts: Sequence[str], others: Sequence[str] | None = None) -> tuple[TokenBatch, ...]:
        """Tokenise texts, or both texts of pairs, on the CPU."""
        if (others is None) != (self.config.encoding == "single"):
            wanted = "single texts" if self.config.encoding == "single" else "pairs of texts"
            raise InputError(f"Expected {wanted}, but got {'pairs' if others is not None else 'single texts'}.")
        return tuple(self.metric.tokenize(one) for one in (texts, others) if one is not None)

    def forward(self, first: TokenBatch, second: TokenBatch | None = None) -> Tensor:
        """Return the logits ``[B, C]`` of texts or pairs, with gradients."""
        if second is None:
            return self.head(self._pool(self.metric.token_vectors(first), first.mask))
        if self.template is not None:
            if self.metric.tokenizer.long_texts == "error":
                self._refuse_cut(first, second, self.limit - self.template.size)
            joined = join_texts(first, second, self.template, self.limit)
            return self.head(self._pool(joint_vectors(self.metric, joined), joined.mask))
        both = TokenBatch.concatenate([first, second])  # one pass through the encoder
        pooled = self._pool(self.metric.token_vectors(both), both.mask)
        return self.head(pooled[: len(first)], pooled[len(first) :])

    def cut(self, first: TokenBatch, second: TokenBatch | None = None) -> Tensor:
        """Return whether each text or pair was truncated at the length limit, bool ``[B]``."""
        sides = [one for one in (first, second) if one is not None]
        truncated = torch.tensor([any(flags) for flags in zip(*(one.truncated for one in sides), strict=True)])
        truncated = truncated.to(first.mask.device)
        if self.template is None:
            return truncated
        ordinary = sum(one.ordinary.sum(dim=1) for one in sides)
        return truncated | (ordinary > self.limit - self.template.size)

    def _refuse_cut(self, first: TokenBatch, second: TokenBatch, room: int) -> None:
        cut = self.cut(first, second)
        if cut.any():
            tokens = [int(one.ordinary[cut][0].sum()) for one in (first, second)]
            raise InputError(
                f"Expected pairs of at most {room} tokens beside the special ones, but got texts of {tokens[0]} and "
                f"{tokens[1]}: shorten them, set `long_texts` to 'truncate', or take the encoding `separate`."
            )

    @own_arithmetic()
    @torch.no_grad()
    def predict(self, texts: Texts, others: Texts | None = None) -> Tensor:
        """Return the probability of each class for one or several texts or pairs, float32 ``[n, C]``, on the CPU."""
        texts = listed_texts(texts, "texts")
        others = None if others is None else listed_texts(others, "others")
        if others is not None and len(others) != len(texts):
            raise InputError(f"Expected as many second texts as first ones, but got {len(others)} and {len(texts)}.")
        normalize_references(texts, texts if others is None else others)  # raises unless all are texts
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]) + len(others[place] if others else ""))
        probabilities = torch.zeros(len(texts), len(self.config.classes))
        with evaluating(self):
            for start in range(0, len(texts), BATCH):
                places = order[start : start + BATCH]
                chosen = None if others is None else [others[place] for place in places]
                tokens = self.tokenize([texts[place] for place in places], chosen)
                probabilities[places] = self(*(one.to(self.device) for one in tokens)).softmax(dim=1).cpu()
        return probabilities

    def _pool(self, vectors: Tensor, mask: Tensor) -> Tensor:
        if self.config.pooling == "cls":
            return vectors[:, 0]
        present = mask[:, :, None]
        return torch.where(present, vectors, 0.0).sum(dim=1) / present.sum(dim=1).clamp(min=1)
