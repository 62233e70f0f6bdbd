"""Where exported graphs are kept, which of them are taken, and one cache for several processes and versions."""

import functools
import json
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from hashlib import sha256

import pytest
import torch
from safetensors.torch import load_file, save

from textmover.files import atomic_folder
from textmover.modules.encoder.pretrained import StoredModel
from textmover.scoring import Scorer, save_checkpoint
from textmover.scoring.backends import artefacts, names, preparation
from textmover.scoring.backends.artefacts import FORMAT, RECORD, Artefact, encoder_hash
from textmover.scoring.backends.names import BackendError
from textmover.scoring.backends.preparation import prepare, set_backend
from textmover.scoring.precision_and_backend import apply_precision
from textmover.types import InputError

FILES = ("model.xml", "model.bin")
TEXTS = ["the small dog ran home", "she will buy a book"], ["a little dog runs home", "she sold two books"]


@pytest.fixture
def cache(real_backends, tmp_path, monkeypatch):
    """Gives a test a copy of what it has made in the cache, to do as it likes with; conversions are copies from now on.

    Returns the artefact's folder.
    """

    def cache(metric, backend="openvino", precision="exact"):
        original = wanted(metric, backend, precision).place
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        folder = wanted(metric, backend, precision).place
        shutil.copytree(original, folder)

        def export(encoder, example, precision, folder):
            for one in original.iterdir():
                if one.name != RECORD:
                    shutil.copy(one, folder)

        monkeypatch.setattr(preparation.MODULES[backend], "export", export)
        return folder

    return cache


@pytest.fixture
def made(tiny_metric, cache, caplog):
    """An artefact in a cache of its own, and the metric that it is of."""
    metric = tiny_metric()
    set_backend(metric, "openvino", "exact")
    folder = cache(metric)
    caplog.set_level(logging.INFO)
    caplog.clear()
    return folder, metric


def wanted(metric, backend="openvino", precision="exact"):
    return preparation._spec_of(metric.encoder, backend, precision)


def change(folder, **entries):
    path = folder / RECORD
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def test_the_record_says_what_it_is_and_how_far_it_deviates(made):
    folder, metric = made
    entries = json.loads((folder / RECORD).read_text())
    assert entries["format"] == FORMAT
    assert entries["backend"] == "openvino"
    assert entries["version"] == names.version("openvino")
    assert entries["encoder"] == encoder_hash(metric.encoder)
    assert entries["layers"] == list(metric.encoder.layers)
    assert 0 <= entries["deviation"] <= 1e-5
    assert 0 < entries["states"] <= 1e-5
    probes = f"{preparation.PROBE_STATES}-{torch.__version__}.safetensors"
    assert set(entries["files"]) == {one.name for one in folder.iterdir()} - {RECORD} == {*FILES, probes}
    for name, about in entries["files"].items():
        content = (folder / name).read_bytes()
        assert about == {"bytes": len(content), "sha256": sha256(content).hexdigest()}


@pytest.mark.parametrize("spoil", ["", "none", "damaged", "of other tokens", "wrong"])
def test_a_scorer_with_a_cached_graph_never_builds_the_model(made, tiny_encoder, tiny_multilingual, monkeypatch, spoil):
    folder, _ = made
    probes = next(folder.glob(f"{preparation.PROBE_STATES}-*"))
    files = json.loads((folder / RECORD).read_text())["files"]
    change(folder, files={name: files[name] for name in FILES})  # as for another version of torch
    stored = load_file(probes)
    others = {"of other tokens": {"ids 0": stored["ids 0"] + 1}, "wrong": {"3 of 0": stored["3 of 0"].roll(1)}}
    if spoil:
        probes.unlink()  # `stored` maps the file
    if spoil not in ("", "none"):
        probes.write_bytes(b"nothing" if spoil == "damaged" else save({**stored, **others[spoil]}))
    scorer = functools.partial(
        Scorer.from_pretrained, "twmd", encoder=str(tiny_encoder), layer=3, device="cpu", backend="openvino"
    )
    if spoil == "wrong":  # each process compares again
        with pytest.raises(InputError, match="deviates from torch by"):
            scorer()
        return
    scores = [scorer().score(*TEXTS).scores.tolist()]
    torch.testing.assert_close(load_file(probes), stored, rtol=0, atol=1e-5)
    many = {"encoder": str(tiny_multilingual), "mode": "both", "fallback": True}
    scores.append(scorer(**many).score(*TEXTS).scores.tolist())
    monkeypatch.setattr(StoredModel, "built", lambda _: pytest.fail("the model was built"))
    assert [scorer(**fields).score(*TEXTS).scores.tolist() for fields in ({}, many)] == scores


def test_it_is_made_once_and_says_when_it_is_used(made, logged):
    folder, metric = made
    before = (folder / "model.xml").stat().st_mtime_ns
    os.utime(folder / RECORD, (0, 0))
    set_backend(metric, "openvino", "exact")
    assert (folder / "model.xml").stat().st_mtime_ns == before
    assert time.time() - (folder / RECORD).stat().st_mtime < 600
    assert logged(logging.INFO) == []


@pytest.mark.long
def test_versions_do_not_overwrite_one_another(made, monkeypatch):
    folder, metric = made
    version = names.version("openvino")
    assert folder.name == f"openvino-{version}-exact"
    before = (folder / "model.xml").stat().st_mtime_ns
    monkeypatch.setattr(preparation, "version", lambda name: "2031.1")
    set_backend(metric, "openvino", "exact")
    assert metric.encoder.runner.folder.name == "openvino-2031.1-exact"
    assert (folder / "model.xml").stat().st_mtime_ns == before


# --- damage -----------------------------------------------------------------------------------------------------------


UNUSABLE = "its backend.json cannot be used"


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


SPOILT = {
    "version": (lambda folder: change(folder, version="2019.1"), "outdated", "it is of another version (2019.1)"),
    "format": (lambda folder: change(folder, format=1), "outdated", "it is of another format (1)"),
    "encoder": (lambda folder: change(folder, encoder="0" * 64), "other", "it is of another encoder"),
    "layers": (lambda folder: change(folder, layers=[1]), "other", "it is of another layers"),
    "flipped": (lambda folder: flip(folder / "model.bin"), "damaged", "its file model.bin does not hold what was"),
    "short": (lambda folder: os.truncate(folder / "model.bin", 100), "damaged", "its file model.bin has 100 bytes"),
    "gone": (lambda folder: (folder / "model.xml").unlink(), "damaged", "its file model.xml is missing"),
    "record": (lambda folder: (folder / RECORD).write_text("{"), "damaged", f"{UNUSABLE} (NotJsonError"),
    "list": (lambda folder: (folder / RECORD).write_text("[]"), "damaged", f"{UNUSABLE} (TypeError"),
    "no record": (lambda folder: (folder / RECORD).unlink(), "damaged", f"{UNUSABLE} (InputError: Expected a file"),
    "no files": (lambda folder: change(folder, files={}), "damaged", "its backend.json names no files"),
    "no hash": (lambda folder: change(folder, files={"model.xml": 3}), "damaged", f"{UNUSABLE} (TypeError"),
}


def test_one_that_is_damaged_or_of_another_kind_is_refused(made, tmp_path):
    folder, metric = made
    spec = wanted(metric)
    assert isinstance(artefacts.find(folder, spec), Artefact)
    for how, (spoil, kind, reason) in SPOILT.items():
        spoilt = shutil.copytree(folder, tmp_path / how)
        spoil(spoilt)
        refused = artefacts.find(spoilt, spec)
        assert refused.kind == kind, how
        assert refused.reason.startswith(reason), how


def unreadable(folder):
    (folder / "model.xml").write_text("{")
    adopt(folder)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: change(folder, format=1), f", since it is of another format (1) than wanted ({FORMAT})."),
        (lambda folder: flip(folder / "model.bin"), ", since its file model.bin does not hold what was written."),
        pytest.param(unreadable, ". Expected {folder} to hold a graph for OpenVINO", marks=pytest.mark.long),
    ],
)
def test_one_that_cannot_be_used_is_made_again(made, caplog, logged, spoil, why):
    """With ``auto``, which would take torch instead without a word."""
    folder, metric = made
    spoil(folder)
    apply_precision(metric, "exact", "auto")
    first, second = logged()
    assert first.startswith(f"{folder} is made again{why.format(folder=folder)}")
    assert second == (
        "Preparing backend openvino (exact) for this encoder, once: this takes about ten seconds, and longer for a "
        f"large one. It is kept in {folder}."
    )
    assert metric.encoder.runner.folder == folder
    assert json.loads((folder / RECORD).read_text())["format"] == FORMAT
    caplog.clear()
    apply_precision(metric, "exact", "openvino")
    assert logged(logging.INFO) == []


def adopt(folder):
    """Make a record call right what a folder holds."""
    held = {one.name: one.read_bytes() for one in folder.iterdir() if one.name != RECORD}
    change(folder, files={name: {"bytes": len(one), "sha256": sha256(one).hexdigest()} for name, one in held.items()})


def silence(folder):
    """Set all weights of a graph to zero, and let its record say that this is right."""
    content = bytearray((folder / "model.bin").read_bytes())
    for start, size in re.findall(r'offset="(\d+)" size="(\d+)"', (folder / "model.xml").read_text()):
        if int(size) > 100:  # the others are shapes and indices
            content[int(start) : int(start) + int(size)] = bytes(int(size))
    (folder / "model.bin").write_bytes(content)
    adopt(folder)


@pytest.mark.parametrize("fields", [{}, {"centering": "corpus"}])
@pytest.mark.parametrize("precision", [pytest.param("int8", marks=pytest.mark.long), "fast", "exact"])
def test_nonsense_is_refused_whatever_its_record_says(tiny_metric, cache, precision, fields):
    """Also where a metric cannot score yet, and nothing but hidden states can be compared."""
    metric = tiny_metric(**fields)
    set_backend(metric, "openvino", precision)
    folder = cache(metric, "openvino", precision)
    silence(folder)
    aim = "exact to 1e-05" if precision == "exact" else rf"within 0\.[15] in {precision}"
    told = rf"to be {aim}, but on the probe pairs it deviates from torch by .*: remove {folder} to have it made again"
    with pytest.raises(BackendError, match=told):
        set_backend(metric, "openvino", precision)
    assert metric.encoder.runner is None


def test_one_that_was_never_close_is_not_to_be_made_anew(made, monkeypatch):
    _, metric = made
    monkeypatch.setattr(preparation, "EXACT_BOUND", -1.0)
    with pytest.raises(BackendError, match=r"to be exact to -1, but .* from torch by \S*: set backend='torch', or"):
        set_backend(metric, "openvino", "exact")


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_cache_that_cannot_be_written_is_said_and_does_without(tiny_metric, tmp_path, monkeypatch, logged):
    (tmp_path / "textmover").write_text("a file where the cache's folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    metric = tiny_metric()
    set_backend(metric, "openvino", "exact")
    _, warning = logged()
    assert "cannot be kept, so it will be made again in each process" in warning
    assert metric.encoder.runner is not None
    batch = metric.tokenize(TEXTS[0])
    with torch.inference_mode():
        again = pickle.loads(pickle.dumps(metric))
        torch.testing.assert_close(again.encoder(batch), metric.encoder(batch))


@pytest.mark.parametrize("broken", ["TemporaryDirectory", "write"])
def test_no_room_for_a_graph_anywhere_is_a_sentence_that_others_can_pass_over(tmp_path, monkeypatch, broken):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artefacts, "write", refuse)
    if broken == "TemporaryDirectory":
        monkeypatch.setattr(artefacts.tempfile, broken, refuse)
    wanted = artefacts.ArtefactSpec("openvino", "1", "exact", "0" * 64, (6,))
    with pytest.raises(BackendError, match=r"Expected space for the graph.*No space left.*TMPDIR.*backend='torch'"):
        artefacts.make(wanted, tmp_path / "there", dict, lambda _: False)


def test_a_pickle_whose_artefact_is_gone_says_so(made):
    folder, metric = made
    set_backend(metric, "openvino", "exact")
    pickled = pickle.dumps(metric.encoder.runner)
    shutil.rmtree(folder)
    with pytest.raises(BackendError, match="to hold a graph for OpenVINO"):
        pickle.loads(pickled)


def test_the_hash_is_of_weights_and_layers(tiny_metric):
    metric = tiny_metric()
    first = encoder_hash(metric.encoder)
    assert encoder_hash(tiny_metric(matching="bertscore").encoder) == first
    assert encoder_hash(tiny_metric(layer=2).encoder) != first
    with torch.no_grad():
        next(metric.encoder.parameters()).add_(1e-3)
    assert encoder_hash(metric.encoder) != first


@pytest.mark.slow
@pytest.mark.usefixtures("converted")
def test_a_checkpoint_brings_its_artefact_along(tiny_metric, real_backends, tmp_path, monkeypatch, caplog, logged):
    metric = tiny_metric()
    folder = save_checkpoint(
        metric, tmp_path / "metric", card="# card\n", add=lambda beside: prepare(metric, "openvino", "exact", beside)
    )
    files = json.loads((folder / "config.json").read_text())["files"]
    assert {"backends/openvino-exact/model.xml", "backends/openvino-exact/backend.json"} <= set(files)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with caplog.at_level(logging.INFO):
        scorer = Scorer.from_pretrained(folder, device="cpu")
    assert scorer.metric.encoder.runner.folder == folder / "backends" / "openvino-exact"
    assert not (tmp_path / "cache").exists()
    assert not [line for line in logged(logging.INFO) if "Preparing" in line]
    (folder / "backends" / "openvino-exact" / "model.xml").write_text("exchanged")
    with pytest.raises(InputError, match=r"model.xml to have the hash"):
        Scorer.from_pretrained(folder, device="cpu")


def test_a_checkpoint_with_a_damaged_artefact_is_named(made, tmp_path):
    """Its own hashes find most of it; a folder that was copied in by hand has none there."""
    folder, metric = made
    beside = tmp_path / "metric"
    damaged = shutil.copytree(folder, beside / "backends" / "openvino-exact")
    flip(damaged / "model.bin")
    for backend in ("auto", "openvino"):
        with pytest.raises(InputError, match=f"Expected {damaged} to hold .* export or copy the checkpoint again, or"):
            apply_precision(metric, "exact", backend, beside)


def test_a_checkpoint_of_another_version_or_other_layers_is_left_aside(made, tiny_metric, tmp_path, caplog, logged):
    folder, metric = made
    beside = tmp_path / "metric"
    shutil.copytree(folder, beside / "backends" / "openvino-exact")
    for entries, line, seen in (
        ({"version": "2019.1"}, "is ignored, since it is of another version (2019.1)", True),
        ({"version": names.version("openvino"), "layers": [1]}, "is ignored, since it is of another layers", False),
    ):
        caplog.clear()
        change(beside / "backends" / "openvino-exact", **entries)
        set_backend(metric, "openvino", "exact", beside)
        assert metric.encoder.runner.folder == folder
        (only,) = logged(logging.INFO)
        assert line in only
        assert logged() == ([only] if seen else [])


# --- tidying ----------------------------------------------------------------------------------------------------------


def test_what_killed_processes_left_goes_with_the_next_preparation(made, killed):
    folder, metric = made
    other = folder.parent.parent / "0123456789abcdef"

    def half_made(place):
        with atomic_folder(place, overwrite=True) as beside:
            (beside / "model.bin").write_bytes(b"much")
            os.kill(os.getpid(), signal.SIGKILL)

    flip(folder / "model.bin")
    with atomic_folder(other / "openvino-2031.1-exact"):
        living = sorted(other.iterdir())
        for place in (folder, folder.with_name("openvino-2019.1-int8"), other / "onnxruntime-1.0-exact"):
            killed(lambda place=place: half_made(place))
        assert len(list(other.iterdir())) == 4
        set_backend(metric, "openvino", "exact")
        assert sorted(other.iterdir()) == living
    assert not [*folder.parent.glob(".*.part"), *folder.parent.glob(".*.new")]
    assert (folder / "model.bin").is_file()


def test_old_versions_are_bounded_and_those_in_use_stay(tmp_path):
    day = 24 * 3600
    ages = {"openvino-1-exact": 9, "openvino-2-exact": 8, "openvino-exact": 7, "openvino-3-exact": 6}
    ages |= {"openvino-1-int8": 90, "onnxruntime-1-exact": 90}
    for name, days in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / RECORD).touch()
        os.utime(tmp_path / name / RECORD, (time.time() - days * day,) * 2)
    artefacts.mark_used(tmp_path / "openvino-1-exact" / RECORD)
    artefacts.remove_old_versions(tmp_path / "openvino-4-exact", "openvino-*exact")
    assert {one.name for one in tmp_path.iterdir()} == set(ages) - {"openvino-2-exact", "openvino-exact"}
    for name in ages:
        if (tmp_path / name).is_dir():
            artefacts.mark_used(tmp_path / name / RECORD)
    (tmp_path / "openvino-5-exact").mkdir()
    (tmp_path / "openvino-5-exact" / RECORD).touch()
    artefacts.remove_old_versions(tmp_path / "openvino-4-exact", "openvino-*exact")
    assert len(list(tmp_path.glob("openvino-*-exact"))) == 3, "all of them have been opened today"


AT_ONCE = """
import sys, time
from pathlib import Path
from textmover import Scorer
from textmover.scoring.backends import preparation

encoder, here, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
fill = preparation._fill
preparation._fill = lambda *given: ((here / f"made by {name}").touch(), fill(*given))[1]
(here / f"ready {name}").touch()
while not (here / "go").exists():
    time.sleep(0.01)
scores = Scorer.from_pretrained("twmd", encoder=encoder, device="cpu", backend="openvino").score(["a cat"], ["the dog"])
print(scores.scores.tobytes().hex(), scores.signature.entries["backend"])
"""


@pytest.mark.long
def test_two_processes_at_once_make_one_artefact(tiny_encoder, real_backends, tmp_path):
    """Each says that it takes a while, since both wait; in Python as nobody has set up its logging."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, str(tiny_encoder), str(tmp_path), name],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("a", "b")
    ]  # fmt: skip
    try:
        while len(list(tmp_path.glob("ready *"))) < 2:
            assert all(one.poll() is None for one in running)
            time.sleep(0.01)
        (tmp_path / "go").touch()
        outputs = [one.communicate(timeout=120) for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()
    (first, told), (second, also_told) = outputs
    assert first == second
    assert first.endswith(f" openvino-{names.version('openvino')}\n")
    assert len(list(tmp_path.glob("made by *"))) == 1
    (folder,) = (tmp_path / "cache" / "textmover" / "backends").glob("*/*/")
    assert folder.name == f"openvino-{names.version('openvino')}-exact"
    for line in (told, also_told):
        assert line.startswith("Preparing backend openvino (exact) for this encoder, once: this takes about ten")
        assert line.count("\n") == 1
