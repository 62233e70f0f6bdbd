"""Texts to token ids, with special tokens marked and truncation counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from textmover.types import InputError, SpecialToken, TokenBatch

__all__ = ["Tokenizer"]

PREFIX_SPACE_TYPES = ("roberta", "bart", "gpt2", "deberta", "longformer", "xlm-roberta-xl")
"""Byte-level encoders that see a word at the start of a text as another one unless a space stands before it."""

LEAST_VOCABULARY = 16
"""Fewer tokens than any vocabulary has: where its files are missing, Hugging Face builds a tokenizer of special tokens
alone, to which every word is unknown, and says nothing."""

SHOWN = 60
"""Characters of a text that an error message shows."""


class Tokenizer:
    """A Hugging Face tokenizer whose output says which tokens are special and which texts were cut.

    Texts are stripped of white space at both ends, as BERTScore does.

    Args:
        folder: Where the tokenizer's files lie.
        model_type: The encoder's type in its configuration, which decides on a leading space.
        max_length: Longest text in tokens, special ones included. Stated at each call: some ``tokenizer.json`` files
            carry a shorter limit of their own, which would cut in silence.
        long_texts: What happens to longer texts.
    """

    def __init__(
        self, folder: Path, model_type: str, max_length: int, long_texts: Literal["truncate", "error"] = "truncate"
    ) -> None:
        from transformers import AutoTokenizer

        extra = {"add_prefix_space": True} if model_type in PREFIX_SPACE_TYPES else {}
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), **extra)
        if len(self._tokenizer) < LEAST_VOCABULARY:
            raise InputError(f"Expected {folder} to hold a tokenizer, but its vocabulary is missing: fetch it anew.")
        self.max_length = max_length
        self.long_texts = long_texts

    def __call__(self, texts: Sequence[str]) -> TokenBatch:
        """Tokenise a batch of texts.

        Args:
            texts: The texts; an empty one has special tokens only.

        Returns:
            Ids and masks on the CPU, padded to the longest text.

        Raises:
            TypeError: If something is not a string.
            InputError: If a text is too long and ``long_texts`` is ``"error"``.
        """
        for position, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"Expected texts to be strings, but got {type(text).__name__} at position {position}.")
        stripped = [text.strip() for text in texts]
        ids, special, truncated = self._encode(stripped)
        if self.long_texts == "error" and any(truncated):
            position = truncated.index(True)
            raise InputError(
                f"Expected texts of at most {self.max_length} tokens, but the one that starts with "
                f"{stripped[position][:SHOWN]!r} is longer: shorten it, or set `long_texts` to 'truncate'."
            )
        longest = max(map(len, ids), default=0)
        batch = torch.zeros(3, len(texts), longest, dtype=torch.long)
        batch[0] = self._tokenizer.pad_token_id or 0
        for row, (tokens, marks) in enumerate(zip(ids, special, strict=True)):
            width = len(tokens)
            batch[0, row, :width] = torch.tensor(tokens, dtype=torch.long)
            batch[1, row, :width] = 1
            batch[2, row, :width] = torch.tensor(self._kinds(marks), dtype=torch.long)
        return TokenBatch(batch[0], batch[1].bool(), batch[2].to(torch.int8), tuple(stripped), tuple(truncated))

    def _encode(self, texts: list[str]) -> tuple[list[list[int]], list[list[int]], list[bool]]:
        if not texts:  # Hugging Face tokenizers fail on an empty list
            return [], [], []
        encoded = self._tokenizer(
            texts, truncation=True, max_length=self.max_length, return_special_tokens_mask=True, verbose=False
        )
        ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
        if encoded.encodings is not None:
            truncated = [bool(one.overflowing) for one in encoded.encodings]
        else:  # a tokenizer written in Python does not say what it cut
            truncated = [
                len(tokens) >= self.max_length and len(self._tokenizer(text, verbose=False)["input_ids"]) > len(tokens)
                for text, tokens in zip(texts, ids, strict=True)
            ]
        return ids, special, truncated

    @staticmethod
    def _kinds(special: list[int]) -> list[int]:
        """Special tokens before the first ordinary one open the text; of a text without any, the first does."""
        opening = special.index(0) if 0 in special else min(1, len(special))
        return [
            SpecialToken.NONE if not mark else SpecialToken.FIRST if position < opening else SpecialToken.OTHER
            for position, mark in enumerate(special)
        ]

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files into ``folder``."""
        self._tokenizer.save_pretrained(str(folder))
