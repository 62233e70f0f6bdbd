"""What the tests of the page share: a folder with texts, the server as users start it, and a browser."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

WATCH = """
import os, socket
def watched(name):
    original = getattr(socket.socket, name)
    def connect(self, address):
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(("127.", "::1", "localhost")):
            with open(os.environ["WATCHED"], "a") as stream:
                stream.write(f"{address}\\n")
        return original(self, address)
    setattr(socket.socket, name, connect)
watched("connect")
watched("connect_ex")
"""
"""Notes where the server connects to; Python runs it before anything else."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with ten texts to rate."""
    rows = [
        {"id": f"i{number}", "hypothesis": f"The cat number {number} sat there.", "reference": f"Cat {number} sat."}
        for number in range(10)
    ]
    place = tmp_path / "project"
    place.mkdir()
    (place / "items.json").write_text(json.dumps(rows), encoding="utf-8")
    return place


class Server:
    """``textmover app``, started by a command."""

    def __init__(
        self, program: list[str], folder: Path, watched: Path, *options: str, port: int = 0, **how: object
    ) -> None:
        home = watched.parent / "home"
        (home / "site").mkdir(parents=True, exist_ok=True)
        (home / "site" / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
        self.watched = watched
        environment = {**os.environ, "PYTHONPATH": str(home / "site"), "WATCHED": str(watched), "TMPDIR": str(home)}
        command = [*program, "app", str(folder), "--quiet", "--no-browser"]
        self.errors = (home / "stderr").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [*command, "--port", str(port), *options],
            stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment, **how,
        )  # fmt: skip
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.said()

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def said(self) -> str:
        """What stands on standard error."""
        self.errors.flush()
        return Path(self.errors.name).read_text(encoding="utf-8")

    def end(self, with_signal: signal.Signals = signal.SIGINT) -> int:
        """End it; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        code = self.process.wait(30)
        self.process.stdout.close()
        self.errors.close()
        return code


@pytest.fixture
def serve(tmp_path: Path, programs: Path) -> Iterator:
    """Start servers, which end with the test; none of them may have asked for anything elsewhere.

    With ``own``, it is a process that imports everything itself, and whose number is that of the server.
    """
    started: list[Server] = []

    def start(folder: Path, *options: str, own: bool = False, **how: object) -> Server:
        program = [sys.executable, "-m", "textmover"] if own else [str(programs / "textmover")]
        started.append(Server(program, folder, tmp_path / "watched", *options, **how))
        return started[-1]

    yield start
    for one in started:
        if not one.errors.closed:
            one.end(signal.SIGKILL)
    assert not (tmp_path / "watched").exists(), (tmp_path / "watched").read_text()


def until(what, seconds: float = 30.0):
    """What a function gives once it gives something, asked again and again."""
    from selenium.common.exceptions import WebDriverException

    end = time.monotonic() + seconds
    problem: object = None
    while time.monotonic() < end:
        try:
            found = what()
            if found:
                return found
        except (WebDriverException, IndexError) as error:
            problem = error
        time.sleep(0.05)
    raise AssertionError(f"Expected this to become true within {seconds} seconds, but it did not ({problem}).")


@pytest.fixture
def wait():
    """Waits until something is so."""
    return until


@pytest.fixture(scope="session")
def checkpoint(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metric over the tiny encoder, as a folder."""
    from textmover.scoring import load_metric, save_checkpoint

    metric = load_metric("twmd", encoder=str(tiny_encoder))
    return save_checkpoint(metric, tmp_path_factory.mktemp("checkpoint") / "tiny", card="# card\n")
