"""Work of child processes in tests; they import it by name, as tests are not theirs to import.

python child_jobs.py ENCODER BACKEND METHOD    score, then in a child; prints mean and signature of child and parent
"""

import json
import multiprocessing
import sys

TEXTS = ["the small dog ran home", "she will buy a book"] * 20, ["a little dog runs home", "she sold two books"] * 20


def score(scorer, hypotheses, references, answers):
    """Score in a child, and put mean and signature into a queue."""
    found = scorer.score(hypotheses, references)
    answers.put((found.mean, str(found.signature)))


def main(encoder, backend, method):
    """Load a scorer, score with it, and have a child score with it."""
    from textmover.scoring import Scorer

    scorer = Scorer.from_pretrained("twmd", encoder=encoder, device="cpu", backend=backend)
    scorer.score(["before", *TEXTS[0]], ["and after", *TEXTS[1]])
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
