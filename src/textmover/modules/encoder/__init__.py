"""Encoders: where they come from, their layers, their weights, and static word vectors."""
