"""Greedy matches token by token, kept until the idf weights of all references are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from textmover.functional import f_score, pairwise_similarity
from textmover.metrics.bert_score_model import FlooredGreedy
from textmover.modules.fitting import evaluating
from textmover.modules.metric_model import MetricModel
from textmover.modules.statistics import IdfTable
from textmover.types import TokenBatch, TokenEmbeddings

__all__ = ["TokenMatches", "idf_values", "match_tokens"]

SEGMENTS = 32
"""Segments whose token vectors are held at a time."""

PAIRS = 32
"""Pairs to a similarity block."""

BATCH_TOKENS = 4096
"""Tokens to an encoder batch, padding included."""


class TokenMatches(NamedTuple):
    """Best partners of the tokens of ``P`` pairs of ``S`` segments, with ``T`` tokens in all and without padding.

    Attributes:
        similarities: Similarity of each weighted token to its best partner, float32 ``[T]``; pair after pair, the
            tokens of the reference before those of the hypothesis.
        tokens: Their ids, int32 ``[T]``.
        lengths: How many of them are of the reference and of the hypothesis of each pair in turn, int64 ``[2 P]``.
        references: Number of references, and so of pairs, of each segment, int64 ``[S]``.
    """

    similarities: Tensor
    tokens: Tensor
    lengths: Tensor
    references: Tensor

    def select(self, segments: Tensor) -> TokenMatches:
        """The segments at the given rows, in their order."""
        pairs = _members(self.references, segments)
        lengths = self.lengths.view(-1, 2)
        tokens = _members(lengths.sum(dim=1), pairs)
        return TokenMatches(
            self.similarities[tokens], self.tokens[tokens], lengths[pairs].flatten(), self.references[segments]
        )

    @classmethod
    def join(cls, parts: Sequence[TokenMatches]) -> TokenMatches:
        """The segments of several objects in turn."""
        return cls(*(torch.cat(column) for column in zip(*parts, strict=True)))


@torch.no_grad()
def match_tokens(
    model: MetricModel, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[TokenMatches, Counter[str]]:
    """Match each hypothesis with each of its references.

    Args:
        model: A greedy metric with uniform weights; only encoder and selection of tokens are asked.
        hypotheses: ``S`` texts.
        references: For each, one or more texts.

    Returns:
        Matches in input order on the CPU, and how many segments have an empty side or a text that was cut.
    """
    # Segments of like length come together, so that batches hold little padding.
    order = sorted(range(len(hypotheses)), key=lambda row: -len(hypotheses[row]))
    parts, counts = [_nothing()], Counter[str]()
    with evaluating(model):
        for start in range(0, len(order), SEGMENTS):
            rows = order[start : start + SEGMENTS]
            part = _match_segments(model, [hypotheses[row] for row in rows], [references[row] for row in rows], counts)
            parts.append(part)
    place = torch.argsort(torch.tensor(order, dtype=torch.long))
    return TokenMatches.join(parts).select(place), counts


def idf_values(matches: TokenMatches, alpha: float) -> tuple[Tensor, Tensor]:
    r"""Recall, precision and F of each pair with weights :math:`\log\frac{n+1}{df+1}`.

    Each reference of the matches is one of the ``n`` documents, as often as it occurs. A text whose weights are all 0
    has uniform ones; a pair with an empty side has the values 0.

    Args:
        matches: What all segments kept, on the CPU.
        alpha: Weight of F_alpha.

    Returns:
        Values, float64 ``[P, 3]``, and for which pairs uniform weights had to stand in, bool ``[P]``.
    """
    sides = torch.repeat_interleave(torch.arange(len(matches.lengths)), matches.lengths)
    tokens = matches.tokens.long()
    weights = _idf_table(tokens, sides, len(matches.lengths) // 2)(tokens).double()

    def summed(values: Tensor) -> Tensor:
        return torch.zeros(len(matches.lengths), dtype=torch.float64).index_add_(0, sides, values)

    unweighted = (summed(weights) <= 0) & (matches.lengths > 0)
    weights = torch.where(unweighted[sides], 1.0, weights)
    total = summed(weights)
    values = summed(weights * matches.similarities) / torch.where(total > 0, total, 1.0)
    recall, precision = values.view(-1, 2).unbind(dim=1)
    empty = (matches.lengths.view(-1, 2) == 0).any(dim=1)
    scores = torch.stack([recall, precision, f_score(precision, recall, alpha)], dim=1)
    return torch.where(empty[:, None], 0.0, scores), unweighted.view(-1, 2).any(dim=1) & ~empty


def _idf_table(tokens: Tensor, sides: Tensor, documents: int) -> IdfTable:
    """The table of the references: every other side is one."""
    size = int(tokens.max()) + 1 if len(tokens) else 1
    table = IdfTable(size, "smooth")
    of_references = sides % 2 == 0
    distinct = torch.unique(sides[of_references] * size + tokens[of_references]) % size
    table.counts += torch.bincount(distinct, minlength=size).to(table.counts)
    table.documents += documents
    return table


def _match_segments(
    model: MetricModel, hypotheses: Sequence[str], references: Sequence[Sequence[str]], counts: Counter[str]
) -> TokenMatches:
    """The matches of as many segments as are held at a time; what is out of the ordinary is added to the counts."""
    texts = dict.fromkeys([*hypotheses, *(text for group in references for text in group)])
    rows = {text: row for row, text in enumerate(texts)}
    tokens = model.tokenize(list(rows))
    features = _features(model, tokens)
    pairs = [(rows[one], rows[other]) for one, group in zip(hypotheses, references, strict=True) for other in group]
    blocks = []
    for start in range(0, len(pairs), PAIRS):
        sides = torch.tensor(pairs[start : start + PAIRS], device=features.mask.device).unbind(dim=1)
        blocks.append([one.cpu() for one in _match_pairs(model, *(features.select(side) for side in sides))])
    similarities, ids, lengths = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    sizes = torch.tensor([len(group) for group in references])
    owners = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    cut = torch.tensor([tokens.truncated[one] or tokens.truncated[other] for one, other in pairs])
    counts["truncated"] += len(torch.unique(owners[cut]))
    counts["empty"] += len(torch.unique(owners[(lengths.view(-1, 2) == 0).any(dim=1)]))
    return TokenMatches(similarities, ids, lengths, sizes)


def _match_pairs(
    model: MetricModel, hypotheses: TokenEmbeddings, references: TokenEmbeddings
) -> tuple[Tensor, Tensor, Tensor]:
    """Similarities, ids and lengths of a block of pairs, as :class:`TokenMatches` keeps them."""
    reference, hypothesis = model.weighting(references, "reference"), model.weighting(hypotheses, "hypothesis")
    similarity = pairwise_similarity(reference.vectors, hypothesis.vectors)
    if isinstance(model.matching, FlooredGreedy):
        similarity = similarity.clamp(min=0)
    nothing = torch.finfo(similarity.dtype).min
    best = torch.cat(
        [
            similarity.masked_fill(~hypothesis.mask[:, None, :], nothing).amax(dim=2),
            similarity.masked_fill(~reference.mask[:, :, None], nothing).amax(dim=1),
        ],
        dim=1,
    )
    kept = torch.cat([reference.weights > 0, hypothesis.weights > 0], dim=1)
    ids = torch.cat([references.input_ids, hypotheses.input_ids], dim=1)
    lengths = torch.stack([(side.weights > 0).sum(dim=1) for side in (reference, hypothesis)], dim=1)
    return best[kept].float(), ids[kept].to(torch.int32), lengths.flatten()


def _features(model: MetricModel, tokens: TokenBatch) -> TokenEmbeddings:
    """Token vectors of texts, padded to the longest of them, encoded in batches of like length."""
    lengths = tokens.lengths.tolist()
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    parts: list[TokenEmbeddings] = []
    start = 0
    while start < len(order):
        rows = order[start : start + max(1, BATCH_TOKENS // max(1, lengths[order[start]]))]
        features = model.text_features(tokens.select(rows).to(model.device))
        if features is None:
            raise TypeError("Expected a metric that reads texts one by one, but got one with centering='batch'.")
        parts.append(features)
        start += len(rows)
    longest = tokens.mask.shape[1]

    def joined(name: str) -> Tensor:
        tensors = [getattr(part, name) for part in parts]
        behind = [(0, 0) * (one.dim() - 2) + (0, longest - one.shape[1]) for one in tensors]
        return torch.cat([torch.nn.functional.pad(one, pad) for one, pad in zip(tensors, behind, strict=True)])

    traits = None if parts[0].traits is None else joined("traits")
    both = TokenEmbeddings(joined("vectors"), joined("mask"), joined("special"), joined("input_ids"), traits=traits)
    return both.select(torch.argsort(torch.tensor(order, device=both.mask.device)))


def _members(sizes: Tensor, groups: Tensor) -> Tensor:
    """Indices of the members of the given groups, which lie one after another and have so many members each."""
    chosen = sizes[groups]
    # How far the members of each chosen group lie behind the place that they come to.
    shift = (sizes.cumsum(0) - sizes)[groups] - (chosen.cumsum(0) - chosen)
    return torch.arange(int(chosen.sum()), device=sizes.device) + torch.repeat_interleave(shift, chosen)


def _nothing() -> TokenMatches:
    whole = torch.zeros(0, dtype=torch.long)
    return TokenMatches(torch.zeros(0), torch.zeros(0, dtype=torch.int32), whole, whole)
