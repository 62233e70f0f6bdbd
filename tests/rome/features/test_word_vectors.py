"""Words of texts: their places, their vectors as means of pieces, and the table of their frequencies."""

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from textmover.modules.tokens.statistics import IdfTable
from textmover.modules.tokens.tokenizer import Tokenizer
from textmover.rome.features.word_vectors import WordIdf, is_word, word_spans, word_vectors_of_spans
from textmover.types import InputError, TokenBatch
from textmover.types.tokens import token_offsets

TEXTS = ("The cats, walking!", "", "  a zebra\tsat  ", "!?", "tea")


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder):
    return Tokenizer(tiny_encoder, "bert", 24, traits=True)


def random_vectors(batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch.mask.shape, 4, generator=generator) * batch.mask[:, :, None]


def written(text, spans):
    return [text[start:end] for start, end in spans]


# --- places -----------------------------------------------------------------------------------------------------------


def test_offsets_are_places_in_the_text_as_it_was_given(tokenizer):
    batch, offsets = tokenizer(TEXTS), tokenizer.offsets(TEXTS)
    assert offsets.shape == (*batch.mask.shape, 2)
    text, spans = TEXTS[0], offsets[0].tolist()
    assert written(text, spans) == ["", "The", "cat", "s", ",", "walk", "ing", "!", "", *[""] * (len(spans) - 9)]
    assert (offsets[batch.special != 0] == 0).all()
    assert (offsets[~batch.mask] == 0).all()


def test_words_of_the_tokenizer_are_where_they_stand(tokenizer):
    spans = word_spans(tokenizer(TEXTS), token_offsets(tokenizer, TEXTS))
    words = [written(text, places) for text, places in zip(TEXTS, spans, strict=True)]
    assert words == [["The", "cats", ",", "walking", "!"], [], ["a", "zebra", "sat"], ["!", "?"], ["tea"]]


def test_what_the_length_limit_cuts_has_no_place(tokenizer):
    text = "tea " * 40
    (spans,) = word_spans(tokenizer([text]), token_offsets(tokenizer, [text]))
    assert len(spans) == 22
    assert spans[-1] == (84, 87)


def test_no_text_has_no_offsets(tokenizer):
    assert tokenizer.offsets([]).shape == (0, 0, 2)
    assert word_spans(tokenizer([]), tokenizer.offsets([])) == []


def test_a_tokenizer_that_does_not_know_is_refused():
    class Written:
        def offsets(self, texts):
            return None

    for one in (Written(), object()):
        with pytest.raises(InputError, match=r"the places of its tokens, .*: take an encoder with a fast tokenizer"):
            token_offsets(one, ["tea"])


# --- vectors ----------------------------------------------------------------------------------------------------------


def test_a_word_is_the_mean_of_its_pieces(tokenizer):
    batch, offsets = tokenizer(TEXTS), token_offsets(tokenizer, TEXTS)
    vectors = random_vectors(batch)
    found, mask = word_vectors_of_spans(vectors, batch, offsets, word_spans(batch, offsets))
    assert mask.sum(dim=1).tolist() == [5, 0, 3, 2, 1]
    torch.testing.assert_close(found[0, 0], vectors[0, 1])
    torch.testing.assert_close(found[0, 1], (vectors[0, 2] + vectors[0, 3]) / 2)
    torch.testing.assert_close(found[0, 3], (vectors[0, 5] + vectors[0, 6]) / 2)
    assert (found[~mask] == 0).all()


def test_the_words_of_another_segmentation(tokenizer):
    text = " cats, walking"
    batch, offsets = tokenizer([text]), token_offsets(tokenizer, [text])
    vectors = random_vectors(batch)  # [CLS] cat ##s , walk ##ing [SEP]
    spans = [(1, 6), (7, 9), (9, 14), (5, 6), (0, 1)]  # "cats,", "wa", "lking", ",", the space
    found, mask = word_vectors_of_spans(vectors, batch, offsets, [spans])
    assert mask.tolist() == [[True, True, True, True, False]]
    expected = [
        vectors[0, 1:4].mean(dim=0),
        vectors[0, 4],
        vectors[0, 4:6].mean(dim=0),
        vectors[0, 3],
        0 * vectors[0, 0],
    ]
    torch.testing.assert_close(found[0], torch.stack(expected))


def test_words_behind_the_limit_keep_their_place_without_a_vector(tokenizer):
    text = "tea " * 30
    batch, offsets = tokenizer([text]), token_offsets(tokenizer, [text])
    spans = [[(4 * word, 4 * word + 3) for word in range(30)]]
    found, mask = word_vectors_of_spans(random_vectors(batch), batch, offsets, spans)
    assert mask[0].tolist() == [True] * 22 + [False] * 8
    assert (found[0, 22:] == 0).all()


def test_words_do_not_depend_on_batch_mates(tokenizer):
    batch, offsets = tokenizer(TEXTS), token_offsets(tokenizer, TEXTS)
    vectors, spans = random_vectors(batch), word_spans(batch, offsets)
    found, mask = word_vectors_of_spans(vectors, batch, offsets, spans)
    for row, text in enumerate(TEXTS):
        alone = tokenizer([text])
        own = vectors[row : row + 1, : alone.mask.shape[1]]
        one, _ = word_vectors_of_spans(own, alone, tokenizer.offsets([text]), [spans[row]])
        torch.testing.assert_close(one[0], found[row, mask[row]], rtol=0, atol=1e-6)


def test_gradients_reach_the_pieces(tokenizer):
    batch, offsets = tokenizer(["cats sit"]), tokenizer.offsets(["cats sit"])
    vectors = random_vectors(batch).requires_grad_()
    word_vectors_of_spans(vectors, batch, offsets, [[(0, 4)]])[0].sum().backward()
    assert vectors.grad[0, :, 0].tolist() == [0, 0.5, 0.5, 0, 0]


def test_a_marker_of_spaces_belongs_to_the_word_behind_it():
    """SentencePiece tokens begin with the space before their word; a lone one is of no word."""
    batch = TokenBatch(
        torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, 3), ("a  bc",), (False,)
    )
    offsets = torch.tensor([[[0, 1], [1, 2], [2, 5]]])
    found, _ = word_vectors_of_spans(torch.eye(3)[None], batch, offsets, [[(0, 1), (3, 5)]])
    assert found.tolist() == [[[1, 0, 0], [0, 0, 1]]]


def test_misfits_are_refused(tokenizer):
    batch, offsets = tokenizer(["tea"]), tokenizer.offsets(["tea"])
    with pytest.raises(ValueError, match="one list for each of 1 texts, but got 2"):
        word_vectors_of_spans(random_vectors(batch), batch, offsets, [[], []])
    with pytest.raises(ValueError, match=r"`offsets` to have shape \[1, 3, 2\], but got \[1, 2, 2\]"):
        word_vectors_of_spans(random_vectors(batch), batch, offsets[:, :2], [[]])


def test_tokens_without_traits_are_refused(tiny_encoder):
    plain = Tokenizer(tiny_encoder, "bert", 12)
    batch = plain(["tea"])
    with pytest.raises(InputError, match="tokens with traits, but got none: set `traits`"):
        word_spans(batch, plain.offsets(["tea"]))


@pytest.mark.parametrize(
    ("one", "expected"), [("cat", True), ("3", True), ("é", True), ("—", False), ("🙂", False), ("", False)]
)
def test_what_a_word_is(one, expected):
    assert is_word(one) is expected


# --- idf --------------------------------------------------------------------------------------------------------------

CORPUS = [["The", "cat", "sat"], ["the", "the", "dog"], ["THE", "New\n York"], []]


@pytest.mark.parametrize("formula", ["smooth", "plus-one"])
def test_weights_are_those_of_the_table_of_tokens(formula):
    words, table = WordIdf(formula), IdfTable(6, formula)
    words.add_words(CORPUS)
    ids = torch.tensor([[0, 1, 2], [0, 0, 3], [0, 4, 0], [0, 0, 0]])
    table.add(ids, torch.tensor([[True] * 3, [True] * 3, [True, True, False], [False] * 3]))
    found = words(words.ids([["the", "Cat", "sat", "dog", "new york", "owl"]]))
    torch.testing.assert_close(found, table(torch.arange(6)[None]))
    assert found.max() == found[0, -1] > found[0, -2]


def test_an_unfitted_table_knows_nothing():
    idf = WordIdf()
    assert not idf.fitted
    assert idf(idf.ids([["the"], ["a", "cat"]])).tolist() == [[1, 1], [1, 1]]


def test_the_order_and_number_of_calls_do_not_matter():
    once, often = WordIdf(), WordIdf()
    once.add_words(CORPUS)
    for text in reversed(CORPUS):
        often.add_words([text])
    assert once.fingerprint == often.fingerprint
    torch.testing.assert_close(once(once.ids(CORPUS)), often(often.ids(CORPUS)))
    often.add_words([["owl"]])
    assert once.fingerprint != often.fingerprint


@pytest.mark.parametrize("corpus", [CORPUS, []], ids=["fitted", "new"])
def test_a_checkpoint_brings_the_words_along(corpus):
    model = nn.Sequential(nn.Linear(2, 2), WordIdf())
    model[1].add_words([*corpus, ["Größe", "茶"]] if corpus else [])
    again = nn.Sequential(nn.Linear(2, 2), WordIdf())
    again[1].add_words([["something", "else", "before"]])
    again.load_state_dict(load(save(model.state_dict())))
    assert again[1].fingerprint == model[1].fingerprint
    assert again[1].fitted == bool(corpus)
    queries = [["größe", "the", "something"]]
    torch.testing.assert_close(again[1](again[1].ids(queries)), model[1](model[1].ids(queries)))
    again[1].add_words([["more"]])  # it can be fitted further


def test_reset_forgets_everything():
    idf = WordIdf()
    empty = idf.fingerprint
    idf.add_words(CORPUS)
    idf.reset(from_call=True)
    assert not idf.fitted
    assert idf.fingerprint == empty
    assert bool(idf.from_call)
    idf.add_words([["owl"], ["cat"]])
    assert idf.ids([["owl", "cat", "the"]]).tolist() == [[0, 1, 2]]


def test_white_space_alone_is_no_word():
    idf = WordIdf()
    idf.add_words([[" ", "tea"], ["\n"]])
    assert idf.ids([["tea", " "]]).tolist() == [[0, 1]]
