"""A metric that is called as those of the Hugging Face package `evaluate` are, which need not be installed.

    python examples/evaluate_style.py

`examples/textmover_metric` is the other way round: a module that `evaluate.load` loads.
"""

from __future__ import annotations

from typing import Any

from textmover.interfaces.evaluate import load

BATCHES = [
    (["There sat a cat on the mat."], [["A cat was sitting on the mat.", "On the mat sat a cat."]]),
    (["It rained all day.", "He has gone home."], [["It rained the whole day."], ["He went home.", "He is at home."]]),
]


def main(model: str = "twmd", **options: Any) -> dict[str, Any]:
    """Add batches as an evaluation loop would, and score them all."""
    metric = load(model, **options)
    for predictions, references in BATCHES:
        metric.add_batch(predictions=predictions, references=references)
    found = metric.compute()
    print(f"{found['score']:.3f}", [round(one, 3) for one in found["scores"]])
    print(found["signature"])
    return found


if __name__ == "__main__":
    main()
