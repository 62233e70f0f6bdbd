"""Checkpoints: the same metric comes back, and whatever is wrong with a folder is one sentence."""

import json
import pickle
import resource
import shutil

import huggingface_hub
import pytest
import torch

from textmover.modules.encoder.source import file_sha256
from textmover.presets import preset_config
from textmover.scoring import Scorer, load_checkpoint, load_metric, save_checkpoint
from textmover.types import InputError

HYPOTHESES = ["the small dog ran home", "she will buy a book", "tea"]
REFERENCES = ["a little dog runs home", "she sold two books", "warm tea"]

KINDS = [
    {},
    {"matching": "trwmd", "learn_temperature": True, "calibrate": True, "layer": 2, "score": "recall"},
    {"weights": "learned", "calibrate": True},
    {"centering": "corpus", "dtype": "bfloat16", "max_length": 64},
    {"matching": "bertscore", "normalize": False, "layer": 0, "multi_reference": "mean", "freeze_layers": 1},
]


def trained(metric):
    """The metric with weights that no other encoder has."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for parameter in metric.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    if metric.needs_fit:
        metric.fit(REFERENCES)
    return metric


def scores(metric) -> list[float]:
    return Scorer(metric).score(HYPOTHESES, REFERENCES).scores.tolist()


@pytest.fixture(scope="module")
def saved(tiny_metric, tmp_path_factory):
    """A checkpoint that tests may read."""
    folder = tmp_path_factory.mktemp("checkpoints") / "saved"
    return save_checkpoint(trained(tiny_metric(calibrate=True, learn_temperature=True)), folder, card="# A card")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the checkpoint to break."""
    return shutil.copytree(saved, tmp_path / "copy")


def edit(folder, **changes) -> None:
    path = folder / "config.json"
    entries = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in entries.items() if value is not ...}))


def change(folder, part, **changes) -> None:
    edit(folder, **{part: json.loads((folder / "config.json").read_text())[part] | changes})


# --- the same metric --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", KINDS, ids=range(len(KINDS)))
def test_a_loaded_metric_scores_the_same_and_says_so(tiny_metric, tmp_path, fields):
    metric = trained(tiny_metric(**fields))
    again = load_checkpoint(save_checkpoint(metric, tmp_path / "saved", card=""))
    assert scores(again) == scores(metric)
    assert again.signature == metric.signature
    learned = metric.matching.temperature.value if metric.config.learn_temperature else metric.config.temperature
    assert again.config == metric.config.override(temperature=learned)
    assert not any(module.training for module in again.modules())
    assert {name: one.requires_grad for name, one in again.named_parameters()} == {
        name: one.requires_grad for name, one in metric.named_parameters()
    }
    for name, tensor in metric.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
        assert tensor.dtype == again.state_dict()[name].dtype


def test_a_loaded_metric_can_be_saved_again(saved, tmp_path):
    once = save_checkpoint(load_checkpoint(saved), tmp_path / "again", card="# A card")
    for name in ("model.safetensors", "config.json", "README.md"):
        assert (once / name).read_bytes() == (saved / name).read_bytes()


def test_the_folder_holds_what_rebuilds_the_metric_and_a_card(saved):
    entries = json.loads((saved / "config.json").read_text())
    assert entries["format"] == 1  # which earlier versions read
    assert entries["kind"] == "transport"
    names = {path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()}
    assert names == {"config.json", "README.md", *entries["files"]}
    assert "model.safetensors" in entries["files"]
    assert (saved / "README.md").read_text() == "# A card"
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl", ".ckpt"))]


def test_the_encoder_is_not_needed_to_load(saved, monkeypatch):
    def no_search(*_):
        raise AssertionError("searched for an encoder")

    monkeypatch.setattr("textmover.modules.encoder_parts.resolve_encoder", no_search)
    load_checkpoint(saved)


def test_nothing_is_unpickled(saved, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("unpickled")

    for module, name in ((pickle, "Unpickler"), (pickle, "load"), (pickle, "loads"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    load_checkpoint(saved)


# --- overrides --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"score": "recall"}, {"normalize": False}, {"max_length": 5}, {"iterations": 4}, {"centering": "sentence"}],
    ids=str,
)
def test_fields_beside_the_weights_can_be_overridden(saved, change):
    metric, changed = load_checkpoint(saved), load_checkpoint(saved, **change)
    assert scores(changed) != scores(metric)
    assert changed.signature != metric.signature


@pytest.mark.parametrize(
    ("change", "dtype", "precision"),
    [({"temperature": 0.2}, torch.float32, "exact"), ({"dtype": "bfloat16"}, torch.bfloat16, "bf16")],
)
def test_a_fixed_temperature_and_the_dtype_can_be_overridden(tiny_metric, tmp_path, change, dtype, precision):
    save_checkpoint(tiny_metric(), tmp_path / "saved", card="")
    changed = load_checkpoint(tmp_path / "saved", **change)
    assert scores(changed) == scores(tiny_metric(**change))
    assert {one.dtype for one in changed.encoder.parameters()} == {dtype}
    assert changed.precision == precision


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(
            ({name: value}, f"of its training, but got `{name}`")
            for name, value in (
                ("encoder", "x"), ("layer", 1), ("revision", "v1"), ("kind", "transport"), ("temperature", 0.5),
            )
        ),
        ({"scor": "f"}, "did you mean `score`"),
        ({"iterations": 0}, "`iterations`"),
    ],
)  # fmt: skip
def test_unknown_and_wrong_fields_and_what_the_weights_decide_cannot_be_overridden(saved, change, message):
    with pytest.raises(InputError, match=message):
        load_checkpoint(saved, **change)


def test_the_layer_that_is_read_anyway_may_be_named(saved):
    assert load_checkpoint(saved, layer=3).config == load_checkpoint(saved).config


def test_a_part_can_be_left_out(saved):
    metric = load_checkpoint(saved)
    scale, offset = metric.calibration.scale.item(), metric.calibration.offset.item()
    bare = load_checkpoint(saved, calibrate=False)
    assert bare.calibration is None
    assert [scale * score + offset for score in scores(bare)] == pytest.approx(scores(metric), abs=1e-6)


def test_a_learned_temperature_can_be_fixed_where_it_is_or_elsewhere(saved):
    metric, fixed = load_checkpoint(saved), load_checkpoint(saved, learn_temperature=False)
    assert "matching.temperature.log_temperature" not in fixed.state_dict()
    assert scores(fixed) == pytest.approx(scores(metric), abs=1e-6)
    moved = load_checkpoint(saved, learn_temperature=False, temperature=0.4)
    assert moved.signature.entries["T"] == "0.4"
    assert scores(moved) != pytest.approx(scores(metric), abs=1e-3)


def test_a_part_can_be_added_and_starts_afresh(tiny_metric, tmp_path):
    metric = tiny_metric()
    save_checkpoint(metric, tmp_path / "saved", card="")
    more = load_checkpoint(tmp_path / "saved", calibrate=True, learn_temperature=True, temperature=0.3)
    assert (more.calibration.scale.item(), more.calibration.offset.item()) == (1.0, 0.0)
    assert scores(more) == pytest.approx(scores(tiny_metric(temperature=0.3)), abs=1e-6)
    assert load_checkpoint(tmp_path / "saved", centering="corpus").needs_fit


# --- damaged folders --------------------------------------------------------------------------------------------------

DAMAGES = {
    "no configuration": (lambda at: (at / "config.json").unlink(), "holds no config.json"),
    "configuration not JSON": (
        lambda at: (at / "config.json").write_text("{"),
        "config.json to be JSON, but got .* line 1",
    ),
    "configuration twice": (lambda at: (at / "config.json").write_text('{"kind": "a", "kind": "b"}'), "each key once"),
    "configuration deep": (lambda at: (at / "config.json").write_text("[" * 50_000), "at most 100 levels"),
    "configuration not text": (lambda at: (at / "config.json").write_bytes(b"\xff\xfe{"), "to be UTF-8"),
    "no format": (lambda at: edit(at, format=...), "`format` is missing or invalid: give"),
    "later format": (lambda at: edit(at, format=3), "format 2 or earlier, but got 3: install a newer textmover"),
    "wrong format": (lambda at: edit(at, format="one"), "format 2 or earlier, but got one"),
    "no kind": (lambda at: edit(at, kind=...), "`kind` is missing or invalid: give"),
    "unknown kind": (lambda at: edit(at, kind="rome9"), "`kind` .* one of transport, rome, but got 'rome9'"),
    "layer of its own": (lambda at: change(at, "metric", layer=999), "`layer` to be between 0 and 3 .* but got 999"),
    "other layer": (lambda at: change(at, "metric", layer=2), r"gives the layers \[2\].* but it gives \[3\]"),
    "other layers": (lambda at: change(at, "encoder", layers=[2, 3]), r"gives the layers .* it gives \[2, 3\]"),
    "endless layers": (lambda at: change(at, "encoder", layers=[10**9]), "it gives .1000000000.: export"),
    "endless depth": (lambda at: change(at, "encoder", depth=10**9), "`depth` of the encoder in"),
    "bar in identity": (lambda at: change(at, "encoder", identity="tiny|score:f@1"), "without '|' and line breaks"),
    "line in identity": (lambda at: change(at, "encoder", identity="tiny\nscore:f@1"), "without '|' and line breaks"),
    "endless iterations": (lambda at: change(at, "metric", iterations=10**12), "`iterations` to be a whole number"),
    "unknown field": (lambda at: edit(at, metric={"temprature": 1}), "did you mean `temperature`"),
    "weights not listed": (lambda at: edit(at, files={}), "the hash that config.json names"),
    "weights missing": (lambda at: (at / "model.safetensors").unlink(), "hold model.safetensors, but it is missing"),
    "tokenizer missing": (
        lambda at: (at / "encoder/tokenizer.json").unlink(),
        "hold encoder/tokenizer.json, but it is",
    ),
    "encoder missing": (lambda at: shutil.rmtree(at / "encoder"), "hold encoder/config.json, but it is missing"),
    "weights cut": (lambda at: cut(at / "model.safetensors"), "damaged or was exchanged"),
    "weights empty": (lambda at: (at / "model.safetensors").write_bytes(b""), "damaged or was exchanged"),
    "weights flipped": (lambda at: flip(at / "model.safetensors"), "damaged or was exchanged"),
    "tokenizer flipped": (lambda at: flip(at / "encoder/tokenizer.json"), "damaged or was exchanged"),
}


def cut(path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_one_sentence_that_names_it(folder, name):
    damage, message = DAMAGES[name]
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value) or "did you mean" in message


@pytest.mark.parametrize("how", ["cut", "other shapes", "one too many", "one missing", "optional one missing"])
def test_weights_that_do_not_fit_are_found_even_where_their_hash_is_right(folder, how):
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    if how == "cut":
        cut(path)
    else:
        state = load_file(path)
        name, tensor = next((name, one) for name, one in state.items() if one.ndim)
        if how == "other shapes":
            state[name] = tensor[:-1].clone()
        elif how == "one too many":
            state["stranger"] = torch.zeros(1)
        else:
            del state[name if how == "one missing" else "calibration.scale"]
        save_file(state, path)
    files = json.loads((folder / "config.json").read_text())["files"]
    edit(folder, files=files | {"model.safetensors": file_sha256(path)})
    with pytest.raises(InputError, match=r"model\.safetensors to fit config\.json") as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


# --- saving -----------------------------------------------------------------------------------------------------------


def test_a_save_that_fails_leaves_the_old_folder_and_nothing_else(tiny_metric, saved, folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    for target in (folder, folder.parent / "new"):
        with pytest.raises(InputError, match="No space left on device"):
            save_checkpoint(tiny_metric(), target, card="", overwrite=True)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert scores(load_checkpoint(folder)) == scores(load_checkpoint(saved))


@pytest.mark.parametrize("most", [10, 400, 2_000, 20_000, 100_000])
def test_a_disk_that_is_full_is_one_sentence(tiny_metric, tmp_path, most):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))  # files end there, as they do on a full disk
    try:
        with pytest.raises(
            InputError, match=r"Expected to be able to write .*new, but got: .*File too large"
        ) as caught:
            save_checkpoint(tiny_metric(), tmp_path / "new", card="A card")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fields",
    [{"long_texts": "error", "max_length": 4}, {"dtype": "float16"}, {"centering": "batch"}, {"max_length": 3}],
)
def test_metrics_that_read_few_texts_are_saved_as_they_are(tiny_metric, tmp_path, fields):
    folder = save_checkpoint(tiny_metric(**fields), tmp_path / "new", card="")
    assert load_checkpoint(folder).config == tiny_metric(**fields).config


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_saved(tiny_metric, folder, value):
    before = scores(load_checkpoint(folder))
    metric = tiny_metric()
    with torch.no_grad():
        metric.encoder.model.encoder.layer[1].output.dense.weight[3, 4] = value
    with pytest.raises(InputError, match=r"finite weights to save, but encoder\.model\..*dense.weight holds NaN"):
        save_checkpoint(metric, folder, card="", overwrite=True)
    assert scores(load_checkpoint(folder)) == before


@pytest.mark.parametrize(
    "fields",
    [{}, {"weights": "idf"}, {"centering": "corpus"}, {"rescale": True}, {"centering": "corpus", "rescale": True}],
)
def test_what_scores_nan_is_not_saved(tiny_metric, tmp_path, fields):
    """Statistics that each call or a later command fits are left out of the trial."""
    metric = tiny_metric(**fields)
    save_checkpoint(metric, tmp_path / "sound", card="")
    with torch.no_grad():
        metric.encoder.model.embeddings.LayerNorm.weight.fill_(3e38)
    with pytest.raises(InputError, match="finite scores from the metric that was written, but got NaN"):
        save_checkpoint(metric, tmp_path / "new", card="")
    assert [one.name for one in tmp_path.iterdir()] == ["sound"]


def test_a_statistic_that_is_there_is_tried(tiny_metric, tmp_path):
    metric = tiny_metric(centering="corpus", rescale=True)
    metric.fit(["a cat", "the dog"], names=["mean"])
    metric.statistics["mean"].mean.fill_(float("nan"))
    with pytest.raises(InputError, match="finite scores from the metric that was written, but got NaN"):
        save_checkpoint(metric, tmp_path / "new", card="")


def test_what_cannot_be_loaded_is_not_saved(tiny_metric, tmp_path):
    """Errors name the folder, and not the hidden one that was being filled."""
    new = tmp_path / "new"
    with pytest.raises(InputError, match=rf"the weights in {new} to fit"):
        save_checkpoint(tiny_metric(), new, card="", add=lambda at: (at / "model.safetensors").write_bytes(b"cut"))
    metric = tiny_metric()
    metric.config = metric.config.override(layer=1)
    with pytest.raises(InputError, match=rf"Expected {new} to hold .* gives the layers \[1\]"):
        save_checkpoint(metric, new, card="")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_on_request_unless_it_holds_anything_else(tiny_metric, folder):
    with pytest.raises(InputError, match="holds files"):
        save_checkpoint(tiny_metric(), folder, card="")
    save_checkpoint(tiny_metric(), folder, card="", overwrite=True)
    assert scores(load_checkpoint(folder)) == scores(tiny_metric())
    (folder / "config.json").rename(folder / "thesis.txt")
    with pytest.raises(InputError, match="holds other files"):
        save_checkpoint(tiny_metric(), folder, card="", overwrite=True)
    assert (folder / "thesis.txt").is_file()


def test_only_modules_can_be_saved(tmp_path):
    with pytest.raises(TypeError, match="torch module, but got object"):
        save_checkpoint(object(), tmp_path / "x", card="")
    assert list(tmp_path.iterdir()) == []


# --- names ------------------------------------------------------------------------------------------------------------


class Hub:
    """Answers for the cache and for the hub, and keeps what it was asked."""

    def __init__(self, patch, cached=None, online=None):
        self.answers, self.asked = {True: cached, False: online}, []
        patch.setattr(huggingface_hub, "snapshot_download", self)

    def __call__(self, name, revision=None, local_files_only=False):
        self.asked.append((name, revision, local_files_only))
        if self.answers[local_files_only] is None:
            raise OSError("not here\nat all")
        return str(self.answers[local_files_only])


def test_a_hub_id_is_looked_up_in_the_cache_and_downloaded_where_it_is_not_there(saved, monkeypatch):
    hub = Hub(monkeypatch, cached=saved)
    assert scores(load_metric("owner/metric")) == scores(load_checkpoint(saved))
    assert hub.asked == [("owner/metric", None, True)]
    hub = Hub(monkeypatch, online=saved)
    assert load_metric("owner/metric", revision="v2", score="recall").config.score == "recall"
    assert hub.asked == [("owner/metric", "v2", True), ("owner/metric", "v2", False)]


@pytest.mark.parametrize("lacking", ["model.safetensors", "config.json", "encoder/config.json"])
def test_a_download_that_was_interrupted_is_completed(saved, folder, monkeypatch, lacking):
    (folder / lacking).unlink()
    hub = Hub(monkeypatch, cached=folder, online=saved)
    assert scores(load_metric("owner/metric", revision="v2")) == scores(load_checkpoint(saved))
    assert hub.asked == [("owner/metric", "v2", True), ("owner/metric", "v2", False)]


def test_a_hub_id_that_is_nowhere_or_incomplete_is_one_sentence(folder, monkeypatch):
    Hub(monkeypatch)
    nowhere = r"no such folder, it is not in the Hugging Face cache, and .* OSError: not here: correct the name"
    with pytest.raises(InputError, match=nowhere):
        load_metric("owner/metric")
    (folder / "model.safetensors").unlink()
    Hub(monkeypatch, cached=folder)
    said = r"to hold model.safetensors, but it is missing.*cached copy of owner/metric.*OSError: not here\)$"
    with pytest.raises(InputError, match=said):
        load_metric("owner/metric")


def test_a_folder_comes_before_a_preset_of_its_name(saved, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(saved, tmp_path / "trwmd")
    assert load_metric("trwmd").config.matching == "twmd"


def test_a_preset_is_built_with_overrides(tiny_encoder):
    metric = load_metric("trwmd", encoder=str(tiny_encoder), temperature=0.3)
    assert metric.config == preset_config("trwmd", encoder=str(tiny_encoder), temperature=0.3)
    assert not metric.training


def test_a_metric_in_place_of_its_encoder_is_refused(saved, tiny_encoder):
    for encoder in ("bertscore-f1", str(saved)):
        with pytest.raises(
            InputError, match=r"`encoder` to be an encoder, .* but got the (preset|checkpoint) .*is a met"
        ):
            load_metric("twmd", encoder=encoder)


def test_an_encoder_in_place_of_a_metric_is_refused(tiny_encoder):
    with pytest.raises(InputError, match=r"but it holds an encoder \(bert\): use `--model twmd --encoder"):
        load_metric(tiny_encoder)
    with pytest.raises(
        InputError, match=r"'no-such-name'\. For an encoder, score with `--model twmd --encoder no-such"
    ):
        load_metric("no-such-name")


def test_the_revision_of_a_preset_is_that_of_its_encoder():
    with pytest.raises(InputError, match="the embedded package holds no revision v7"):
        load_metric("twmd", encoder="all-MiniLM-L6-v2", revision="v7")


@pytest.mark.parametrize("name", ["./saved", "/no/folder", "a/b/c", "~/no-such-folder", "back\\slash"])
def test_paths_are_never_asked_of_the_hub(monkeypatch, name):
    hub = Hub(monkeypatch)
    with pytest.raises(InputError, match="there is no such folder"):
        load_metric(name)
    assert hub.asked == []
