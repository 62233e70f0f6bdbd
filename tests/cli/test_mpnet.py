"""An encoder of another architecture, MPNet, goes through every door: commands, back-ends, training, adapters."""

import pytest
import torch
from pytorch_lightning import Trainer

from textmover import Scorer, TextMoverScore
from textmover.checkpoints.adapter import AdapterConfig, adapter_report
from textmover.data import RatingsDataModule
from textmover.scoring import load_metric, save_checkpoint
from textmover.training import RatingsModule

HYPOTHESES = ["the cat sat on the mat", "a small dog ran", "the old house", "she sells red books"]
REFERENCES = ["the cat is on the mat", "a big dog ran home", "the young house", "she sold a red book"]
TEXTS = ["-i", "h.txt", "r.txt"]
SYSTEMS = ["-t", "h.txt", "o.txt", "-r", "r.txt", "--samples", "20"]
COMMANDS = [
    ["score", *TEXTS],
    ["compare", *SYSTEMS],
    ["rank", *SYSTEMS],
    ["mbr", "-i", "h.txt", "o.txt", "r.txt"],
    ["explain", HYPOTHESES[0], REFERENCES[0]],
    ["errors", HYPOTHESES[0], REFERENCES[0]],
    ["evaluate", "--data", "ratings.tsv", "--samples", "20"],
]


@pytest.fixture(scope="module")
def encoder(random_encoder):
    return random_encoder("mpnet", pad_token_id=1, initializer_range=0.2)


@pytest.fixture
def files(write, tmp_path):
    for name, lines in (("h", HYPOTHESES), ("o", HYPOTHESES[::-1]), ("r", REFERENCES)):
        write(f"{name}.txt", lines)
    rows = (f"{HYPOTHESES[n % 4]}\t{REFERENCES[n % 4]} {n}\t{n % 7}" for n in range(32))
    write("ratings.tsv", ["hypothesis\treference\tscore", *rows])
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one[0])
def test_commands(run, files, encoder, command):
    assert run(*command, "--model", "twmd", "--encoder", str(encoder)).ok().out


@pytest.mark.parametrize("options", [[], ["--table"]], ids=["whole", "table"])
def test_exports(run, files, encoder, options):
    metric = load_metric("twmd", encoder=str(encoder), layer=0)
    with torch.no_grad():  # a table knows no places
        metric.encoder.model.embeddings.position_embeddings.weight.zero_()
    save_checkpoint(metric, files / "metric", card="")
    assert run("export", "metric", "exported", *options).ok().out
    expected, found = (
        Scorer.from_pretrained(files / one).score(HYPOTHESES, REFERENCES).scores for one in ("metric", "exported")
    )
    assert found == pytest.approx(expected, abs=0.005 if options else 1e-6)


@pytest.mark.parametrize(
    "backend", [pytest.param("onnxruntime", marks=pytest.mark.long), pytest.param("openvino", marks=pytest.mark.slow)]
)
def test_back_ends(real_backends, encoder, backend):
    found = [Scorer.from_pretrained("twmd", encoder=str(encoder), backend=one) for one in ("torch", backend)]
    first, second = (one.score(HYPOTHESES, REFERENCES).scores for one in found)
    assert second == pytest.approx(first, abs=1e-5)
    assert first.min() < first.max() < 0.999


@pytest.mark.parametrize("lora", [None, {"rank": 4, "targets": "all"}], ids=["whole", "lora"])
def test_training_and_adapters(files, encoder, lora):
    overrides = {"encoder": str(encoder), "layer": 2}
    torch.manual_seed(0)
    module = RatingsModule(metric="twmd", overrides=overrides, lora=lora, optimizer={"learning_rate": 1e-2})
    data = RatingsDataModule([str(files / "ratings.tsv")], batch_size=8, held_back=0.4, scales="as-is")
    Trainer(max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(module, data)
    trained = module.metric.eval()
    save_checkpoint(trained, files / "adapter", card="", adapter=AdapterConfig(8))
    assert adapter_report(files / "adapter").base == str(encoder)
    scores = Scorer(trained).score(HYPOTHESES, REFERENCES).scores
    again = Scorer.from_pretrained(files / "adapter").score(HYPOTHESES, REFERENCES).scores
    assert again == pytest.approx(scores, abs=0.5)
    metric = TextMoverScore(str(files / "adapter"))
    metric.update(HYPOTHESES, REFERENCES)
    assert metric.compute().item() == pytest.approx(again.mean(), abs=1e-6)
