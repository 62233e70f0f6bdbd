"""Figures with matplotlib and as SVG: panels, heat maps, scatter plots, and their colours."""
