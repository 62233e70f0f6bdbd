"""Reports of evaluations: page, terminal, Markdown, LaTeX, CSV and JSON."""
