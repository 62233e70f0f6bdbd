import random
from pathlib import Path

import pytest

NOUNS = ["harbour", "ladder", "soup", "garden", "letter", "bridge", "candle", "winter", "kitchen", "river"]
VERBS = ["was painted", "has been sold", "will arrive", "is cold", "had 12 visitors"]


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    rng = random.Random(1)
    made: dict[str, None] = {}
    while len(made) < 200:
        first, second = rng.sample(NOUNS, 2)
        made[f"The {first} near the {second} {rng.choice(VERBS)} on the {rng.choice(NOUNS)}."] = None
    return list(made)


@pytest.fixture
def files(tmp_path: Path, sentences: list[str]) -> list[str]:
    """A file of 200 sentences, with one of them again and a short one."""
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join([*sentences, sentences[0], "Short."]) + "\n")
    return [str(path)]
