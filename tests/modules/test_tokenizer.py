"""Tokens, their kinds, and the limit on their number."""

import pytest
import torch

from textmover.modules.tokenizer import Tokenizer
from textmover.types import InputError

WORDS = [
    "the",
    "old",
    "town",
    "has",
    "a",
    "long",
    "street",
    "with",
    "many",
    "small",
    "houses",
    "and",
    "one",
    "big",
    "market",
]


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder):
    return Tokenizer(tiny_encoder, "bert", 12)


def long_text(words: int) -> str:
    return " ".join(WORDS[index % len(WORDS)] for index in range(words))


def test_the_limit_hidden_in_the_embedded_tokenizer_does_not_cut(embedded):
    """Its ``tokenizer.json`` truncates at 128 tokens; the encoder reads 512."""
    batch = Tokenizer(embedded, "bert", 512)(["short", long_text(298), long_text(510), long_text(511)])
    assert batch.lengths.tolist() == [3, 300, 512, 512]
    assert batch.truncated == (False, False, False, True)


def test_special_tokens_are_told_by_place(tokenizer):
    batch = tokenizer(["the dog", "", "tea"])
    assert batch.special.tolist() == [[1, 0, 0, 2], [1, 2, 0, 0], [1, 0, 2, 0]]
    assert batch.mask.tolist() == [[True] * 4, [True] * 2 + [False] * 2, [True] * 3 + [False]]
    assert batch.special.dtype == torch.int8


def test_an_empty_text_has_special_tokens_only(tokenizer):
    for text in ("", " \n\t "):
        batch = tokenizer([text])
        assert batch.lengths.tolist() == [2]
        assert (batch.special > 0).all()
        assert batch.truncated == (False,)


def test_no_text_at_all_gives_an_empty_batch(tokenizer):
    batch = tokenizer([])
    assert len(batch) == 0
    assert batch.input_ids.shape == (0, 0)


def test_white_space_at_the_ends_does_not_count(tokenizer):
    plain, spaced = tokenizer(["the dog"]), tokenizer(["\n  the dog \t"])
    assert torch.equal(plain.input_ids, spaced.input_ids)
    assert spaced.texts == ("the dog",)


def test_longer_texts_are_cut_and_marked(tokenizer):
    batch = tokenizer([long_text(10), long_text(11), "the"])
    assert batch.truncated == (False, True, False)
    assert batch.lengths.tolist() == [12, 12, 3]
    assert batch.special[1, -1] == 2  # the closing token stays
    assert torch.equal(batch.input_ids[0, :11], batch.input_ids[1, :11])


def test_longer_texts_are_an_error_where_asked_for(tiny_encoder):
    strict = Tokenizer(tiny_encoder, "bert", 12, "error")
    assert strict([long_text(10)]).truncated == (False,)
    with pytest.raises(InputError, match="at most 12 tokens, but the one that starts with 'the old town"):
        strict(["the", long_text(11)])


@pytest.mark.parametrize("bad", [None, 3, float("nan"), b"bytes", ["nested"]])
def test_what_is_no_string_is_refused_with_its_place(tokenizer, bad):
    with pytest.raises(TypeError, match=rf"strings, but got {type(bad).__name__} at position 1\."):
        tokenizer(["the", bad])


def test_ids_do_not_depend_on_batch_mates(tokenizer):
    texts = ["the dog", "", "a very long street", "tea"]
    together = tokenizer(texts)
    for row, text in enumerate(texts):
        alone = tokenizer([text])
        assert torch.equal(together.select([row]).input_ids, alone.input_ids)


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = Tokenizer(tmp_path, "bert", 12)
    texts = ["the dog", "Grün!", long_text(20)]
    assert torch.equal(again(texts).input_ids, tokenizer(texts).input_ids)


def test_a_cut_is_found_without_the_fast_tokenizer(tokenizer, monkeypatch):
    class Slow:
        pad_token_id = 0

        def __call__(self, texts, **options):
            encoded = tokenizer._tokenizer(texts, **options)
            return {"input_ids": encoded["input_ids"]} if isinstance(texts, str) else Encoded(encoded)

    class Encoded(dict):
        encodings = None

    slow = Tokenizer.__new__(Tokenizer)
    slow._tokenizer, slow.max_length, slow.long_texts = Slow(), 12, "truncate"
    texts = [long_text(10), long_text(11), "tea"]
    assert slow(texts).truncated == tokenizer(texts).truncated == (False, True, False)
