"""Texts longer than the encoder, against a plain loop over their windows."""

from itertools import pairwise

import pytest
import torch
from transformers import AutoConfig, AutoModel

from textmover.functional import unit_vectors
from textmover.modules.encoder import encoder as encoder_module
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.windows import WINDOW_TOKENS, encode_windows, plan_windows
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.types import InputError, TokenBatch

WORDS = "the old town has one long street with many small market where people walk".split()  # noqa: SIM905 - a list that is read as text


def long_text(words: int, start: int = 0) -> str:
    """A text without a period, so that its windows differ."""
    return " ".join(WORDS[index * index % 97 % len(WORDS)] for index in range(start, start + words))


def encoder_of(folder, layers: tuple[int, ...] = (2,), window: int | None = None) -> Encoder:
    config = AutoConfig.from_pretrained(folder)
    return Encoder.load(folder, config, layers, dtype=torch.float32, window=window).eval()


def token_batch(*rows: list[int]) -> TokenBatch:
    """Tokens 1, 2, 3 … of the given kinds."""
    length = max(map(len, rows))
    special = torch.tensor([row + [0] * (length - len(row)) for row in rows], dtype=torch.int8)
    mask = torch.arange(length) < torch.tensor([len(row) for row in rows])[:, None]
    ids = torch.arange(1, length + 1).expand(len(rows), -1) * mask
    return TokenBatch(ids, mask, special, ("",) * len(rows), (False,) * len(rows))


def slow_states(model, ids: list[int], opening: int, closing: int, limit: int) -> torch.Tensor:
    """Hidden states of one text in the plainest way, ``[layers, L, D]``."""
    if len(ids) <= limit:
        return torch.stack(model(torch.tensor([ids]), output_hidden_states=True).hidden_states)[:, 0]
    first, last = list(range(opening)), list(range(len(ids) - closing, len(ids)))
    content = list(range(opening, len(ids) - closing))
    room = limit - opening - closing
    seen = [[] for _ in ids]
    start = 0
    while True:
        final = start + room >= len(content)
        stretch = content[-room:] if final else content[start : start + room]
        places = first + stretch + last
        states = torch.stack(
            model(torch.tensor([[ids[place] for place in places]]), output_hidden_states=True).hidden_states
        )[:, 0]
        for index, place in enumerate(places):
            seen[place].append(states[:, index])
        if final:
            return torch.stack([sum(one) / len(one) for one in seen], dim=1)
        start += room // 2


# --- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [4, 5, 8, 13])
@pytest.mark.parametrize(("opening", "closing"), [(1, 1), (0, 1), (2, 1), (0, 0), (1, 2)])
def test_windows_hold_every_token(opening, closing, limit):
    for length in range(1, 60):
        batch = token_batch([1] * opening + [0] * length + [2] * closing, [0] * 70)
        rows, positions = plan_windows(batch.mask, batch.special, limit)
        windows = positions[rows == 0].tolist()
        total = opening + length + closing
        if total <= limit:
            assert windows == [list(range(limit))]
            continue
        room = limit - opening - closing
        ends = [*range(opening), *range(total - closing, total)]
        starts = []
        for window in windows:
            stretch = [place for place in window if opening <= place < total - closing]
            assert sorted(ends + stretch) == window
            assert stretch == list(range(stretch[0], stretch[0] + room))
            starts.append(stretch[0] - opening)
        assert set(range(total)) == {place for window in windows for place in window}
        assert starts[-1] == length - room
        steps = [after - before for before, after in pairwise(starts)]
        assert all(step == max(1, room // 2) for step in steps[:-1])
        assert all(0 < step <= max(1, room // 2) for step in steps)


def test_special_tokens_within_the_text_are_content():
    batch = token_batch([0, 1, 0, 2, 0, 0, 2, 0])
    assert plan_windows(batch.mask, batch.special, 6).positions.tolist() == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7]]


@pytest.mark.parametrize("limit", [2, 3])
def test_special_tokens_that_leave_no_room_are_refused(limit):
    batch = token_batch([1, 2], [1, 1, 0, 0, 2])
    with pytest.raises(InputError, match=f"more than the 3 special tokens of a text, but got windows of {limit}: rai"):
        plan_windows(batch.mask, batch.special, limit)
    assert plan_windows(batch.mask, batch.special, 4).rows.tolist() == [0, 1, 1]


# --- encoding ---------------------------------------------------------------------------------------------------------


def windowed(folder, limit: int, layers: tuple[int, ...] = (2,)) -> tuple[Tokenizer, Encoder]:
    return Tokenizer(folder, "bert", limit, "window"), encoder_of(folder, layers, limit)


@pytest.mark.parametrize("limit", [128, 77])
def test_long_texts_against_a_plain_loop(tiny_encoder, limit):
    whole = AutoModel.from_pretrained(tiny_encoder).eval().double()
    texts = [long_text(700), "the dog", "", long_text(250, start=7), long_text(60), long_text(127)]
    batch = Tokenizer(tiny_encoder, "bert", limit, "window")(texts)
    with torch.no_grad():
        expected = [
            slow_states(whole, ids[:length].tolist(), 1, 1, limit)
            for ids, length in zip(batch.input_ids, batch.lengths.tolist(), strict=True)
        ]
        for layers in ((2,), (3,), (0, 1, 3), (3, 1)):
            for layer, states in zip(layers, encoder_of(tiny_encoder, layers, limit).double()(batch), strict=True):
                for found, of_text in zip(states, expected, strict=True):
                    torch.testing.assert_close(found[: of_text.shape[1]], of_text[layer], rtol=0, atol=1e-12)
                    assert (found[of_text.shape[1] :] == 0).all()


def test_texts_that_fit_are_read_as_without_windows(tiny_encoder, monkeypatch):
    tokenizer, encoder = windowed(tiny_encoder, 128)
    plain = encoder_of(tiny_encoder)
    monkeypatch.setattr(encoder_module, "encode_windows", None)
    texts = [long_text(126), "the dog", ""]
    cut, batch = Tokenizer(tiny_encoder, "bert", 128)(texts), tokenizer(texts)
    assert batch.mask.shape[1] == 128
    with torch.no_grad():
        assert torch.equal(encoder(batch)[0], plain(cut)[0])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-13)])
def test_vectors_do_not_depend_on_batch_mates(tiny_encoder, dtype, tolerance):
    tokenizer, encoder = windowed(tiny_encoder, 128)
    encoder.to(dtype)
    texts = [long_text(words, start=words) for words in (700, 3, 127, 0, 126, 129, 40, 1500, 200)]
    batch = tokenizer(texts)
    with torch.no_grad():
        (together,) = encoder(batch)
        for row, length in enumerate(batch.lengths.tolist()):
            (alone,) = encoder(batch.select([row]))
            joint, single = unit_vectors(together[row, :length]), unit_vectors(alone[0])
            torch.testing.assert_close(joint, single, rtol=0, atol=tolerance)


def test_padding_beyond_the_limit_does_not_count(tiny_encoder):
    tokenizer, encoder = windowed(tiny_encoder, 128)
    batch = tokenizer(["the dog", "", long_text(300)])
    wide = TokenBatch(batch.input_ids[:2], batch.mask[:2], batch.special[:2], ("", ""), (False, False))
    with torch.no_grad():
        (found,), (narrow,) = encoder(wide), encoder(batch.select([0, 1]))
    torch.testing.assert_close(found[wide.mask], narrow[batch.select([0, 1]).mask], rtol=0, atol=1e-6)


def test_training_encodes_texts_of_like_length_together(tiny_encoder, monkeypatch):
    tokenizer, encoder = windowed(tiny_encoder, 128, (1, 3))
    encoder.double()
    batch = tokenizer([long_text(words, start=words) for words in (90, 3, 0, 12, 100, 5, 40, 7, 1, 9, 80, 2)])
    passes = []
    whole, graph = encoder._hidden_states(batch.inputs, batch.mask), encoder.graph()
    monkeypatch.setattr(
        encoder, "graph", lambda: lambda inputs, mask: passes.append(inputs.shape) or graph(inputs, mask)
    )
    for grouped, states in zip(encoder(batch), whole, strict=True):
        torch.testing.assert_close(grouped[batch.mask], states[batch.mask], rtol=0, atol=1e-12)
        weights = list(encoder.parameters())
        ours, expected = (
            torch.autograd.grad(one[batch.mask].square().sum(), weights, retain_graph=True, allow_unused=True)
            for one in (grouped, states)
        )
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-9)
    assert len(passes) > 1
    assert sum(rows for rows, _ in passes) == len(batch)
    assert sum(rows * width for rows, width in passes) < 0.6 * batch.mask.numel()


def test_gradients_reach_the_weights(tiny_encoder):
    tokenizer, encoder = windowed(tiny_encoder, 128, (1, 3))
    batch = tokenizer([long_text(500), "tea"])
    weights = torch.linspace(-1, 1, batch.mask.shape[1])[:, None]
    sum((states.square() * weights).sum() for states in encoder(batch)).backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()
        # The bias of attention keys moves all scores of a query alike, so that its gradient is 0.
        assert name.endswith("key.bias") or parameter.grad.abs().max() > 0
    reached = encoder.model.embeddings.position_embeddings.weight.grad.abs().sum(dim=1) > 0
    assert reached.all()


def test_gradients_are_those_of_the_mean():
    batch = token_batch([1, *[0] * 9, 2], [1, 0, 2], [0] * 7)
    table = torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def states(table):
        def encode(ids, mask):
            vectors = table[ids]
            mean = (vectors * mask[:, :, None]).sum(dim=1, keepdim=True) / mask.sum(dim=1)[:, None, None]
            return [vectors * mean, vectors.sin() + mean]

        return tuple(encode_windows(encode, batch, 5, tokens=11))

    assert torch.autograd.gradcheck(states, (table,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_mean_is_taken_in_full_precision(dtype):
    """1 + 2⁻⁷ (2⁻¹⁰), added up 100 times in half precision, would be far off."""
    batch = token_batch([1, *[0] * 200, 2])
    value = 1 + torch.finfo(dtype).eps
    (found,) = encode_windows(lambda ids, mask: [torch.full((*ids.shape, 2), value, dtype=dtype)], batch, 5)
    assert found.dtype == dtype
    assert (found == value).all()


def test_ten_thousand_words_take_bounded_memory(tiny_encoder):
    tokenizer, encoder = windowed(tiny_encoder, 128)
    sizes = []
    encoder.model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    batch = tokenizer([long_text(10_000), "the", long_text(400)])
    assert batch.mask.shape[1] > 10_000
    with torch.no_grad():
        (found,) = encoder(batch)
    assert found.shape == (3, batch.mask.shape[1], 32)
    assert found[batch.mask].isfinite().all()
    assert found[0].any(dim=1).all()
    assert max(rows * width for rows, width in sizes) <= WINDOW_TOKENS
    assert max(width for _, width in sizes) == 128
    assert sum(rows * width for rows, width in sizes) < 2.2 * int(batch.mask.sum())


def test_a_checkpoint_encoder_has_windows_too(tiny_encoder):
    config = AutoConfig.from_pretrained(tiny_encoder)
    encoder = Encoder.load(tiny_encoder, config, (2,), depth=3, window=64).eval()
    batch = Tokenizer(tiny_encoder, "bert", 64, "window")([long_text(100)])
    assert encoder(batch)[0].shape == (1, batch.mask.shape[1], 32)
