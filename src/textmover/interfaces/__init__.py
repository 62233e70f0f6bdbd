"""Adapters to other libraries: Hugging Face evaluate and transformers, and pandas."""
