import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_differentiable_metric_learns_that_a_negation_is_bad(embedded):
    before, after = load("differentiable_metric").main(steps=4)
    assert before[0] < before[1], "untrained, the negation looks closer than the paraphrase"
    assert after[0] > after[1]


@pytest.mark.slow
def test_the_generator_is_judged_in_its_validation_step(embedded):
    before, after = load("validation_step").main(epochs=12)
    assert 0 <= before < after <= 1


def test_the_style_of_evaluate(tiny_encoder):
    found = load("evaluate_style").main(encoder=str(tiny_encoder), backend="torch")
    assert len(found["scores"]) == 3
    assert found["score"] == pytest.approx(sum(found["scores"]) / 3)


def test_scores_in_a_data_frame(tiny_encoder):
    frame = load("data_frame").main(encoder=str(tiny_encoder), backend="torch")
    assert list(frame.columns[-2:]) == ["ours score", "theirs score"]
    assert frame.notna().all(axis=None)


@pytest.mark.slow
def test_a_trainer_of_hugging_face_is_judged_by_what_it_generates(embedded):
    before, after = load("hf_trainer").main()
    assert 0 <= before < 0.3 < after <= 1
