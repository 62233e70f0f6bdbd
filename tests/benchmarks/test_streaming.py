"""The benchmark of streams: what it makes, and that it tells a run killed and resumed from one that differs."""

import sys
from pathlib import Path

import pytest


def test_pairs_are_those_of_the_seed(script, tmp_path):
    made = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        made.append([path.read_text() for path in script.write_pairs(tmp_path / name, 40, seed)])
    assert made[0] == made[1] != made[2]
    hypotheses, references = (text.splitlines() for text in made[0])
    assert len(hypotheses) == len(references) == 40
    assert [len(text.split()) for text in hypotheses] == [len(text.split()) for text in references]
    assert {word for text in references for word in text.split()} <= set(script.WORDS)
    assert sum(one != other for one, other in zip(hypotheses, references, strict=True)) > 0


def test_every_word_is_a_token_of_the_encoder_with_random_weights(script, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(script.write_encoder(tmp_path))
    hypotheses, references = (path.read_text().splitlines() for path in script.write_pairs(tmp_path, 200, 0))
    for text in references:
        assert len(tokenizer(text).input_ids) == len(text.split()) + 2
        assert tokenizer.unk_token_id not in tokenizer(text).input_ids
    same = [a == b for x, y in zip(hypotheses, references, strict=True) for a, b in zip(x.split(), y.split())]  # noqa: B905
    assert 0.75 < sum(same) / len(same) < 0.85


def test_a_process_is_killed_behind_a_shard_or_left_alone(script, tmp_path):
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    (tmp_path / "_000000.json").touch()
    assert script.run(sleep, tmp_path, kill_behind=1).code == -9
    ended = script.run([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, kill_behind=2)
    assert (ended.code, ended.peak > 1e6) == (3, True)


@pytest.mark.long
@pytest.mark.parametrize("model", [(), ("--model", "bertscore-f1-idf")], ids=["default", "idf"])
def test_a_run_that_is_killed_ends_with_the_same_bytes(run, capfd, model):
    assert run("--pairs", 300, "--kills", 1, "--shard-size", 64, *model) == 0
    told = capfd.readouterr().out
    for part in ("unbroken: ", "killed: ", "of 5 shards kept", "bytes: identical", "peak memory"):
        assert part in told


@pytest.mark.long
def test_bytes_that_differ_are_told(script, run, monkeypatch, capfd):
    monkeypatch.setattr(script.filecmp, "cmp", lambda one, other, shallow: Path(one).read_bytes() == b"")
    assert run("--pairs", 20, "--kills", 0) == 1
    assert "bytes: DIFFERENT" in capfd.readouterr().out
