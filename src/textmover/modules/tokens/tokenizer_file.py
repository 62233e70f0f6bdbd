"""A tokenizer read from its file alone, for encoders that need no transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textmover.modules.encoder.pretrained import plain_errors
from textmover.reading import load_json

FILE = "tokenizer.json"


class TokenizerFile:
    """The part of a Hugging Face tokenizer that :class:`~textmover.modules.tokens.tokenizer.Tokenizer` reads."""

    is_fast = True
    pad_token_id = 0

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        with plain_errors(folder):
            self.backend_tokenizer: Any = Tokenizer.from_file(str(folder / FILE))
            self.unk_token: str | None = load_json(self.backend_tokenizer.to_str(), FILE)["model"].get("unk_token")
        self.unk_token_id = None if self.unk_token is None else self.backend_tokenizer.token_to_id(self.unk_token)

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())

    def get_vocab(self) -> dict[str, int]:
        """Id of each token."""
        found: dict[str, int] = self.backend_tokenizer.get_vocab()
        return found

    def save_pretrained(self, folder: str) -> None:
        """Write the file."""
        self.backend_tokenizer.save(str(Path(folder) / FILE))
