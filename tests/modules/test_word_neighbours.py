import pytest
import torch

from textmover.modules.word_neighbours import WordNeighbours, load_neighbours
from textmover.types import InputError

VECTORS = torch.tensor([[1.0, 0.2], [1.0, 0.3], [1.0, -0.1], [-1.0, 0.0], [-1.0, 0.4]])
WORDS = ["cat", "dog", "fox", "car", "van"]


def test_nearest_words_by_the_cosine_without_the_mean():
    near = WordNeighbours(WORDS, VECTORS, least=-1.0)
    centred = torch.nn.functional.normalize(VECTORS - VECTORS.mean(0), dim=-1)
    expected = sorted(WORDS[1:], key=lambda word: -float(centred[0] @ centred[WORDS.index(word)]))
    assert near("cat", "A cat sleeps.") == expected
    assert near("Cat", "Cat sleeps.") == expected


def test_limits():
    assert WordNeighbours(WORDS, VECTORS, least=-1.0, most=2)("cat", "cat") == ["dog", "fox"]
    assert set(WordNeighbours(WORDS, VECTORS, least=0.0)("car", "car")) == {"van"}
    assert WordNeighbours(WORDS, VECTORS, least=1.0)("cat", "cat") == []


def test_words_beyond_the_candidates():
    assert WordNeighbours(WORDS, VECTORS)("kitten", "A kitten.") == []
    near = WordNeighbours(WORDS, VECTORS, lambda word: VECTORS[0] if word == "kitten" else None, most=1)
    assert near("kitten", "A kitten.") == ["cat"]
    assert near("goat", "A goat.") == []


def test_candidates_that_change_the_sentence_are_left_out_and_the_others_ranked():
    asked = []
    angles = {"A cat.": 0.0, "A dog.": 0.5, "A fox.": 0.1}

    def sentences(texts):
        asked.append(texts)
        return torch.tensor(
            [[torch.cos(torch.tensor(angles.get(t, 3.0))), torch.sin(torch.tensor(angles.get(t, 3.0)))] for t in texts]
        )

    near = WordNeighbours(WORDS, VECTORS, least=-1.0, sentences=sentences, least_sentence=0.8)
    assert near("cat", "A cat.") == ["fox", "dog"]
    assert [texts[0] for texts in asked] == ["A cat."]
    assert sorted(asked[0]) == ["A car.", "A cat.", "A dog.", "A fox.", "A van."]
    angles |= {"Cat!": 0.0, "Fox!": 0.2}
    assert near("cat", "Cat!") == ["fox"]
    with pytest.raises(InputError, match="Expected `sentence` to hold 'cat'"):
        near("cat", "A dog.")


@pytest.mark.parametrize(("field", "value"), [("least", 1.5), ("least_sentence", -2.0), ("most", 0)])
def test_limits_out_of_range_are_refused(field, value):
    with pytest.raises(InputError, match=f"Expected `{field}` to be"):
        WordNeighbours(WORDS, VECTORS, **{field: value})


def test_neighbours_of_an_encoder(tiny_encoder):
    near = load_neighbours(str(tiny_encoder), least=-1.0, context=False)
    assert {"dog", "house", "yellow"} <= set(near.words)
    assert all(word.isalpha() and len(word) > 2 and not word.startswith("#") for word in near.words)
    from transformers import AutoModel, AutoTokenizer

    embeddings = AutoModel.from_pretrained(tiny_encoder).get_input_embeddings().weight.detach()
    ids = AutoTokenizer.from_pretrained(tiny_encoder).convert_tokens_to_ids(near.words)
    vectors = torch.nn.functional.normalize(embeddings[ids] - embeddings[ids].mean(0), dim=-1)
    cosines = vectors @ vectors[near.words.index("dog")]
    expected = [near.words[row] for row in cosines.argsort(descending=True).tolist() if near.words[row] != "dog"]
    assert near("dog", "The dog.") == expected[: near.most]
    assert near("doggish", "A doggish cat.")  # a word of several pieces is their mean


def test_the_sentence_counts(tiny_encoder):
    strict = load_neighbours(str(tiny_encoder), least=-1.0)
    strict.least_sentence = 1.0
    loose = load_neighbours(str(tiny_encoder), least=-1.0)
    loose.least_sentence = -1.0
    assert strict("dog", "The dog was in the garden.") == []
    found = loose("dog", "The dog was in the garden.")
    assert sorted(found) == sorted(loose.nearest("dog"))
    assert loose("dog", "The dog was in the garden.") == found


def test_neighbours_of_static_vectors(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "vectors.txt"
    path.write_text("the 0 1 0\ncat 1 0.2 0\ndog 1 0.3 0\ncar -1 0 1\nOslo 1 1 1\nit 0 1 1\n")
    near = load_neighbours(str(path), least=0.0)
    assert near.words == ["the", "cat", "dog", "car"]
    assert near("cat", "A cat.")[0] == "dog"
    assert near("Oslo", "Oslo.") is not None
    with pytest.raises(InputError, match="Expected `encoder`"):
        load_neighbours(str(tmp_path / "none.txt"))
