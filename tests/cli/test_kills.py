"""SIGKILL at random moments: a command that is run again ends as an unbroken run does, and leaves no other file."""

import csv
import functools
import io
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from runs import recipe, write_ratings, write_recipe

WORDS = ["a", "the", "cat", "dog", "street", "people", "rain", "walk", "sing", "song", "red", "never", "old", "house"]
PATIENCE = 120
"""Seconds after which a command is taken to hang."""

COMMANDS = {
    "score": "score -i h.txt r.txt --model {metric} --shard-size 16 --output s.txt --resume",
    "evaluate": "evaluate --data ratings.tsv --model twmd --model bertscore-f1 --encoder {encoder} --baselines chrf "
    "--samples 300 --permutations 300 --report page",
    "search": "search --config recipe.yaml --space space.yaml --trials 3 --output out --resume",
    "sweep": "sweep --data ratings.tsv --field temperature=0.01,0.02,0.05,0.1 --field layer=1,2,3 --samples 100 "
    "--encoder {encoder} --output grid",
    "mbr": "mbr -i h.txt --num-candidates 50 --model {metric} --output chosen.tsv --resume",
    "errors": "errors -i h.txt r.txt --model {metric} --output marked.jsonl --resume",
    "robustness": "robustness -i r.txt --types drop,shuffle,repeat --model {metric} --baselines chrf --samples 100 "
    "--output page --keep kept.tsv",
    "export": "export {metric} exported --adapter 2 --overwrite",
}
"""Commands that are run until they end; whatever was killed before, they go on or start again."""

WATCH = """
import sys, threading, time
def watch(main=threading.get_ident()):
    with open({file!r}, "w") as stream:
        while True:
            frame = sys._current_frames()[main]
            while frame is not None and "/textmover/" not in frame.f_code.co_filename:
                frame = frame.f_back
            if frame is not None:
                code = frame.f_code
                place = code.co_filename.rpartition("/textmover/")[2]
                print(f"in {{code.co_name}} ({{place}}, line {{frame.f_lineno}})", file=stream, flush=True)
            time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
"""
"""Writes down where a process is, which nobody can ask a killed one."""


def write_inputs(folder: Path, encoder: Path) -> None:
    for seed, name in enumerate(("h.txt", "r.txt")):
        draw = random.Random(seed)
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(200)]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    ratings = write_ratings(folder / "ratings.tsv")
    config = recipe(Path("mine"), encoder, Path(ratings.name), trainer__max_epochs=1)
    write_recipe(folder / "recipe.yaml", config)
    space = {"model.init_args.optimizer.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}}
    space |= {"model.init_args.overrides.temperature": {"choices": [0.05, 0.1]}}
    (folder / "space.yaml").write_text(yaml.safe_dump(space), encoding="utf-8")


def trials(file: Path) -> list[tuple]:
    """What the database of a search holds, but for the times."""
    with sqlite3.connect(file) as database:
        tables = ("trials", "trial_params", "trial_values", "trial_intermediate_values")
        rows = [row for name in tables for row in database.execute(f"select * from {name}")]
    database.close()
    return [tuple(cell for cell in row if not re.match(r"\d{4}-\d\d-\d\d ", str(cell))) for row in rows]


def without_seconds(file: Path) -> list[dict[str, str]]:
    rows = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))
    return [{name: cell for name, cell in row.items() if name != "seconds"} for row in rows]


READ: dict[str, Callable[[Path], object]] = {"search.db": trials, "trials.csv": without_seconds}
"""How files are compared that hold times."""


def files(folder: Path) -> dict[str, object]:
    return {path.relative_to(folder).as_posix(): READ.get(path.name, _bytes)(path) for path in found(folder)}


def found(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() or not any(path.iterdir()))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b"a folder"


@pytest.fixture(scope="module")
def start(programs, tiny_encoder, checkpoint, tmp_path_factory):
    """Begin a command in a folder with inputs of its own."""

    cache = tmp_path_factory.mktemp("cache")

    def start(command: str, folder: Path, **environment: str) -> subprocess.Popen:
        if not folder.exists():
            folder.mkdir()
            write_inputs(folder, tiny_encoder)
        arguments = COMMANDS[command].format(metric=checkpoint, encoder=tiny_encoder).split()
        own = {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(cache), **environment}
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([programs / "textmover", *arguments], cwd=folder, env={**os.environ, **own}, **how)

    return start


@pytest.fixture(scope="module")
def unbroken(start, tmp_path_factory):
    """The files of a command that nobody killed, and the seconds that it took."""

    @functools.cache
    def unbroken(command: str) -> tuple[dict[str, object], float]:
        folder, begun = tmp_path_factory.mktemp(command), time.monotonic()
        end(start(command, folder / "whole"))
        return files(folder / "whole"), time.monotonic() - begun

    return unbroken


def end(process: subprocess.Popen) -> None:
    with process:
        said = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 0, said


@pytest.mark.parametrize("kills", [pytest.param(1, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_run_again_ends_as_an_unbroken_one(start, unbroken, tmp_path, command, kills):
    whole, took = unbroken(command)
    draw, hits, places = random.Random(command), 0, tmp_path / "places"
    (tmp_path / "sitecustomize.py").write_text(WATCH.format(file=str(places)))
    for number in range(kills):
        folder, moment = tmp_path / f"{number}", draw.uniform(0, took)
        places.write_text("")
        with start(command, folder, PYTHONPATH=str(tmp_path)) as process:
            time.sleep(moment)
            process.kill()
            said = process.communicate(timeout=PATIENCE)[1]  # behind the end of the copy that does the work
        assert process.returncode in (0, -signal.SIGKILL), said
        seen = places.read_text().splitlines()
        where = "behind its end" if process.returncode == 0 else seen[-1] if seen else "before its first line"
        hits += where.startswith("in ")
        left = sorted({path.relative_to(folder).as_posix() for path in found(folder)} - set(whole))
        print(f"{command}: killed after {moment:.2f} of {took:.2f} s, {where}; left over: {left}")  # noqa: T201  the report
        end(start(command, folder))
        assert files(folder) == whole
    assert hits or kills == 1
