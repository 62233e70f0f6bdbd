"""Metrics of surface overlap: the numbers of their packages, segment by segment."""

import importlib.metadata
import os
import signal
import sys

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from textmover.scoring.lexical import LEXICAL, lexical_pool, lexical_scores
from textmover.types import InputError

HYPOTHESES = ["The cat sat there.", "A dog, they say, barks loudly at night!", "", "no overlap whatsoever", "same same"]
REFERENCES = [
    ["There sat a cat."],
    ["They say a dog barks at night.", "A dog barks loudly at night, they say."],
    ["something"],
    ["completely different text"],
    ["same same"],
]


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("sentbleu", BLEU(effective_order=True)),
        ("chrf", CHRF(char_order=6, word_order=0, beta=2)),
        ("chrf++", CHRF(word_order=2)),
        ("ter", TER()),
    ],
)
def test_scores_and_settings_are_those_of_sacrebleu(name, metric):
    found = lexical_scores(name, HYPOTHESES, REFERENCES)
    expected = [metric.sentence_score(one, texts).score for one, texts in zip(HYPOTHESES, REFERENCES, strict=True)]
    np.testing.assert_array_equal(found.scores, expected)
    said = dict(part.split(":", 1) for part in metric.get_signature().format().split("|"))
    version = said.pop("version")
    assert found.signature.entries["package"] == f"sacrebleu-{version}"
    del said["nrefs"]
    assert said.items() <= {**found.signature.entries}.items()
    assert found.signature.entries["refs"] == "var"
    assert dict(found.counts) == {"empty": 1}
    assert dict(lexical_scores(name, ["\u200b"], [["a cat"]]).counts) == {"empty": 1}


def test_rouge_takes_the_best_reference_and_stems():
    found = lexical_scores("rouge-1", ["two cats barking"], [["a dog", "the cat barks twice"]])
    assert found.scores[0] == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    longest = lexical_scores("rouge-l", ["b a c d"], [["a b c d"]]).scores[0]
    assert longest == pytest.approx(3 / 4)
    assert lexical_scores("rouge-2", ["b a c d"], [["a b c d"]]).scores[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", LEXICAL)
def test_every_one_knows_better_from_worse_and_tells_progress(name):
    done = []
    hypotheses = ["the cat sat on the mat", "dogs bark"] * 50
    found = lexical_scores(name, hypotheses, [["the cat sat on a mat"]] * 100, done.append)
    better, worse = found.scores[:2].tolist()
    assert (better > worse) is LEXICAL[name].higher_is_better
    assert done == [64, 36]
    assert found.signature.entries["refs"] == "1"


@pytest.mark.long
def test_processes_give_what_one_process_gives():
    hypotheses, references = HYPOTHESES * 40, REFERENCES * 40
    done = []
    with lexical_pool(scores=len(hypotheses), processes=2) as pool:
        assert pool is None  # they would take longer to start than to work
    with lexical_pool(scores=1000, processes=2) as pool:
        for name in ("chrf", "rouge-l"):
            shared = lexical_scores(name, hypotheses, references, done.append, pool)
            alone = lexical_scores(name, hypotheses, references)
            np.testing.assert_array_equal(shared.scores, alone.scores)
            assert shared.signature == alone.signature
            assert shared.counts == alone.counts
        # Ctrl-C reaches all processes of a terminal; that of the user alone says so.
        assert pool.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN
        assert pool.submit(os.getpid).result() != os.getpid()
    assert sum(done) == 2 * len(hypotheses)


def test_a_process_that_ends_early_is_one_sentence():
    with (
        pytest.raises(InputError, match=r"one of them ended: call textmover behind `if __name__"),
        lexical_pool(1000, 2) as pool,
    ):
        pool.submit(os._exit, 1).result()


def test_an_unknown_name_and_a_missing_package_say_what_to_do(monkeypatch):
    with pytest.raises(InputError, match=r"to be sentbleu, chrf, .* but got 'bleu': choose one"):
        lexical_scores("bleu", ["a"], [["a"]])

    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(InputError, match=r"package rouge-score .*pip install \"textmover\[lexical\]\""):
        lexical_scores("rouge-l", ["a"], [["a"]])
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(InputError, match="not installed"):
        lexical_scores("rouge-l", ["a"], [["a"]])
