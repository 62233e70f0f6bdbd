"""Bytes in the place of standard input."""

import io
import sys

import pytest


@pytest.fixture
def piped(monkeypatch):
    def piped(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))

    return piped
