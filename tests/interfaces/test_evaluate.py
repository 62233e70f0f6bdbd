import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from textmover import InputError
from textmover.interfaces.evaluate import EvaluationModule, load

HYPOTHESES = ["the cat sat on the street", "a dog", "she will sing"]
REFERENCES = [["a cat sat in the street"], ["the dog", "a dog"], ["she can not sing", "he can sing"]]
FOLDER = Path(__file__).parents[2] / "examples" / "textmover_metric"


@pytest.fixture
def module(tiny_scorer):
    return load(tiny_scorer)


def test_the_numbers_are_the_scorer_s(module, tiny_scorer):
    expected = tiny_scorer.score(HYPOTHESES, REFERENCES)
    found = module.compute(predictions=HYPOTHESES, references=REFERENCES)
    assert found["score"] == expected.mean
    assert found["scores"] == expected.scores.tolist()
    assert found["f1"] == expected.f.tolist()
    assert (found["precision"], found["recall"]) == (expected.precision.tolist(), expected.recall.tolist())
    assert found["signature"] == found["hashcode"] == str(expected.signature)
    assert json.loads(json.dumps(found)) == found
    assert module(predictions=HYPOTHESES, references=REFERENCES) == found


def test_added_one_by_one_in_batches_and_at_the_end(module):
    expected = module.compute(predictions=HYPOTHESES, references=REFERENCES)
    module.add(prediction=HYPOTHESES[0], reference=REFERENCES[0])
    module.add_batch(predictions=HYPOTHESES[1:2], references=REFERENCES[1:2])
    assert module.compute(predictions=HYPOTHESES[2:], references=REFERENCES[2:]) == expected
    with pytest.raises(InputError, match="Expected predictions, but got none"):
        module.compute()  # nothing is left of it


@pytest.mark.parametrize("kind", [tuple, np.array, lambda texts: iter(list(texts))])
def test_lists_of_every_kind(module, kind):
    flat = [texts[0] for texts in REFERENCES]
    expected = module.compute(predictions=HYPOTHESES, references=flat)
    assert module.compute(predictions=kind(HYPOTHESES), references=kind(flat)) == expected


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"predictions": ["a"], "references": ["a", "b"]}, InputError, "as many references as hypotheses"),
        ({"predictions": ["a"], "references": [[]]}, InputError, "at least one reference"),
        ({"predictions": ["a"]}, InputError, "one side alone"),
        ({"predictions": [None], "references": ["a"]}, TypeError, "texts to be strings, but got NoneType"),
        ({"predictions": {"a": 1}, "references": ["a"]}, TypeError, "predictions to be a text or a list"),
        ({"predictions": [], "references": []}, InputError, "Expected predictions, but got none"),
    ],
)
def test_bad_input_leaves_nothing_behind(module, given, error, message):
    with pytest.raises(error, match=message):
        module.compute(**given)
    with pytest.raises(InputError, match="got none"):
        module.compute()


@pytest.mark.parametrize("given", [{}, {"predictions": HYPOTHESES[2:], "references": REFERENCES[2:]}])
def test_added_texts_outlive_a_failure_and_those_of_the_call_do_not(module, monkeypatch, given):
    expected = module.compute(predictions=HYPOTHESES, references=REFERENCES)
    module.add_batch(predictions=HYPOTHESES[:2], references=REFERENCES[:2])
    with monkeypatch.context() as patch:
        patch.setattr(module.scorer, "score_fitted", out_of_memory)
        with pytest.raises(RuntimeError, match="out of memory"):
            module.compute(**given)
    assert module.compute(predictions=HYPOTHESES[2:], references=REFERENCES[2:]) == expected
    with pytest.raises(InputError, match="got none"):
        module.compute()


def out_of_memory(*_, **__):
    raise RuntimeError("out of memory")


def test_a_reference_is_needed(module):
    with pytest.raises(InputError, match="one side alone"):
        module.add(prediction="a")


def test_a_metric_without_sides_has_a_score_alone(tiny_encoder):
    found = EvaluationModule("wmd", encoder=str(tiny_encoder), backend="torch").compute(
        predictions=["a cat"], references=["a dog"]
    )
    assert set(found) >= {"score", "scores", "signature", "hashcode"}


def test_features_are_those_of_datasets(module):
    assert [sorted(one) for one in module.features] == [["predictions", "references"]] * 2
    assert module.module_type == "metric"
    assert "predictions" in module.inputs_description


REAL = """
import json, sys
import evaluate
from textmover import Scorer
from textmover.interfaces.evaluate import load

texts, references, folder, encoder, many = json.loads(sys.argv[1])
scorer = Scorer.from_pretrained("twmd", encoder=encoder, backend="torch", device="cpu")
found = evaluate.combine([load(scorer), load(scorer, name="again")]).compute(predictions=texts, references=references)
assert found["textmover_score"] == found["again_score"], found
one_by_one = evaluate.combine([load(scorer)])
for text, wanted in zip(texts, references):
    one_by_one.add(text, wanted)
assert one_by_one.compute()["score"] == found["again_score"]
if folder:
    module = evaluate.load(folder, "twmd")
    module.module.scorer = scorer  # the default encoder has been loaded; these are its numbers without
    given = module.compute(predictions=texts, references=references)
    assert given["scores"] == found["again_scores"], given
    module.add_batch(predictions=texts, references=[one[0] for one in references])
    assert len(module.compute()["scores"]) == len(texts)
    both = Scorer.from_pretrained("twmd", encoder=many, backend="torch", device="cpu", mode="both", fallback=True)
    module.module.scorer, sources = both, texts[::-1]
    for given in ({"references": references}, {}):
        found = module.compute(predictions=texts, sources=sources, **given)["scores"]
        assert found == both.score(texts, given.get("references"), sources).scores.tolist(), found
print("as expected")
"""


@pytest.mark.slow
def test_the_real_package_loads_the_module_and_combines_ours(
    embedded, tiny_encoder, tiny_multilingual, tmp_path, programs
):
    """From another folder, since the root of the project has a file `evaluate.py`."""
    (tmp_path / "real.py").write_text(REAL, encoding="utf-8")
    given = json.dumps([HYPOTHESES, REFERENCES, *map(str, (FOLDER, tiny_encoder, tiny_multilingual))])
    offline = {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    ran = subprocess.run(
        [programs / "python", "real.py", given], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, **offline, "XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert ran.stdout.endswith("as expected\n"), ran.stderr[-2000:]
