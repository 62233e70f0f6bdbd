"""``textmover export`` of adapters, averages and interpolations, from any source, and to the hub."""

import re
import shutil

import numpy as np
import pytest
import torch

from textmover.checkpoints.adapter import AdapterConfig, adapter_report
from textmover.checkpoints.averaging import average_metrics, interpolate
from textmover.modules.score_deviation import probe_scores
from textmover.scoring import Scorer, load_checkpoint, load_metric, save_checkpoint

TEXTS = (["a cat sat in the street", "she will sing"], ["the cat sat on a street", "he can not sing"])
RATED = ["system,reference,score", "the small dog,a little dog,0.9", "she sold books,warm tea,0.1", "tea,warm tea,0.6"]


def weights(metric) -> dict[str, torch.Tensor]:
    return dict(metric.state_dict())


def assert_same(metric, other, atol: float = 0.0) -> None:
    for name, one in weights(other).items():
        torch.testing.assert_close(weights(metric)[name], one, rtol=0, atol=atol)


# --- adapters ---------------------------------------------------------------------------------------------------------


def test_an_adapter_of_nothing_trained_says_so(run):
    ended = run("export", "twmd", "out", "--adapter", 2).ok()
    assert "no weight differs from the encoder's" in ended.out


@pytest.mark.parametrize("source", ["run", "folder", "adapter"])
def test_anything_trained_becomes_an_adapter(run, save_run, tmp_path, source):
    name, metric = save_run()
    if source != "run":
        kind = AdapterConfig(64, "float32") if source == "adapter" else None
        name = save_checkpoint(metric, tmp_path / source, card="# A card\n\nof mine", adapter=kind)
    ended = run("export", name, "out", "--adapter", 4).silent()
    report = adapter_report(tmp_path / "out")
    assert (report.rank, report.dtype) == (4, "float16")
    deviation = float((probe_scores(load_checkpoint(tmp_path / "out")) - probe_scores(metric)).abs().max())
    line = ended.out.splitlines()[2]
    assert line.startswith(f"Adapter of rank 4 (float16) over {report.base} (sha256 {report.sha256[:16]}…): ")
    assert f"largest of one {report.largest_error:.1e} ({report.matrix})" in line
    said = float(re.search(r"uncalibrated score on 8 pairs (\S+)\.$", line)[1])
    assert said == pytest.approx(deviation, rel=0.1)
    assert deviation > 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"## Adapter\n\n{line}\n" in card
    assert f"|{load_checkpoint(tmp_path / 'out').signature}`" in card
    if source != "run":
        assert card.startswith("# A card\n\nof mine\n")


def test_a_card_speaks_of_the_adapter_that_it_is_the_card_of(run, save_run, tiny_encoder, tmp_path):
    name, _ = save_run()
    assert run("export", name, "one", "--adapter", 2).code == 0
    with (tmp_path / "one" / "README.md").open("a") as card:
        card.write("\n## Notes\n\nmine\n")
    assert run("export", "one", "two", "--adapter", 3).code == 0
    card = (tmp_path / "two" / "README.md").read_text()
    assert card.count("## Adapter") == 1
    assert "Adapter of rank 3" in card
    assert "Adapter of rank 2" not in card
    assert "## Notes\n\nmine\n" in card
    assert run("export", "two", "full").code == 0
    assert "## Adapter" not in (tmp_path / "full" / "README.md").read_text()
    save_checkpoint(load_metric("twmd-b", encoder=str(tiny_encoder)), tmp_path / "unfitted", card="# card")
    assert "score on" not in run("export", "unfitted", "small", "--adapter", 2).silent().out  # it has none yet


def test_a_run_with_lora_is_merged(run, save_run, tmp_path):
    """As peft names the matrices beside the weights; how they are scaled stands in the run's own entry."""
    name, metric = save_run()
    content = torch.load(tmp_path / name, weights_only=True)
    state = content["state_dict"]
    layer = "metric.encoder.model.encoder.layer.0.attention.self.query"
    old, bias = state.pop(f"{layer}.weight"), state.pop(f"{layer}.bias")
    down, up = torch.ones(2, 32), 0.01 * torch.ones(32, 2)
    state |= {f"{layer}.base_layer.weight": old, f"{layer}.base_layer.bias": bias}
    state |= {f"{layer}.lora_A.default.weight": down, f"{layer}.lora_B.default.weight": up}
    content["textmover"]["lora"] = {"rank": 2, "alpha": 4.0}
    torch.save(content, tmp_path / name)
    assert run("export", name, "out").code == 0
    found = weights(load_checkpoint(tmp_path / "out"))
    key = f"{layer.removeprefix('metric.')}.weight"
    torch.testing.assert_close(found[key], old + 2 * up @ down)
    assert torch.equal(found[key.replace("query", "key")], weights(metric)[key.replace("query", "key")])
    del content["textmover"]["lora"]
    torch.save(content, tmp_path / name)
    assert "the scale of its LoRA matrices" in run("export", name, "other").err


# --- averages and interpolation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weights", "told"), [((), ("", "", "")), ((2, 1, 1), (" (2)", " (1)", " (1)"))])
def test_runs_are_averaged(run, save_run, tmp_path, weights, told):
    names, metrics = zip(*(save_run(f"{seed}.ckpt", seed) for seed in range(3)), strict=True)
    folder = save_checkpoint(metrics[2], tmp_path / "third", card="")  # a run and a folder may be mixed
    options = ("--weights", *weights) if weights else ()
    run("export", names[0], "out", "--average", names[1], folder, *options).silent()
    expected = average_metrics(metrics, [one / sum(weights) for one in weights] or None)
    assert_same(load_checkpoint(tmp_path / "out"), expected)
    card = (tmp_path / "out" / "README.md").read_text()
    listed = ", ".join(f"`{name}`{said}" for name, said in zip(("0.ckpt", "1.ckpt", "third"), told, strict=True))
    assert f"as the mean of the weights of {listed}" in card
    assert f"{load_checkpoint(tmp_path / 'out').signature}`" in card


def test_a_released_metric_is_exported_by_its_name_with_its_card(run, tmp_path, embedded):
    run("export", "textmover-general", "out", "--adapter", 34).silent()
    assert "# textmover-general" in (tmp_path / "out" / "README.md").read_text()
    given = ["A cat sat on the mat."], ["On the mat sat a cat."]
    expected = Scorer(load_metric("textmover-general")).score(*given).scores
    assert Scorer(load_checkpoint(tmp_path / "out")).score(*given).scores == pytest.approx(expected, abs=1e-3)


def test_calibrations_of_unlike_scales_are_told(run, save_run, tmp_path, write, caplog):
    _, metric = save_run(calibrate=True)
    folders = []
    for scale in (4.0, 90.0):
        metric.calibration.scale.data.fill_(scale)
        folders.append(save_checkpoint(metric, tmp_path / f"scale{scale:g}", card=""))
    ended = run("export", folders[0], "out", "--average", folders[1]).ok()
    assert "calibrated to different rating scales (4 s" in ended.err + caplog.text
    caplog.clear()
    table = write("ratings.csv", RATED)
    options = ("--ratings", table, "--hypothesis-column", "system")
    fitted = run("export", folders[0], "fitted", "--average", folders[1], *options).ok()
    assert "different scales" not in fitted.err + caplog.text
    assert "different scales" not in run("export", folders[0], "one", "--average", folders[1], "--weights", 1, 0).err


def test_everything_together_from_runs(run, save_run, tmp_path, write):
    names, metrics = zip(*(save_run(f"{seed}.ckpt", seed, centering="corpus") for seed in range(2)), strict=True)
    table = write("ratings.csv", RATED)
    options = ("--average", names[1], "--untrained", 0.25, "--ratings", table, "--hypothesis-column", "system")
    run("export", names[0], "out", *options, "--adapter", 64, "--adapter-dtype", "float32").silent()
    found = load_checkpoint(tmp_path / "out")
    mixed = interpolate(average_metrics(metrics), 0.25)
    assert_same(found.encoder, mixed.encoder, atol=1e-6)
    mixed.fit(list(dict.fromkeys(text for line in RATED[1:] for text in line.split(",")[:2])))
    torch.testing.assert_close(found.centering.statistic.mean, mixed.centering.statistic.mean, rtol=0, atol=1e-5)
    mixed.calibration = None
    pairs = list(zip(*(line.split(",")[:2] for line in RATED[1:]), strict=True))
    scores = Scorer(mixed).score(*map(list, pairs)).scores
    scale, offset = np.polyfit(scores, [0.9, 0.1, 0.6], 1)
    assert scale > 0  # a falling one would not be fitted
    assert (found.calibration.scale.item(), found.calibration.offset.item()) == pytest.approx((scale, offset), rel=1e-3)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "0.25 of the way back to the untrained encoder, with mean and calibration fitted on `ratings.csv`" in card


@pytest.mark.parametrize(("fields", "column"), [({"mode": "source"}, "source"), ({"fallback": True}, "source")])
def test_ratings_are_read_as_the_checkpoint_compares(
    run, tiny_metric, tiny_multilingual, tmp_path, write, fields, column
):
    metric = tiny_metric(encoder=str(tiny_multilingual), calibrate=True, **fields)
    folder = save_checkpoint(metric, tmp_path / "sources", card="")
    table = write("ratings.csv", [RATED[0].replace("reference", column), *RATED[1:]])
    run("export", folder, "out", "--ratings", table, "--hypothesis-column", "system").silent()
    pairs = list(zip(*(line.split(",")[:2] for line in RATED[1:]), strict=True))
    metric.calibration = None
    scores = Scorer(metric).score(list(pairs[0]), sources=list(pairs[1])).scores
    expected = np.polyfit(scores, [0.9, 0.1, 0.6], 1)
    found = load_checkpoint(tmp_path / "out").calibration
    assert (found.scale.item(), found.offset.item()) == pytest.approx(tuple(expected), rel=1e-3)


def test_equal_ratings_are_refused(refused, save_run, write, tmp_path):
    name, _ = save_run()
    table = write("ratings.csv", [RATED[0], *(f"{line.rsplit(',', 1)[0]},0.5" for line in RATED[1:])])
    said = refused("export", name, "out", "--ratings", table, "--hypothesis-column", "system")
    assert "Expected ratings that differ, to calibrate on, but all 3 are 0.5: check the column." in said
    assert not (tmp_path / "out").exists()


# --- the hub ----------------------------------------------------------------------------------------------------------


def test_a_folder_is_pushed(run, save_run, tmp_path, monkeypatch):
    name, _ = save_run()
    pushed = []

    def push(folder, repo_id, **options):
        shutil.copytree(folder, tmp_path / "hub")
        pushed.append((repo_id, options))
        return f"https://huggingface.co/{repo_id}"

    monkeypatch.setattr("textmover.cli.training.export.push_to_hub", push)
    options = ("--adapter", 4, "--push", "owner/metric", "--private", "--push-revision", "v1")
    ended = run("export", name, "out", *options).silent()
    assert ended.out.endswith("Pushed to https://huggingface.co/owner/metric\n")
    assert pushed == [("owner/metric", {"private": True, "revision": "v1"})]
    assert "## Adapter" in (tmp_path / "hub" / "README.md").read_text()
    assert_same(load_checkpoint(tmp_path / "hub"), load_checkpoint(tmp_path / "out"))
    monkeypatch.undo()  # tests are offline, as the client finds out without the network
    monkeypatch.chdir(tmp_path)
    said = run("export", name, "kept", "--push", "owner/metric").complaint()
    assert "Expected the hub to take owner/metric, but HF_HUB_OFFLINE is set" in said
    load_checkpoint(tmp_path / "kept")
