"""Named pipes and `<(...)` are read like standard input: once."""

import contextlib
import os
import subprocess
import threading

import pytest

from textmover.experiments.search.space import PARTS

COMMANDS = {
    "score": ("score", "-i"),
    "table": ("score", "--data-format", "jsonl", "--data"),
    "explain": ("explain", "-i"),
    "errors": ("errors", "-i"),
}


@pytest.fixture
def fifo(tmp_path):
    """Makes a named pipe; who waits for it in vain finds it empty after a while, so that no test hangs."""
    timers = []

    def let_go(made):
        os.close(os.open(made, os.O_RDWR))

    def fifo(name):
        made = tmp_path / name
        os.mkfifo(made)
        timers.append(threading.Timer(60, let_go, [made]))
        timers[-1].start()
        return made

    yield fifo
    for timer in timers:
        timer.cancel()


@pytest.fixture
def pipe(fifo):
    """Makes a named pipe that gives the bytes of a file, once."""
    writers = []

    def pipe(path):
        made = fifo(f"{path.name}.{len(writers)}")

        def write():
            with contextlib.suppress(BrokenPipeError), open(made, "wb") as stream:
                stream.write(path.read_bytes())

        writers.append((made, threading.Thread(target=write)))
        writers[-1][1].start()
        return made

    yield pipe
    for made, writer in writers:
        # Lets the writer go where nobody has read.
        os.close(os.open(made, os.O_RDONLY | os.O_NONBLOCK))
        writer.join(10)


@pytest.fixture
def encoded(tiny_encoder):
    return ("--encoder", tiny_encoder, "--device", "cpu")


def test_metrics_that_read_each_text_once_read_pipes(run, texts, pipe, encoded):
    expected = run("score", "-i", *texts, *encoded).ok()
    found = run("score", "-i", *map(pipe, texts), *encoded)
    assert (found.code, found.out) == (0, expected.out)
    with subprocess.Popen(["cat", texts[0]], stdout=subprocess.PIPE) as cat:  # as `<(cat hyp.txt)` is
        found = run("score", "-i", f"/dev/fd/{cat.stdout.fileno()}", texts[1], *encoded)
    assert (found.code, found.out) == (0, expected.out)
    command = ("score", "--model", "bertscore-f1-idf", *encoded, "--fit-on", texts[1], "-i", texts[0])
    expected = run(*command, texts[1])  # idf that is fitted elsewhere needs one reading
    found = run(*command, pipe(texts[1]))
    assert (found.code, found.out) == (0, expected.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_idf_is_never_fitted_on_what_is_read_once(refused, texts, write, pipe, encoded, command):
    table = write("t.jsonl", ['{"hypothesis": "a cat", "reference": "the cat"}'])
    *others, last = (table,) if command == "table" else texts
    given = pipe(last)
    said = refused(*COMMANDS[command], *others, given, "--model", "bertscore-f1-idf", *encoded)
    assert f"but got the pipe or device {given}, which can be read only once" in said
    assert "--statistics FILE" in said


def test_a_complete_result_is_not_compared_with_what_is_gone(run, refused, texts, pipe, encoded):
    command = ("score", "--model", "bertscore-f1-idf", *encoded, "--output", "s.txt", "-i", texts[0])
    assert run(*command, texts[1]).code == 0
    given = pipe(texts[1])
    assert f"the pipe or device {given}, which can be read only once" in refused(*command, given, "--resume")


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "-i", "p", "p"),
        ("score", "-i", "p", "r.txt", "--fit-on", "p", "--model", "twmd-b"),
        ("explain", "-i", "p", "p"),
        ("explain", "-i", "p", "r.txt", "--fit-on", "p", "--model", "twmd-b"),
        ("mbr", "-i", "p", "p"),
        ("mbr", "-i", "p", "--num-candidates", "2", "--fit-on", "p", "--model", "twmd-b"),
        ("mbr", "-i", "p", "--num-candidates", "2", "--sources", "p"),
        ("mbr", "-i", "r.txt", "--num-candidates", "1", "--sources", "p", "--fit-on", "p", "--model", "twmd-b"),
        ("fit-idf", "--data", "p", "p", "--output", "idf.safetensors"),
        ("mbr", "--data", "p", "--data-format", "jsonl", "--fit-on", "p", "--model", "twmd-b"),
        ("errors", "-i", "p", "r.txt", "--fit-on", "p", "--model", "twmd-b"),
        ("compare", "-t", "p", "r.txt", "-r", "r.txt", "--fit-on", "p", "--model", "twmd-b"),
        ("rank", "-t", "r.txt", "q.txt", "-r", "p", "--fit-on", "p", "--model", "twmd-b"),
        ("evaluate", "--data", "p", "--fit-on", "p", "--model", "twmd-b"),
        ("robustness", "-i", "p", "--fit-on", "p", "--model", "twmd-b"),
    ],
)
def test_what_is_read_once_is_named_once(refused, fifo, write, arguments):
    write("r.txt", ["a cat"])
    fifo("p")
    assert "the pipe or device p once, but got it twice: it can be read only once" in refused(*arguments)
    assert "standard input (-) once" in refused(*("-" if one == "p" else one for one in arguments))


@pytest.mark.parametrize("options", [("-i", "p", "r.txt"), ("-i", "r.txt", "r.txt", "--fit-on", "p")])
def test_several_processes_each_need_files(refused, fifo, write, monkeypatch, options):
    write("r.txt", ["a cat"])
    fifo("p")
    monkeypatch.setattr(subprocess, "Popen", None)  # by which Lightning starts them
    said = refused("score", *options, "--output", "s.txt", "--devices", 2)
    assert (
        "each of which reads them, but got the pipe or device p, which can be read only once: write it to a file first"
        in said
    )


def test_a_table_that_is_checked_is_a_file(refused, fifo):
    said = refused("check", fifo("ratings.tsv"))
    assert "ratings.tsv, which can be read only once: write it to a file first" in said


@pytest.mark.parametrize("command", [("score", "--data"), ("evaluate", "--baselines", "chrf", "--data")])
def test_parquet_is_never_waited_for_in_a_pipe(refused, fifo, command):
    fifo("p.parquet")
    assert "Parquet, which is read from its end, but got the pipe p.parquet: save it" in refused(*command, "p.parquet")


@pytest.mark.parametrize("part", [None, *PARTS[:3]])
def test_a_recipe_and_its_parts_are_files(refused, fifo, write, part):
    fifo("p.yaml")
    if part is not None:
        write("recipe.yaml", [f"{part}: p.yaml"])
    said = refused("train", "fit", "--config", "p.yaml" if part is None else "recipe.yaml")
    assert "p.yaml to be a file, as a recipe is read more than once, but got a pipe: save it" in said
