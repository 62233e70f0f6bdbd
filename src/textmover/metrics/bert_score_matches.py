"""Greedy matching as torchmetrics does it, and matches kept until the idf weights of all references are known."""

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
from textmover.scoring.engine.pair_table import check_finite
from textmover.types import InputError, MatchResult, PairScores, SegmentMetric, TokenEmbeddings


class FlooredGreedy(Greedy):
    """Greedy matching in which the best partner of a token is never worse than orthogonal.

    torchmetrics leaves zero vectors in the places of special tokens, so that each token has a partner of similarity 0.
    """

    bounds = (0.0, 1.0)

    def signature_entries(self) -> dict[str, str]:
        """Those of greedy matching, and the floor."""
        return {**super().signature_entries(), "floor": "0"}

    def forward(self, similarity: Tensor, reference: Side, hypothesis: Side, *, with_plan: bool = False) -> MatchResult:
        """See :meth:`Matching.forward`."""
        return super().forward(similarity.clamp(min=0), reference, hypothesis, with_plan=with_plan)


class TokenMatches(NamedTuple):
    """Best partners of the tokens of ``P`` pairs of ``S`` segments, with ``T`` tokens in all and without padding."""

    # of each weighted token to its best partner, float32 ``[T]``: pair after pair, the reference before the hypothesis
    similarities: Tensor
    tokens: Tensor  # ids of these tokens, int32 ``[T]``; -1 for those that the vocabulary lacks
    lengths: Tensor  # how many of them are of the reference and of the hypothesis of each pair in turn, int64 ``[2 P]``
    references: Tensor  # number of references, and so of pairs, of each segment, int64 ``[S]``

    def select(self, segments: Tensor) -> TokenMatches:
        """The segments at the given rows, in their order."""
        pairs = _members(self.references, segments)
        lengths = self.lengths.view(-1, 2)
        tokens = _members(lengths.sum(dim=1), pairs)
        return TokenMatches(
            self.similarities[tokens], self.tokens[tokens], lengths[pairs].flatten(), self.references[segments]
        )


@own_arithmetic()
def match_tokens(
    scorer: Scorer, model: MetricModel, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> TokenMatches:
    """Match each hypothesis with each of its references; texts are read in the scorer's batches and by its cache."""
    matcher = _Matcher(model)
    engine = scorer._engine.matching_by(cast("SegmentMetric", matcher))
    with engine as reading, scorer._progress_bar(len(hypotheses)) as advance:
        places = reading.score(hypotheses, references, advance, by_pair=True).values["score"]
    sizes = torch.tensor([len(group) for group in references], dtype=torch.long)
    found = matcher.matches().select(torch.from_numpy(places).long())
    owners = torch.repeat_interleave(torch.arange(len(sizes)), sizes).repeat_interleave(2)
    check_finite({"similarity": found.similarities.numpy()}, owners.repeat_interleave(found.lengths).numpy())
    return found._replace(references=sizes)


@own_arithmetic()
def idf_values(matches: TokenMatches, alpha: float) -> tuple[Tensor, Tensor]:
    r"""Recall, precision and F of each pair with weights :math:`\log\frac{n+1}{df+1}`.

    Each reference of the matches is one of the ``n`` documents, as often as it occurs. A text whose weights are all 0
    has uniform ones; a pair with an empty side has the values 0.
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
    of_references = (sides % 2 == 0) & (tokens >= 0)
    distinct = torch.unique(sides[of_references] * size + tokens[of_references]) % size
    table.counts += torch.bincount(distinct, minlength=size).to(table.counts)
    table.documents += documents
    return table


class _Matcher(nn.Module):
    """The model as a metric that keeps the matches of each pair; the pair's score is the place where they are kept.

    For everything but the scores of pairs it answers as the model does.
    """

    def __init__(self, model: MetricModel) -> None:
        super().__init__()
        self.model = model
        self._kept: list[tuple[Tensor, Tensor, Tensor]] = []
        self._pairs = 0
        self._lock = threading.Lock()  # pairs are matched in several threads

    def __getattr__(self, name: str) -> Any:
        model = self.__dict__["_modules"]["model"]
        return model if name == "model" else getattr(model, name)

    def pair_scores(self, hypotheses: object, references: object) -> PairScores:
        """Match the pairs (hypothesis ``i``, reference ``i``)."""
        if not isinstance(hypotheses, TokenEmbeddings) or not isinstance(references, TokenEmbeddings):
            raise InputError(
                "Expected a metric that reads texts one by one with idf=True, but got one that reads them together "
                "(centering='batch'): choose another centering, or set idf=False."
            )
        reference, hypothesis = self.model.weighting.sides(references, hypotheses)
        similarity = pairwise_similarity(reference.vectors, hypothesis.vectors)
        if isinstance(self.model.matching, FlooredGreedy):
            similarity = similarity.clamp(min=0)
        nothing = torch.finfo(similarity.dtype).min
        to_hypothesis = similarity.masked_fill(~hypothesis.mask[:, None, :], nothing).amax(dim=2)
        to_reference = similarity.masked_fill(~reference.mask[:, :, None], nothing).amax(dim=1)
        best = torch.cat([to_hypothesis, to_reference], dim=1).float()
        ids = torch.cat([_widened(references, reference), _widened(hypotheses, hypothesis)], dim=1)
        # 1 and 2 for the weighted tokens of the sides, 0 for others, which are left out at the end, since a GPU would
        # have to be waited for here.
        weighted = [(one.weights > 0) & ~one.empty[:, None] for one in (reference, hypothesis)]
        side = torch.cat([weighted[0].char(), 2 * weighted[1].char()], dim=1)
        with self._lock:
            start, self._pairs = self._pairs, self._pairs + len(best)
            self._kept.append((best, ids, side))
        places = torch.arange(start, start + len(best), dtype=torch.float64)
        # The engine refuses pairs without a finite value; places are finite whatever stands at them.
        found = (best.isfinite() | (side == 0)).all(dim=1)
        recall = torch.zeros_like(best[:, 0]).masked_fill(~found, math.nan)
        return PairScores(places, recall=recall, flags={"empty": reference.empty | hypothesis.empty})

    def matches(self) -> TokenMatches:
        """The matches of all pairs, each as a segment of its own, at their places."""
        similarities, tokens, lengths = [torch.zeros(0)], [torch.zeros(0, dtype=torch.int32)], [torch.zeros(0).long()]
        for best, ids, side in ((one.cpu() for one in batch) for batch in self._kept):
            similarities.append(best[side > 0])
            tokens.append(ids[side > 0])
            lengths.append(torch.stack([(side == number).sum(dim=1) for number in (1, 2)], dim=1).flatten())
        ones = torch.ones(self._pairs, dtype=torch.long)
        return TokenMatches(torch.cat(similarities), torch.cat(tokens), torch.cat(lengths), ones)


def _widened(tokens: TokenEmbeddings, side: Side) -> Tensor:
    """Token ids, int32, as wide as the side; where no text of a batch has a token, that is wider by one of padding."""
    ids = token_keys(tokens).clamp(min=-1).to(torch.int32)
    return torch.nn.functional.pad(ids, (0, side.mask.shape[1] - ids.shape[1]))


def _members(sizes: Tensor, groups: Tensor) -> Tensor:
    """Indices of the members of the given groups, which lie one after another and have so many members each."""
    chosen = sizes[groups]
    # How far the members of each chosen group lie behind the place that they come to.
    shift = (sizes.cumsum(0) - sizes)[groups] - (chosen.cumsum(0) - chosen)
    return torch.arange(int(chosen.sum()), device=sizes.device) + torch.repeat_interleave(shift, chosen)
