"""A scorer on the tiny encoder."""

from pathlib import Path

import pytest

from textmover import Scorer


@pytest.fixture(scope="session")
def tiny_scorer(tiny_encoder: Path) -> Scorer:
    return Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", backend="torch")
