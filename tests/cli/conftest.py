"""What the tests of all commands share: a way to run one, its bad ends, and small inputs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.shared import Ended

from textmover.cli.main import main

PAIRS = [
    ("the cat sat on the street", "a cat sat in the street"),
    ("a dog", "the dog"),
    ("many people walk in the rain", "people walk under the rain"),
    ("she will sing a song", "he can not sing"),
]


Run = Callable[..., Ended]
Write = Callable[[str, list[str]], Path]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        try:
            code = main([str(one) for one in arguments])
        except SystemExit as stop:
            code = stop.code
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """Run a command on unusable input: exit code 2 and one line on standard error, which is returned."""

    def refused(*arguments: object) -> str:
        ended = run(*arguments)
        assert ended.code == 2, ended
        assert ended.out == ""
        assert ended.err.count("\n") == 1, ended.err
        assert ended.err.startswith("textmover: ")
        assert "Traceback" not in ended.err
        return ended.err

    return refused


@pytest.fixture
def judged(run: Run) -> Callable[..., list[dict]]:
    """What ``evaluate`` says of each set, as JSON."""
    return lambda *arguments: json.loads(run("evaluate", *arguments, "--format", "json").ok().out)["sets"]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write lines into a file of the folder that commands run in."""

    def write(name: str, lines: list[str]) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def pairs() -> list[tuple[str, str]]:
    """Hypotheses with their references."""
    return PAIRS


@pytest.fixture
def texts(write: Write) -> tuple[Path, Path]:
    """The pairs as two files of one text a line."""
    return write("hyp.txt", [one for one, _ in PAIRS]), write("ref.txt", [one for _, one in PAIRS])


@pytest.fixture(scope="session")
def checkpoint(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `textmover export` could have written."""
    from textmover.scoring import load_metric, save_checkpoint

    metric = load_metric("twmd", encoder=str(tiny_encoder))
    return save_checkpoint(metric, tmp_path_factory.mktemp("checkpoint") / "metric", card="# card\n")


@pytest.fixture
def after_shards(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has something happen behind so many shards, once."""
    from textmover.runs.shards import streaming

    def after_shards(shards: int, happen: Callable[[], object]) -> None:
        done, original = [], streaming.score_shard

        def score_shard(*given: object, **options: object) -> object:
            done.append(given)
            if len(done) == shards + 1:
                happen()
            return original(*given, **options)

        monkeypatch.setattr(streaming, "score_shard", score_shard)

    return after_shards
