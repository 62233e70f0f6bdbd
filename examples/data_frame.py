"""Scores as a column of a pandas data frame.

pandas is not a dependency: ``pip install pandas``.

    python examples/data_frame.py
"""

from __future__ import annotations

from typing import Any

import pandas as pd

import textmover.interfaces.pandas  # noqa: F401  registers df.textmover
from textmover import Scorer


def main(model: str = "twmd", **options: Any) -> pd.DataFrame:
    """Score two systems, and take their means by domain."""
    frame = pd.DataFrame(
        {
            "domain": ["news", "news", "chat"],
            "gold": ["A cat was sitting on the mat.", "It rained the whole day.", "He went home."],
            "ours": ["There sat a cat on the mat.", "It rained all day.", "He has gone home."],
            "theirs": ["A dog ate the mat.", "All day it rained.", "He is at home."],
        },
        index=["a", "b", "c"],
    )
    scorer = Scorer.from_pretrained(model, **options)  # loaded once for both
    for system in ("ours", "theirs"):
        frame[f"{system} score"] = frame.textmover.score(hypothesis=system, reference="gold", model=scorer)
    print(frame.groupby("domain")[["ours score", "theirs score"]].mean().round(3))
    return frame


if __name__ == "__main__":
    main()
