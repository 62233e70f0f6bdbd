"""Scorers that are gone, and pairs that were scored, hold nothing."""

import gc

import pytest

from textmover.scoring import Scorer


@pytest.mark.slow
def test_memory_threads_and_files_stay_level(script, tiny_encoder):

    def made(count):
        for _ in range(count):
            scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", backend="torch")
            for _ in scorer.score_stream(script.stream(500, 100), shard_size=100):
                pass
        gc.collect()
        return script.resources()

    before, after = made(5), made(15)
    assert after[1:] == before[1:]
    assert after[0] - before[0] < 20
