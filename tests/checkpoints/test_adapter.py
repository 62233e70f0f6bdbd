"""Adapters: the same metric comes back from a few factors over the right base, and over no other; the factors."""

import itertools
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from textmover.checkpoints.adapter import (
    AdapterConfig,
    _factors,
    _singular,
    adapter_report,
    allocate_ranks,
    apply_difference,
)
from textmover.modules.encoder import encoder_identity
from textmover.modules.encoder.encoder_identity import weights_fingerprint
from textmover.modules.encoder.source import file_sha256
from textmover.modules.score_deviation import probe_scores
from textmover.scoring import Scorer, load_checkpoint, save_checkpoint
from textmover.types import InputError

TEXTS = ["the small dog ran home", "a little dog runs home", "she sold two books", "warm tea"]
EXACT = AdapterConfig(rank=2, dtype="float32")


def low_rank(shape, rank: int, size: float) -> torch.Tensor:
    return size * torch.randn(shape[0], rank) @ torch.randn(rank, shape[1])


@pytest.fixture
def changed(tiny_metric):
    """A metric whose encoder's matrices moved by a low rank, or by anything, and whose other parts are not fresh."""

    def change(rank=None, *, seed=0, size=0.02, **fields):
        metric = tiny_metric(**{"calibrate": True, "learn_temperature": True, **fields})
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            for name, one in metric.encoder.named_parameters():
                if one.ndim == 2 and rank is not None:
                    # LoRA leaves the embeddings alone.
                    one.add_(low_rank(one.shape, rank, size) if "layer" in name and "Norm" not in name else 0.0)
                else:
                    one.add_(size * torch.randn_like(one))
            if metric.calibration is not None:
                metric.calibration.scale.fill_(3.0)
        if metric.needs_fit:
            metric.fit(TEXTS)
        return metric.eval()

    return change


def stored(folder) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def write_config(folder, entries) -> None:
    entries["files"]["model.safetensors"] = file_sha256(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(entries))


def read_config(folder) -> dict:
    return json.loads((folder / "config.json").read_text())


# --- the same metric --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"layer": 1, "matching": "trwmd", "freeze_layers": 1},
        {"centering": "corpus", "learn_temperature": False},
        {"aggregation": "side-by-side", "layers": [1, 3]},
    ],
    ids=str,
)
def test_a_low_rank_change_comes_back(changed, tmp_path, fields):
    metric = changed(rank=2, **fields)
    again = load_checkpoint(save_checkpoint(metric, tmp_path / "adapter", card="# card", adapter=EXACT))
    report = adapter_report(tmp_path / "adapter")
    assert report.largest_error < 1e-5
    assert report.matrices > 0
    assert again.signature.entries["encoder"].count("+") == 1
    assert (probe_scores(again) - probe_scores(metric)).abs().max() < 1e-5
    for name, tensor in metric.state_dict().items():
        if name.startswith("encoder."):
            torch.testing.assert_close(again.state_dict()[name], tensor, rtol=0, atol=1e-6)
        else:
            assert torch.equal(again.state_dict()[name], tensor)
    learned = metric.matching.learned_fields()
    assert again.config == metric.config.override(**learned)
    assert {name: one.requires_grad for name, one in again.named_parameters()} == {
        name: one.requires_grad for name, one in metric.named_parameters()
    }
    assert not any(module.training for module in again.modules())


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_full_rank_is_the_metric_itself_to_rounding(changed, tmp_path, dtype):
    metric = changed()
    save_checkpoint(metric, tmp_path / "adapter", card="", adapter=AdapterConfig(64, dtype))
    again = load_checkpoint(tmp_path / "adapter")
    bound = {"float16": 5e-5, "float32": 1e-7}[dtype]  # half a unit in the last place of changes up to 0.1
    for name, tensor in metric.state_dict().items():
        assert (again.state_dict()[name] - tensor).abs().max() <= bound
    assert adapter_report(tmp_path / "adapter").error < {"float16": 5e-4, "float32": 1e-6}[dtype]
    assert (probe_scores(again) - probe_scores(metric)).abs().max() < {"float16": 1e-3, "float32": 1e-6}[dtype]


def test_a_higher_rank_loses_less_and_takes_more(changed, tmp_path):
    metric = changed()
    reports = []
    for rank in (1, 2, 4, 8):
        folder = save_checkpoint(metric, tmp_path / f"{rank}", card="", adapter=AdapterConfig(rank))
        reports.append(adapter_report(folder))
        tensors = {name: one for name, one in stored(folder).items() if name.startswith("encoder.")}
        matrices = [one for name, one in metric.encoder.state_dict().items() if one.ndim == 2]
        vectors = sum(one.numel() for one in metric.encoder.state_dict().values() if one.ndim < 2)
        numbers = sum(one.numel() for one in tensors.values())
        assert {one.dtype for one in tensors.values()} == {torch.float16}
        assert numbers <= rank * sum(sum(one.shape) for one in matrices) + vectors
    errors, sizes = [one.error for one in reports], [one.size for one in reports]
    assert errors == sorted(errors, reverse=True)
    assert sizes == sorted(sizes)
    assert all(0 < one.error <= one.largest_error <= 1 for one in reports)


def test_the_stated_error_is_that_of_the_weights(changed, tiny_metric, tmp_path):
    metric = changed()
    again = load_checkpoint(save_checkpoint(metric, tmp_path / "a", card="", adapter=AdapterConfig(2, "float32")))
    old, new, found = (one.encoder.state_dict() for one in (tiny_metric(), metric, again))
    lost = {name: float((found[name] - one).norm()) for name, one in new.items() if one.ndim == 2}
    whole = {name: float((one - old[name]).norm()) for name, one in new.items() if one.ndim == 2}
    report = adapter_report(tmp_path / "a")
    assert report.error == pytest.approx(
        np.linalg.norm(list(lost.values())) / np.linalg.norm(list(whole.values())), 1e-4
    )
    assert report.largest_error == pytest.approx(max(lost[name] / whole[name] for name in lost), 1e-4)
    assert report.largest_error == pytest.approx(lost[report.matrix] / whole[report.matrix], 1e-4)


def test_what_did_not_change_takes_no_space(tiny_metric, tmp_path):
    metric = tiny_metric(calibrate=True)
    save_checkpoint(metric, tmp_path / "adapter", card="", adapter=AdapterConfig())
    assert set(stored(tmp_path / "adapter")) == {"calibration.scale", "calibration.offset"}
    again = load_checkpoint(tmp_path / "adapter")
    assert again.signature == metric.signature
    assert torch.equal(probe_scores(again), probe_scores(metric))
    assert adapter_report(tmp_path / "adapter").matrix is None


def test_the_folder_names_its_base_and_holds_nothing_of_it(changed, tiny_encoder, tmp_path):
    folder = save_checkpoint(changed(rank=1), tmp_path / "adapter", card="# card", adapter=EXACT)
    assert {one.name for one in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    entries = read_config(folder)
    assert entries["format"] == 2
    base = entries["encoder"]["base"]
    assert (base["name"], base["revision"]) == (str(tiny_encoder), None)
    assert base["sha256"] == file_sha256(tiny_encoder / "model.safetensors")
    assert (entries["adapter"]["rank"], entries["adapter"]["dtype"]) == (2, "float32")
    report = adapter_report(folder)
    assert report.size == sum(one.stat().st_size for one in folder.iterdir())
    assert report.sha256 == base["sha256"]
    assert adapter_report(save_checkpoint(changed(rank=1), tmp_path / "full", card="")) is None


# --- the way on -------------------------------------------------------------------------------------------------------


def test_an_adapter_can_be_trained_on_and_saved_over_the_same_base(changed, tmp_path):
    first = save_checkpoint(changed(rank=1), tmp_path / "first", card="", adapter=EXACT)
    metric = load_checkpoint(first)
    with torch.no_grad():
        for name, one in metric.encoder.named_parameters():
            if "query.weight" in name:
                one.add_(low_rank(one.shape, 1, 0.05))
    second = save_checkpoint(metric, tmp_path / "second", card="", adapter=EXACT)
    bases = [read_config(folder)["encoder"]["base"] for folder in (first, second)]
    assert bases[0] == bases[1]
    assert (probe_scores(load_checkpoint(second)) - probe_scores(metric)).abs().max() < 1e-5
    assert load_checkpoint(second).signature != load_checkpoint(first).signature


def test_an_adapter_becomes_full_weights_and_an_adapter_again(changed, tmp_path):
    metric = load_checkpoint(save_checkpoint(changed(rank=1), tmp_path / "a", card="", adapter=EXACT))
    full = load_checkpoint(save_checkpoint(metric, tmp_path / "full", card=""))
    assert full.signature == metric.signature
    assert torch.equal(probe_scores(full), probe_scores(metric))
    again = load_checkpoint(save_checkpoint(full, tmp_path / "b", card="", adapter=EXACT))
    assert (probe_scores(again) - probe_scores(metric)).abs().max() < 1e-5


def test_a_checkpoint_of_an_earlier_version_becomes_an_adapter(changed, tmp_path):
    """It names no base: the configuration's encoder and the hash in its identity stand for it."""
    metric = changed(rank=1)
    full = save_checkpoint(metric, tmp_path / "full", card="")
    entries = read_config(full)
    base = entries["encoder"].pop("base")
    entries["encoder"]["identity"] = f"tiny@{base['sha256'][:8]}"
    write_config(full, entries)
    folder = save_checkpoint(load_checkpoint(full), tmp_path / "adapter", card="", adapter=EXACT)
    assert read_config(folder)["encoder"]["base"] == base
    assert (probe_scores(load_checkpoint(folder)) - probe_scores(metric)).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("saved", "asked"), [("bfloat16", "bfloat16"), ("float32", "bfloat16"), ("bfloat16", "float32")]
)
def test_types_of_the_encoder(changed, tmp_path, saved, asked):
    """The difference is that of the type in which the metric was saved; another one is cast from the sum."""
    metric = changed(rank=1, dtype=saved)
    folder = save_checkpoint(metric, tmp_path / "adapter", card="", adapter=AdapterConfig(32, "float32"))
    again = load_checkpoint(folder, dtype=asked)
    assert {one.dtype for one in again.encoder.parameters()} == {getattr(torch, asked)}
    metric.cast_encoder(getattr(torch, asked))
    assert (probe_scores(again) - probe_scores(metric)).abs().max() < 1e-6


@pytest.mark.parametrize("change", [{"score": "recall"}, {"calibrate": False}, {"max_length": 5}], ids=str)
def test_fields_beside_the_weights_can_be_overridden(changed, tmp_path, change):
    folder = save_checkpoint(changed(rank=1), tmp_path / "adapter", card="", adapter=EXACT)
    full = save_checkpoint(load_checkpoint(folder), tmp_path / "full", card="")
    assert torch.equal(probe_scores(load_checkpoint(folder, **change)), probe_scores(load_checkpoint(full, **change)))
    with pytest.raises(InputError, match="but got `layer`"):
        load_checkpoint(folder, layer=1)


# --- the base ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_base(tiny_encoder, changed, tmp_path):
    """An adapter over a copy of the tiny encoder, and the copy."""
    base = shutil.copytree(tiny_encoder, tmp_path / "base")
    metric = changed(rank=1, encoder=str(base))
    return save_checkpoint(metric, tmp_path / "adapter", card="", adapter=EXACT), base, metric


def test_another_base_is_refused_with_both_hashes(own_base):
    folder, base, _ = own_base
    expected = file_sha256(base / "model.safetensors")
    weights = load_file(base / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name] + 1}, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="base encoder") as caught:
        load_checkpoint(folder)
    said = str(caught.value)
    assert expected in said
    assert file_sha256(base / "model.safetensors") in said
    assert "give the folder or hub name of the right one as `encoder`" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("tokenizer.json", '"lowercase": true', '"lowercase": false', "to have a tokenizer of the hash"),
        ("config.json", '"num_hidden_layers": 3', '"num_hidden_layers": 2', "to have 3 layers, but that in .* has 2"),
    ],
)
def test_a_base_of_the_same_weights_that_reads_otherwise_is_refused(own_base, file, old, new, said):
    folder, base, _ = own_base
    text = (base / file).read_text()
    assert old in text
    (base / file).write_text(text.replace(old, new))
    with pytest.raises(InputError, match=said):
        load_checkpoint(folder)


def test_a_base_that_moved_is_named_as_the_encoder(own_base, tmp_path, monkeypatch):
    folder, base, metric = own_base
    moved = base.rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"was not found \(no folder .*The adapter needs this base: give its folder"):
        load_checkpoint(folder)
    monkeypatch.setattr(encoder_identity, "MULTILINGUAL", str(base))
    with pytest.raises(InputError, match=r'needs this base: run `pip install "textmover\[multilingual\]"`, give its'):
        load_checkpoint(folder)
    again = load_checkpoint(folder, encoder=str(moved))
    assert (probe_scores(again) - probe_scores(metric)).abs().max() < 1e-5
    third = save_checkpoint(again, tmp_path / "third", card="", adapter=EXACT)
    assert read_config(third)["encoder"]["base"]["name"] == str(moved)


# --- what cannot be an adapter ----------------------------------------------------------------------------------------


def test_what_has_no_base_is_refused(tmp_path):
    (tmp_path / "vectors.txt").write_text("a 1 0\ndog 0 1\nhome 1 1\n")
    from textmover.modules import MetricConfig, MetricModel

    metric = MetricModel.from_config(MetricConfig(encoder=str(tmp_path / "vectors.txt")))
    with pytest.raises(InputError, match="no weights to train"):
        save_checkpoint(metric, tmp_path / "adapter", card="", adapter=EXACT)
    assert [one.name for one in tmp_path.iterdir()] == ["vectors.txt"]


def test_weights_that_the_base_lacks_are_refused(changed, tmp_path):
    metric = changed(rank=1)
    metric.encoder.model.extra = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match=r"only one has model\.extra\.bias: merge or remove"):
        save_checkpoint(metric, tmp_path / "adapter", card="", adapter=EXACT)


@pytest.mark.parametrize(("value", "said"), [(float("nan"), "finite weights"), (1e6, "too large: choose float32")])
def test_numbers_that_cannot_be_stored_are_refused(changed, tmp_path, value, said):
    metric = changed(rank=1)
    with torch.no_grad():
        metric.encoder.model.embeddings.LayerNorm.bias[0] = value
    with pytest.raises(InputError, match=said):
        save_checkpoint(metric, tmp_path / "adapter", card="", adapter=AdapterConfig())
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize("fields", [{"rank": 0}, {"rank": True}, {"rank": 2.0}, {"dtype": "int8"}], ids=str)
def test_configurations_are_checked(fields):
    with pytest.raises(InputError, match=f"`{next(iter(fields))}` to be"):
        AdapterConfig(**fields)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stranger", "no right factor", "another size", "missing part"])
def test_an_adapter_that_does_not_fit_is_one_sentence(changed, tmp_path, how):
    folder = save_checkpoint(changed(rank=1), tmp_path / "adapter", card="", adapter=EXACT)
    state, entries = stored(folder), read_config(folder)
    left = next(name for name in state if name.endswith("@left"))
    if how == "stranger":
        state["encoder.model.stranger@left"] = torch.ones(2, 1)
    elif how == "no right factor":
        del state[left.replace("@left", "@right")]
    elif how == "another size":
        state[left] = state[left][:-1].clone()
    else:
        del state["calibration.scale"]
    save_file(state, folder / "model.safetensors")
    write_config(folder, entries)
    with pytest.raises(InputError, match=r"weights of its base|to fit") as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


def test_a_rank_beyond_its_bound_is_one_sentence(changed, tmp_path):
    folder = save_checkpoint(changed(rank=1), tmp_path / "adapter", card="", adapter=EXACT)
    entries = read_config(folder)
    write_config(folder, {**entries, "adapter": {**entries["adapter"], "rank": 10**9}})
    with pytest.raises(InputError, match=r"^[^\n]*`rank` of the adapter in .* from 1 to 65,536, but got 1000000000.*$"):
        load_checkpoint(folder)


@pytest.mark.parametrize("here", ["in full", "in 4 bits"])
def test_the_multilingual_encoder_in_other_bits_is_told(changed, tiny_encoder, tmp_path, caplog, monkeypatch, here):
    """Its weights in 4 bits and in full serve for one another, under a signature of their own; others never do."""

    def copied(name, part):
        folder = shutil.copytree(tiny_encoder, tmp_path / name)
        state = load_file(folder / "model.safetensors")
        save_file(state | {part: 1.01 * state[part]}, folder / "model.safetensors")
        return folder

    other = copied("other", "embeddings.word_embeddings.weight")
    known = load_file(other / "model.safetensors")
    packed = tiny_encoder if here == "in full" else other
    monkeypatch.setattr(encoder_identity, "UNPACKED_SHA256", file_sha256(packed / "model.safetensors"))
    never_packed = {name: known[name] for name in encoder_identity.NEVER_PACKED}
    monkeypatch.setattr(encoder_identity, "NEVER_PACKED_PRINT", weights_fingerprint(never_packed))
    monkeypatch.setattr(encoder_identity, "MULTILINGUAL", str(other))
    metric = changed(2)
    save_checkpoint(metric, tmp_path / "adapter", card="", adapter=EXACT)
    loaded = load_checkpoint(tmp_path / "adapter", encoder=str(other))
    assert "is in 4 bits" in caplog.text
    sha256 = file_sha256(other / "model.safetensors")
    saved = load_checkpoint(tmp_path / "adapter").signature.entries["encoder"]
    assert loaded.signature.entries["encoder"] == saved.rpartition("@")[0] + f"@{sha256[:8]}" != saved
    assert Scorer(loaded).score(TEXTS, TEXTS[::-1]).scores == pytest.approx(
        Scorer(metric).score(TEXTS, TEXTS[::-1]).scores, abs=0.2
    )
    again = tmp_path / "again"
    save_checkpoint(loaded, again, card="", adapter=EXACT)
    assert read_config(again)["encoder"]["base"]["sha256"] == sha256
    with pytest.raises(InputError, match="to have weights of the hash"):
        load_checkpoint(tmp_path / "adapter", encoder=str(copied("third", encoder_identity.NEVER_PACKED[1])))


# --- factors of differences -------------------------------------------------------------------------------------------


def low_rank_factors(difference, rank):
    return _factors(difference.double(), _singular(difference.double(), rank)[1])


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (7, 7), (1, 6)])
@pytest.mark.parametrize("rank", [1, 3, 20])
def test_factors_are_the_nearest_matrix_of_their_rank(shape, rank):
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=shape))
    left, right = low_rank_factors(matrix, rank)
    values = np.linalg.svd(matrix.numpy(), compute_uv=False)
    assert left.shape == (shape[0], min(rank, *shape))
    # Eckart and Young: the squares of the singular values that are left out.
    assert float((left @ right - matrix).square().sum()) == pytest.approx((values[rank:] ** 2).sum(), abs=1e-12)
    np.testing.assert_allclose(left.norm(dim=0), right.norm(dim=1), rtol=1e-9)
    np.testing.assert_allclose(left.norm(dim=0).square(), values[:rank], rtol=1e-7)


def test_a_matrix_of_lower_rank_has_fewer_columns():
    torch.manual_seed(0)
    matrix = (torch.randn(20, 2) @ torch.randn(2, 9)).double()
    left, right = low_rank_factors(matrix, 6)
    assert (left @ right - matrix).abs().max() < 1e-6
    once = torch.outer(torch.arange(1.0, 5.0), torch.ones(3)).double()
    assert low_rank_factors(once, 3)[0].shape == (4, 1)


def test_space_goes_where_it_keeps_the_most():
    """Compared with every way to deal out the space, where all ranks take the same."""
    values = {
        "a": torch.tensor([5.0, 1.0, 0.5]),
        "b": torch.tensor([2.0, 1.5, 0.1]),
        "c": torch.tensor([0.3, 0.2, 0.1]),
    }
    found = allocate_ranks(values, dict.fromkeys(values, 4), 1)

    def kept(ranks):
        return sum(float(one[:rank].square().sum()) for one, rank in zip(values.values(), ranks, strict=True))

    best = max((one for one in itertools.product(range(4), repeat=3) if sum(one) <= 3), key=kept)
    assert tuple(found.values()) == best == (1, 2, 0)


def test_singular_values_of_nothing_take_no_space():
    ranks = allocate_ranks({"a": torch.tensor([1.0, 0.0]), "b": torch.zeros(2)}, {"a": 3, "b": 3}, 2)
    assert ranks == {"a": 1, "b": 0}


def test_a_matrix_is_restored_in_parts_as_in_one(monkeypatch):
    torch.manual_seed(0)
    before = {"weight": torch.randn(10, 4), "count": torch.tensor(3)}
    factors = {"weight@left": torch.randn(10, 2), "weight@right": torch.randn(2, 4)}
    whole = apply_difference(before, factors)
    monkeypatch.setattr("textmover.checkpoints.adapter.ROWS", 3)
    parts = apply_difference(before, factors)
    torch.testing.assert_close(parts["weight"], before["weight"] + factors["weight@left"] @ factors["weight@right"])
    assert torch.equal(parts["weight"], whole["weight"])
    assert torch.equal(parts["count"], before["count"])
