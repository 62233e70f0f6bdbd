"""Similarities of layers: brute force over hidden states, hand-made vectors, laws of the centrings, and the draw."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

from textmover.experiments.anisotropy import CENTERINGS, analyse_layers, draw_pairs, read_tokens, with_all_layers
from textmover.modules import MetricConfig
from textmover.modules.encoder_parts import EncoderParts, assemble
from textmover.types import InputError, SpecialToken, TokenBatch, TokenTrait

TEXTS = [
    "the cat sat on the street",
    "a dog and a cat in the rain",
    "many people walk in the rain",
    "she will sing a small song",
    "people sing in the street",
    "a song",
]


@pytest.fixture(scope="module")
def parts(tiny_encoder):
    return with_all_layers(assemble(MetricConfig(encoder=str(tiny_encoder), layer=-1, subwords="first")))


def by_row(analysis):
    return {(row.centering, row.layer): row for row in analysis.rows}


# --- a stand-in whose vectors are written by hand ---------------------------------------------------------------------


class Tokens:
    """Words are numbers; the first token of each text is special, and a number of 100 or more continues a word."""

    vocabulary_size = 200

    def __call__(self, texts):
        rows = [[0, *map(int, text.split())] for text in texts]
        longest = max(map(len, rows), default=0)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[place < len(row) for place in range(longest)] for row in rows])
        special = torch.zeros_like(ids, dtype=torch.int8)
        special[:, 0] = SpecialToken.FIRST
        traits = ((ids >= 100) * TokenTrait.CONTINUATION).to(torch.int8)
        return TokenBatch(ids, mask, special, tuple(texts), (False,) * len(texts), traits)


class Vectors(torch.nn.Module):
    """One layer with a vector for each word, and a wild one for special tokens."""

    layers = (0,)
    device = torch.device("cpu")

    def __init__(self, table):
        super().__init__()
        self.table = torch.full((200, len(next(iter(table.values())))), 1e6)
        for word, vector in table.items():
            self.table[word] = torch.tensor(vector)
        self.dimension = self.table.shape[1]

    def forward(self, batch):
        return [self.table[batch.input_ids]]


def hand_made(table, texts, **options):
    return by_row(analyse_layers(EncoderParts(Vectors(table), Tokens(), "hand"), texts, **{"pairs": 50, **options}))


# --- oracles ----------------------------------------------------------------------------------------------------------


def test_every_value_is_the_mean_of_the_drawn_pairs_by_brute_force(parts, tiny_encoder):
    from transformers import AutoModel

    model = AutoModel.from_pretrained(tiny_encoder).eval()
    tokens = read_tokens(parts, TEXTS)
    drawn = draw_pairs(tokens, 40, seed=3)
    vectors = [[] for _ in range(4)]  # of each layer, the texts' ordinary tokens in float64
    for text in TEXTS:
        batch = parts.tokenizer([text])
        with torch.no_grad():
            states = model(batch.input_ids, output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            vectors[layer].append(state[0, 1:-1].double().numpy())  # without [CLS] and [SEP]
    found = by_row(analyse_layers(parts, TEXTS, pairs=40, seed=3))
    assert list(found) == list(itertools.product(CENTERINGS, range(4)))
    for (centering, layer), row in found.items():
        of_texts, everything = vectors[layer], np.concatenate(vectors[layer])
        means = {
            "none": np.zeros_like(everything),
            "dimension": everything.mean(axis=1, keepdims=True),
            "sentence": np.concatenate([np.tile(one.mean(axis=0), (len(one), 1)) for one in of_texts]),
            "corpus": everything.mean(axis=0),
        }
        centred = everything - means[centering]
        for pairs, estimate in zip(drawn[:3], row[2:], strict=True):
            cosines = [
                sum(centred[i] * centred[j]) / math.sqrt(sum(centred[i] ** 2) * sum(centred[j] ** 2)) for i, j in pairs
            ]
            assert estimate.mean == pytest.approx(np.mean(cosines), abs=1e-5)
            different = len({tuple(sorted(pair)) for pair in pairs.tolist()})  # drawn again, one tells nothing
            assert estimate.error == pytest.approx(np.std(cosines, ddof=1) / math.sqrt(different), abs=1e-5)
            assert estimate.pairs == 40


def test_the_draw_estimates_the_mean_over_all_pairs(parts):
    tokens = read_tokens(parts, TEXTS)
    everywhere = range(len(tokens.text))
    apart = [(i, j) for i, j in itertools.permutations(everywhere, 2) if tokens.text[i] != tokens.text[j]]
    drawn = draw_pairs(tokens, 20_000, seed=0)
    counts = Counter(map(tuple, drawn.baseline.tolist()))
    assert set(counts) <= set(apart)
    expected = 20_000 / len(apart)
    assert sum((counts[pair] - expected) ** 2 / expected for pair in apart) < len(apart) + 5 * math.sqrt(2 * len(apart))


def test_a_word_elsewhere_is_a_whole_word_with_the_same_id_and_every_word_is_drawn_as_often(parts):
    # "cats" is the pieces cat and ##s: neither is the word cat.
    tokens = read_tokens(parts, ["the cat", "the cats", "the dog", "the dogs dog"])
    drawn = draw_pairs(tokens, 1000, seed=0)
    words = {tokens.ids[i] for i in drawn.same_word[:, 0]}
    assert drawn.words == len(words) == 2  # the, dog
    assert tokens.whole[drawn.same_word].all()
    for i, j in drawn.same_word:
        assert tokens.ids[i] == tokens.ids[j]
        assert tokens.text[i] != tokens.text[j]
    for i, j in drawn.same_text:
        assert i != j
        assert tokens.text[i] == tokens.text[j]
    counts = Counter(tokens.ids[drawn.same_word[:, 0]].tolist())
    assert max(counts.values()) < 560  # one of the two words stands in four texts, the other in two


def test_special_tokens_and_pieces():
    tokens = read_tokens(EncoderParts(Vectors({1: [1.0]}), Tokens(), ""), ["1 2 100", "", "3"])
    assert tokens.text.tolist() == [0, 0, 0, 2]
    assert tokens.place.tolist() == [1, 2, 3, 1]
    assert tokens.ids.tolist() == [1, 2, 100, 3]
    assert tokens.whole.tolist() == [True, False, False, True]
    assert tokens.lengths.tolist() == [4, 1, 2]


def test_hand_made_vectors():
    table = {1: [1.0, 0.0], 2: [0.0, 1.0], 3: [1.0, 1.0]}
    found = hand_made(table, ["1 2", "1 2"[::-1], "3"], centerings=("none", "sentence"))
    plain, sentence = found["none", 0], found["sentence", 0]
    assert plain.self_similarity.mean == pytest.approx(1)
    assert plain.intra_similarity == (pytest.approx(0), pytest.approx(0), 50)
    assert sentence.intra_similarity.mean == pytest.approx(-1)  # of two words, each is the other's opposite
    assert sentence.self_similarity.mean == pytest.approx(1)
    assert sentence.baseline.pairs < 50  # the only word of a text is 0 without its mean, and has no cosine
    corpus = hand_made({1: [3.0, 1.0], 2: [3.0, -1.0]}, ["1", "2"], centerings=("none", "corpus"))
    assert corpus["none", 0].baseline.mean == pytest.approx(0.8)
    assert corpus["corpus", 0].baseline.mean == pytest.approx(-1)  # special tokens have no part in the mean


# --- laws -------------------------------------------------------------------------------------------------------------


def test_one_layer_is_what_it_is_among_all(parts, tiny_encoder):
    alone = assemble(MetricConfig(encoder=str(tiny_encoder), layer=2, subwords="first"))
    one = analyse_layers(alone, TEXTS, pairs=30)
    assert [row.layer for row in one.rows] == [2] * len(CENTERINGS)
    among = by_row(analyse_layers(parts, TEXTS, pairs=30))
    for row in one.rows:
        for found, expected in zip(row[2:], among[row.centering, 2][2:], strict=True):
            assert found.mean == pytest.approx(expected.mean, abs=1e-5)


def test_all_layers_are_the_hidden_states_and_static_vectors_are_left_as_they_are(parts, tiny_encoder):
    from transformers import AutoModel

    assert parts.encoder.layers == (0, 1, 2, 3)
    batch = parts.tokenizer(TEXTS[:1])
    with torch.no_grad():
        expected = AutoModel.from_pretrained(tiny_encoder).eval()(batch.input_ids, output_hidden_states=True)
        found = parts.encoder.eval()(batch)
    for one, other in zip(found, expected.hidden_states, strict=True):
        torch.testing.assert_close(one, other)
    static = EncoderParts(Vectors({1: [1.0]}), Tokens(), "")
    assert with_all_layers(static) is static


def test_neither_batches_nor_repetitions_nor_padding_change_anything(parts):
    once = analyse_layers(parts, TEXTS, pairs=30)
    again = analyse_layers(parts, [*TEXTS, *TEXTS, "", f" {TEXTS[0]} "], pairs=30, batch_tokens=1)
    assert (once.texts, once.tokens, once.words) == (again.texts, again.tokens, again.words) == (6, 35, 9)
    for one, other in zip(once.rows, again.rows, strict=True):
        for found, expected in zip(one[2:], other[2:], strict=True):
            assert found == (pytest.approx(expected.mean, abs=1e-5), pytest.approx(expected.error, abs=1e-5), 30)


def test_the_seed_decides(parts):
    first, same, other = (analyse_layers(parts, TEXTS, pairs=30, seed=seed) for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_the_encoder_is_left_in_its_mode_and_progress_is_told(parts):
    told = []
    parts.encoder.train()
    analyse_layers(parts, TEXTS, pairs=5, batch_tokens=16, on_progress=told.append)
    assert parts.encoder.training
    assert sum(told) == len(TEXTS)
    assert len(told) > 1
    parts.encoder.eval()


# --- what is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [[], [""], ["a dog"], ["a dog", "a dog ", ""]])
def test_fewer_than_two_texts(parts, texts):
    with pytest.raises(InputError, match="at least two different texts with words"):
        analyse_layers(parts, texts)


def test_arguments_out_of_range(parts):
    with pytest.raises(InputError, match="`pairs` to be a whole number from 1 to 10,000,000, but got 0"):
        analyse_layers(parts, TEXTS, pairs=0)
    with pytest.raises(InputError, match="`batch_tokens` to be a whole number from 1"):
        analyse_layers(parts, TEXTS, batch_tokens=0)
    with pytest.raises(InputError, match="`centering` to be one of 'none', 'dimension', 'sentence', 'corpus'"):
        analyse_layers(parts, TEXTS, centerings=("batch",))


def test_a_tokenizer_that_tells_no_pieces(tiny_encoder):
    with pytest.raises(ValueError, match="a tokenizer that tells traits"):
        analyse_layers(assemble(MetricConfig(encoder=str(tiny_encoder))), TEXTS)
