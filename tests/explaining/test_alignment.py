"""Words that a metric matched: the plan over tokens, added up by words."""

import numpy as np
import pytest

from textmover.explaining.transport import FAINT, align_words


def weights(found) -> np.ndarray:
    """Weights of the links, a row for each word of the reference."""
    table = np.zeros((len(found.reference), len(found.hypothesis)))
    for link in found.links:
        table[link.reference, link.hypothesis] = link.weight
    return table


@pytest.mark.parametrize("matching", ["twmd", "trwmd", "bertscore", "emd"])
def test_equal_texts_are_matched_word_by_word(tiny_metric, matching):
    text = "The old dog can walk today"
    found = align_words(tiny_metric(matching=matching), text, text, 2)
    assert found.hypothesis == found.reference == ("The", "old", "dog", "can", "walk", "today")
    assert found.number == 2
    assert weights(found).argmax(axis=1).tolist() == list(range(6))
    same = [one.similarity for one in found.links if one.hypothesis == one.reference]
    np.testing.assert_allclose(same, np.ones(6), atol=1e-5)
    assert max(one.similarity for one in found.links) <= 1


def test_the_mass_of_a_word_is_that_of_its_pieces(tiny_metric):
    metric = tiny_metric(matching="emd", reference_special_tokens="drop", hypothesis_special_tokens="drop")
    reference, hypothesis = "a small dog barks", "the dog"
    found = align_words(metric, hypothesis, reference)
    pieces = [len(metric.tokenize([word]).input_ids[0]) - 2 for word in reference.split()]
    np.testing.assert_allclose(weights(found).sum(axis=1), np.array(pieces) / sum(pieces), atol=1e-6)


def test_faint_links_are_left_out(tiny_metric):
    mass = weights(align_words(tiny_metric(matching="twmd"), "the old dog can walk", "a small dog barks"))
    lighter = np.minimum(mass.max(axis=1, keepdims=True), mass.max(axis=0, keepdims=True))
    assert (mass[mass > 0] >= (FAINT * lighter)[mass > 0]).all()
    assert (mass == 0).any()


def test_words_that_take_no_part_have_no_links(tiny_metric):
    found = align_words(tiny_metric(matching="bertscore", punctuation="drop"), "a dog .", "a dog")
    assert found.hypothesis[2] == "."
    assert found.links
    assert 2 not in {link.hypothesis for link in found.links}
    empty = align_words(tiny_metric(matching="bertscore", punctuation="drop"), "", "a dog")
    assert (empty.hypothesis, empty.reference, empty.links) == ((), ("a", "dog"), ())


def test_cut_texts_and_metrics_without_tokens(tiny_metric):
    long = align_words(tiny_metric(max_length=6), "a dog", "one two three four five six seven eight")
    assert len(long.reference) == 8
    assert max(link.reference for link in long.links) < 5
    assert align_words(tiny_metric(ngram=2), "a dog", "a dog") is None
    assert align_words(tiny_metric(centering="batch"), "a dog", "a dog") is None


def test_tokens_find_their_words(tiny_metric):
    """Also those of a word that the vocabulary lacks, or of several pieces; white space at the ends is no word."""
    text = "  dogs,  qq é "
    found = align_words(tiny_metric(matching="bertscore"), text, text)
    assert found.hypothesis == found.reference == ("dogs,", "qq", "é")
    assert {(link.hypothesis, link.reference) for link in found.links if link.similarity > 0.999} >= {(0, 0), (1, 1)}
    assert {link.hypothesis for link in found.links} == {0, 1, 2}
    assert align_words(tiny_metric(matching="bertscore"), "", "").links == ()


def test_a_text_that_nobody_can_see_has_no_words(tiny_metric):
    found = align_words(tiny_metric(matching="bertscore"), "\u200b", "dog")
    assert (found.hypothesis, found.reference, found.links) == ((), ("dog",), ())
