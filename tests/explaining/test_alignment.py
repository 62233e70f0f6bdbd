"""Words that a metric matched: the plan over tokens, added up by words."""

import numpy as np
import pytest

from textmover.explaining.words import align_words


@pytest.mark.parametrize("matching", ["twmd", "trwmd", "bertscore", "emd"])
def test_equal_texts_are_matched_word_by_word(tiny_metric, matching):
    text = "The old dog can walk today"
    found = align_words(
        tiny_metric(matching=matching, **({"temperature": 0.01} if "mm" in matching else {})), text, text
    )
    assert found.hypothesis == found.reference == ("The", "old", "dog", "can", "walk", "today")
    assert found.plan.shape == found.similarity.shape == (6, 6)
    assert found.plan.argmax(axis=1).tolist() == list(range(6))
    np.testing.assert_allclose(np.diag(found.similarity), 1, atol=1e-5)
    assert found.similarity.max() <= 1 + 1e-5


def test_the_mass_of_a_word_is_that_of_its_pieces(tiny_metric):
    metric = tiny_metric(matching="emd", reference_special_tokens="drop", hypothesis_special_tokens="drop")
    reference, hypothesis = "a small dog barks", "the dog"
    found = align_words(metric, hypothesis, reference)
    pieces = [len(metric.tokenize([word]).input_ids[0]) - 2 for word in reference.split()]
    np.testing.assert_allclose(found.plan.sum(axis=1), np.array(pieces) / sum(pieces), atol=1e-6)
    assert found.plan.sum() == pytest.approx(1, abs=1e-6)


def test_words_that_take_no_part_have_no_mass(tiny_metric):
    metric = tiny_metric(matching="bertscore", punctuation="drop")
    found = align_words(metric, "a dog .", "a dog")
    assert found.plan[:, 2].sum() == found.similarity[:, 2].max() == 0
    empty = align_words(metric, "", "a dog")
    assert empty.plan.shape == (2, 0)


def test_cut_texts_and_metrics_without_tokens(tiny_metric):
    long = align_words(tiny_metric(max_length=6), "a dog", "one two three four five six seven eight")
    assert long.plan.shape == (8, 2)
    assert long.plan[5:].sum() == 0
    assert align_words(tiny_metric(ngram=2), "a dog", "a dog") is None
    assert align_words(tiny_metric(centering="batch"), "a dog", "a dog") is None


def test_tokens_find_their_words(tiny_metric):
    tokenizer = tiny_metric().tokenizer
    words, numbers = tokenizer.words("  dogs,  qq é ")
    assert words == ("dogs,", "qq", "é")
    assert numbers[0] is numbers[-1] is None
    assert [number for number in numbers if number is not None] == sorted(number for number in numbers[1:-1])
    assert set(numbers[1:-1]) == {0, 1, 2}
    assert tokenizer.words("") == ((), (None, None))
