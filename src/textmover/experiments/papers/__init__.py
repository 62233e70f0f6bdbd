"""Experiments of papers, from a YAML file to tables with computed and published numbers."""
