"""Metrics that share a memory read each text once and score as they would alone."""

import copy
import functools
import gc
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx

from textmover import Scorer
from textmover.scoring import save_checkpoint
from textmover.scoring.backends.torch_runners import CompiledRunner
from textmover.scoring.cache.hidden_states import EncoderMemory, _Weights, flush_all
from textmover.scoring.cache.state_files import ENTRIES, FORMAT, StateFiles
from textmover.types import InputError

HYPOTHESES = "the small dog ran to the old house", "she will buy a book", "tea", "go home", "tea"
REFERENCES = "a little dog runs home at night", "she sold it", "a cold drink of water", "go home", "tea"
TEXTS = {*HYPOTHESES, *REFERENCES}
PRESETS = {
    "twmd": {"layer": 1, "temperature": 0.1},
    "bertscore-f1": {"layer": 2},
    "moverscore-wmd2": {"last_layers": 3, "weights": "uniform"},
    "sbert": {"layer": -1},
}


@pytest.fixture(scope="module")
def load(tiny_encoder):
    return lambda name, **options: Scorer.from_pretrained(
        name, encoder=str(tiny_encoder), device="cpu", **{**PRESETS[name], **options}
    )


@pytest.fixture(scope="module")
def alone(load):
    """Scores of a metric that shares nothing."""
    return functools.cache(
        lambda name, hypotheses=HYPOTHESES, references=REFERENCES: load(name).score(hypotheses, references).scores
    )


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)


def refuse(number: int, text: str):
    """A call that the system refuses."""

    def refuse(*_, **__):
        raise OSError(number, text)

    return refuse


@pytest.fixture
def kept(load, tmp_path):
    """A file that holds states."""
    memory = EncoderMemory(folder=tmp_path)
    load("twmd", memory=memory).score(HYPOTHESES, REFERENCES)
    memory.flush()
    (path,) = tmp_path.rglob("*.safetensors")
    return path


def encoded(scorer: Scorer, monkeypatch) -> list[str]:
    """Texts that an encoder reads from here on."""
    read: list[str] = []
    encoder = scorer.metric.encoder
    real = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda batch: (read.extend(batch.texts), real(batch))[1])
    return read


@pytest.mark.parametrize("order", [list(PRESETS), list(PRESETS)[::-1]])
def test_scores_are_those_of_each_metric_alone_and_each_text_is_read_once(load, alone, order, monkeypatch):
    memory = EncoderMemory()
    together = {name: load(name, memory=memory) for name in order}
    reads = [encoded(scorer, monkeypatch) for scorer in together.values()]
    assert len({id(one.metric.encoder.model) for one in together.values()}) == 1
    for _ in range(2):
        for name, scorer in together.items():
            close(scorer.score(HYPOTHESES, REFERENCES).scores, alone(name))
            scorer.clear_cache()
    assert sorted(text for read in reads for text in read) == sorted(TEXTS)


def test_metrics_of_other_weights_or_windows_are_kept_apart_and_a_checkpoint_of_the_same_shares(
    load, tiny_metric, tmp_path
):
    memory = EncoderMemory()
    other = tiny_metric(layer=1)
    with torch.no_grad():
        other.encoder.model.encoder.layer[0].output.dense.weight += 0.1
    first, third = load("twmd", memory=memory), load("twmd", memory=memory, long_texts="window")
    second, fourth = (
        Scorer.from_pretrained(save_checkpoint(one, tmp_path / name, card=""), device="cpu", memory=memory)
        for name, one in {"other": other, "same": load("twmd").metric}.items()
    )
    assert len({id(one.metric.encoder.model) for one in (first, second, third)}) == len(memory._groups) == 3
    assert first.metric.encoder.model is fourth.metric.encoder.model
    scores = [one.score(HYPOTHESES, REFERENCES).scores for one in (first, second)]
    assert abs(scores[0] - scores[1]).max() > 1e-6


def step(metric, optimizer=None) -> None:
    """One step of an optimiser that is far too large."""
    optimizer = optimizer or torch.optim.SGD(metric.parameters(), lr=5.0)
    metric(metric.tokenize(["tea"]), metric.tokenize(["go home"])).score.sum().backward()
    optimizer.step()


CHANGES = {
    "training": lambda metric: (metric.train(), step(metric), metric.eval()),
    "gradients in evaluation mode": step,
    "other weights": lambda metric: metric.load_state_dict(
        {name: one * 1.5 if one.is_floating_point() else one for name, one in metric.state_dict().items()}
    ),
    "another arithmetic": lambda metric: metric.cast_encoder(torch.bfloat16),
}


@pytest.mark.parametrize("backend", ["torch", "pretended"])
@pytest.mark.parametrize("change", CHANGES)
def test_whoever_changes_its_weights_leaves_and_changes_nobody_else(
    load, alone, tmp_path, change, backend, monkeypatch
):
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)  # a compiler takes its time
    new = ("a new text", "many people walk"), ("tea", "a red door")
    memory = EncoderMemory(folder=tmp_path)
    changed, kept, third = (load(name, memory=memory) for name in ("bertscore-f1", "bertscore-f1", "twmd"))
    if backend == "pretended":
        kept.metric.encoder.run_with(CompiledRunner(kept.metric.encoder.graph()))
        kept.metric.encoder.runner._ready_graph = kept.metric.encoder.runner._graph  # a compiler takes its time
    changed.score(HYPOTHESES, REFERENCES)
    CHANGES[change](changed.metric)
    for scorer in (changed, kept, third):
        scorer.clear_cache()
    for pair in ((HYPOTHESES, REFERENCES), new):
        close(kept.score(*pair).scores, alone("bertscore-f1", *pair))
        assert abs(changed.score(*pair).scores - alone("bertscore-f1", *pair)).max() > 1e-4
    assert kept.metric.encoder.model is third.metric.encoder.model is not changed.metric.encoder.model
    memory.flush()
    again = load("bertscore-f1", memory=EncoderMemory(folder=tmp_path))
    close(again.score(*new).scores, alone("bertscore-f1", *new))


def test_an_optimiser_that_was_made_before_trains_the_metric_it_was_made_for(load, alone):
    memory, expected = EncoderMemory(), alone("bertscore-f1")
    trained, kept = load("bertscore-f1", memory=memory), load("bertscore-f1", memory=memory)
    kept.score(HYPOTHESES, REFERENCES)
    optimizer = torch.optim.SGD(trained.metric.parameters(), lr=5.0)
    metric = trained.metric.train()
    step(metric, optimizer)
    metric.eval()
    kept.clear_cache()
    memory.forget()
    close(kept.score(HYPOTHESES, REFERENCES).scores, expected)
    assert abs(Scorer(metric).score(HYPOTHESES, REFERENCES).scores - expected).max() > 1e-4


def test_shared_weights_that_somebody_changed_in_place_are_refused(load):
    memory = EncoderMemory()
    first, second = load("bertscore-f1", memory=memory), load("bertscore-f1", memory=memory)
    first.score(HYPOTHESES, REFERENCES)
    with torch.no_grad():
        next(first.metric.encoder.model.parameters()).mul_(1.5)
    with pytest.raises(InputError, match=r"weights that 2 metrics share .* were changed in place: call train\(\)"):
        second.score(["new"], ["text"])
    del first
    gc.collect()
    changed = Scorer(copy.deepcopy(second.metric)).score(HYPOTHESES, REFERENCES).scores
    close(second.score(HYPOTHESES, REFERENCES).scores, changed)  # alone, it leaves with what it has


def test_metrics_in_bfloat16_share(load):
    memory = EncoderMemory()
    scorers = [load(name, memory=memory, backend="torch") for name in ("twmd", "bertscore-f1")]
    for scorer in scorers:
        scorer.metric.cast_encoder(torch.bfloat16)
        memory.join(scorer.metric, "fast torch")
    assert scorers[0].metric.encoder.model is scorers[1].metric.encoder.model
    assert len(memory._groups) == 1


def test_equal_weights_with_another_configuration_are_kept_apart():
    from transformers import DistilBertConfig, DistilBertModel

    def weights(**changes):
        torch.manual_seed(0)
        settings = {"vocab_size": 50, "dim": 16, "n_heads": 4, "n_layers": 2, "hidden_dim": 32}
        return _Weights.of(DistilBertModel(DistilBertConfig(**{**settings, **changes})))

    same, others = weights(), {"n_heads": 2, "activation": "relu", "max_position_embeddings": 64}
    assert same.agree(weights())
    for name, value in {**others, "sinusoidal_pos_embds": True}.items():
        assert not same.agree(weights(**{name: value})), name


def test_copies_and_other_weights_do_not_share(load):
    scorer = load("twmd", memory=EncoderMemory())
    for copied in (copy.deepcopy(scorer.metric), pickle.loads(pickle.dumps(scorer.metric))):
        assert copied.encoder._states is None
        close(Scorer(copied).score(HYPOTHESES, REFERENCES).scores, scorer.score(HYPOTHESES, REFERENCES).scores)
    scorer.metric.load_state_dict(scorer.metric.state_dict())
    assert scorer.metric.encoder._states is None


def test_copies_of_several_that_share_are_trained_apart(load, alone):
    memory, expected = EncoderMemory(), alone("bertscore-f1")
    pair = [load("bertscore-f1", memory=memory).metric for _ in range(2)]
    for one, other in (copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
        CHANGES["training"](one)
        close(Scorer(other).score(HYPOTHESES, REFERENCES).scores, expected)
        assert abs(Scorer(one).score(HYPOTHESES, REFERENCES).scores - expected).max() > 1e-4


def test_states_are_bounded(load):
    memory = EncoderMemory(limit=5_000)
    scorer = load("twmd", memory=memory, batch_tokens=12)
    scorer.score(HYPOTHESES, REFERENCES)
    assert 0 < memory._groups[0].cache.nbytes <= 5_000
    memory.forget()
    assert memory._groups[0].cache.nbytes == 0


def test_a_member_that_is_gone_is_not_held(load):
    memory = EncoderMemory()
    first, second = load("twmd", memory=memory), load("bertscore-f1", memory=memory)
    del first
    gc.collect()
    assert list(memory._groups[0].encoders) == [second.metric.encoder]


def test_auto_and_other_bounds_than_bytes_are_refused(load):
    with pytest.raises(InputError, match="`precision` to be named where metrics share their encoder"):
        load("twmd", memory=EncoderMemory(), precision="auto")
    for wrong in (-1, "1GB", None, True, float("nan")):
        with pytest.raises(InputError, match=f"`limit` to be a number of bytes of at least 0, but got {wrong!r}"):
            EncoderMemory(limit=wrong)
        with pytest.raises(InputError, match=f"`folder_limit` to be .* but got {wrong!r}"):
            EncoderMemory(folder_limit=wrong)
        with pytest.raises(InputError, match=f"`limit` to be .* but got {wrong!r}"):
            EncoderMemory().limit = wrong


# --- on disk ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kept")
def test_states_outlive_the_process(load, alone, tmp_path, monkeypatch):
    scorer = load("twmd", memory=EncoderMemory(folder=tmp_path))
    read = encoded(scorer, monkeypatch)
    after = scorer.score([*HYPOTHESES, "a new text"], [*REFERENCES, "tea"]).scores
    assert read == ["a new text"]
    close(after[:5], alone("twmd"))


def test_other_layers_and_weights_have_a_place_of_their_own(load, tmp_path, monkeypatch):
    for name in ("twmd", "bertscore-f1"):
        memory = EncoderMemory(folder=tmp_path)
        scorer = load(name, memory=memory)
        read = encoded(scorer, monkeypatch)
        scorer.score(HYPOTHESES, REFERENCES)
        memory.flush()
        assert set(read) == TEXTS
    places = [one.parent for one in tmp_path.rglob("identity.json")]
    assert len(places) == 2


def test_the_folder_is_bounded(load, tmp_path):
    memory = EncoderMemory(folder=tmp_path, folder_limit=20_000)
    scorer = load("twmd", memory=memory)
    for number in range(8):
        scorer.score([f"{'the dog ran home ' * 3}{number}"], ["tea"])
        memory.flush()
        assert sum(one.stat().st_size for one in tmp_path.rglob("*.safetensors")) <= 20_000


def test_a_folder_of_another_version_is_ignored_and_said(load, tmp_path, logged):
    (tmp_path / "v1").mkdir()
    other = tmp_path / "v0" / ("ab" * 12) / "0123456789abcdef.safetensors"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"anything")
    memory = EncoderMemory(folder=tmp_path)
    load("twmd", memory=memory).score(["tea"], ["tea"])
    memory.flush()
    (line,) = logged()
    assert line == (
        f"{tmp_path / 'v0'} was written by another version of textmover and is ignored: it is removed when space "
        f"is needed, or with `textmover cache {tmp_path} --clear`."
    )
    assert other.exists()


OTHER_VERSIONS = {
    "torch": lambda patch: patch.setattr(torch, "__version__", "2.0.1"),
    "transformers": lambda patch: patch.setattr("transformers.__version__", "4.0.1"),
    "back-end": lambda patch: patch.setattr(Renamed, "name", "openvino-2020.1.0"),
}


class Renamed(CompiledRunner):
    """The model itself under the name of a back-end."""

    name = "openvino-2026.4.1"


def rerun(load, folder, monkeypatch) -> list[str]:
    """Texts that a new process would read which keeps its states in a folder."""
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)  # a compiler takes its time
    memory = EncoderMemory(folder=folder)
    scorer = load("twmd", memory=memory)
    scorer.metric.encoder.run_with(Renamed(scorer.metric.encoder.graph()))
    read = encoded(scorer, monkeypatch)
    scorer.score(HYPOTHESES, REFERENCES)
    memory.flush()
    return read


@pytest.mark.parametrize("change", OTHER_VERSIONS)
def test_states_of_other_versions_of_packages_are_ignored_and_said(load, tmp_path, logged, monkeypatch, change):
    assert set(rerun(load, tmp_path, monkeypatch)) == TEXTS
    assert rerun(load, tmp_path, monkeypatch) == []
    assert logged() == []
    versions = f"openvino 2026.4.1, torch {torch.__version__}, transformers {transformers.__version__}"
    with monkeypatch.context() as patch:
        OTHER_VERSIONS[change](patch)
        assert set(rerun(load, tmp_path, monkeypatch)) == TEXTS
        (said,) = logged()
        assert said == (
            f"States of texts in {tmp_path / 'v3'} were made with other versions ({versions}) and are ignored: texts "
            "are encoded again."
        )
        assert rerun(load, tmp_path, monkeypatch) == []
    assert rerun(load, tmp_path, monkeypatch) == []  # both are there
    assert len(logged()) == 1


def test_states_of_other_weights_or_devices_are_nothing_to_speak_of(load, tmp_path, logged, monkeypatch):
    rerun(load, tmp_path, monkeypatch)
    (record,) = tmp_path.rglob("identity.json")
    told = json.loads(record.read_text())
    assert (told["device"], told["backend"], told["precision"]) == ("cpu", "openvino", "exact")
    record.parent.rename(record.parent.with_name("other"))
    for changes in ({"versions": "torch 1", "weights": "f00"}, {"versions": "torch 1", "device": "cuda"}):
        (tmp_path / "v3" / "other" / "identity.json").write_text(json.dumps({**told, **changes}))
        StateFiles(tmp_path, told, 1000)
    assert logged() == []


@pytest.mark.parametrize("content", ["", "{", '{"device": "cpu"}', "[]"])
def test_a_damaged_identity_is_written_again(tmp_path, content):
    identity = dict.fromkeys(ENTRIES, "a")
    record = StateFiles(tmp_path, identity, 1000).place / "identity.json"
    whole = record.read_text()
    record.write_text(content)
    StateFiles(tmp_path, identity, 1000)
    assert record.read_text() == whole


@pytest.mark.parametrize(
    ("dtype", "device", "precision"), [(torch.float32, "cpu", "exact"), (torch.bfloat16, "AVX-7", "torch.bfloat16")]
)
def test_arithmetic_that_a_processor_decides_on_has_its_name(load, tmp_path, monkeypatch, dtype, device, precision):
    monkeypatch.setattr("textmover.scoring.cache.hidden_states.machine_of", lambda _: "AVX-7")
    memory = EncoderMemory(folder=tmp_path)
    scorer = load("twmd", memory=memory, backend="torch")
    if dtype != torch.float32:
        scorer.metric.cast_encoder(dtype)
        memory.join(scorer.metric, "fast torch")
    scorer.score(HYPOTHESES, REFERENCES)
    told = json.loads(next(tmp_path.rglob("identity.json")).read_text())
    runs = scorer.metric.encoder.runner
    expected = precision if runs is not None or dtype != torch.float32 else precision.replace("exact", "torch.float32")
    assert (told["device"], told["precision"]) == (device, expected)


def test_what_is_kept_of_a_text_has_not_changed_unless_the_format_says_so(load, tmp_path):
    """Whoever changes what is kept of a text, or by what it is found, raises ``FORMAT``, and the figures here."""
    memory = EncoderMemory(folder=tmp_path)
    scorer = load("twmd", memory=memory, long_texts="window", max_length=8, backend="torch")
    with torch.no_grad():
        for weights in scorer.metric.encoder.model.parameters():
            weights.copy_(0.3 * torch.sin(1.7 * torch.arange(weights.numel())).view_as(weights))
    scorer.metric.encoder.leave()
    memory.join(scorer.metric, "exact torch")
    scorer.score(["the small dog ran to the old house and then home"], ["tea"])
    memory.flush()
    (path,) = tmp_path.rglob("*.safetensors")
    found = load_file(path)
    assert FORMAT == 3
    assert {bytes(row.tolist()).hex()[:8] for row in found["keys"]} == {"fc7434b1", "26bf4071"}
    assert found["lengths"].tolist() == [19, 3]
    assert set(found) == {"keys", "lengths", "checks", "layer.1"}
    assert found["layer.1"][[1, 10, -4], 5].tolist() == pytest.approx([0.1916, 0.18923, 0.19166], abs=1e-4)


def test_damaged_files_are_removed_and_said_once(load, kept, tmp_path, caplog, logged, monkeypatch):
    kept.write_bytes(kept.read_bytes()[:100])
    foreign = kept.with_name("mine.safetensors")
    foreign.write_bytes(b"mine")
    memory = EncoderMemory(folder=tmp_path)
    scorer = load("twmd", memory=memory)
    read = encoded(scorer, monkeypatch)
    scorer.score(HYPOTHESES, REFERENCES)
    assert set(read) == TEXTS
    first, second = sorted(logged())
    assert re.fullmatch(rf"{kept} is damaged \(.*\) and has been removed: its texts are encoded again\.", first)
    assert second.startswith(f"{foreign} is damaged (")
    assert "and is ignored, since textmover has not named it" in second
    assert (kept.exists(), foreign.exists()) == (False, True)
    memory.flush()
    foreign.unlink()
    caplog.clear()
    rerun(load, tmp_path, monkeypatch)
    assert logged() == []


@pytest.mark.parametrize(
    ("damage", "removable", "said"),
    [
        (lambda content: b"", False, "and is ignored, since it cannot be removed (Operation not permitted)"),
        (
            lambda content: content[:-600] + bytes(400) + content[-200:],
            True,
            "is damaged (its checksum does not match) and has been removed: its texts are encoded",
        ),
    ],
)
def test_damaged_states_are_made_again(load, alone, kept, tmp_path, caplog, monkeypatch, damage, removable, said):
    kept.write_bytes(damage(kept.read_bytes()))
    unlink, forbidden = Path.unlink, refuse(1, "Operation not permitted")
    if not removable:  # memories of other tests may be written meanwhile
        monkeypatch.setattr(Path, "unlink", lambda one, **how: forbidden() if one == kept else unlink(one, **how))
    close(load("twmd", memory=EncoderMemory(folder=tmp_path)).score(HYPOTHESES, REFERENCES).scores, alone("twmd"))
    assert said in caplog.text
    assert kept.exists() != removable


@pytest.mark.slow
def test_nothing_is_lost_when_the_memory_is_gone_or_the_process_ends_hard(load, tmp_path):
    memory = EncoderMemory(folder=tmp_path / "gone")
    scorer = load("twmd", memory=memory)
    scorer.score(HYPOTHESES, REFERENCES)
    del memory, scorer
    gc.collect()
    assert len(list((tmp_path / "gone").rglob("*.safetensors"))) == 1
    memory = EncoderMemory(folder=tmp_path / "held")
    load("twmd", memory=memory).score(HYPOTHESES, REFERENCES)
    flush_all()
    assert len(list((tmp_path / "held").rglob("*.safetensors"))) == 1


class Collecting(torch.nn.Linear):
    """A layer that forgets what it is told to, and collects what nobody needs, before it computes."""

    def __init__(self, forget) -> None:
        super().__init__(3, 2)
        self.forget = forget

    def forward(self, inputs):
        self.forget()
        gc.collect()
        return super().forward(inputs)


FOLLOW = {
    "export": lambda layer, given: torch.export.export(layer, (given,), dynamic_shapes=({0: Dim("n", min=2)},)),
    "pre-dispatch": lambda layer, given: make_fx(layer, pre_dispatch=True)(given),
    "symbolic": lambda layer, given: make_fx(layer, tracing_mode="symbolic", _allow_non_fake_inputs=True)(given),
}


@pytest.mark.parametrize(("follow", "folder"), [*((one, "states") for one in FOLLOW), ("export", None)])
def test_a_memory_that_goes_while_torch_follows_a_graph_is_written_and_leaves_no_trace(load, tmp_path, follow, folder):
    graphs, given = [], torch.ones(4, 3)
    for held in ({}, {"scorer": load("twmd", memory=EncoderMemory(folder=folder and tmp_path / folder))}):
        if held:
            held["scorer"].score(HYPOTHESES, REFERENCES)
        graphs.append(FOLLOW[follow](Collecting(held.clear), given).graph)
    one, other = ([(node.op, str(node.target)) for node in graph.nodes] for graph in graphs)
    assert one == other
    assert len(list(tmp_path.rglob("*.safetensors"))) == bool(folder)


def test_a_folder_that_belongs_to_somebody_else_is_read_all_the_same(load, kept, tmp_path, monkeypatch, caplog):
    assert kept.stat().st_mode & 0o777 == (kept.parent / "identity.json").stat().st_mode & 0o777
    forbidden = refuse(1, "Operation not permitted")
    monkeypatch.setattr("os.utime", forbidden)
    scorer = load("twmd", memory=EncoderMemory(folder=tmp_path, folder_limit=1))
    read = encoded(scorer, monkeypatch)
    scorer.score(HYPOTHESES, REFERENCES)
    assert read == []
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda one, **how: forbidden() if one == kept else unlink(one, **how))
    scorer.score(["one more text"], ["tea"])
    scorer.metric.encoder._states.memory.flush()
    assert "no longer cached" in caplog.text


def test_files_that_another_process_removed_are_read_anew(load, alone, tmp_path):
    memory = EncoderMemory(limit=0, folder=tmp_path)
    scorer = load("twmd", memory=memory)
    scorer.score(HYPOTHESES, REFERENCES)
    memory.flush()
    for path in tmp_path.rglob("*.safetensors"):
        path.unlink()
    scorer.clear_cache()
    close(scorer.score(HYPOTHESES, REFERENCES).scores, alone("twmd"))


def test_a_full_disk_is_said_once_and_scoring_goes_on(load, alone, tmp_path, monkeypatch, caplog):
    memory = EncoderMemory(folder=tmp_path)
    scorer = load("twmd", memory=memory)
    scorer.score(HYPOTHESES, REFERENCES)
    monkeypatch.setattr("os.replace", refuse(28, "No space left on device"))
    for _ in range(2):
        memory.flush()
        scorer.clear_cache()
        close(scorer.score(HYPOTHESES, REFERENCES).scores, alone("twmd"))
        scorer.score(["one more"], ["tea"])
    memory.flush()
    assert caplog.text.count(f"no longer cached in {tmp_path}") == 1
    assert "No space left on device" in caplog.text
    assert [one for one in tmp_path.rglob(".*") if one.is_file()] == []


def test_a_disk_that_is_full_from_the_start_keeps_nothing_and_scores(load, alone, tmp_path, monkeypatch, caplog):
    expected = alone("twmd")
    scorer = load("twmd", memory=EncoderMemory(folder=tmp_path / "states"))
    monkeypatch.setattr(Path, "mkdir", refuse(28, "No space left on device"))
    close(scorer.score(HYPOTHESES, REFERENCES).scores, expected)
    scorer.metric.encoder._states.memory.flush()
    assert caplog.text.count(f"no longer cached in {tmp_path}") == 1  # memories of other tests may end meanwhile
    assert "No space left on device" in caplog.text


def test_a_file_in_place_of_the_folder_is_an_error(load, tmp_path):
    (tmp_path / "file").write_text("")
    scorer = load("twmd", memory=EncoderMemory(folder=tmp_path / "file"))
    with pytest.raises(InputError, match="to be a folder for states of texts"):
        scorer.score(["tea"], ["tea"])
