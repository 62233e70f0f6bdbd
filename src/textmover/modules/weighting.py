"""Which tokens of a text take part in matching, and with what weight."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from textmover.modules.config import SpecialTokens
from textmover.types import SpecialToken, TokenEmbeddings

__all__ = ["Role", "TokenWeighting"]

Role = Literal["reference", "hypothesis"]


class TokenWeighting(nn.Module):
    """Selection and weights of tokens, for each of the two roles that a text can play.

    Args:
        reference_special_tokens: What happens to special tokens of references (see :data:`SpecialTokens`).
        hypothesis_special_tokens: The same for hypotheses.
    """

    def __init__(self, reference_special_tokens: SpecialTokens, hypothesis_special_tokens: SpecialTokens) -> None:
        super().__init__()
        self.special_tokens: dict[str, SpecialTokens] = {
            "reference": reference_special_tokens,
            "hypothesis": hypothesis_special_tokens,
        }

    @property
    def roles_differ(self) -> bool:
        """Whether a text is treated differently as a reference and as a hypothesis."""
        return self.special_tokens["reference"] != self.special_tokens["hypothesis"]

    def forward(self, tokens: TokenEmbeddings, role: Role) -> tuple[Tensor, Tensor]:
        """Tokens that may be matched, bool ``[B, L]``, and weights that sum to 1 in each row, ``[B, L]``.

        A text without a token that counts has weights 0.
        """
        choice = self.special_tokens[role]
        ordinary = tokens.special == SpecialToken.NONE
        if choice == "keep":
            matchable = weighted = tokens.mask
        elif choice == "first":
            matchable = weighted = tokens.mask & (ordinary | (tokens.special == SpecialToken.FIRST))
        else:
            weighted = tokens.mask & ordinary
            matchable = tokens.mask if choice == "targets" else weighted
        return matchable, self._normalized(weighted.to(tokens.vectors.dtype))

    @staticmethod
    def _normalized(weights: Tensor) -> Tensor:
        total = weights.sum(dim=1, keepdim=True)
        return weights / torch.where(total > 0, total, 1.0)

    @staticmethod
    def is_empty(tokens: TokenEmbeddings) -> Tensor:
        """True for texts without any ordinary token, bool ``[B]``."""
        return ~(tokens.mask & (tokens.special == SpecialToken.NONE)).any(dim=1)
