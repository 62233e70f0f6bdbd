"""Figures of what the commands find; drawn with matplotlib, which the extra ``report`` brings."""

from textmover.report.figures import FORMATS, Line, Panel, check_matplotlib, draw_panels, report_files

__all__ = ["FORMATS", "Line", "Panel", "check_matplotlib", "draw_panels", "report_files"]
