"""What the tests of scoring share."""

import logging

import pytest

from textmover.scoring import Scorer


@pytest.fixture(scope="session")
def load_tiny(tiny_encoder):
    """Loads a preset on the tiny encoder, which has three layers to join; RoMe does without parser and network."""

    def load(name: str, **options) -> Scorer:
        fields = {"last_layers": 3} if name.startswith("moverscore-w") or name == "moverscore-smd" else {}
        if name == "rome":
            fields = {"scorer": "mean", "parser": "none", "features": ("semantic",)}
        fields = {"encoder": str(tiny_encoder), "device": "cpu", "backend": "torch", **fields, **options}
        return Scorer.from_pretrained(name, **fields)

    return load


@pytest.fixture
def logged(caplog):
    """Gives what the package itself has logged; without a level, what is seen where nobody has set up logging."""

    def logged(level: int = logging.WARNING) -> list[str]:
        ours = [one for one in caplog.records if one.name.startswith("textmover")]
        return [one.getMessage() for one in ours if one.levelno >= level]

    return logged
