"""Experiments of papers, from a YAML file to tables beside the published ones."""
