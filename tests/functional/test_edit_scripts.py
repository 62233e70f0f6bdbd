"""Edits of shortest ways, against all ways written out."""

import itertools
import random

import pytest
import torch
from torch.nn.functional import pad

from textmover.functional.edit_scripts import shortest_edits


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
        added = {("added", place) for place in found.surplus[row].nonzero()[:, 0].tolist()}
        assert any(added == {edit for edit in one if edit[0] == "added"} for one in several), (reference, hypothesis)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "surplus"),
    [
        ("he is in p", "he is in p in p in p", [4, 5, 6, 7]),
        ("a b c", "a a b c", [1]),
        ("a b", "x a b", [0]),
        ("a", "b", []),
    ],
)
def test_of_equal_tokens_the_first_are_kept(reference, hypothesis, surplus):
    one, other = reference.split(), hypothesis.split()
    same = torch.tensor([[[word == own for own in other] for word in one]])
    found = shortest_edits(pad(same, (0, 2, 0, 1)), torch.tensor([len(one)]), torch.tensor([len(other)]))
    assert found.surplus[0].nonzero()[:, 0].tolist() == surplus


@pytest.mark.parametrize("size", [(0, 3), (3, 0), (0, 0)])
def test_empty_texts_lose_or_add_everything(size):
    found = shortest_edits(torch.zeros(1, *size, dtype=torch.bool), *(torch.tensor([one]) for one in size))
    assert found.distance.item() == max(size)
    assert found.added.sum().item() == found.surplus.sum().item() == size[1]
    assert found.lost.any().item() == (size[0] > 0)
