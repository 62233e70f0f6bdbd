"""Encoders: sources, layers and weights of pretrained encoders, and static word vectors."""
