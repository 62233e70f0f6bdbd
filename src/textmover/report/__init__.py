"""Reports: figures, tables in several formats, and HTML pages of evaluations.

Figures need matplotlib and pages need Jinja; the extra ``report`` installs both.
"""

from textmover.report.evaluation.disagreements import Alignment, Disagreement, Link, largest_disagreements
from textmover.report.evaluation.page import ReportHead, ReportSection, render_report, write_report
from textmover.report.evaluation.tables import TABLE_FORMATS, format_evaluations, print_evaluations
from textmover.report.evaluation.wording import file_remarks, remarks, title_of
from textmover.report.figures.matplotlib_figures import (
    FORMATS,
    Line,
    Panel,
    check_matplotlib,
    draw_panels,
    report_files,
)
from textmover.report.templating import check_jinja

__all__ = [
    "FORMATS",
    "TABLE_FORMATS",
    "Alignment",
    "Disagreement",
    "Line",
    "Link",
    "Panel",
    "ReportHead",
    "ReportSection",
    "check_jinja",
    "check_matplotlib",
    "draw_panels",
    "file_remarks",
    "format_evaluations",
    "largest_disagreements",
    "print_evaluations",
    "remarks",
    "render_report",
    "report_files",
    "title_of",
    "write_report",
]
