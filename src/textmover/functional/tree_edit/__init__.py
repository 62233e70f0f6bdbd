"""Tree edit distance between ordered trees."""

from textmover.functional.tree_edit.distance import (
    OrderedTree,
    TreeMapping,
    ordered_tree,
    tree_edit_distance,
    tree_edit_distances,
    tree_edit_mapping,
)

__all__ = [
    "OrderedTree",
    "TreeMapping",
    "ordered_tree",
    "tree_edit_distance",
    "tree_edit_distances",
    "tree_edit_mapping",
]
