"""Greedy matching as in torchmetrics, and matches stored until the idf weights of all references are known."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from textmover.functional import f_score, pairwise_similarity
from textmover.modules.devices import own_arithmetic
from textmover.modules.matching.matchings import Greedy
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.statistics import IdfTable
from textmover.modules.tokens.unknown_tokens import token_keys
from textmover.modules.tokens.weighting import Side
from textmover.scoring import Scorer
from textmover.scoring.engine.pair_results import check_finite
from textmover.types import InputError, MatchResult, PairScores, SegmentMetric, TokenEmbeddings


class FlooredGreedy(Greedy):
    """Greedy matching in which the similarity of a token to its best partner is at least 0.

    torchmetrics puts zero vectors in place of special tokens, so every token has a partner with similarity 0.
    """

    bounds = (0.0, 1.0)

    def signature_entries(self) -> dict[str, str]:
        """Return the entries of greedy matching, and the floor."""
        return {**super().signature_entries(), "floor": "0"}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return super().forward(similarity.clamp(min=0), reference, hypothesis, with_plan=with_plan)


class TokenMatches(NamedTuple):
    """Best partners of the tokens in ``P`` pairs of ``S`` segments, ``T`` tokens in total, without padding."""

    # similarity of each weighted token to its best partner, float32 ``[T]``; pair by pair, reference first
    similarities: Tensor
    tokens: Tensor  # ids of these tokens, int32 ``[T]``; -1 if not in the vocabulary
    lengths: Tensor  # number of them in reference and hypothesis of each pair, alternating, int64 ``[2 P]``
    references: Tensor  # number of references, and thus pairs, of each segment, int64 ``[S]``

    def select(self, segments: Tensor) -> TokenMatches:
        """Return the segments at the given rows, in their order."""
        pairs = _member_indices(self.references, segments)
        lengths = self.lengths.view(-1, 2)
        tokens = _member_indices(lengths.sum(dim=1), pairs)
        return TokenMatches(
            self.similarities[tokens], self.tokens[tokens], lengths[pairs].flatten(), self.references[segments]
        )


@own_arithmetic()
def match_tokens(
    scorer: Scorer, model: MetricModel, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> TokenMatches:
    """Match each hypothesis with each of its references, with the batches and the cache of the scorer."""
    matcher = _Matcher(model)
    engine = scorer._engine.matching_by(cast("SegmentMetric", matcher))
    with engine as reading, scorer._progress_bar(len(hypotheses)) as advance:
        positions = reading.score(hypotheses, references, advance, by_pair=True).values["score"]
    sizes = torch.tensor([len(group) for group in references], dtype=torch.long)
    matches = matcher.matches().select(torch.from_numpy(positions).long())
    segments = torch.repeat_interleave(torch.arange(len(sizes)), sizes).repeat_interleave(2)
    check_finite({"similarity": matches.similarities.numpy()}, segments.repeat_interleave(matches.lengths).numpy())
    return matches._replace(references=sizes)


@own_arithmetic()
def idf_values(matches: TokenMatches, alpha: float) -> tuple[Tensor, Tensor]:
    r"""Return recall, precision and F of each pair with weights :math:`\log\frac{n+1}{df+1}`, and the pairs' flags.

    The references of the matches are the ``n`` documents, duplicates included. A text whose weights are all 0 gets
    uniform weights, which sets the pair's flag; a pair with an empty side has the values 0.
    """
    side_indices = torch.repeat_interleave(torch.arange(len(matches.lengths)), matches.lengths)
    tokens = matches.tokens.long()
    weights = _idf_table(tokens, side_indices, len(matches.lengths) // 2)(tokens).double()

    def side_sums(values: Tensor) -> Tensor:
        return torch.zeros(len(matches.lengths), dtype=torch.float64).index_add_(0, side_indices, values)

    unweighted = (side_sums(weights) <= 0) & (matches.lengths > 0)
    weights = torch.where(unweighted[side_indices], 1.0, weights)
    total = side_sums(weights)
    values = side_sums(weights * matches.similarities) / torch.where(total > 0, total, 1.0)
    recall, precision = values.view(-1, 2).unbind(dim=1)
    empty = (matches.lengths.view(-1, 2) == 0).any(dim=1)
    scores = torch.stack([recall, precision, f_score(precision, recall, alpha)], dim=1)
    return torch.where(empty[:, None], 0.0, scores), unweighted.view(-1, 2).any(dim=1) & ~empty


def _idf_table(tokens: Tensor, sides: Tensor, documents: int) -> IdfTable:
    """Build the idf table of the references, which are the sides with even index."""
    size = int(tokens.max()) + 1 if len(tokens) else 1
    table = IdfTable(size, "smooth")
    of_references = (sides % 2 == 0) & (tokens >= 0)
    distinct = torch.unique(sides[of_references] * size + tokens[of_references]) % size
    table.counts += torch.bincount(distinct, minlength=size).to(table.counts)
    table.documents += documents
    return table


class _Matcher(nn.Module):
    """Proxy of a model that stores the matches of each pair; the score of a pair is its index among them.

    All other attributes are those of the model.
    """

    def __init__(self, model: MetricModel) -> None:
        super().__init__()
        self.model = model
        self._batches: list[tuple[Tensor, Tensor, Tensor]] = []
        self._pairs = 0
        self._lock = threading.Lock()  # several threads match pairs

    def __getattr__(self, name: str) -> Any:
        model = self.__dict__["_modules"]["model"]
        return model if name == "model" else getattr(model, name)

    def pair_scores(self, hypotheses: object, references: object) -> PairScores:
        if not isinstance(hypotheses, TokenEmbeddings) or not isinstance(references, TokenEmbeddings):
            raise InputError(
                "Expected a metric that reads texts one by one with idf=True, but got one that reads them together "
                "(centering='batch'): choose another centering, or set idf=False."
            )
        reference, hypothesis = self.model.weighting.sides(references, hypotheses)
        similarity = pairwise_similarity(reference.vectors, hypothesis.vectors)
        if isinstance(self.model.matching, FlooredGreedy):
            similarity = similarity.clamp(min=0)
        lowest = torch.finfo(similarity.dtype).min
        to_hypothesis = similarity.masked_fill(~hypothesis.mask[:, None, :], lowest).amax(dim=2)
        to_reference = similarity.masked_fill(~reference.mask[:, :, None], lowest).amax(dim=1)
        best = torch.cat([to_hypothesis, to_reference], dim=1).float()
        ids = torch.cat([_padded_ids(references, reference), _padded_ids(hypotheses, hypothesis)], dim=1)
        # Mark weighted tokens of the two sides by 1 and 2, and others by 0. These are removed in `matches`, since
        # removing them here would synchronise the GPU.
        weighted = [(part.weights > 0) & ~part.empty[:, None] for part in (reference, hypothesis)]
        side = torch.cat([weighted[0].char(), 2 * weighted[1].char()], dim=1)
        with self._lock:
            start, self._pairs = self._pairs, self._pairs + len(best)
            self._batches.append((best, ids, side))
        positions = torch.arange(start, start + len(best), dtype=torch.float64)
        # The engine rejects non-finite values, but indices are always finite: report NaN as recall.
        is_finite = (best.isfinite() | (side == 0)).all(dim=1)
        recall = torch.zeros_like(best[:, 0]).masked_fill(~is_finite, math.nan)
        return PairScores(positions, recall=recall, flags={"empty": reference.empty | hypothesis.empty})

    def matches(self) -> TokenMatches:
        """Return the matches of all pairs, each as its own segment, at their indices."""
        similarities, tokens, lengths = [torch.zeros(0)], [torch.zeros(0, dtype=torch.int32)], [torch.zeros(0).long()]
        for best, ids, side in ((tensor.cpu() for tensor in batch) for batch in self._batches):
            similarities.append(best[side > 0])
            tokens.append(ids[side > 0])
            lengths.append(torch.stack([(side == side_number).sum(dim=1) for side_number in (1, 2)], dim=1).flatten())
        ones = torch.ones(self._pairs, dtype=torch.long)
        return TokenMatches(torch.cat(similarities), torch.cat(tokens), torch.cat(lengths), ones)


def _padded_ids(tokens: TokenEmbeddings, side: Side) -> Tensor:
    """Return token ids, int32, padded to the width of the side; it is wider by one if a batch has no token."""
    ids = token_keys(tokens).clamp(min=-1).to(torch.int32)
    return torch.nn.functional.pad(ids, (0, side.mask.shape[1] - ids.shape[1]))


def _member_indices(sizes: Tensor, groups: Tensor) -> Tensor:
    """Return the indices of members of the given groups; groups are consecutive and have the given sizes."""
    chosen = sizes[groups]
    # Offset between the index of a member in its group's output block and in the input.
    shift = (sizes.cumsum(0) - sizes)[groups] - (chosen.cumsum(0) - chosen)
    return torch.arange(int(chosen.sum()), device=sizes.device) + torch.repeat_interleave(shift, chosen)
