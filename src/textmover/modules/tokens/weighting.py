"""Units, weights and masks: which tokens of a text take part in a matching."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from textmover.functional.cost import unit_vectors
from textmover.functional.ngrams import Units, compact, ngrams, words
from textmover.modules.config import MetricConfig, SpecialTokens
from textmover.modules.tokens.statistics import IdfTable
from textmover.modules.tokens.unknown_tokens import apart, token_keys
from textmover.types import SpecialToken, TokenBatch, TokenEmbeddings, TokenTrait

Role = Literal["reference", "hypothesis"]


class Side(NamedTuple):
    """One side of a matching.

    Attributes:
        vectors: Unit vectors of what is matched, ``[B, L, D]``.
        mask: True for what may be matched, bool ``[B, L]``.
        weights: ``[B, L]``, each row sums to 1; 0 throughout where nothing takes part.
        empty: True for texts of which no ordinary token that is known takes part, bool ``[B]``.
        unweighted: True where all idf weights are 0 and uniform ones stand in for them, bool ``[B]``.
    """

    vectors: Tensor
    mask: Tensor
    weights: Tensor
    empty: Tensor
    unweighted: Tensor


def needs_traits(config: MetricConfig) -> bool:
    """Return whether a configuration asks what a token is within its text."""
    return config.subwords != "all" or config.punctuation == "drop" or config.stop_words != "keep"


class TokenWeighting(nn.Module):
    """Selection, weights and units of tokens, for each of the two roles that a text can play.

    Tokens are selected by kind and trait; weights are given to those that are left; pieces of a word become its mean,
    where asked for; stretches of ``n`` units become weighted means. Where tokens are pooled like this, their vectors
    come as the encoder made them, and the means are scaled to unit length, as in MoverScore's code.
    """

    def __init__(self, config: MetricConfig, vocabulary: int, *, unit: bool = True, lacking: int | None = None) -> None:
        super().__init__()
        self.unit = unit
        self.lacking = lacking  # id of words that static vectors lack
        self.pools = config.ngram != 1 or config.subwords == "mean"
        self.special_tokens: dict[str, SpecialTokens] = {
            "reference": config.reference_special_tokens,
            "hypothesis": config.hypothesis_special_tokens,
        }
        self.subwords = config.subwords
        self.ngram = None if config.ngram == "sentence" else config.ngram
        self.frequency = config.weights == "tf-idf"
        self.dropped = (
            (TokenTrait.CONTINUATION if config.subwords == "first" else 0)
            | (TokenTrait.PUNCTUATION if config.punctuation == "drop" else 0)
            | (TokenTrait.STOP_WORD if config.stop_words != "keep" else 0)
        )
        self.fits_on_call = config.weights != "uniform" and config.idf_from != "corpus"
        roles = ("reference", "hypothesis") if config.idf_from == "sides" else ("reference",)
        tables = {role: IdfTable(vocabulary, config.idf) for role in roles if config.weights != "uniform"}
        self.tables = nn.ModuleDict(tables)

    @property
    def roles_differ(self) -> bool:
        """Return whether a text is treated differently as a reference and as a hypothesis."""
        return self.special_tokens["reference"] != self.special_tokens["hypothesis"] or len(self.tables) > 1

    @property
    def waits_for_call(self) -> bool:
        """Return whether each call fits the tables again, since none has been fitted on a corpus."""
        return self.fits_on_call and all(
            not self.table(role).fitted or bool(self.table(role).from_call) for role in self.tables
        )

    def table(self, role: str) -> IdfTable:
        """The table that a role is weighed by."""
        return cast("IdfTable", self.tables[role if role in self.tables else "reference"])

    def takes_part(self, tokens: TokenBatch) -> Tensor:
        """Tokens that are not special ones which both roles leave out, bool ``[B, L]``."""
        choices = set(self.special_tokens.values())
        kept = tokens.special == SpecialToken.NONE
        if "first" in choices:
            kept = kept | (tokens.special == SpecialToken.FIRST)
        return tokens.mask if choices & {"keep", "targets"} else tokens.mask & kept

    def sides(self, references: TokenEmbeddings, hypotheses: TokenEmbeddings) -> tuple[Side, Side]:
        """Units of pairs of texts, the references first; unknown tokens match only their like.

        Texts without a token that is known are empty.
        """
        references, hypotheses = apart(references, hypotheses)
        return self(references, "reference"), self(hypotheses, "hypothesis")

    def forward(self, tokens: TokenEmbeddings, role: Role) -> Side:
        """Units of texts in a role; token vectors are unit vectors unless they are pooled."""
        choice = self.special_tokens[role]
        ordinary = tokens.special == SpecialToken.NONE
        present = tokens.mask
        if self.dropped and tokens.traits is not None:
            present = present & ((tokens.traits & self.dropped) == 0)
        if choice == "keep":
            matchable = weighted = present
        elif choice == "first":
            matchable = weighted = present & (ordinary | (tokens.special == SpecialToken.FIRST))
        else:
            weighted = present & ordinary
            matchable = present if choice == "targets" else weighted
        weights, unweighted = weighted.to(tokens.vectors.dtype), weighted.new_zeros(len(weighted))
        if self.tables:
            weights, unweighted = self._weights(tokens, role, weighted, weights)
        known = ordinary if tokens.unknown is None else ordinary & (tokens.unknown == 0)
        known = known if self.lacking is None else known & (tokens.input_ids != self.lacking)
        empty = ~(weighted & known).any(dim=1)
        units = Units(tokens.vectors, matchable, weights)
        units = _at_least_one(self._units(units, tokens) if self.pools else units)
        total = units.weights.sum(dim=1, keepdim=True)
        return Side(units.vectors, units.mask, units.weights / torch.where(total > 0, total, 1.0), empty, unweighted)

    def _weights(self, tokens: TokenEmbeddings, role: Role, weighted: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Raw weights of the tokens, and for which texts uniform ones had to stand in."""
        ids = token_keys(tokens)
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


def _at_least_one(units: Units) -> Units:
    """One place of padding where no text of a batch has any unit, since kernels look for the largest in each row."""
    if units.mask.shape[1]:
        return units
    pad = torch.nn.functional.pad
    return Units(pad(units.vectors, (0, 0, 0, 1)), pad(units.mask, (0, 1)), pad(units.weights, (0, 1)))


ENGLISH = frozenset(
    """
    a an the this that these those each every either neither both all any some no such same other another own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves one who whom whose which what whoever whatever
    am is are was were be been being do does did doing have has had having can could may might must shall should will
    would
    of in on at by for with from to into onto upon about above below under over between among through during before
    after against along across around behind beside besides beyond near off out up down within without toward towards
    until till since per via as than like
    and or but nor so yet if then else because though although while whereas unless whether when where why how
    not only just also too very much more most less least few many quite rather almost even still again ever never here
    there now once already
    s t d ll m re ve
    """.split()  # noqa: SIM905 - a list that is read, and added to, as text
)
"""English function words in lower case, with the endings that tokenizers split off (it's, won't, they'll)."""


def stop_words(choice: str) -> frozenset[str]:
    """The words that a configuration's ``stop_words`` names."""
    if choice == "keep":
        return frozenset()
    return ENGLISH if choice == "english" else frozenset(choice.lower().split())
