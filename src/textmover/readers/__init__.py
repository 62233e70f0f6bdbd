"""Readers of text files, tables, streams, judgement sets and system outputs."""
