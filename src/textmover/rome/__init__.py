"""RoMe: semantic, syntactic and grammatical features of text pairs, and the scorer that combines them."""

from typing import TYPE_CHECKING

from textmover.lazy import names_of
from textmover.rome.config import SEMANTICS, RomeConfig, SemanticConfig, SyntacticOptions

if TYPE_CHECKING:
    from textmover.rome.features.acceptability import AcceptabilityModel
    from textmover.rome.features.semantic import SemanticResult, semantic_similarity, word_weights
    from textmover.rome.features.syntactic import (
        SyntacticSimilarity,
        WordEdit,
        WordTree,
        dependency_trees,
        syntactic_edits,
        syntactic_similarity,
    )
    from textmover.rome.features.word_vectors import WordIdf
    from textmover.rome.metric import RomeMetric
    from textmover.rome.parsers.pipelines import load_parser
    from textmover.rome.scorer.network import FeatureScorer, ScorerConfig, read_official

__all__ = [
    "SEMANTICS",
    "AcceptabilityModel",
    "FeatureScorer",
    "RomeConfig",
    "RomeMetric",
    "ScorerConfig",
    "SemanticConfig",
    "SemanticResult",
    "SyntacticOptions",
    "SyntacticSimilarity",
    "WordEdit",
    "WordIdf",
    "WordTree",
    "dependency_trees",
    "load_parser",
    "read_official",
    "semantic_similarity",
    "syntactic_edits",
    "syntactic_similarity",
    "word_weights",
]

__getattr__ = names_of(__name__, __file__)
