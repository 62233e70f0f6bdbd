"""Tokenizers, selection and weights of tokens, and corpus statistics."""
