"""Work of child processes in tests; they import it by name, as tests are not theirs to import.

python child_jobs.py ENCODER BACKEND METHOD    score, then in a child; prints mean and signature of child and parent
"""

import gc
import json
import multiprocessing
import sys
import threading

TEXTS = ["the small dog ran home", "she will buy a book"] * 20, ["a little dog runs home", "she sold two books"] * 20


def score(scorer, hypotheses, references, answers):
    """Score in a child, and put mean and signature into a queue."""
    gc.collect()
    found = scorer.score(hypotheses, references)
    answers.put((found.mean, str(found.signature)))


class Holder:
    """Garbage that only the collector frees."""

    def __init__(self, held):
        self.held, self.me = held, self


def leave_garbage():
    """Leave a compiled model of the program's own behind, which has computed."""
    import numpy as np
    import openvino
    from openvino import opset13

    given = opset13.parameter([-1, 8], np.float32)
    model = openvino.Model([opset13.relu(given)], [given], "own")
    compiled = openvino.Core().compile_model(model, "CPU", {"NUM_STREAMS": 2})
    compiled([np.ones((4, 8), np.float32)])
    Holder(compiled)


def half_made(scorer):
    """Start a thread that reads the graph of a scorer's runner again, and stop it in the middle."""
    runner = scorer.metric.encoder.runner
    reading = threading.Event()

    def stop(*_):
        reading.set()
        threading.Event().wait()

    slow = type("Slow", (type(runner),), {"_read": stop, "_open": stop})
    threading.Thread(target=slow, args=(runner.folder, "exact"), daemon=True).start()
    reading.wait()


def main(encoder, backend, method):
    """Load a scorer, score with it, and have a child score with it."""
    from textmover.scoring import Scorer

    scorer = Scorer.from_pretrained("twmd", encoder=encoder, device="cpu", backend=backend)
    scorer.score(["before", *TEXTS[0]], ["and after", *TEXTS[1]])
    gc.disable()  # the garbage is to be there when the child starts
    if backend == "openvino":
        leave_garbage()
    half_made(scorer)
    context = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    child = context.Process(target=score, args=(scorer, *TEXTS, answers))
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
        sys.exit("the child hangs")
    found = scorer.score(*TEXTS)
    sys.stdout.write(json.dumps([answers.get(), (found.mean, str(found.signature))]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
