"""A scorer that was loaded, and has scored, in processes that start from it."""

import json
import multiprocessing
import subprocess
import sys
import threading
import time

import pytest

import child_jobs
from textmover.scoring import Scorer

HYPOTHESES = ["the small dog ran home", "she will buy a book", "tea"] * 20
REFERENCES = ["a little dog runs home", "she sold two books", "warm tea and a long walk"] * 20
LIMIT = 60  # seconds that a child may take; one that waits for threads of its parent never ends


@pytest.fixture(autouse=True)
def two_threads(threads):
    threads(2)


def texts(word):
    return [f"{text} {word}" for text in HYPOTHESES], REFERENCES


def scored_in_a_child(scorer, method):
    context = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    child = context.Process(target=child_jobs.score, args=(scorer, *texts("now"), answers))
    child.start()
    child.join(LIMIT)
    if child.is_alive():
        child.kill()
        child.join()
        pytest.fail(f"Expected the child to score within {LIMIT} s, but it hangs.")
    assert child.exitcode == 0
    return answers.get()


@pytest.fixture
def scorer(request, tiny_encoder, real_backends):
    backend = getattr(request, "param", "torch")
    if backend != "torch":
        pytest.importorskip(backend)
    made = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", backend=backend)
    made.score(*texts("before"))
    return made


@pytest.mark.parametrize(
    ("scorer", "method"),
    [
        ("torch", "fork"),
        pytest.param("torch", "spawn", marks=pytest.mark.slow),
        pytest.param("torch", "forkserver", marks=pytest.mark.long),  # pickles as spawn does
    ],
    indirect=["scorer"],
)
def test_a_loaded_scorer_scores_in_a_child(scorer, method):
    value, signature = scored_in_a_child(scorer, method)
    expected = scorer.score(*texts("now"))
    assert value == pytest.approx(expected.mean, abs=1e-6)
    assert signature == str(expected.signature)


@pytest.mark.parametrize(
    ("backend", "method"),
    [
        pytest.param("onnxruntime", "fork", marks=pytest.mark.slow),
        pytest.param("openvino", "fork", marks=pytest.mark.long),
        *(pytest.param(backend, "spawn", marks=pytest.mark.long) for backend in ("openvino", "onnxruntime")),
    ],
)
def test_a_back_end_scores_in_a_child(backend, method, tiny_encoder, real_backends):
    """In a program of its own, with garbage of OpenVINO's and a runner that another thread is making."""
    pytest.importorskip(backend)
    program = [sys.executable, child_jobs.__file__, tiny_encoder, backend, method]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=2 * LIMIT, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Exception ignored" not in ended.stderr
    (mean, signature), (expected, own) = json.loads(ended.stdout.splitlines()[-1])
    assert mean == pytest.approx(expected, abs=1e-6)
    assert signature == own
    assert f"backend:{backend}" in own


def test_a_child_waits_for_no_thread_that_scores_in_its_parent(scorer):
    expected = scorer.score(*texts("now")).mean
    held, leave = threading.Event(), threading.Event()

    def hold():
        with scorer.engine():
            held.set()
            leave.wait(LIMIT)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(LIMIT)
    try:
        assert scored_in_a_child(scorer, "fork")[0] == pytest.approx(expected, abs=1e-6)
    finally:
        leave.set()
        thread.join()


@pytest.mark.slow
def test_datasets_are_scored_in_several_processes(scorer):
    datasets = pytest.importorskip("datasets")
    hypotheses, references = texts("now")
    data = datasets.Dataset.from_dict({"hypothesis": hypotheses, "reference": references})
    started = time.monotonic()
    found = data.map(
        lambda rows: {"score": scorer.score(rows["hypothesis"], rows["reference"]).scores}, batched=True, num_proc=2
    )
    assert time.monotonic() - started < LIMIT
    assert list(found["score"]) == pytest.approx(scorer.score(hypotheses, references).scores.tolist(), abs=1e-6)
