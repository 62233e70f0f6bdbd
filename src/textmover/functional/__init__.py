"""Tensor mathematics of the metrics: pure functions, independent of texts, models and files.

Rows are reference tokens (``M`` of them, weights ``a``), columns are hypothesis tokens (``N``, weights ``b``), and
everything is batched over ``B`` problems. Ragged batches are padded; a padded token has weight 0 and mask False and
cannot change a result.
"""

from textmover.functional.cost import mean_cosine, pairwise_cost, pairwise_similarity, unit_vectors, wordset_cka
from textmover.functional.exact import ExactResult, PartialResult, exact_transport, partial_transport
from textmover.functional.greedy import greedy_matching
from textmover.functional.layer_aggregation import power_mean, routing
from textmover.functional.score_combination import f_score, normalize_by_self, token_score
from textmover.functional.sinkhorn import SinkhornResult, lazy_emd, sinkhorn, unbalanced_sinkhorn
from textmover.functional.tempered import trwmd, twmd
from textmover.functional.token_pooling import Units, compact, ngrams, words
from textmover.functional.tree_edit import (
    OrderedTree,
    TreeMapping,
    tree_edit_distance,
    tree_edit_distances,
    tree_edit_mapping,
)
from textmover.functional.word_alignment import fragmentation

__all__ = [
    "ExactResult",
    "OrderedTree",
    "PartialResult",
    "SinkhornResult",
    "TreeMapping",
    "Units",
    "compact",
    "exact_transport",
    "f_score",
    "fragmentation",
    "greedy_matching",
    "lazy_emd",
    "mean_cosine",
    "ngrams",
    "normalize_by_self",
    "pairwise_cost",
    "pairwise_similarity",
    "partial_transport",
    "power_mean",
    "routing",
    "sinkhorn",
    "token_score",
    "tree_edit_distance",
    "tree_edit_distances",
    "tree_edit_mapping",
    "trwmd",
    "twmd",
    "unbalanced_sinkhorn",
    "unit_vectors",
    "words",
    "wordset_cka",
]
