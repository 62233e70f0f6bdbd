"""Tensor mathematics of the metrics: pure functions that know nothing of texts, models or files.

Rows are reference tokens (``M`` of them, weights ``a``), columns are hypothesis tokens (``N``, weights ``b``), and
everything is batched over ``B`` problems. Ragged batches are padded; a padded token has weight 0 and mask False and
cannot change a result.
"""

from textmover.functional.cost import pairwise_similarity, unit_vectors
from textmover.functional.greedy import greedy_matching
from textmover.functional.kernels import mean_cosine, wordset_cka
from textmover.functional.normalization import f_score, normalize_by_self
from textmover.functional.sinkhorn import SinkhornResult, sinkhorn, unbalanced_sinkhorn
from textmover.functional.tempered import trwmd, twmd

__all__ = [
    "SinkhornResult",
    "f_score",
    "greedy_matching",
    "mean_cosine",
    "normalize_by_self",
    "pairwise_similarity",
    "sinkhorn",
    "trwmd",
    "twmd",
    "unbalanced_sinkhorn",
    "unit_vectors",
    "wordset_cka",
]
