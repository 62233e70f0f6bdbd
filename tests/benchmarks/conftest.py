"""What tests of benchmarks share: the script that a file is named after, and runs of it."""

import sys

import pytest


@pytest.fixture(scope="module")
def script(load_script, request):
    return load_script(f"benchmarks/{request.path.stem.removeprefix('test_')}.py")


@pytest.fixture
def run(script, monkeypatch):
    """Runs the script with arguments."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [script.__name__, *map(str, arguments)])
        return script.main()

    return run
