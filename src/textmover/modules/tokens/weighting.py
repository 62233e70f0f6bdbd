"""Selection, weights and pooling of a text's tokens before the matching."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from textmover.functional.cost import pairwise_similarity, scale_losses, unit_vectors
from textmover.functional.token_pooling import Units, compact, ngrams, words
from textmover.modules.config import IDF_WEIGHTS, MetricConfig, SpecialTokens
from textmover.modules.tokens.statistics import IdfTable
from textmover.modules.tokens.text_flags import is_foreign
from textmover.modules.tokens.unknown_tokens import separate_unknown, token_keys
from textmover.types import InputError, SpecialToken, TokenBatch, TokenEmbeddings, TokenTrait
from textmover.types.word_splitting import ENGLISH

Role = Literal["reference", "hypothesis"]

MAX_LOG_WEIGHT = 3.0  # largest magnitude of the logarithm of a learned weight


class Side(NamedTuple):
    """One side of a matching.

    Attributes:
        vectors: Vectors of the units to match, ``[B, L, D]``, scaled to unit length unless the matching reads raw ones.
        mask: True for units that may be matched, bool ``[B, L]``.
        weights: ``[B, L]``, each row sums to 1; all 0 if no unit is selected.
        empty: True for texts without a selected ordinary token of the vocabulary, bool ``[B]``.
        unweighted: True if all idf weights are 0 and uniform ones replace them, bool ``[B]``.
        keys: Keys that identify the tokens, int64 ``[B, L]``; ``None`` if the same tokens match as others do.
    """

    vectors: Tensor
    mask: Tensor
    weights: Tensor
    empty: Tensor
    unweighted: Tensor
    keys: Tensor | None = None


def needs_traits(config: MetricConfig) -> bool:
    """Return whether a configuration requires token traits: word pieces, punctuation or stop words."""
    return config.subwords != "all" or config.punctuation == "drop" or config.stop_words != "keep"


class TokenWeighting(nn.Module):
    r"""Select, weight and pool the tokens of a text as reference or hypothesis.

    Tokens are selected by kind and trait, and then weighted. Optionally, the pieces of a word are averaged, and n-grams
    of ``n`` units become weighted means. Pooling averages the encoder's raw vectors and scales the means to unit
    length, as in MoverScore's code.

    Learned weights are :math:`\exp(3 \tanh((u \cdot x + c)/3))`, where ``x`` is the token's unit vector times the root
    of its dimension; untrained, they are uniform.
    """

    def __init__(
        self,
        config: MetricConfig,
        vocabulary: int,
        *,
        dimension: int = 1,
        unit: bool = True,
        lacking: int | None = None,
    ) -> None:
        super().__init__()
        self.importance = nn.Linear(dimension, 1) if config.weights == "learned" else None
        for parameter in () if self.importance is None else self.importance.parameters():
            nn.init.zeros_(parameter)
        self.unit = unit
        self.lacking = lacking  # id of words without a static vector
        self.pools = config.ngram != 1 or config.subwords == "mean"
        self.special_tokens: dict[str, SpecialTokens] = {
            "reference": config.reference_special_tokens,
            "hypothesis": config.hypothesis_special_tokens,
        }
        self.subwords = config.subwords
        self.ngram = None if config.ngram == "sentence" else config.ngram
        self.frequency = config.weights == "tf-idf"
        self.same_token_loss = config.same_token_loss
        dropped = (
            (TokenTrait.CONTINUATION if config.subwords == "first" else 0)
            | (TokenTrait.PUNCTUATION if config.punctuation == "drop" else 0)
            | (TokenTrait.STOP_WORD if config.stop_words != "keep" else 0)
        )
        self.dropped: dict[str, int] = {"reference": dropped, "hypothesis": dropped | TokenTrait.FOREIGN}
        self.one_language = config.target_language is not None
        self.fits_on_call = config.weights in IDF_WEIGHTS and config.idf_from != "corpus"
        roles = ("reference", "hypothesis") if config.idf_from == "sides" else ("reference",)
        tables = {role: IdfTable(vocabulary, config.idf) for role in roles if config.weights in IDF_WEIGHTS}
        self.tables = nn.ModuleDict(tables)

    @property
    def roles_differ(self) -> bool:
        """Return whether a text is treated differently as a reference and as a hypothesis."""
        unlike = self.special_tokens["reference"] != self.special_tokens["hypothesis"]
        return unlike or len(self.tables) > 1 or self.one_language

    @property
    def waits_for_call(self) -> bool:
        """Return whether each call must fit the tables, since none has been fitted on a corpus."""
        return self.fits_on_call and all(
            not self.table(role).fitted or bool(self.table(role).from_call) for role in self.tables
        )

    def table(self, role: str) -> IdfTable:
        """Return the idf table of a role."""
        return cast("IdfTable", self.tables[role if role in self.tables else "reference"])

    def takes_part(self, tokens: TokenBatch) -> Tensor:
        """Return a mask of all tokens except special ones that both roles exclude, bool ``[B, L]``."""
        choices = set(self.special_tokens.values())
        selected = tokens.special == SpecialToken.NONE
        if "first" in choices:
            selected = selected | (tokens.special == SpecialToken.FIRST)
        return tokens.mask if choices & {"keep", "targets"} else tokens.mask & selected

    def sides(self, references: TokenEmbeddings, hypotheses: TokenEmbeddings) -> tuple[Side, Side]:
        """Return the units of text pairs, references first; unknown tokens match only tokens of the same spelling.

        Texts without any token of the vocabulary are flagged as empty.
        """
        references, hypotheses = separate_unknown(references, hypotheses)
        return self(references, "reference"), self(hypotheses, "hypothesis")

    def forward(self, tokens: TokenEmbeddings, role: Role) -> Side:
        """Return the units of texts in a role; token vectors must have unit length unless they are pooled."""
        choice = self.special_tokens[role]
        ordinary = tokens.special == SpecialToken.NONE
        present = tokens.mask
        if tokens.traits is not None:
            present = present & ((tokens.traits & self.dropped[role]) == 0)
        if choice == "keep":
            matchable = weighted = present
        elif choice == "first":
            matchable = weighted = present & (ordinary | (tokens.special == SpecialToken.FIRST))
        else:
            weighted = present & ordinary
            matchable = present if choice == "targets" else weighted
        weights, unweighted = weighted.to(tokens.vectors.dtype), weighted.new_zeros(len(weighted))
        if self.importance is not None:
            weights = weights * self._importance(tokens.vectors, self.importance)
        if self.tables:
            weights, unweighted = self._weights(tokens, role, weighted, weights)
        known = ordinary if tokens.unknown is None else ordinary & (tokens.unknown == 0)
        known = known if self.lacking is None else known & (tokens.input_ids != self.lacking)
        empty = ~(weighted & known).any(dim=1)
        units = Units(tokens.vectors, matchable, weights)
        units = _at_least_one(self._units(units, tokens) if self.pools else units)
        total = units.weights.sum(dim=1, keepdim=True)
        weights = units.weights / torch.where(total > 0, total, 1.0)
        keys = None if self.same_token_loss == 1 else token_keys(tokens)
        return Side(units.vectors, units.mask, weights, empty, unweighted, keys)

    def similarity(self, reference: Side, hypothesis: Side) -> Tensor:
        """Return the similarities of the units, ``[B, M, N]``; the same tokens in other contexts may count as less."""
        similarity = pairwise_similarity(reference.vectors, hypothesis.vectors)
        if reference.keys is None or hypothesis.keys is None:
            return similarity
        same = reference.keys[:, :, None] == hypothesis.keys[:, None, :]
        return scale_losses(similarity, same, self.same_token_loss)

    def _importance(self, vectors: Tensor, linear: nn.Linear) -> Tensor:
        """Return the learned weights ``[B, L]`` of token vectors, to which columns for unknown tokens may be added."""
        scaled = unit_vectors(vectors[:, :, : linear.in_features]) * linear.in_features**0.5
        logits = nn.functional.linear(scaled, linear.weight.to(scaled), linear.bias.to(scaled))[:, :, 0]
        return (MAX_LOG_WEIGHT * torch.tanh(logits / MAX_LOG_WEIGHT)).exp()

    def _weights(self, tokens: TokenEmbeddings, role: Role, weighted: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Return the unnormalised token weights, and which texts got uniform weights because all were 0."""
        ids = token_keys(tokens)
        if not self.table(role).fitted:
            raise InputError("Expected idf weights to be fitted, but they are not: call `fit(texts)` on the metric.")
        weights = self.table(role)(ids).to(uniform) * uniform
        if self.frequency:
            same = (ids[:, :, None] == ids[:, None, :]) & weighted[:, None, :]
            weights = weights * same.sum(dim=2) / uniform.sum(dim=1, keepdim=True).clamp(min=1)
        unweighted = weighted.any(dim=1) & (weights.sum(dim=1) <= 0)
        return torch.where(unweighted[:, None], uniform, weights), unweighted

    def _units(self, units: Units, tokens: TokenEmbeddings) -> Units:
        if self.subwords == "mean" and tokens.traits is not None:
            units = words(units, (tokens.traits & TokenTrait.CONTINUATION) == 0)
        units = ngrams(compact(units), self.ngram)
        return units._replace(vectors=unit_vectors(units.vectors)) if self.unit else units


def mark_foreign(batch: TokenBatch, language: str) -> TokenBatch:
    """Mark the tokens of texts that are surely in another language, by the trait ``FOREIGN``."""
    foreign = torch.tensor([is_foreign(text, language) for text in batch.texts], dtype=torch.bool)
    marks = (foreign[:, None] & batch.mask).to(torch.int8) * TokenTrait.FOREIGN
    return replace(batch, traits=marks if batch.traits is None else batch.traits | marks)


def marked_foreign(tokens: TokenBatch | TokenEmbeddings) -> Tensor:
    """Return which texts are marked as in another language than the metric's target language, bool ``[B]``."""
    traits = torch.zeros_like(tokens.special) if tokens.traits is None else tokens.traits
    return ((traits & TokenTrait.FOREIGN) != 0).any(dim=1)


def _at_least_one(units: Units) -> Units:
    """Add a column of padding if no text has any unit, since kernels take the maximum of each row."""
    if units.mask.shape[1]:
        return units
    pad = torch.nn.functional.pad
    return Units(pad(units.vectors, (0, 0, 0, 1)), pad(units.mask, (0, 1)), pad(units.weights, (0, 1)))


def stop_words(choice: str) -> frozenset[str]:
    """Return the words selected by a configuration's ``stop_words``."""
    if choice == "keep":
        return frozenset()
    return ENGLISH if choice == "english" else frozenset(choice.lower().split())
