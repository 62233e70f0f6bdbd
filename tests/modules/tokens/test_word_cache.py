"""Texts have the tokens of their words, where words are tokenised once."""

import copy
import random
import string

import numpy as np
import pytest
from tokenizers import normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

from textmover.modules.tokens import word_cache
from textmover.modules.tokens.tokenizer import Tokenizer

ODD = [
    "", " ", "\u00a0", "\u200b", "\x1c", "\x85", "\u3000", "\t", "e\u0301", "\u0301", "[SEP]", "x[MASK]y", "[ MASK ]",
    "İ", "ﬁ", "中文", "한", "ก็", "a" * 120, "...", "don't", "\x00", "\u2028", "😀", "\ufeff", "\ufffd", "##ing",
    "The", "old",
]  # fmt: skip


def rows(encoded, values="ids"):
    return [one.tolist() for one in np.split(getattr(encoded, values), np.cumsum(encoded.lengths)[:-1])]


@pytest.mark.parametrize("long_texts", ["truncate", "window"])
def test_tokens_of_words_are_those_of_texts(embedded, long_texts, monkeypatch):
    found = Tokenizer(embedded, "bert", 24, long_texts)
    draw = random.Random(0)
    texts = ["".join(draw.choice(ODD + [" "] * 9) for _ in range(draw.randint(0, 40))).strip() for _ in range(3000)]
    monkeypatch.setattr(word_cache, "CACHE_CHARACTERS", 400)  # so that words are forgotten on the way
    most = 24 if long_texts == "truncate" else 1_000_000
    parts = [found._words.encode(texts[start : start + 100], most) for start in range(0, len(texts), 100)]
    whole = found._rust.encode_batch(texts)
    assert found._words is not None
    assert copy.deepcopy(found)._words._rows == {}
    assert [row for part in parts for row in rows(part)] == [one.ids for one in whole]
    assert [row for part in parts for row in rows(part, "special")] == [one.special_tokens_mask for one in whole]
    assert [row for part in parts for row in part.truncated] == [bool(one.overflowing) for one in whole]


def test_words_of_a_tokenizer_without_special_tokens(embedded, tmp_path):
    read = AutoTokenizer.from_pretrained(embedded)
    read.backend_tokenizer.post_processor = processors.Sequence([])
    read.save_pretrained(tmp_path)
    found = Tokenizer(tmp_path, None, 24)
    assert found._words is not None
    texts = ["a cat sat", "", "unheardof words"]
    assert rows(found._words.encode(texts, 24)) == [one.ids for one in found._rust.encode_batch(texts)]


@pytest.fixture(scope="module")
def tokenizer(embedded):
    return AutoTokenizer.from_pretrained(embedded)


@pytest.mark.parametrize("added", [[], ["house"], ["."], ["é"], ["[X]"]])
@pytest.mark.parametrize("lowercase", [True, False])
def test_words_that_are_pieces_have_the_tokens_of_the_tokenizer(tokenizer, tmp_path, added, lowercase):
    read = copy.deepcopy(tokenizer)
    read.add_tokens(added)
    read.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    read.save_pretrained(tmp_path)
    found = Tokenizer(tmp_path, None, 64)
    pieces = [piece for piece in read.get_vocab() if piece.isalpha() and piece.isascii()][::40]
    words = ["houses", "greenhouse", "House.", "it's", "it'", "...", "a.b", "x[X]", *string.punctuation]
    texts = [*words, *(piece.title() + sign for piece in pieces for sign in ("", ",", "é"))]
    assert rows(found._words.encode(texts, 64)) == [one.ids for one in found._rust.encode_batch(texts)]


def test_tokenizers_that_do_not_part_words_at_spaces_keep_none(embedded, tmp_path):
    assert Tokenizer(embedded, "bert", 24, traits=True)._words is None  # which ask for the words of the whole text
    read = AutoTokenizer.from_pretrained(embedded)
    read.add_tokens(["New York"])
    read.save_pretrained(tmp_path)
    assert Tokenizer(tmp_path, None, 24)._words is None
    read = AutoTokenizer.from_pretrained(embedded)
    read.backend_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    read.save_pretrained(tmp_path)
    assert Tokenizer(tmp_path, None, 24)._words is None
