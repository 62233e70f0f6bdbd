"""Texts of callers as lists of hypotheses, references and sources."""

from decimal import Decimal

import numpy as np
import pytest

from textmover.modules.tokens.text_arguments import is_missing, paired_texts


def test_pairs_and_triples_become_lists():
    hypotheses, compared = paired_texts([("a", "b"), ("c", None, "e")])
    assert hypotheses == ["a", "c"]
    assert [(tuple(one), one.source) for one in compared] == [(("b",), None), ((), "e")]
    assert paired_texts([]) == ([], [])


def test_missing_cells_are_those_of_pandas():
    pd = pytest.importorskip("pandas")
    cells = [
        None,
        float("nan"),
        np.float32("nan"),
        np.float64("nan"),
        pd.NA,
        pd.NaT,
        Decimal("nan"),
        "nan",
        "",
        0,
        True,
    ]
    assert [is_missing(cell) for cell in cells] == [bool(pd.isna(cell)) for cell in cells]
    assert not is_missing(["a", None])
