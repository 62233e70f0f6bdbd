"""Graded, seeded corruptions of English sentences."""
