"""The benchmark of scoring speed: what it counts beside the encoder's own work, and what its plots and pages say."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import textmover

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("scoring_speed", ROOT / "benchmarks" / "scoring_speed.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Warming:
    """A scorer whose first call takes long, and which is fast as long as it remembers its texts."""

    made: ClassVar[list["Warming"]] = []

    def __init__(self, clock):
        self.clock, self.calls, self.known = clock, 0, set()
        self.signature = SimpleNamespace(entries={"backend": "torch"})
        self.made.append(self)

    def clear_cache(self):
        self.known.clear()

    def score(self, hypotheses, references):
        texts = {*hypotheses, *references}
        self.clock.now += (0 if self.calls else 1000) + len(texts - self.known)
        self.calls += 1
        self.known |= texts
        return SimpleNamespace(scores=np.zeros(len(hypotheses)))


def test_neither_first_calls_nor_kept_texts_count_where_systems_share_references(script, monkeypatch, tmp_path):
    clock = SimpleNamespace(now=0.0)
    Warming.made.clear()
    monkeypatch.setattr(script.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(textmover.Scorer, "from_pretrained", lambda *_, **__: Warming(clock))
    monkeypatch.setattr(sys, "argv", ["scoring_speed.py", "systems", "--segments", "20", "--repetitions", "3"])
    sys.argv += ["--output", str(tmp_path / "systems.md")]
    script.main()
    assert [one.calls for one in Warming.made] == [4] * (script.SYSTEMS + 1)
    said = (tmp_path / "systems.md").read_text(encoding="utf-8")
    assert "Apart they encode 399 texts, in one call 218 distinct ones: 1.83 times" in said
    assert "own: 399.0 s. In one call: 218.0 s, 1.83 times as fast (1.83 to 1.83; medians of 3," in said
