import subprocess
import sys
from collections import Counter
from itertools import product
from types import MappingProxyType

import numpy as np
import pytest

from textmover import InputError

pd = pytest.importorskip("pandas")

from textmover.interfaces.pandas import score_frame  # noqa: E402  needs pandas

OUTPUTS = ["the cat sat on the street", "a dog", "she will sing"]
GOLDS = ["a cat sat in the street", "the dog", "she can not sing"]


@pytest.fixture
def frame():
    return pd.DataFrame({"output": OUTPUTS, "gold": GOLDS}, index=["x", "y", "x"])


def test_aligned_on_the_index_whatever_it_is(frame, tiny_scorer):
    found = frame.textmover.score(hypothesis="output", reference="gold", model=tiny_scorer)
    assert (found.name, found.dtype, list(found.index)) == ("score", np.float64, ["x", "y", "x"])
    assert found.tolist() == tiny_scorer.score(OUTPUTS, GOLDS).scores.tolist()
    assert found.attrs["signature"] == str(tiny_scorer.score(OUTPUTS, GOLDS).signature)
    assert list(frame.columns) == ["output", "gold"]
    part = frame[::-1].set_axis([3, 1, 2])
    assert score_frame(part, "output", "gold", tiny_scorer).to_dict() == dict(
        zip([3, 1, 2], found.tolist()[::-1], strict=True)
    )


def test_all_values(frame, tiny_scorer):
    found = score_frame(frame, "output", "gold", tiny_scorer, full=True)
    expected = tiny_scorer.score(OUTPUTS, GOLDS)
    assert list(found.columns) == ["score", "precision", "recall", "f1"]
    assert found["recall"].tolist() == expected.recall.tolist()


def test_several_references_in_columns_and_in_cells(frame, tiny_scorer):
    others = ["the street", None, "she will sing"]
    frame["other"] = others
    frame["lists"] = [[gold, other] if other else [gold] for gold, other in zip(GOLDS, others, strict=True)]
    expected = tiny_scorer.score(OUTPUTS, frame["lists"]).scores.tolist()
    assert score_frame(frame, "output", ["gold", "other"], tiny_scorer).tolist() == expected
    assert score_frame(frame, "output", "lists", tiny_scorer).tolist() == expected
    assert score_frame(frame, "output", ["other", "gold"], tiny_scorer).tolist() == pytest.approx(expected)


MISSING = [None, float("nan"), pd.NA]
OTHER = [{"a cat": 1}, {"a cat"}, Counter("a"), MappingProxyType({"a": 1}), np.array("a"), [["a cat"]]]
SCALARS = [b"a cat", 3, 2.5, True]


@pytest.mark.parametrize(
    ("column", "cell", "way_out"),
    [
        *product(["output", "gold"], MISSING, ["dropna"]),
        *product(["output", "gold"], SCALARS, ["numbers with `astype.str.`, and bytes with `str.decode"]),
        *product(["output", "gold"], OTHER, [r"a \w+: give a text\."]),
        ("output", ["a cat"], r"a list: give a text\."),
        ("gold", ["a", None], "dropna"),
        *product(["output", "gold"], [[]], ["an empty list: add a text"]),
    ],
)
def test_a_cell_that_holds_no_text_is_named(tiny_scorer, column, cell, way_out):
    frame = pd.DataFrame({"output": OUTPUTS, "gold": GOLDS}, index=["a", "b", "c"], dtype=object)
    frame[column] = [frame.at["a", column], cell, frame.at["c", column]]
    with pytest.raises(InputError, match=f"Expected a text in column '{column}' of row 'b', but got .*{way_out}"):
        score_frame(frame, "output", "gold", tiny_scorer)


def test_no_text_in_any_column(frame, tiny_scorer):
    frame["other"] = [None, "", "a"]
    with pytest.raises(InputError, match=r"column 'other or another' of row 'x', but got (None|nan)"):
        score_frame(frame.assign(another=None), "output", ["other", "another"], tiny_scorer)
    assert len(score_frame(frame[1:], "output", "other", tiny_scorer)) == 2, "an empty text is a text"


def test_pandas_own_strings(frame, tiny_scorer):
    typed = frame.astype("string")
    assert score_frame(typed, "output", "gold", tiny_scorer).tolist() == pytest.approx(
        score_frame(frame, "output", "gold", tiny_scorer).tolist()
    )
    typed.iloc[1, 0] = pd.NA
    with pytest.raises(InputError, match="row 'y'"):
        score_frame(typed, "output", "gold", tiny_scorer)


def test_columns_that_are_not_there_or_twice(frame, tiny_scorer):
    with pytest.raises(InputError, match="one column 'mt' in the data frame, but got 0 among 'output', 'gold'"):
        score_frame(frame, "mt", "gold", tiny_scorer)
    with pytest.raises(InputError, match="one column 'gold' in the data frame, but got 2"):
        score_frame(pd.concat([frame, frame[["gold"]]], axis=1), "output", "gold", tiny_scorer)
    with pytest.raises(InputError, match="Expected a column of references, but got none"):
        score_frame(frame, "output", [], tiny_scorer)


@pytest.mark.parametrize("names", [(0, 1), (("said", "by us"), ("said", "by them")), (("output",), ("gold",))], ids=str)
def test_columns_whose_names_are_no_texts(frame, tiny_scorer, names):
    named = frame[["output", "gold"]].set_axis(names, axis=1)
    found = score_frame(named, *names, tiny_scorer)
    assert found.tolist() == score_frame(frame, "output", "gold", tiny_scorer).tolist()


def test_other_tables_are_refused(frame, tiny_scorer):
    for other, kind in ((frame["output"], "Series"), (frame.to_dict("list"), "dict")):
        with pytest.raises(TypeError, match=f"Expected a pandas data frame, but got {kind}: convert it"):
            score_frame(other, "output", "gold", tiny_scorer)


def test_no_rows(frame, tiny_scorer):
    found = score_frame(frame[:0], "output", "gold", tiny_scorer, full=True)
    assert (len(found), list(found.columns)) == (0, ["score", "precision", "recall", "f1"])


def test_the_accessor_is_there_only_where_it_was_asked_for():
    code = "import pandas, textmover; from textmover import Scorer; assert not hasattr(pandas.DataFrame, 'textmover')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
