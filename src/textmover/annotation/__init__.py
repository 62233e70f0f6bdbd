"""Collect human ratings: items, ratings of annotators, agreement, and export for training.

This package has no user interface; :mod:`textmover.app` provides one in the browser.
"""

from textmover.annotation.agreement import CriterionAgreement, Pair, criterion_agreement, error_agreement
from textmover.annotation.criteria_and_scales import CRITERIA, Criterion, Scale, parse_criteria
from textmover.annotation.export import Exported, ExportedErrors, export_errors, export_ratings
from textmover.annotation.items import Item, ItemColumns, read_items
from textmover.annotation.project import Progress, Project, item_files, known_criteria, known_scale, open_project
from textmover.annotation.store import ErrorMark, Marks, Rated, Ratings, clean_name, parse_marks

__all__ = [
    "CRITERIA",
    "Criterion",
    "CriterionAgreement",
    "ErrorMark",
    "Exported",
    "ExportedErrors",
    "Item",
    "ItemColumns",
    "Marks",
    "Pair",
    "Progress",
    "Project",
    "Rated",
    "Ratings",
    "Scale",
    "clean_name",
    "criterion_agreement",
    "error_agreement",
    "export_errors",
    "export_ratings",
    "item_files",
    "known_criteria",
    "known_scale",
    "open_project",
    "parse_criteria",
    "parse_marks",
    "read_items",
]
