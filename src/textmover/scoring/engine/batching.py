"""Which texts are encoded together, and which pairs are matched together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np

from textmover.types import TokenBatch

CHUNK = 1024
"""Texts that are tokenised at a time, at most."""

CHUNK_CHARACTERS = 1 << 19
"""Characters that they may have, if padded to the longest."""

BLOCK = 1 << 20
"""Largest number of entries of a similarity block."""


def token_batches(
    tokenize: Callable[[Sequence[str]], TokenBatch], texts: Sequence[str], budget: Callable[[], int]
) -> Generator[tuple[list[int], TokenBatch], None, None]:
    """Texts in batches of like length, the longest first, within the token budget.

    They are tokenised in chunks as they are needed, so that a device can work on the first batches while the next are
    made, and no more is held than a chunk. Which texts come together depends on the texts alone.

    Args:
        tokenize: Texts to tokens.
        texts: The texts.
        budget: Gives the tokens to a batch, padding included, at the time; one text at the least.

    Yields:
        Rows of the texts, and their tokens.
    """
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    rest: list[int] = []
    left: TokenBatch | None = None
    while order:
        # Characters tell lengths well enough to decide which texts are tokenised together.
        size = min(CHUNK, max(1, CHUNK_CHARACTERS // max(1, len(texts[order[0]]))))
        chunk, order = order[:size], order[size:]
        tokens = tokenize([texts[row] for row in chunk])
        rows = rest + chunk
        tokens = tokens if left is None else TokenBatch.concatenate([left, tokens])
        lengths = tokens.lengths.tolist()
        ranked = sorted(range(len(rows)), key=lambda place: -lengths[place])
        start = 0
        while start < len(ranked):
            taken = max(1, budget() // max(1, lengths[ranked[start]]))
            if start + taken > len(ranked) and order:
                break  # the next chunk fills this batch
            places = ranked[start : start + taken]
            yield [rows[place] for place in places], tokens.select(places)
            start += taken
        waiting = ranked[start:]
        rest, left = [rows[place] for place in waiting], tokens.select(waiting) if waiting else None


def pair_batches(lengths: np.ndarray, tokens: int, block: int = BLOCK) -> Iterator[list[int]]:
    """Pairs in batches of like shape, the largest first, within the size of a similarity block.

    Args:
        lengths: Tokens of both sides of each pair, ``[n, 2]``.
        tokens: Tokens to a batch, both sides and padding included; one pair at the least.
        block: Entries of its similarity blocks.

    Yields:
        Rows of the pairs.
    """
    order = np.lexsort((lengths[:, 0], lengths[:, 1]))[::-1]
    batch: list[int] = []
    width = height = 0
    for row in order.tolist():
        new_width, new_height = max(width, int(lengths[row, 0])), max(height, int(lengths[row, 1]))
        size = len(batch) + 1
        if batch and (size * new_width * new_height > block or size * (new_width + new_height) > tokens):
            yield batch
            batch, new_width, new_height = [], int(lengths[row, 0]), int(lengths[row, 1])
        batch.append(row)
        width, height = new_width, new_height
    if batch:
        yield batch
