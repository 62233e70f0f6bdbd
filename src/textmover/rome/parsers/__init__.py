"""Dependency parsers, and the trees made of their parses."""
