"""Tree edit distance against all mappings of small trees, Levenshtein distances, its laws, and bad input."""

import sys

import numpy as np
import pytest
from torchmetrics.functional.text import edit_distance

from textmover.functional.tree_edit import ordered_tree, tree_edit_distance, tree_edit_distances, tree_edit_mapping
from textmover.types import InputError


def random_tree(generator, size):
    """Heads of a tree whose nodes are numbered in any order."""
    names = generator.permutation(size)
    heads = np.full(size, -1)
    for step in range(1, size):
        heads[names[step]] = names[generator.integers(step)]
    return heads


def random_problem(generator, m, n):
    """Trees, and costs of all edits, some of them 0."""
    costs = [generator.uniform(0, 2, size=shape).round(1) for shape in ((m, n), m, n)]
    return random_tree(generator, m), random_tree(generator, n), *costs


def solve(function, first, second, change, delete, insert):
    return function(first, second, change, delete=delete, insert=insert)


# --- oracles ----------------------------------------------------------------------------------------------------------


def ancestors(heads, node):
    """The node itself and all above it, from the root down."""
    path = []
    while node != -1:
        path.append(node)
        node = heads[node]
    return path[::-1]


def relation(heads, one, other):
    """How one node stands to another: above, below, left or right of it."""
    first, second = ancestors(heads, one), ancestors(heads, other)
    for x, y in zip(first, second, strict=False):
        if x != y:
            return "left" if x < y else "right"
    return "above" if len(first) < len(second) else "below"


def all_mappings(first, second, chosen=(), node=0):
    """Every one-to-one mapping that keeps ancestors and the order from left to right, as the definition says."""
    if node == len(first):
        yield chosen
        return
    yield from all_mappings(first, second, chosen, node + 1)
    for partner in range(len(second)):
        if all(
            partner != other and relation(first, node, one) == relation(second, partner, other) for one, other in chosen
        ):
            yield from all_mappings(first, second, (*chosen, (node, partner)), node + 1)


def cost_of(mapping, change, delete, insert):
    """What the edits of a mapping cost."""
    gone, new = (set(range(len(side))) - {pair[k] for pair in mapping} for k, side in enumerate((delete, insert)))
    return sum(change[pair] for pair in mapping) + sum(delete[i] for i in gone) + sum(insert[j] for j in new)


@pytest.mark.parametrize("seed", range(40))
def test_the_cheapest_of_all_mappings(seed):
    generator = np.random.default_rng(seed)
    problem = random_problem(generator, *generator.integers(1, 6, size=2))
    first, second, *costs = problem
    allowed = {mapping: cost_of(mapping, *costs) for mapping in all_mappings(first.tolist(), second.tolist())}
    found = solve(tree_edit_mapping, *problem)
    assert found.distance == solve(tree_edit_distance, *problem) == pytest.approx(min(allowed.values()), abs=1e-12)
    assert allowed[tuple((i, j) for i, j in found.pairs.tolist())] == pytest.approx(found.distance, abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_mappings_of_larger_trees(seed):
    generator = np.random.default_rng(seed)
    problem = random_problem(generator, *generator.integers(15, 30, size=2))
    first, second, *costs = problem
    found = solve(tree_edit_mapping, *problem)
    mapping = [(i, j) for i, j in found.pairs.tolist()]
    assert cost_of(mapping, *costs) == pytest.approx(found.distance, abs=1e-12)
    for i, j in mapping:
        for k, partner in mapping:
            assert (i == k) == (j == partner)
            assert i == k or relation(first, i, k) == relation(second, j, partner)


WORDS = [("kitten", "sitting"), ("abcdef", "azced"), ("intention", "execution"), ("a", "bcd"), ("same", "same")]


@pytest.mark.parametrize(("one", "other"), WORDS)
def test_chains_and_stars_of_letters_are_at_their_levenshtein_distance(one, other):
    expected = edit_distance([one], [other], reduction="sum").item()
    change = np.array([[float(x != y) for y in other] for x in one])
    chains = [range(-1, len(word) - 1) for word in (one, other)]
    assert tree_edit_distance(*chains, change) == expected
    # Leaves under a root that is the same in both.
    rooted = np.pad(change, ((1, 0), (1, 0)), constant_values=2.0)
    rooted[0, 0] = 0.0
    stars = [[-1] + [0] * len(word) for word in (one, other)]
    assert tree_edit_distance(*stars, rooted) == expected


def test_the_example_of_zhang_and_shasha():
    # f(d(a, c(b)), e) and f(c(d(a, b)), e), numbered in preorder, so that siblings are in order.
    first, second = [-1, 0, 1, 1, 3, 0], [-1, 0, 1, 2, 2, 0]
    change = np.array([[float(x != y) for y in "fcdabe"] for x in "fdacbe"])
    assert tree_edit_distance(first, second, change) == 2


# --- trees ------------------------------------------------------------------------------------------------------------


def walk(heads, node):
    """Nodes below one in postorder, by recursion."""
    children = [child for child, head in enumerate(heads) if head == node]
    return [found for child in children for found in walk(heads, child)] + ([node] if node != -1 else [])


@pytest.mark.parametrize("size", [0, 1, 2, 5, 12, 30])
def test_postorder_leftmost_leaves_and_key_roots(size):
    generator = np.random.default_rng(size)
    heads = random_tree(generator, size)
    order, leftmost, keyroots = ordered_tree(heads)
    assert order.tolist() == walk(heads, -1)
    places = {node: place for place, node in enumerate(order)}
    assert leftmost.tolist() == [places[walk(heads, node)[0]] for node in order]
    siblings = [min(child for child, head in enumerate(heads) if head == heads[node]) for node in order]
    assert keyroots.tolist() == [
        place for place, node in enumerate(order) if siblings[place] != node or place + 1 == size
    ]


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_equal_trees_are_at_0_and_map_to_themselves(seed):
    generator = np.random.default_rng(seed)
    heads = random_tree(generator, 20)
    found = tree_edit_mapping(heads, heads, 1 - np.eye(20))
    assert found.distance == 0
    assert found.pairs.tolist() == [[node, node] for node in range(20)]


@pytest.mark.parametrize("seed", range(10))
def test_sides_can_be_exchanged_with_their_costs(seed):
    first, second, change, delete, insert = random_problem(np.random.default_rng(seed), 17, 12)
    there = solve(tree_edit_distance, first, second, change, delete, insert)
    assert solve(tree_edit_distance, second, first, change.T, insert, delete) == pytest.approx(there, abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_bounds(seed):
    generator = np.random.default_rng(seed)
    m, n = generator.integers(1, 20, size=2)
    first, second = random_tree(generator, m), random_tree(generator, n)
    change = generator.integers(0, 2, size=(m, n)).astype(float)
    found = tree_edit_distance(first, second, change)
    assert abs(m - n) <= found <= m + n - 1
    assert found <= tree_edit_distance(first, second, np.ones((m, n)))
    free, dear = np.zeros((m, n)), np.full((m, n), np.inf)
    assert tree_edit_distance(first, second, free) >= abs(m - n)
    assert tree_edit_distance(first, second, dear) == m + n
    assert len(tree_edit_mapping(first, second, dear).pairs) == 0


@pytest.mark.parametrize(("first", "second", "expected"), [([], [], 0.0), ([], [-1, 0], 2.0), ([-1, 0, 0], [], 3.0)])
def test_a_tree_without_nodes(first, second, expected):
    change = np.zeros((len(first), len(second)))
    assert tree_edit_distance(first, second, change) == expected
    assert tree_edit_mapping(first, second, []).pairs.shape == (0, 2)


def comb(size, *, left):
    """A spine that grows on one side, each of whose nodes has a leaf on the other."""
    heads = np.full(size, -1)
    spine = 0
    for node in range(1, size - 1, 2):
        # Of two siblings the one with the smaller number stands to the left.
        tooth, bone = (node + 1, node) if left else (node, node + 1)
        heads[[tooth, bone]] = spine
        spine = bone
    return heads


@pytest.mark.parametrize("left", [True, False])
def test_combs_on_either_side_take_the_short_way(left):
    # The long way takes (size / 2)^4 steps, half a minute; the short one size^2.
    heads = comb(801, left=left)
    assert tree_edit_distance(heads, heads, 1 - np.eye(801)) == 0
    assert tree_edit_distance(heads, comb(701, left=left), np.zeros((801, 701))) == 100


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_a_loop_of_singles_in_any_number_of_threads(threads):
    generator = np.random.default_rng(0)
    problems = [random_problem(generator, *generator.integers(0, 15, size=2)) for _ in range(100)]
    expected = [solve(tree_edit_distance, *problem) for problem in problems]
    first, second, change, delete, insert = zip(*problems, strict=True)
    for number in (1, 2, 3):
        threads(number)
        assert solve(tree_edit_distances, first, second, change, delete, insert).tolist() == expected


def test_costs_of_a_batch_for_all_or_for_each_pair():
    tree, two = [-1], [-1, 0]
    assert tree_edit_distances([two, two], [tree, tree], np.zeros((2, 2, 1)), delete=3).tolist() == [3, 3]
    assert tree_edit_distances([two, two], [tree, tree], np.zeros((2, 2, 1)), delete=[3, [1, 2]]).tolist() == [3, 1]
    assert tree_edit_distances([tree] * 2, [two] * 2, np.zeros((2, 1, 2)), insert=[0.5, [4, 2]]).tolist() == [0.5, 2]


def test_no_pair_at_all():
    assert tree_edit_distances([], [], []).shape == (0,)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [[0], [1, 0], [-1, -1], [-1, 2, 1], [-1, 5], [-2, 0]])
def test_heads_that_are_no_tree_are_refused(heads):
    change = np.zeros((len(heads), 1))
    with pytest.raises(InputError, match=r"Expected `heads` to be trees with one root, whose head is -1, but got"):
        ordered_tree(heads)
    for function in (tree_edit_distance, tree_edit_mapping):
        with pytest.raises(InputError, match=r"`first` and `second` to be trees with one root.* but got .* and \[-1\]"):
            function(heads, [-1], change)
        with pytest.raises(InputError, match=r"join several trees under a root"):
            function([-1], heads, change.T)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("heads", [[-1.0, 0.0], [[-1, 0]], ["a"]])
def test_heads_that_are_no_numbers_are_refused(heads):
    with pytest.raises(InputError, match="Expected `heads` to be the number of each node's head, but got"):
        ordered_tree(heads)


@pytest.mark.parametrize("name", ["change", "delete", "insert"])
@pytest.mark.parametrize("value", [-0.5, float("nan")])
@pytest.mark.parametrize("function", [tree_edit_distance, tree_edit_mapping])
def test_costs_below_0_are_refused(function, name, value):
    costs = {"change": [[0.0]], "delete": 1.0, "insert": 1.0} | {name: [[value]] if name == "change" else value}
    with pytest.raises(InputError, match=rf"Expected `{name}` to be costs from 0 up, but got {value}"):
        function([-1], [-1], costs.pop("change"), **costs)


def test_costs_that_do_not_fit_the_trees_are_refused():
    with pytest.raises(InputError, match=r"Expected `change` to have shape \[2, 1\].* but got \[1, 2\]"):
        tree_edit_distance([-1, 0], [-1], np.zeros((1, 2)))
    with pytest.raises(
        InputError, match=r"`delete` to be one cost or 2, one to a node, but got an array of shape \[3\]"
    ):
        tree_edit_distance([-1, 0], [-1], np.zeros((2, 1)), delete=[1, 1, 1])
    with pytest.raises(InputError, match=r"`insert` to be costs from 0 up, but got inf"):
        tree_edit_distance([-1, 0], [-1], np.zeros((2, 1)), insert=np.inf)
    with pytest.raises(
        InputError, match=r"as many trees and costs as pairs, but got 2 of `first`, 1 of `second`, 2 of"
    ):
        tree_edit_distances([[-1]] * 2, [[-1]], np.zeros((2, 1, 1)))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(InputError, match=r'numba for the tree edit distance.*pip install "textmover\[rome\]"'):
        tree_edit_distance([-1], [-1], [[0.0]])


def test_loops_are_compiled_where_nothing_can_be_kept():
    from textmover.functional.tree_edit.compiled_loops import compiled

    names = {}
    exec(compile("def double(number):\n    return 2 * number", "<no file>", "exec"), names)
    assert compiled("i8(i8)")(names["double"])(21) == 42
