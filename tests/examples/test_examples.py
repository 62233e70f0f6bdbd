import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_differentiable_metric_learns_that_a_negation_is_bad(load_script, embedded):
    before, after = load_script("examples/differentiable_metric.py").main(steps=4)
    assert before[0] < before[1], "untrained, the negation looks closer than the paraphrase"
    assert after[0] > after[1]


def test_a_generator_learns_through_the_metric(load_script, embedded):
    before, after = load_script("examples/train_a_generator.py").main(steps=15)
    assert max(before) < 0.3 < 0.6 < min(after)


@pytest.mark.slow
def test_the_generator_is_judged_in_its_validation_step(load_script, embedded):
    before, after = load_script("examples/validation_step.py").main(epochs=12)
    assert 0 <= before < after <= 1


def test_the_style_of_evaluate(load_script, tiny_encoder):
    found = load_script("examples/evaluate_style.py").main(encoder=str(tiny_encoder), backend="torch")
    assert len(found["scores"]) == 3
    assert found["score"] == pytest.approx(sum(found["scores"]) / 3)


def test_scores_in_a_data_frame(load_script, tiny_encoder):
    frame = load_script("examples/data_frame.py").main(encoder=str(tiny_encoder), backend="torch")
    assert list(frame.columns[-2:]) == ["ours score", "theirs score"]
    assert frame.notna().all(axis=None)


@pytest.mark.slow
def test_a_trainer_of_hugging_face_is_judged_by_what_it_generates(load_script, embedded):
    before, after = load_script("examples/hf_trainer.py").main()
    assert 0 <= before < 0.3 < after <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")
def test_the_notebook_runs_and_its_results_show_themselves(embedded, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    notebook = json.loads(Path("first_steps.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = ast.Expression(tree.body.pop().value)
            exec(compile(tree, "first_steps.ipynb", "exec"), names)
            shown.append(eval(compile(last, "first_steps.ipynb", "eval"), names)._repr_html_())
    assert ["<table>" in one or "<iframe" in one for one in shown] == [True, True, True, True, False, True]
    assert "200 rows" in shown[4]  # of a table without problems
    assert all(not cell.get("outputs") for cell in notebook["cells"])
