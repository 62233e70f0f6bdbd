"""Edits of shortest ways, against all ways written out."""

import itertools
import random

import pytest
import torch

from textmover.functional.edits import shortest_edits


def ways(reference: str, hypothesis: str) -> tuple[int, list[set[tuple[str, int]]]]:
    """The least number of edits, and for each shortest way the tokens and gaps that it edits, by recursion."""
    if not reference and not hypothesis:
        return 0, [set()]
    n = len(hypothesis)
    found: list[tuple[int, set[tuple[str, int]]]] = []
    options = []
    if reference and hypothesis:
        same = reference[-1] == hypothesis[-1]
        options.append((reference[:-1], hypothesis[:-1], 0 if same else 1, ("kept" if same else "exchanged", n - 1)))
    if hypothesis:
        options.append((reference, hypothesis[:-1], 1, ("added", n - 1)))
    if reference:
        options.append((reference[:-1], hypothesis, 1, ("lost", n)))
    for rest, other, cost, edit in options:
        least, several = ways(rest, other)
        found += [(least + cost, one | {edit}) for one in several]
    least = min(cost for cost, _ in found)
    return least, [one for cost, one in found if cost == least]


def test_edits_are_those_of_all_shortest_ways():
    draw = random.Random(1)
    texts = [["".join(draw.choices("abc", k=draw.randint(0, 5))) for _ in range(2)] for _ in range(60)]
    most = [max(len(pair[side]) for pair in texts) for side in (0, 1)]
    same = torch.zeros(len(texts), *most, dtype=torch.bool)
    for row, (reference, hypothesis) in enumerate(texts):
        for i, j in itertools.product(range(len(reference)), range(len(hypothesis))):
            same[row, i, j] = reference[i] == hypothesis[j]
    lengths = [torch.tensor([len(pair[side]) for pair in texts]) for side in (0, 1)]
    found = shortest_edits(same, *lengths)
    for row, (reference, hypothesis) in enumerate(texts):
        least, several = ways(reference, hypothesis)
        assert found.distance[row] == least
        wanted = set().union(*several)
        got = {
            (name, place)
            for name in ("kept", "exchanged", "added", "lost")
            for place in getattr(found, name)[row].nonzero()[:, 0].tolist()
        }
        assert got == wanted, (reference, hypothesis)


@pytest.mark.parametrize("size", [(0, 3), (3, 0), (0, 0)])
def test_empty_texts_lose_or_add_everything(size):
    found = shortest_edits(torch.zeros(1, *size, dtype=torch.bool), *(torch.tensor([one]) for one in size))
    assert found.distance.item() == max(size)
    assert found.added.sum().item() == size[1]
    assert found.lost.any().item() == (size[0] > 0)
