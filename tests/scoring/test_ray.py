"""The class for Ray Data, on batches of every format, and in a Ray of two processors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest

from textmover import Scorer
from textmover.scoring.ray import RayScorer
from textmover.types import InputError

EXAMPLES = Path(__file__).parents[2] / "examples"
HYPOTHESES = ["a cat sat", "the dog", "many people walk in the rain"]
REFERENCES = ["the cat sat", "a dog", "people walk under the rain"]


@pytest.fixture(scope="module")
def options(tiny_encoder):
    return {"encoder": str(tiny_encoder), "device": "cpu", "backend": "torch"}


@pytest.fixture(scope="module")
def scorer(options):
    return RayScorer("twmd", **options)


@pytest.fixture(scope="module")
def expected(options):
    return Scorer.from_pretrained("twmd", **options).score(HYPOTHESES, REFERENCES)


@pytest.fixture
def batch():
    return {
        "id": np.arange(3),
        "hypothesis": np.array(HYPOTHESES, dtype=object),
        "reference": np.array(REFERENCES, dtype=object),
    }


def test_scores_stand_behind_the_columns_of_the_batch(scorer, batch, expected):
    scored = scorer(batch)
    assert list(scored)[:4] == [*batch, "score"]
    np.testing.assert_allclose(scored["score"], expected.scores, rtol=0, atol=1e-6)
    for name in ("precision", "recall", "f"):
        assert (name in scored) == (getattr(expected, name) is not None)
    assert list(batch) == ["id", "hypothesis", "reference"], "the batch itself is left alone"
    fixed = {**batch, "hypothesis": np.array(HYPOTHESES)}  # NumPy's own kind of text
    np.testing.assert_array_equal(scorer(fixed)["score"], scored["score"])


def test_precision_and_recall(options, batch):
    scored = RayScorer("bertscore-f1", **options)(batch)
    assert list(scored) == [*batch, "score", "precision", "recall", "f"]
    np.testing.assert_array_equal(scored["score"], scored["f"])


def test_pandas_and_arrow(scorer, batch):
    scored = scorer(batch)["score"]
    frame = scorer(pd.DataFrame(batch))
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame["score"], scored)
    table = scorer(pyarrow.table(batch))
    assert isinstance(table, pyarrow.Table)
    assert table.schema.field("score").type == pyarrow.float64()
    np.testing.assert_array_equal(table["score"].to_numpy(), scored)
    rows = scorer(pyarrow.RecordBatch.from_pydict(batch))
    assert isinstance(rows, pyarrow.RecordBatch)
    np.testing.assert_array_equal(rows["score"].to_numpy(), scored)


def test_several_references_and_other_names(options, batch):
    several = [["a cat", REFERENCES[0]], np.array([REFERENCES[1]]), (REFERENCES[2], "x")]
    given = {"mt": batch["hypothesis"], "one": np.array([*several, None], dtype=object)[:3], "two": batch["reference"]}
    scored = RayScorer("twmd", hypothesis="mt", references=("one", "two"), prefix="tm_", **options)(given)
    references = [[*more, one] for more, one in zip(several, REFERENCES, strict=True)]
    expected = Scorer.from_pretrained("twmd", **options).score(HYPOTHESES, references)
    np.testing.assert_allclose(scored["tm_score"], expected.scores, rtol=0, atol=1e-6)


def test_a_cell_may_be_missing_where_another_column_has_a_reference(options, batch, expected):
    scorer = RayScorer("twmd", references=("reference", "second"), **options)
    given = {**batch, "reference": np.array([REFERENCES[0], None, float("nan")], dtype=object)}
    given["second"] = np.array([float("nan"), *REFERENCES[1:]], dtype=object)
    np.testing.assert_allclose(scorer(given)["score"], expected.scores, rtol=0, atol=1e-6)
    given["second"][2] = None
    with pytest.raises(InputError, match="in column 'reference', but row 3 of the batch holds nan"):
        scorer(given)


def test_an_empty_batch_has_the_same_columns(scorer, batch):
    empty = scorer({name: column[:0] for name, column in batch.items()})
    assert list(empty) == list(scorer(batch))
    assert len(empty["score"]) == 0


@pytest.mark.parametrize("cell", [None, float("nan"), 3, [], ["a", None]])
def test_a_cell_without_text_is_named(scorer, batch, cell):
    cells = [*REFERENCES, None]
    cells[1] = cell
    with pytest.raises(InputError, match=r"in column 'reference', but row 2 of the batch"):
        scorer({**batch, "reference": np.array([*cells, ["x"]], dtype=object)[:3]})
    if not isinstance(cell, list):
        with pytest.raises(InputError, match=r"Expected a text in column 'hypothesis', but row 2 of the batch holds"):
            scorer({**batch, "hypothesis": np.array([HYPOTHESES[0], cell, HYPOTHESES[2]], dtype=object)})


def test_a_cell_that_is_not_unicode_is_named(scorer, batch):
    for column, cell in (("hypothesis", "a \ud800 b"), ("reference", "\udc00"), ("reference", ["a", "\udc00"])):
        cells = [*batch[column], None]
        cells[1] = cell
        with pytest.raises(InputError, match=rf"Unicode text in column '{column}', but row 2 of the batch"):
            scorer({**batch, column: np.array([*cells, ["x"]], dtype=object)[:3]})


def test_columns_and_metrics_that_do_not_fit_are_refused(scorer, batch, options):
    with pytest.raises(InputError, match=r"Expected a column 'hypothesis', but the batch has 'id', 'reference'"):
        scorer({name: batch[name] for name in ("id", "reference")})
    with pytest.raises(InputError, match=r"without a column 'score'.*prefix="):
        scorer({**batch, "score": np.zeros(3)})
    with pytest.raises(InputError, match="at least one column of references"):
        RayScorer(references=(), **options)
    with pytest.raises(InputError, match=r"bertscore-f1-idf fits idf weights .* statistics="):
        RayScorer("bertscore-f1-idf", **options)


@pytest.mark.long
def test_two_actors_score_as_one_scorer(options):
    """In a process of its own: Ray brings threads, signals and warnings that are not for the tests' process."""
    code = (
        "import importlib.util, json, sys; "
        f"spec = importlib.util.spec_from_file_location('ray_data', {str(EXAMPLES / 'ray_data.py')!r}); "
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module); "
        f"print(json.dumps(module.main(1001, **{options!r})))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout.splitlines()[-1])
    assert [row["id"] for row in rows] == list(range(1001))
    alone = Scorer.from_pretrained("twmd", **options)
    expected = alone.score([row["hypothesis"] for row in rows], [row["reference"] for row in rows])
    np.testing.assert_allclose([row["score"] for row in rows], expected.scores, rtol=0, atol=1e-6)
