"""The benchmark for a GPU, on the processor: its encoder, its pairs, and what its table says."""

import sys

import numpy as np
import pytest


@pytest.fixture(scope="module")
def script(load_script):
    return load_script("benchmarks/gpu_speed.py")


def test_every_word_of_the_pairs_is_a_token(script, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    folder = script.write_encoder(tmp_path, script.VOCABULARY, script.SIZES["tiny"])
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    hypotheses, references = script.make_pairs(200)
    for text in references:
        assert len(tokenizer(text).input_ids) == len(text.split()) + 2
        assert tokenizer.unk_token_id not in tokenizer(text).input_ids
    lengths = sorted(len(text.split()) for text in references)
    assert 15 <= lengths[100] <= 21
    same = [a == b for x, y in zip(hypotheses, references, strict=True) for a, b in zip(x.split(), y.split())]  # noqa: B905
    assert 0.65 < np.mean(same) < 0.75
    assert model.config.num_hidden_layers > script.LAYERS["tiny"]  # a layer that need not be run


def test_table_of_medians_ratios_and_shares(script):
    def runs(*seconds, scores=None, note="n"):
        return [script.Measured(one, 2**20, scores, note) for one in seconds]

    ours = np.array([0.5, 0.25, 0.7])
    found = script.table(
        {
            "bert-score": runs(8.0, 9.0, 100.0, scores=ours),
            "bertscore-f1 fast": runs(3.0, 2.0, 4.0, scores=ours + np.array([0, 1e-3, 0]), note="signature"),
            "encoder fast": runs(2.4, 2.4, 2.4),
        },
        pairs=900,
    ).splitlines()
    row = [cell.strip() for cell in found[3].strip("|").split("|")]
    assert row[:7] == ["bertscore-f1 fast", "3.00 (2.00 to 4.00)", "300", "3.00", "20%", "1", "1.0e-03"]
    assert 0.999 < float(row[7]) < 1
    assert "- bertscore-f1 fast: signature" in found


def test_without_a_gpu_it_says_so(script, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_speed.py"])
    with pytest.raises(SystemExit, match="--device cpu --size tiny"):
        script.main()


@pytest.mark.slow
def test_it_runs_on_the_processor(script, tmp_path, monkeypatch):
    pytest.importorskip("bert_score")
    path = tmp_path / "speed.md"
    arguments = ["--device", "cpu", "--size", "tiny", "--pairs", "300", "--repetitions", "1", "--output", str(path)]
    monkeypatch.setattr(sys, "argv", ["gpu_speed.py", *arguments])
    script.main()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in path.read_text().splitlines()]
    exact = next(row for row in rows if row[0] == "bertscore-f1 exact")
    assert float(exact[6]) < 1e-4
    assert float(exact[7]) > 0.99999
    assert {"twmd fast", "wmd fast", "encoder exact"} <= {row[0] for row in rows}
