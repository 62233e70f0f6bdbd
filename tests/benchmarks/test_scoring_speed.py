"""The benchmark of scoring speed: what it counts beside the encoder's own work, and what its plots and pages say."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import textmover

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(load_script):
    return load_script("benchmarks/scoring_speed.py")


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


def test_each_size_is_measured_in_a_process_that_makes_its_own_pairs(script, monkeypatch, tmp_path, capsys):
    given = []

    def measured(name, pairs):
        given.append((name, pairs))
        return {"error": "Killed"} if pairs.count > 1000 else {"score": pairs.count / 500, "memory": 1000.0}

    monkeypatch.setattr(script, "measured", measured)
    monkeypatch.setattr(
        sys, "argv", ["scoring_speed.py", "scale", "--least", "2", "--output", str(tmp_path / "one.png")]
    )
    script.main()
    assert given == [("bertscore-f1 exact torch", script.Made(10**power, 8)) for power in (2, 3, 4)]
    assert "10000 Killed" in capsys.readouterr().out
    lines = (tmp_path / "one.csv").read_text(encoding="utf-8").splitlines()
    assert lines == [
        "line,pairs of 8 words,value",
        "pairs/s,100,500",
        "pairs/s,1000,500",
        "peak memory (GB),100,1.04858",
        "peak memory (GB),1000,1.04858",
    ]
    assert (tmp_path / "one.png").stat().st_size > 1000


def test_what_started_a_process_is_no_part_of_its_peak_memory(script):
    held = bytearray(b"x") * (600 << 20)  # which the system counts to whatever this process starts
    command = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
    command += "import scoring_speed; print(scoring_speed.peak_memory())"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert len(held) == 600 << 20
    assert 10 < float(found.stdout) < 500


def test_made_pairs_are_the_same_wherever_they_are_made(script, monkeypatch, tmp_path):
    read = []
    monkeypatch.setitem(script.CANDIDATES, "reader", lambda pairs: (read.append(pairs), (1.0, 2.0, [0.5], {}))[1])
    (tmp_path / "given.json").write_text('{"count": 3, "words": 4}', encoding="utf-8")
    script.measure("reader", str(tmp_path / "given.json"), str(tmp_path / "result.json"))
    assert read == [script.made_pairs(3, 4)]
    assert [len(text.split()) for side in read[0] for text in side] == [4] * 6
    assert '"scores": null' in (tmp_path / "result.json").read_text(encoding="utf-8")
