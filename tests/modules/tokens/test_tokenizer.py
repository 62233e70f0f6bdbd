"""Tokens, their kinds, the words that they make up, and the limit on their number."""

import re
import string
from pathlib import Path

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from textmover.modules.tokens.tokenizer import CLOSES, OPENS, Tokenizer
from textmover.types import InputError, TokenTrait

C, P, S = TokenTrait.CONTINUATION, TokenTrait.PUNCTUATION, TokenTrait.STOP_WORD
STOP_WORDS = frozenset({"the", "a", "in", "t", "don't"})

WORDS = "the old town has a long street with many small houses and one big market".split()  # noqa: SIM905 - a list that is read as text


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


def test_no_text_at_all_gives_an_empty_batch(tokenizer):
    batch = tokenizer([])
    assert len(batch) == 0
    assert batch.input_ids.shape == (0, 0)


@pytest.mark.parametrize("text", ["a \ud800 b", "\udfff", "茶 \ud83d\ude00"])
def test_halves_of_surrogate_pairs_are_refused(tokenizer, text):
    with pytest.raises(InputError, match=r"the one that starts with .*: repair such texts") as caught:
        tokenizer(["tea", text])
    assert str(caught.value).isascii()
    assert len(tokenizer([text.encode("utf-8", "replace").decode()])) == 1


def test_white_space_at_the_ends_does_not_count(tokenizer):
    plain, spaced = tokenizer(["the dog"]), tokenizer(["\n  the dog \t"])
    assert torch.equal(plain.input_ids, spaced.input_ids)
    assert spaced.texts == ("the dog",)


@pytest.mark.parametrize("name", ["tiny_encoder", "byte_level", "sentence_pieces"])
@pytest.mark.parametrize("text", ["\u200b", "\ufeff \u202e", "\u00ad\x07"])
def test_a_text_that_nobody_can_see_is_empty_to_every_tokenizer(request, name, text):
    one = Tokenizer(request.getfixturevalue(name), "bert", 200)
    unseen, empty, seen = one([text]), one([""]), one([f"dog{text}"])
    assert unseen.input_ids.tolist() == empty.input_ids.tolist()
    assert seen.mask.sum() > empty.mask.sum()
    assert one.offsets([text]).tolist() == one.offsets([""]).tolist()


def test_longer_texts_are_cut_and_marked(tokenizer):
    batch = tokenizer([long_text(10), long_text(11), "the"])
    assert batch.truncated == (False, True, False)
    assert batch.lengths.tolist() == [12, 12, 3]
    assert batch.special[1, -1] == 2  # the closing token stays
    assert torch.equal(batch.input_ids[0, :11], batch.input_ids[1, :11])


def test_longer_texts_are_an_error_where_asked_for(tiny_encoder):
    strict = Tokenizer(tiny_encoder, "bert", 12, "error")
    assert strict([long_text(10)]).truncated == (False,)
    with pytest.raises(InputError, match=r"at most 12 tokens, .* starts with 'the old town.* 'truncate' or 'window'\."):
        strict(["the", long_text(11)])


@pytest.mark.parametrize("bad", [None, 3, float("nan"), b"bytes", ["nested"]])
def test_what_is_no_string_is_refused_with_its_place(tokenizer, bad):
    with pytest.raises(TypeError, match=rf"strings, but got {type(bad).__name__} at position 1\."):
        tokenizer(["the", bad])


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = Tokenizer(tmp_path, "bert", 12)
    texts = ["the dog", "Grün!", long_text(20)]
    assert torch.equal(again(texts).input_ids, tokenizer(texts).input_ids)


class Encoded(dict):
    encodings = None


def test_a_cut_is_found_without_the_fast_tokenizer(tokenizer, tiny_encoder, monkeypatch):
    class Slow:
        pad_token_id = 0

        def __call__(self, texts, **options):
            encoded = tokenizer._tokenizer(texts, **options)
            return {"input_ids": encoded["input_ids"]} if isinstance(texts, str) else Encoded(encoded)

    texts = [long_text(10), long_text(11), "tea"]
    for long_texts, truncated in (("truncate", (False, True, False)), ("window", (False, False, False))):
        fast, slow = (Tokenizer(tiny_encoder, "bert", 12, long_texts) for _ in range(2))
        monkeypatch.setattr(slow, "_tokenizer", Slow())
        monkeypatch.setattr(slow, "_rust", None)
        monkeypatch.setattr(slow, "_words", None)
        assert slow(texts).truncated == fast(texts).truncated == truncated


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "limit"), [("tiny_encoder", 12), ("embedded", 512)])
def test_texts_for_windows_stay_whole(request, name, limit, caplog, capfd):
    """The embedded tokenizer's file cuts at 128 tokens, and both name a maximum that they would warn of."""
    folder = request.getfixturevalue(name)
    batch = Tokenizer(folder, "bert", limit, "window")(["the " * 1500, "the", ""])
    assert batch.lengths.tolist() == [1502, 3, 2]
    assert batch.truncated == (False, False, False)
    assert batch.special[0].nonzero().flatten().tolist() == [0, 1501]
    assert batch.special[0, [0, 1501]].tolist() == [1, 2]
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_texts_that_fit_are_the_same_for_windows(tokenizer, tiny_encoder):
    texts = ["the dog", "", long_text(10)]
    cut, whole = tokenizer(texts), Tokenizer(tiny_encoder, "bert", 12, "window")(texts)
    assert torch.equal(cut.input_ids, whole.input_ids)
    assert torch.equal(cut.special, whole.special)


# --- traits -----------------------------------------------------------------------------------------------------------


def saved(folder, tokenizer, opening, closing):
    """A tokenizer of the library that adds the two special tokens, saved as Hugging Face does."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{opening} $A {closing}",
        special_tokens=[(piece, tokenizer.token_to_id(piece)) for piece in (opening, closing)],
    )
    roles = {"bos_token": opening, "eos_token": closing, "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(folder)
    return folder


SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    """Byte-level BPE as of RoBERTa: single bytes, each also behind a space, and a few words."""
    merges = [("t", "h"), ("th", "e"), ("h", "e"), ("T", "he"), ("i", "n"), ("in", "g"), ("d", "o"), ("do", "g")]
    merges += [("Ġ", word) for word in ("the", "The", "in", "dog", "do")]
    merges += [("Ġ", one) for one in pre_tokenizers.ByteLevel.alphabet() if one != "Ġ" and one.isascii()]
    merges += [("â", "Ģ"), ("âĢ", "ľ")]
    pieces = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    tokenizer = tokenizers.Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    return saved(tmp_path_factory.mktemp("byte-level"), tokenizer, "<s>", "</s>")


def unigrams(folder, split):
    """A unigram model as of XLM-RoBERTa, whose own words are split at white space or are the whole text."""
    words = {"▁the": -1, "▁The": -1, "▁in": -1, "▁dog": -1, "▁a": -1, "ing": -1, "the": -1.5, "▁": -2, "狗": -2}
    pieces = dict.fromkeys(SPECIAL, 0) | words | {one: -9 for one in string.printable.strip() if one != "▁"}
    tokenizer = tokenizers.Tokenizer(models.Unigram([*pieces.items()], unk_id=3))
    if split:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
        )
    else:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(tokenizers.Regex(r"\s"), "▁")]
        )
    return saved(folder, tokenizer, "<s>", "</s>")


@pytest.fixture(scope="module")
def sentence_pieces(tmp_path_factory):
    return unigrams(tmp_path_factory.mktemp("sentence-pieces"), split=True)


@pytest.fixture(scope="module")
def unsplit_pieces(tmp_path_factory):
    return unigrams(tmp_path_factory.mktemp("unsplit-pieces"), split=False)


def test_each_bit_has_one_meaning():
    bits = [OPENS, CLOSES, *(value for name, value in vars(TokenTrait).items() if name.isupper())]
    assert len(bits) == len(set(bits)) == 6


def traits_of(folder, kind, text, **options):
    """Pieces of a text, each with its traits."""
    batch = Tokenizer(folder, kind, 512, traits=True, stop_words=STOP_WORDS, **options)([text])
    pieces = AutoTokenizer.from_pretrained(folder).convert_ids_to_tokens(batch.input_ids[0].tolist())
    return list(zip(pieces, batch.traits[0].tolist(), strict=True))


def test_traits_cost_nothing_where_nobody_asks(tokenizer):
    assert tokenizer(["the dog"]).traits is None


def test_traits_of_word_pieces(tiny_encoder):
    assert traits_of(tiny_encoder, "bert", "The reading, a theed t. [SEP]") == [
        *[("[CLS]", 0), ("the", S), ("read", 0), ("##ing", C), (",", P), ("a", S), ("the", 0), ("##ed", C)],
        *[("t", S), (".", P), ("[SEP]", 0), ("[SEP]", 0)],
    ]


def test_traits_of_bytes(byte_level):
    assert traits_of(byte_level, "roberta", "The dogs, dothe ink in “the” - don't!") == [
        *[("<s>", 0), ("ĠThe", S), ("Ġdog", 0), ("s", C), (",", P), ("Ġdo", 0), ("the", C), ("Ġin", 0)],
        *[("k", C), ("Ġin", S), ("Ġ", 0), ("âĢľ", 0), ("the", S), ("âĢ", 0), ("Ŀ", C), ("Ġ-", P), ("Ġdo", 0)],
        *[("n", C), ("'", P), ("t", S), ("!", P), ("</s>", 0)],
    ]


@pytest.mark.parametrize("name", ["sentence_pieces", "unsplit_pieces"])
def test_traits_of_sentence_pieces(request, name):
    assert traits_of(request.getfixturevalue(name), "xlm-roberta", "The dogging, the狗狗 (a) ü the") == [
        *[("<s>", 0), ("▁The", S), ("▁dog", 0), ("g", C), ("ing", C), (",", P), ("▁the", S), ("狗", 0), ("狗", 0)],
        *[("▁", 0), ("(", P), ("a", S), (")", P), ("▁", 0), ("<unk>", 0), ("▁the", S), ("</s>", 0)],
    ]


def test_pieces_that_continue_a_word_are_those_with_the_mark(embedded):
    text = "Unbelievably, the Würzburg-based e-mail (anti-disestablishmentarian) can't: 漢字 #hash ##tag Дом x_y"
    found = traits_of(embedded, "bert", text)
    assert sum(mark & C for _, mark in found) > 8
    assert [bool(mark & C) for _, mark in found] == [piece.startswith("##") for piece, _ in found]
    assert [bool(mark & P) for _, mark in found] == [piece in set(string.punctuation) for piece, _ in found]


TEXTS = ["The dogs don't sing, in the rain...", "a [b] {c} dogging e-mail_x $3 5%", "the  the\t\nthe", "!", ""]


@pytest.mark.parametrize("name", ["tiny_encoder", "embedded", "byte_level", "sentence_pieces", "unsplit_pieces"])
def test_words_are_the_same_with_every_tokenizer(request, name):
    folder = request.getfixturevalue(name)
    kind = "roberta" if name == "byte_level" else "xlm-roberta" if name.endswith("pieces") else "bert"
    for text in TEXTS:
        words = re.findall(r"[^\W_]+|[^\w\s]|_", text)
        found = [(piece, mark) for piece, mark in traits_of(folder, kind, text)[1:-1] if piece not in "▁ĠĊĉ"]
        assert sum(not mark & C for _, mark in found) == len(words)
        assert sum(bool(mark & P) for _, mark in found) == sum(word in string.punctuation for word in words)
        assert sum(bool(mark & S) for _, mark in found) == sum(word.lower() in STOP_WORDS for word in words)


@pytest.mark.parametrize("name", ["tiny_encoder", "byte_level", "sentence_pieces", "unsplit_pieces"])
def test_offsets_cover_the_words_of_every_tokenizer(request, name):
    """Every word is where its first token begins, but for white space, and its last one ends."""
    one = Tokenizer(request.getfixturevalue(name), "bert", 200)
    texts = [" The dog — in the\tinn. ", "", "dog"]
    batch, offsets = one(texts), one.offsets(texts)
    assert offsets.shape == (*batch.mask.shape, 2)
    assert (offsets[(batch.special != 0) | ~batch.mask] == 0).all()
    for row, text in enumerate(texts):
        ends = {}
        for start, end in offsets[row].tolist():
            if text[start:end].strip():
                number = len(text[:end].split())
                ends[number] = (min(start, ends.get(number, (start,))[0]), end)
        assert [text[start:end].strip() for start, end in ends.values()] == text.split()


@pytest.mark.parametrize("name", ["tiny_encoder", "embedded", "sentence_pieces", "unsplit_pieces"])
def test_unknown_tokens_are_told_apart_by_every_tokenizer(request, name):
    one = Tokenizer(request.getfixturevalue(name), "bert", 200)
    batch = one(["the ✅ dog", "✅ dog ❌", "dog", "❌"])
    assert batch.unknown_words == (("✅",), ("✅", "❌"), (), ("❌",))
    numbers = [sorted({*row} - {0}) for row in batch.unknown.tolist()]
    assert numbers[0] != numbers[3]
    assert set(numbers[1]) == {*numbers[0], *numbers[3]}
    ordinary = batch.mask[3] & (batch.special[3] == 0)
    assert (batch.unknown[3][ordinary] > 0).all()  # also the piece that begins the word, which may be one of its own


def test_bytes_know_everything(byte_level):
    assert Tokenizer(byte_level, "roberta", 200)(["the ✅ dog"]).unknown is None


def test_a_tokenizer_written_in_python_has_no_offsets(tiny_encoder, monkeypatch):
    slow = Tokenizer(tiny_encoder, "bert", 12)
    monkeypatch.setattr(slow, "_rust", None)
    assert slow.offsets(["tea"]) is None


def test_traits_do_not_depend_on_batch_mates(tiny_encoder):
    tokenizer = Tokenizer(tiny_encoder, "bert", 512, "window", traits=True, stop_words=STOP_WORDS)
    texts = ["the dog", "", "The reading of the quarks, unquestionably.", long_text(600)]
    together = tokenizer(texts)
    assert together.traits.dtype == torch.int8
    assert (together.traits[~together.mask] == 0).all()
    assert (together.traits[together.special > 0] == 0).all()
    for row, text in enumerate(texts):
        assert torch.equal(together.select([row]).traits, tokenizer([text]).traits)
    assert tokenizer([]).traits.shape == (0, 0)


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("ba@@ by the@@ n the .", [0, C, 0, C, S, P]),
        ("ba by</w> the n</w> the</w> .</w>", [0, C, 0, C, S, P]),
        ("▁ba by ▁the n ▁the .", [0, C, 0, C, S, P]),
        ("▁ba <0xC3> <0xBC> <0x2C> by", [0, C, C, P, 0]),
        ("▁ba <unk> by", [0, C, C]),
        ("b a b y . . a", [0, C, C, C, P, P, S]),
    ],
)
def test_marks_tell_words_without_the_fast_tokenizer(monkeypatch, text, traits):
    others = [f"<{number}>" for number in range(20)]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys([*others, *text.split()]))}

    class Slow:
        is_fast = False
        pad_token_id, unk_token, unk_token_id = 0, "<unk>", vocabulary.get("<unk>")

        def __len__(self):
            return len(vocabulary)

        def get_vocab(self):
            return vocabulary

        def __call__(self, texts, **options):
            ids = [[vocabulary[piece] for piece in one.split()] for one in texts]
            return Encoded(input_ids=ids, special_tokens_mask=[[0] * len(one) for one in ids])

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda folder, **options: Slow())
    batch = Tokenizer(Path("anywhere"), "xlm", 512, "window", traits=True, stop_words=STOP_WORDS)([text])
    assert batch.traits.tolist() == [traits]
