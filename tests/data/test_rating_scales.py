import csv
from collections import defaultdict

import numpy as np
import pytest

from textmover.data.rating_scales import on_one_scale, scale_of
from textmover.types import InputError, Segment


def rated(scores):
    return [Segment("h", ("r",), score=float(score)) for score in scores]


def uniform(low, high, n=300, seed=0):
    return rated(np.random.default_rng(seed).uniform(low, high, n))


STANDARDISED = rated(np.random.default_rng(1).normal(size=300))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (uniform(0, 1), uniform(1, 5, seed=2)),
        (uniform(0, 1), uniform(0, 4, seed=2)),
        (uniform(0, 1), uniform(0, 100, seed=2)),
        (uniform(1, 5), uniform(0, 20, seed=2)),
        (uniform(1, 5), uniform(1, 10, seed=2)),
        (STANDARDISED, uniform(1, 5)),
        (STANDARDISED, uniform(-1, 1)),
        (uniform(0, 1), uniform(-1, 0, seed=2)),
        (uniform(0, 1), rated([3.0] * 10)),
    ],
)
def test_files_on_different_scales_are_refused_in_either_order(one, other):
    for files in ({"a.tsv": one, "b.tsv": other}, {"b.tsv": other, "a.tsv": one}):
        with pytest.raises(InputError, match=r"[ab]\.tsv go from .* to .*, those of [ab]\.tsv .* as-is"):
            on_one_scale(files, "same")
        assert on_one_scale(files, "as-is") == files


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (STANDARDISED, rated(np.random.default_rng(3).normal(0.5, 0.8, size=60))),
        (uniform(1, 5), uniform(1, 5, n=12, seed=2)),
        (rated([1, 5, 5, 5, 5, 5, 5, 5]), rated([0, 0, 0, 0, 0, 4])),
        (rated([2.0] * 5), rated([2.0] * 5)),
    ],
)
def test_files_on_one_scale_pass_whatever_lies_between_its_ends(one, other):
    files = {"a.tsv": one, "b.tsv": other}
    assert on_one_scale(files, "same") == files


@pytest.mark.parametrize("always", [2.0, 0.7, 3.3])
def test_a_file_of_equal_ratings_has_no_scale_of_its_own(always):
    for size in range(1, 20):  # the deviation of seven times .7 is 1e-16
        with pytest.raises(InputError, match=r"those of flat\.tsv are all equal"):
            on_one_scale({"flat.tsv": rated([always] * size)}, "per-file")


def test_every_file_is_compared_with_every_other():
    # The first has most in common with both of the others, which have too little with each other.
    files = {"first": uniform(0, 3), "second": uniform(0, 1.7), "third": uniform(0, 5.2)}
    for name in ("second", "third"):
        on_one_scale({"first": files["first"], name: files[name]}, "same")
    with pytest.raises(InputError, match=r"those of second go from .* those of third"):
        on_one_scale(files, "same")


def test_parts_of_published_sets_are_on_one_scale(shared_folder):
    for names, keys in (
        (["wmt_da/newstest2015_da_toen.tsv", "wmt_da/newstest2016_da_toen.tsv"], ("year",)),
        (["wmt_da/newstest2015_da_toen.tsv", "wmt_da/newstest2016_da_toen.tsv"], ("year", "lp")),
        (["sts/sts2012_2016.tsv"], ("year",)),
        (["sts/sts2012_2016.tsv"], ("year", "task")),
    ):
        parts = defaultdict(list)
        for name in names:
            with (shared_folder / "data" / name).open(encoding="utf-8", newline="") as stream:
                for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
                    parts[" ".join(row[key] for key in keys)].append(Segment("h", ("r",), score=float(row["score"])))
        assert len(parts) > 1
        assert on_one_scale(parts, "same") == parts


@pytest.mark.parametrize(
    ("ratings", "scale"),
    [
        ([1, 2, 3, 4, 5] * 20, None),
        ([1, 2, 3, 4, 5] * 20 + [50], (1, 5)),
        ([1, 2, 3] * 30 + [4, 5], None),
        ([1, 2, 3, 4, 5] * 9 + [50], (1, 5)),
        ([1, 2, 3, 4, 5] * 3 + [50], (1, 5)),
        ([1, 2, 3, 4, 5, 2, 3, 4, 5, 1, 2, 3, 45], (1, 5)),
        ([4, 3, 50, 5, 1, 2], (1, 5)),
        ([1, 2, 3, 4, 45], None),  # too few to know their scale
        ([0, 1] * 6 + [45], None),  # two values are no scale
        ([1, 2, 3, 4, 5] * 2 + [10], None),
        ([0, 5, 8, 10] * 3 + [55], (0, 10)),
        ([1, 2, 3, 4, 5] * 2 + [45, 55], None),  # not a lone one
        ([95, 96, 98, 100] * 3 + [10], None),
        ([7, 8, 9] * 4 + [1], None),
        ([0.1, 0.9] * 50 + [7], (0, 1)),
        ([1, 2, 3, 4, 5] * 12 + [-1, 999], (1, 5)),  # no scale holds all
        ([1, 2, 3, 4, 5] * 12 + [-1, 999] * 2, None),
        (list(range(101)), None),
        (np.linspace(-3, 3, 50).tolist(), None),
    ],
)
def test_scales(ratings, scale):
    assert scale_of(np.array(ratings, dtype=float)) == scale
