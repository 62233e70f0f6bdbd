"""What the tests of the page share: a folder with texts, the server as users start it, and a browser."""

import contextlib
import json
import os
import shutil
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


@pytest.fixture(scope="session")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """Windows of browsers that note all that they ask for, by number; each starts once and serves all tests."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    opened: list[webdriver.Chrome] = []

    def window(number: int) -> webdriver.Chrome:
        if number == len(opened):
            options = webdriver.ChromeOptions()
            options.binary_location = binary
            for one in (
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-sync", "--disable-background-networking", "--disable-component-update",
                f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ):  # fmt: skip
                options.add_argument(one)
            options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
            opened.append(webdriver.Chrome(options=options, service=Service(driver)))
        return opened[number]

    yield window
    for one in opened:
        with contextlib.suppress(OSError):
            one.quit()


@pytest.fixture
def browse(windows) -> Iterator:
    """Open addresses, each in a window of its own that remembers nothing of earlier tests."""
    used = []

    def opened(url: str, width: int = 1280, height: int = 900):
        window = windows(len(used))
        used.append(window)
        window.set_window_size(width, height)
        window.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": url.rstrip("/"), "storageTypes": "all"})
        for log in ("performance", "browser"):
            window.get_log(log)  # what it holds is gone with that
        window.get(url)
        return window

    yield opened
    for one in used:
        one.get("about:blank")


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
