"""Features without padding hold what a batch held, in any selection and order."""

import numpy as np
import pytest
import torch

from textmover.types import PackedEmbeddings, PackedFeatures, TokenBatch, TokenEmbeddings
from textmover.types import tokens as packed

LENGTHS = np.array([3, 1, 4, 0, 2])


def batch(traits: bool = True, selves: bool = True, lengths: np.ndarray = LENGTHS) -> TokenEmbeddings:
    generator = torch.Generator().manual_seed(0)
    width = int(lengths.max(initial=0))
    mask = torch.arange(width) < torch.from_numpy(lengths)[:, None]
    return TokenEmbeddings(
        vectors=torch.randn(len(lengths), width, 5, generator=generator) * mask[:, :, None],
        mask=mask,
        special=torch.randint(0, 3, mask.shape, generator=generator, dtype=torch.int8) * mask,
        input_ids=torch.randint(1, 99, mask.shape, generator=generator) * mask,
        self_similarity=torch.randn(len(lengths), 2, 3, generator=generator) if selves else None,
        traits=torch.randint(0, 8, mask.shape, generator=generator, dtype=torch.int8) * mask if traits else None,
    )


def pad(packed: PackedEmbeddings, rows) -> TokenEmbeddings:
    return PackedEmbeddings.pad([packed], [(0, row) for row in rows])


def assert_same(one: TokenEmbeddings, other: TokenEmbeddings) -> None:
    for name in ("vectors", "mask", "special", "input_ids", "self_similarity", "traits"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None)
        assert left is None or torch.equal(left, right), name


@pytest.mark.parametrize("traits", [True, False])
@pytest.mark.parametrize("selves", [True, False])
def test_padding_comes_back_as_it_was(traits, selves):
    given = batch(traits, selves)
    packed = given.pack(LENGTHS)
    assert isinstance(packed, PackedFeatures)
    assert len(packed) == 5
    assert packed.tokens["vectors"].shape == (10, 5)
    assert_same(pad(packed, range(5)), given)


@pytest.mark.parametrize("rows", [[0], [2, 0], [1, 1, 3], [3], [4, 3, 2, 1, 0]])
def test_rows_are_padded_to_the_longest_of_them(rows):
    given = batch()
    width = int(LENGTHS[rows].max())
    expected = TokenEmbeddings(
        *(getattr(given, name)[rows, :width] for name in ("vectors", "mask", "special", "input_ids")),
        given.self_similarity[rows],
        given.traits[rows, :width],
    )
    packed = given.pack(LENGTHS)
    assert_same(pad(packed, rows), expected)
    assert_same(pad(packed.select(rows), range(len(rows))), expected)


def test_parts_are_joined_in_order():
    given = batch()
    packed = given.pack(LENGTHS)
    joined = PackedEmbeddings.join([packed.select([0, 1]), packed.select([2]), packed.select([3, 4])])
    assert_same(pad(joined, range(5)), given)
    assert PackedEmbeddings.join([packed]) is packed
    parts = [packed.select([0, 1]), packed.select([2]), packed.select([3, 4])]
    assert_same(PackedEmbeddings.pad(parts, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]), given)


def test_texts_without_any_token_have_no_width():
    empty = batch(lengths=np.array([0, 0]))
    packed = empty.pack(np.array([0, 0]))
    assert pad(packed, [0, 1]).vectors.shape == (2, 0, 5)


def test_a_selection_does_not_hold_on_to_the_rest():
    packed = batch().pack(LENGTHS)
    assert packed.select([1]).tokens["vectors"].untyped_storage().nbytes() == 5 * 4
    assert packed.nbytes == 10 * (5 * 4 + 1 + 8 + 1) + 5 * 6 * 4


def test_a_gpu_is_given_pinned_memory_and_is_not_waited_for(monkeypatch):
    """Without a GPU: what would be asked of it, in order."""
    asked = []

    def moved(tensor, device, **options):
        asked.append((str(device), options.get("non_blocking", False)))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: asked.append("pinned") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", moved)
    packed._moved(np.arange(3), torch.device("cuda"))
    assert asked == ["pinned", ("cuda", True)]
    asked.clear()
    ones = torch.ones(1, 2, dtype=torch.long)
    TokenBatch(ones, ones.bool(), torch.zeros(1, 2, dtype=torch.int8), ("a b",), (False,)).to("cuda", non_blocking=True)
    assert asked == [*["pinned"] * 3, *[("cuda", True)] * 3]
    asked.clear()
    packed._moved(np.arange(3), torch.device("cpu"))
    assert asked == [("cpu", False)]
