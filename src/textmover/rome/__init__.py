"""RoMe: its semantic, syntactic and grammatical features, and what joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textmover.lazy import names_of

if TYPE_CHECKING:
    from textmover.rome.acceptability import AcceptabilityModel
    from textmover.rome.config import RomeConfig
    from textmover.rome.metric import RomeMetric
    from textmover.rome.official import read_official
    from textmover.rome.parser import load_parser
    from textmover.rome.scorer_network import FeatureScorer, ScorerConfig
    from textmover.rome.semantic import SEMANTICS, SemanticConfig, SemanticResult, semantic_similarity, word_weights
    from textmover.rome.syntactic import (
        SyntacticOptions,
        SyntacticSimilarity,
        WordEdit,
        syntactic_edits,
        syntactic_similarity,
    )
    from textmover.rome.trees import WordTree, dependency_trees
    from textmover.rome.words import WordIdf

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

__getattr__ = names_of(
    __name__,
    {
        "SEMANTICS": "textmover.rome.semantic",
        "AcceptabilityModel": "textmover.rome.acceptability",
        "FeatureScorer": "textmover.rome.scorer_network",
        "RomeConfig": "textmover.rome.config",
        "RomeMetric": "textmover.rome.metric",
        "ScorerConfig": "textmover.rome.scorer_network",
        "SemanticConfig": "textmover.rome.semantic",
        "SemanticResult": "textmover.rome.semantic",
        "SyntacticOptions": "textmover.rome.syntactic",
        "SyntacticSimilarity": "textmover.rome.syntactic",
        "WordEdit": "textmover.rome.syntactic",
        "WordIdf": "textmover.rome.words",
        "WordTree": "textmover.rome.trees",
        "dependency_trees": "textmover.rome.trees",
        "load_parser": "textmover.rome.parser",
        "read_official": "textmover.rome.official",
        "semantic_similarity": "textmover.rome.semantic",
        "syntactic_edits": "textmover.rome.syntactic",
        "syntactic_similarity": "textmover.rome.syntactic",
        "word_weights": "textmover.rome.semantic",
    },
)
