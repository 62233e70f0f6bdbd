"""Evaluation reports: HTML page, terminal, Markdown, LaTeX, CSV and JSON."""
