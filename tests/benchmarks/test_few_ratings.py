"""Trainings on a few drawn ratings: what is drawn, what is kept, and the row that comes of it."""

import csv
import json
import random
import subprocess

import pytest

from textmover.types import Segment

WORDS = ["cat", "dog", "sat", "ran", "red", "old", "mat"]


def segments(count: int, seed: int) -> list[Segment]:
    """Sentences, the same with some words exchanged, and how many have stayed."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        reference = [rng.choice(WORDS) for _ in range(6)]
        hypothesis = [one if rng.random() < 0.6 else rng.choice(WORDS) for one in reference]
        score = float(sum(one == other for one, other in zip(hypothesis, reference, strict=True)))
        texts, pair = (" ".join(hypothesis), (" ".join(reference),)), ("a-b", "c-d")[number % 2]
        found.append(Segment(*texts, score=score, groups={"lp": pair}))
    return found


@pytest.fixture
def small(script, run, tmp_path, tiny_encoder, monkeypatch):
    """The benchmark on made-up ratings over the tiny encoder."""
    monkeypatch.setattr(script, "parts", lambda: (segments(60, 0), segments(30, 1)))
    changes = {
        "model.init_args.overrides.encoder": str(tiny_encoder),
        "model.init_args.lora": None,
        "trainer.max_epochs": 1,
        "adapter": None,
    }
    monkeypatch.setattr(script, "RECIPES", {"small": changes})

    def rows(*arguments: str) -> list[dict[str, str]]:
        run("--output", tmp_path / "out", *arguments)
        return list(csv.DictReader((tmp_path / "out/few_ratings.csv").read_text().splitlines()))

    return rows


@pytest.mark.slow
def test_a_row_is_what_training_said(small, tmp_path, monkeypatch):
    (row,) = small("--sizes", "20", "--seeds", "3")
    assert (row["ratings"], row["recipe"], row["seed"], row["segments"]) == ("20", "small", "3", "30")
    folder = tmp_path / "out" / "small,_20,_seed_3"
    card = (folder / "metric" / "README.md").read_text()
    assert f"| 30 | pearson | {row['before']} | {row['after']} | {row['interval']} | {row['gain']} |" in card
    drawn = [json.loads(line) for line in (folder / "ratings.jsonl").read_text().splitlines()]
    assert [one["hypothesis"] for one in drawn] == [
        one.hypothesis for one in random.Random(3).sample(segments(60, 0), 20)
    ]
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("run again"))
    assert small("--sizes", "20", "--seeds", "3") == [row]


def test_a_card_without_agreement_ends_it(script, tmp_path, monkeypatch):
    def trained(*_, **__):
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "metric").mkdir()
        (tmp_path / "metric" / "README.md").write_text("# A metric\n")

    monkeypatch.setattr(subprocess, "run", trained)
    with pytest.raises(SystemExit, match=r"metric/README\.md, but found none"):
        script.train(tmp_path, tmp_path / "a", tmp_path / "b", 1, {})
