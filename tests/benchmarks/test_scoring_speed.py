"""The benchmark of scoring speed: what it counts beside the encoder's own work, and what its plots and pages say."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import textmover

ROOT = Path(__file__).resolve().parents[2]


def test_neither_first_calls_nor_kept_texts_count_where_systems_share_references(script, run, monkeypatch, tmp_path):
    clock, made = SimpleNamespace(now=0.0), []

    class Warming:
        """A scorer whose first call takes long, and which is fast as long as it remembers its texts."""

        def __init__(self):
            self.calls, self.known = 0, set()
            self.signature = SimpleNamespace(entries={"backend": "torch"})
            made.append(self)

        def clear_cache(self):
            self.known.clear()

        def score(self, hypotheses, references):
            texts = {*hypotheses, *references}
            clock.now += (0 if self.calls else 1000) + len(texts - self.known)
            self.calls += 1
            self.known |= texts
            return SimpleNamespace(scores=np.zeros(len(hypotheses)))

    monkeypatch.setattr(script.harness.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(textmover.Scorer, "from_pretrained", lambda *_, **__: Warming())
    run("systems", "--segments", 20, "--repetitions", 3, "--output", tmp_path / "systems.md")
    assert [one.calls for one in made] == [4] * (script.SYSTEMS + 1)
    said = (tmp_path / "systems.md").read_text(encoding="utf-8")
    assert "399 apart, 218 together, 1.83 times as many" in said
    assert "| apart | 399.00 (399.00 to 399.00) |" in said
    assert "| together | 218.00 (218.00 to 218.00) |" in said
    assert "| 1.83 | 218 |" in said


def test_each_size_is_measured_in_a_process_that_makes_its_own_pairs(script, run, monkeypatch, tmp_path, capsys):
    given = []

    def measured(name, pairs):
        given.append((name, pairs))
        return {"error": "Killed"} if pairs["count"] > 1000 else {"score": pairs["count"] / 500, "memory": 1000.0}

    monkeypatch.setattr(script, "measured", measured)
    run("scale", "--least", 2, "--output", tmp_path / "one.png")
    assert given == [("bertscore-f1 exact torch", {"count": 10**power, "words": 8}) for power in (2, 3, 4)]
    assert "10000 Killed" in capsys.readouterr().out
    rows = "pairs/s,100,500\npairs/s,1000,500\npeak memory (GB),100,1.04858\npeak memory (GB),1000,1.04858\n"
    assert (tmp_path / "one.csv").read_text(encoding="utf-8") == f"line,pairs of 8 words,value\n{rows}"
    assert (tmp_path / "one.png").stat().st_size > 1000


def test_what_started_a_process_is_no_part_of_its_peak_memory(script):
    held = bytearray(b"x") * (600 << 20)  # which the system counts to whatever this process starts
    command = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
    command += "import harness; print(harness.peak_memory())"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert len(held) == 600 << 20
    assert 10 < float(found.stdout) < 560


def test_made_pairs_are_the_same_wherever_they_are_made(script, monkeypatch):
    read = []

    def reader(setting, pairs):
        read.append(pairs)
        return 1.0, script.Run(2.0, 2.0, np.array([0.5]))

    monkeypatch.setitem(script.CANDIDATES, "reader", reader)
    found = script.measure("reader", {"count": 3, "words": 4}, script.Setting())
    assert read == [script.synthetic_pairs(3, 4)]
    assert [len(text.split()) for side in read[0] for text in side] == [4] * 6
    assert (found["score"], found["scores"]) == (2.0, None)
    assert script.measure("reader", (["a"], ["b"]), script.Setting())["scores"] == [0.5]


def test_table_of_medians_ratios_and_shares(script):
    def runs(*seconds, **more):
        one = {"load": 1.0, "processor": 2.0, "memory": 1.0, "note": "", "tokens": None, "scores": None, **more}
        return [{**one, "score": value} for value in seconds]

    exact = [0.5, 0.25, 0.7]
    lines = script.table(
        {
            "bert-score": runs(8.0, 9.0, 100.0, scores=exact),
            "bertscore-f1 fast": runs(3.0, 2.0, 4.0, scores=[0.5, 0.251, 0.7], note="signature"),
            "encoder fast": runs(2.4, 2.4, 2.4, tokens=24),
            "torchmetrics": [{"error": "Killed"}],
        },
        900,
        exact,
    ).splitlines()
    row = [cell.strip() for cell in lines[3].strip("|").split("|")]
    assert row[:5] == ["bertscore-f1 fast", "3.00 (2.00 to 4.00)", "2.0", "300.0", "3.00"]
    assert row[5:10] == ["1.00", "20%", "", "1", "1.0e-03"]
    assert 0.999 < float(row[10]) < 1
    assert "| 10 |" in lines[4]
    assert lines[6:] == ["- bertscore-f1 fast: signature"]


@pytest.mark.long
def test_it_compares_on_the_processor(run, tiny_encoder, tmp_path):
    pytest.importorskip("bert_score")
    path, names = tmp_path / "speed.md", ["bert-score", "bertscore-f1 exact torch", "encoder exact torch", "wmd fast"]
    encoder = ["--encoder", tiny_encoder, "--layer", 2]
    run("compare", *encoder, "--limit", 300, "--repetitions", 1, "--output", path, "--only", *names)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in path.read_text().splitlines()]
    found = {row[0]: row for row in rows if row[0] in names}
    assert set(found) == set(names)
    assert float(found[names[1]][9]) < 1e-4
    assert float(found[names[1]][10]) > 0.99999
