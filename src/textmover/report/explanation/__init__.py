"""Explanations of scores as text, figure and HTML page."""
