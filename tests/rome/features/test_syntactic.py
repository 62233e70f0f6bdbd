"""TED-SE: against distances computed from its definition, its laws and limits, long texts, bad input, and table 2."""

import dataclasses
import time

import numpy as np
import pytest
import torch
from tests.rome.shared import parsed

from textmover.functional.tree_edit import tree_edit_distance
from textmover.rome import SyntacticOptions, syntactic_edits, syntactic_similarity
from textmover.types import InputError


def random_text(generator, size, sentences=1, letter="r"):
    """Words that are all different, and different from those of another letter, in random trees."""
    names = generator.permutation(size)
    heads = np.full(size, -1)
    for step in range(sentences, size):
        heads[names[step]] = names[generator.integers(step)]
    return parsed([f"{letter}{place}" for place in range(size)], heads.tolist())


def random_pair(seed, m=None, n=None, sentences=1):
    generator = np.random.default_rng(seed)
    m, n = (size or generator.integers(1, 12) for size in (m, n))
    reference, hypothesis = random_text(generator, m, sentences), random_text(generator, n, sentences, "h")
    return reference, hypothesis, torch.from_numpy(generator.uniform(-0.2, 1, size=(m, n)))


def one(reference, hypothesis, cosines, **options):
    """Similarity of one pair, checked against its edits."""
    options = SyntacticOptions(**options)
    found = syntactic_similarity([reference], [hypothesis], [cosines], options)
    edits = syntactic_edits(reference, hypothesis, cosines, options)
    if not found.empty:
        assert sum(edit.cost for edit in edits) == pytest.approx(found.distance.item(), abs=1e-9)
    return found.similarity.item()


# --- the definition ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_distance_of_the_trees_over_the_largest_one(seed):
    # One sentence: without the imaginary root, and with costs written from the definition.
    reference, hypothesis, cosines = random_pair(seed)
    trees = reference.heads, hypothesis.heads
    distance = tree_edit_distance(*trees, (cosines.numpy() <= 0.65).astype(float))
    largest = tree_edit_distance(*trees, np.ones(cosines.shape))
    found = syntactic_similarity([reference], [hypothesis], [cosines])
    assert (found.distance.item(), found.largest.item()) == (distance, largest)
    assert found.similarity.item() == pytest.approx(1 - distance / largest, abs=1e-12)
    assert found.similarity.dtype == torch.float64


def test_words_match_above_theta_only():
    reference, hypothesis = parsed(["a"], [-1]), parsed(["b"], [-1])
    assert [one(reference, hypothesis, [[cosine]]) for cosine in (-1, 0.65, 0.6500001, 1)] == [0, 0, 1, 1]
    assert one(reference, hypothesis, [[0.4]], theta=0.3) == 1
    assert one(reference, hypothesis, [[False]], theta=-1) == 0
    assert one(reference, hypothesis, [[True]], theta=1) == 1


@pytest.mark.parametrize("seed", range(10))
def test_where_changes_cost_2_the_similarity_is_the_share_of_matched_words(seed):
    reference, hypothesis, cosines = random_pair(seed)
    edits = syntactic_edits(reference, hypothesis, cosines, SyntacticOptions(change=2))
    matched = sum(edit.cost == 0 for edit in edits)
    expected = 2 * matched / (len(reference) + len(hypothesis))
    assert one(reference, hypothesis, cosines, change=2) == pytest.approx(expected, abs=1e-12)


def test_a_ramp_makes_the_cost_continuous():
    reference, hypothesis = parsed(["a"], [-1]), parsed(["b"], [-1])
    cosines = (0.5, 0.6, 0.625, 0.65, 0.7, 0.9)
    found = [one(reference, hypothesis, [[cosine]], ramp=0.1) for cosine in cosines]
    np.testing.assert_allclose(found, [0, 0, 0.25, 0.5, 1, 1], atol=1e-12)


def test_equal_lemmas_match_whatever_their_vectors():
    reference = parsed(["She", "slept"], [1, -1], lemmas=["She", "sleep"])
    hypothesis = parsed(["she", "sleeps"], [1, -1], lemmas=["she", "sleep"])
    assert one(reference, hypothesis, np.zeros((2, 2))) == 1


def test_words_of_other_relations_match_unless_relations_count():
    reference = parsed(["a", "b"], [1, -1], ["nsubj:pass", "root"])
    same = parsed(["a", "b"], [1, -1], ["nsubj", "root"])
    other = parsed(["a", "b"], [1, -1], ["obj", "root"])
    assert one(reference, other, np.eye(2)) == 1
    assert one(reference, same, np.eye(2), relations=True) == 1
    assert one(reference, other, np.eye(2), relations=True) == 0.5


def test_marks_count_only_where_asked_for():
    reference, hypothesis = parsed(["a", "b", "."], [1, -1, 1]), parsed(["c", "d", "."], [1, -1, 1])
    assert one(reference, hypothesis, np.eye(3) * [0, 0, 1]) == 0
    assert one(reference, hypothesis, np.eye(3) * [0, 0, 1], punctuation=True) == pytest.approx(1 / 3)


def test_edits_say_what_becomes_of_each_word():
    reference = parsed(["the", "cat", "sleeps", "."], [1, 2, -1, 2])
    hypothesis = parsed(["a", "dog", "sleeps", "here"], [1, 2, -1, 2])
    assert syntactic_edits(reference, hypothesis, np.zeros((4, 4))) == [
        (0, 0, 1.0),
        (1, 1, 1.0),
        (2, 2, 0.0),
        (None, 3, 1.0),
    ]
    assert [edit[:2] for edit in syntactic_edits(reference, parsed([], []), [])] == [(0, None), (1, None), (2, None)]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(SyntacticOptions)])
def test_every_option_has_an_effect(field):
    reference, hypothesis, cosines = random_pair(3, 9, 9)
    hypothesis = parsed([*hypothesis.words[:-1], "."], hypothesis.heads, ["nsubj"] * 9)
    values = {"theta": 0.2, "change": 1.5, "ramp": 0.5, "relations": True, "punctuation": True, "most_nodes": 3}
    before, after = (
        syntactic_similarity([reference], [hypothesis], [cosines], SyntacticOptions(**options))
        for options in ({}, {field: values[field]})
    )
    assert before.similarity != after.similarity or before.long != after.long


# --- limits and laws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [0.3, 1, 2])
@pytest.mark.parametrize("most", [400, 5])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 20), (7, 7), (20, 3), (13, 14)], ids=str)
def test_unrelated_texts_of_any_size_get_0_and_equal_ones_1(sizes, most, change):
    reference, hypothesis, cosines = random_pair(0, *sizes)
    options = SyntacticOptions(most_nodes=most, change=change)
    found = syntactic_similarity([reference], [hypothesis], [cosines * 0.6], options)
    assert found.similarity.item() == 0
    assert found.distance == found.largest <= sum(sizes)
    assert one(reference, reference, torch.eye(sizes[0]), most_nodes=most, change=change) == 1


@pytest.mark.parametrize("most", [400, 4])
@pytest.mark.parametrize("seed", range(10))
def test_range_and_symmetry_and_growth_with_the_cosines(seed, most):
    reference, hypothesis, cosines = random_pair(seed, sentences=2)
    found = one(reference, hypothesis, cosines, most_nodes=most)
    assert 0 <= found <= 1
    assert one(hypothesis, reference, cosines.T, most_nodes=most) == pytest.approx(found, abs=1e-12)
    assert one(reference, hypothesis, cosines + 0.2, most_nodes=most) >= found
    assert 0 <= one(reference, hypothesis, cosines, most_nodes=most, ramp=0.7, change=1.7) <= 1


def test_the_same_words_in_another_structure_are_between():
    chain, star = parsed("abcdef", [-1, 0, 1, 2, 3, 4]), parsed("abcdef", [-1, 0, 0, 0, 0, 0])
    # Two words have a place in both shapes; the other four are deleted and inserted. Unmatched the two cost 1 as well.
    assert one(chain, star, torch.eye(6)) == pytest.approx(1 - 8 / 10)


def test_sentences_are_joined_in_order():
    first = parsed("abcd", [1, -1, 1, -1])
    assert one(first, first, torch.eye(4)) == 1
    # The sentence of one word moves, 2 edits; where nothing matches, the longer sentence takes 3 more.
    swapped = parsed("dabc", [-1, 2, -1, 2])
    assert one(first, swapped, torch.eye(4)[:, [3, 0, 1, 2]]) == pytest.approx(1 - 2 / 5)


def batch(count, most=None):
    pairs = [random_pair(seed, sentences=1 + seed % 2) for seed in range(2, 2 + count)]
    options = SyntacticOptions(most_nodes=most or 400)
    return *(list(column) for column in zip(*pairs, strict=True)), options


def test_a_batch_is_a_loop_of_singles():
    references, hypotheses, cosines, options = batch(40, 6)
    found = syntactic_similarity(references, hypotheses, cosines, options)
    assert found.long.any()
    assert not found.long.all()
    for place, pair in enumerate(zip(references, hypotheses, cosines, strict=True)):
        single = syntactic_similarity(*([part] for part in pair), options)
        assert [values[place].item() for values in found] == [values.item() for values in single]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.bool])
def test_cosines_may_be_padded_and_of_any_type(dtype):
    references, hypotheses, cosines, options = batch(10)
    cosines = [(block > 0.65).to(dtype) if dtype == torch.bool else block.to(dtype) for block in cosines]
    padded = torch.ones(10, 15, 14).to(dtype)
    if dtype != torch.bool:
        padded[:] = torch.nan
    for row, block in zip(padded, cosines, strict=True):
        row[: block.shape[0], : block.shape[1]] = block
    expected = syntactic_similarity(references, hypotheses, cosines, options)
    found = syntactic_similarity(references, hypotheses, padded.requires_grad_(dtype != torch.bool), options)
    assert torch.equal(found.similarity, expected.similarity)
    if dtype != torch.bfloat16:
        arrays = syntactic_similarity(references, hypotheses, padded.detach().numpy(), options)
        assert torch.equal(arrays.similarity, expected.similarity)


# --- empty and long texts ---------------------------------------------------------------------------------------------


def test_a_text_without_words_gets_0_and_is_flagged():
    none, marks, some = parsed([], []), parsed([".", "!"], [-1, 0]), parsed(["a"], [-1])
    texts = [none, marks, some]
    pairs = [(reference, hypothesis) for reference in texts for hypothesis in texts]
    found = syntactic_similarity(*zip(*pairs, strict=True), [torch.ones(len(r), len(h)) for r, h in pairs])
    assert found.similarity.tolist() == [0] * 8 + [1]
    assert found.empty.tolist() == [True] * 8 + [False]
    assert not found.long.any()
    assert syntactic_similarity([], [], []).similarity.shape == (0,)


def test_long_texts_are_compared_in_stretches():
    reference, hypothesis, cosines = random_pair(1, 10, 7)
    exact, long = (
        syntactic_similarity([reference], [hypothesis], [cosines], SyntacticOptions(most_nodes=most))
        for most in (10, 9)
    )
    assert (exact.long.item(), long.long.item()) == (False, True)
    # Two stretches each: words 0-4 with 0-2, and 5-9 with 3-6, with roots of their own.
    options = SyntacticOptions(most_nodes=9)
    edits = syntactic_edits(reference, hypothesis, cosines, options)
    assert all((i < 5) == (j < 3) for i, j, _ in edits if i is not None and j is not None)
    assert {i for i, _, _ in edits} - {None} == set(range(10))
    assert {j for _, j, _ in edits} - {None} == set(range(7))


@pytest.mark.parametrize("most", [400, 4])
def test_a_padded_block_may_end_where_all_further_cosines_are_0(most):
    reference, hypothesis, cosines = random_pair(1, 10, 7)
    cosines = torch.as_tensor(cosines).clone()
    cosines[6:] = cosines[:, 5:] = 0
    options = SyntacticOptions(most_nodes=most)
    whole, cut = (
        syntactic_similarity([reference], [hypothesis], one[None], options) for one in (cosines, cosines[:6, :5])
    )
    assert cut.distance.item() == whole.distance.item()


def sentences(generator, number, size=20):
    """Heads of sentences, each word of which hangs on one of the four before it."""
    heads = []
    for start in range(0, number * size, size):
        heads += [-1, *(start + max(0, place - 1 - int(generator.integers(4))) for place in range(1, size))]
    return heads


@pytest.mark.parametrize("kind", ["sentences", "one sentence", "chain"])
def test_ten_thousand_words_take_seconds_at_most(kind):
    generator = np.random.default_rng(0)
    if kind == "sentences":
        heads = sentences(generator, 500)
    else:
        heads = [
            -1,
            *((generator.integers(place) if kind == "one sentence" else place - 1) for place in range(1, 10000)),
        ]
    text = parsed([f"w{place}" for place in range(10000)], [int(head) for head in heads])
    shorter = parsed([f"v{place}" for place in range(9000)], [min(head, 8999) for head in text.heads[:9000]])
    matches = np.zeros((10000, 9000), dtype=bool)
    matches[range(9000), range(9000)] = True
    syntactic_similarity(*([part] for part in random_pair(0)))  # compiled before the clock starts
    start = time.process_time()
    found = syntactic_similarity([text], [shorter], [matches])
    assert time.process_time() - start < 3
    assert found.long.item()
    assert 0 < found.similarity.item() < 1


# --- bad input --------------------------------------------------------------------------------------------------------


def test_numbers_and_shapes_that_do_not_fit_are_refused():
    reference, hypothesis = parsed("ab", [-1, 0]), parsed("abc", [-1, 0, 0])
    with pytest.raises(InputError, match="got 1 reference, 1 hypothesis and 2 blocks of cosines"):
        syntactic_similarity([reference], [hypothesis], torch.zeros(2, 2, 3))
    for wrong in ([torch.zeros(3, 2)], [torch.zeros(2, 4)], [torch.zeros(2, 2)], torch.zeros(1, 6)):
        with pytest.raises(InputError, match=r"Expected the cosines of 2 by 3 words, but got an array of shape \["):
            syntactic_similarity([reference], [hypothesis], wrong)
    with pytest.raises(InputError, match="Expected cosines, but got NaN: a word without a vector has the cosine 0"):
        syntactic_similarity([reference], [hypothesis], [torch.full((2, 3), torch.nan)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"theta": 1.5}, r"`theta` to be a cosine from -1 to 1, but got 1\.5"),
        ({"theta": float("nan")}, r"`theta` to be a cosine from -1 to 1, but got nan"),
        ({"change": 0}, r"`change` to be above 0 and at most 2, but got 0"),
        ({"change": 2.5}, r"`change` to be above 0 and at most 2, but got 2\.5: a deletion and an insertion together"),
        ({"ramp": -1}, r"`ramp` to be 0 or above, but got -1"),
        ({"most_nodes": 0}, r"`most_nodes` to be a whole number from 1 to 100,000, but got 0"),
        ({"theta": "x"}, "`theta` to be a number, but got 'x'"),
        ({"theta": None}, "`theta` to be a number, but got None"),
        ({"change": "1"}, "`change` to be a number, but got '1'"),
        ({"ramp": True}, "`ramp` to be a number, but got True"),
        ({"most_nodes": 1.5}, r"`most_nodes` to be a whole number from 1 to 100,000, but got 1\.5"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        SyntacticOptions(**options)


# --- table 2 of the paper ---------------------------------------------------------------------------------------------


def sentence(text, heads, lemmas):
    return parsed(text.split(), heads, lemmas=lemmas.split())


ACTIVE = sentence("Elon Musk has founded Tesla Motors .", [3, 0, 3, -1, 5, 3, 3], "Elon Musk have found Tesla Motors .")
TABLE = {
    "paraphrase": (
        sentence(
            "Munich is located at the southern part of Germany .",
            [2, 2, -1, 6, 6, 6, 2, 8, 6, 2],
            "Munich be locate at the southern part of Germany .",
        ),
        sentence(
            "Munich is situated in the south of Germany .",
            [2, 2, -1, 5, 5, 2, 7, 5, 2],
            "Munich be situate in the south of Germany .",
        ),
    ),
    "passive": (
        sentence(
            "Tesla motors is founded by Elon Musk .", [1, 3, 3, -1, 5, 3, 5, 3], "Tesla motor be found by Elon Musk ."
        ),
        ACTIVE,
    ),
    "repetition": (
        ACTIVE,
        sentence(
            "Elon elon elon elon founded tesla tesla tesla .",
            [4, 0, 0, 0, -1, 7, 7, 4, 4],
            "Elon elon elon elon found tesla tesla tesla .",
        ),
    ),
}


@pytest.fixture(scope="module")
def word_cosines(embedded):
    """Cosines of the words of two parses: means of their pieces in the last layer of the embedded encoder."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(embedded), AutoModel.from_pretrained(embedded).eval()

    def vectors(text):
        batch = tokenizer([list(text.words)], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            states = model(**batch).last_hidden_state[0]
        owners = [-1 if word is None else word for word in batch.word_ids()]
        means = [states[[owner == word for owner in owners]].mean(dim=0) for word in range(len(text))]
        return torch.nn.functional.normalize(torch.stack(means), dim=-1)

    return lambda reference, hypothesis: vectors(reference) @ vectors(hypothesis).T


def test_the_examples_of_the_paper(word_cosines):
    references, hypotheses = zip(*TABLE.values(), strict=True)
    cosines = [word_cosines(*pair) for pair in TABLE.values()]
    found = syntactic_similarity(references, hypotheses, cosines)
    # The paper has 1.0, .85 and .50 with ALBERT, whose cosines are higher throughout.
    assert found.distance.tolist() == [2, 5, 6]
    assert found.largest.tolist() == [9, 7, 9]
    # The passive form moves whole phrases: it comes before the repetition where words cannot be changed at half price.
    found = syntactic_similarity(references, hypotheses, cosines, SyntacticOptions(change=2))
    np.testing.assert_allclose(found.similarity, [14 / 17, 6 / 13, 6 / 14], atol=1e-12)
