"""Which back-end and which arithmetic are taken, with back-ends that only pretend."""

import logging
from importlib import metadata

import pytest
import torch

from textmover.scoring import Scorer, precision_and_backend
from textmover.scoring.backends import names, preparation
from textmover.scoring.backends.names import BackendError
from textmover.scoring.backends.preparation import prepare, set_backend
from textmover.scoring.precision_and_backend import apply_precision
from textmover.types import InputError

TEXTS = ["the small dog ran home", "she will buy a book"], ["a little dog runs home", "she sold two books"]
EVERYTHING = ("torch", "torch-compile", "openvino", "onnxruntime")


class Pretender:
    """Runs the model itself and moves its hidden states a little."""

    concurrent = True
    row_runner = None

    def __init__(self, metric, name, arithmetic, off):
        self.name, self.precision, self.off = f"{name}-1", arithmetic, off
        self._graph = metric.encoder.graph()

    def __call__(self, input_ids, mask):
        return [one * (1 + self.off * torch.sin(one)) for one in self._graph(input_ids, mask.long())]


@pytest.fixture
def pretend(monkeypatch):
    """Puts pretenders in the place of real back-ends; takes how far each is off, by name and arithmetic."""

    def pretend(installed=EVERYTHING, bfloat16=False, int8=False, processor="", failing=(), **off):
        monkeypatch.setattr(names, "installed", lambda: installed)
        monkeypatch.setattr(precision_and_backend, "_processor", lambda: processor)
        monkeypatch.setattr(precision_and_backend, "has_bfloat16", lambda device: bfloat16)
        monkeypatch.setattr(precision_and_backend, "has_int8", lambda device: int8)

        def ready(metric, encoder, backend, wanted, beside):
            if backend in failing:
                raise BackendError(f"{backend} cannot")
            arithmetic = "bf16" if wanted == "fast" else wanted
            return Pretender(metric, backend, arithmetic, off.get(f"{backend}_{wanted}", 0.0)), None

        monkeypatch.setattr(preparation, "_find_or_export", ready)

    return pretend


def chosen(metric) -> tuple[str, str]:
    entries = metric.signature.entries
    return entries["backend"].removesuffix("-1"), entries["precision"]


@pytest.mark.parametrize(
    ("installed", "wanted", "flags", "result"),
    [
        (EVERYTHING, "exact", {}, ("openvino", "exact")),
        (("torch", "onnxruntime"), "exact", {}, ("torch", "exact")),
        (("torch", "onnxruntime"), "exact", {"processor": "AVX-512"}, ("torch", "exact")),
        (("torch",), "exact", {}, ("torch", "exact")),
        (("torch",), "exact", {"bfloat16": True}, ("torch", "exact")),
        (EVERYTHING, "fast", {"bfloat16": True}, ("openvino", "bf16")),
        (("torch", "onnxruntime"), "fast", {"bfloat16": True}, ("torch", "bf16")),
        (EVERYTHING, "fast", {}, ("openvino", "exact")),
        (EVERYTHING, "int8", {}, ("onnxruntime", "int8")),
        (EVERYTHING, "int8", {"processor": "AVX-512"}, ("openvino", "int8")),
        (("torch", "openvino"), "int8", {}, ("openvino", "int8")),
        (EVERYTHING, "auto", {}, ("onnxruntime", "int8")),
        (EVERYTHING, "auto", {"bfloat16": True, "int8": True, "processor": "AMX"}, ("openvino", "bf16")),
        (EVERYTHING, "auto", {"bfloat16": True, "int8": True, "processor": "AVX-512"}, ("openvino", "int8")),
        (EVERYTHING, "auto", {"bfloat16": True, "processor": "AVX-512"}, ("openvino", "bf16")),
        (EVERYTHING, "int8", {"processor": "AMX"}, ("openvino", "int8")),
        (("torch", "openvino"), "auto", {}, ("openvino", "exact")),
        (("torch", "openvino"), "auto", {"int8": True}, ("openvino", "int8")),
        (("torch",), "auto", {}, ("torch", "exact")),
        (("torch",), "auto", {"bfloat16": True}, ("torch", "bf16")),
    ],
)
def test_the_fastest_that_is_installed(tiny_metric, pretend, monkeypatch, installed, wanted, flags, result):
    pretend(installed, **flags)
    monkeypatch.setattr(precision_and_backend, "AUTO_BOUND", 1.0)
    metric = apply_precision(tiny_metric(), wanted)
    assert chosen(metric) == result
    assert len(Scorer(metric).score(*TEXTS)) == 2


@pytest.mark.parametrize(
    ("backend", "off", "result"),
    [
        ("auto", {"openvino_int8": 2.0}, ("openvino", "bf16")),
        ("auto", {"openvino_int8": 2.0, "openvino_fast": 2.0, "onnxruntime_int8": 1e-4}, ("onnxruntime", "int8")),
        ("openvino", {"openvino_int8": 2.0, "openvino_fast": 2.0}, ("openvino", "exact")),
    ],
)
def test_auto_goes_on_until_one_is_close(tiny_metric, pretend, monkeypatch, caplog, backend, off, result):
    pretend(int8=True, bfloat16=True, processor="AVX-512", **off)
    monkeypatch.setitem(precision_and_backend.ORDERS["AVX-512"], "fast", ("openvino",))
    caplog.set_level(logging.INFO)
    metric = tiny_metric()
    found = apply_precision(metric, "auto", backend)
    assert chosen(found) == result
    assert "int8 on openvino deviates by" in caplog.text
    assert "so it is passed over" in caplog.text
    assert ("so it is taken" in caplog.text) == (result[1] != "exact")
    assert found is metric or result[1] != "exact"


def test_a_back_end_that_cannot_is_passed_over_and_said(tiny_metric, pretend, logged):
    pretend(failing=("openvino",))
    for _ in range(2):  # and not again for each metric
        assert chosen(apply_precision(tiny_metric(), "exact")) == ("torch", "exact")
    assert logged() == ["Backend openvino is skipped for torch: openvino cannot"]
    with pytest.raises(BackendError, match="openvino cannot"):
        apply_precision(tiny_metric(), "exact", "openvino")


@pytest.mark.parametrize("fields", [{}, {"centering": "corpus"}])
def test_a_back_end_that_is_not_exact_is_passed_over(tiny_metric, pretend, logged, fields):
    """Hidden states stand in for scores that wait for statistics."""
    pretend(openvino_exact=0.01)
    assert chosen(apply_precision(tiny_metric(**fields), "exact")) == ("torch", "exact")
    (line,) = logged()
    assert "to be exact to 1e-05" in line


@pytest.mark.usefixtures("real_backends")
def test_what_a_back_end_is_not_for_is_not_warned_of(tiny_metric, caplog, logged):
    caplog.set_level(logging.INFO)
    assert chosen(apply_precision(tiny_metric(dtype="bfloat16"), "exact")) == ("torch", "bf16")
    assert "Backend openvino is skipped for torch: Expected weights in float32" in caplog.text
    assert logged() == []


BROKEN = "ImportError: libcore.so.9: cannot open shared object file: reinstall it"


@pytest.mark.parametrize("wanted", ["exact", "auto"])
def test_a_broken_package_is_passed_over_with_one_warning(tiny_metric, broken_package, monkeypatch, logged, wanted):
    broken_package("openvino")
    monkeypatch.setattr(names, "installed", lambda: ("torch", "openvino"))
    monkeypatch.setattr(precision_and_backend, "has_int8", lambda device: True)
    monkeypatch.setattr(precision_and_backend, "_processor", lambda: "")
    for _ in range(2):
        metric = apply_precision(tiny_metric(), wanted)
        assert chosen(metric)[0] == "torch"
        assert len(Scorer(metric).score(*TEXTS)) == 2
    (line,) = logged()
    assert f"Expected the package openvino to be importable, but got {BROKEN}" in line


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
@pytest.mark.parametrize(
    ("error", "shown"),
    [("OSError('no\\nlibrary.')", "OSError: no library: re"), ("ValueError()", "ValueError: no rea")],
)
def test_a_broken_package_that_was_named_is_refused(
    tiny_encoder, tiny_metric, broken_package, real_backends, tmp_path, backend, error, shown
):
    broken_package(backend, error)
    way_out = rf"{shown}.*pip install --force-reinstall {backend}\) or uninstall it, or set backend='torch'\.$"
    with pytest.raises(InputError, match=f"Expected the package {backend} to be importable, but got {way_out}"):
        Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", backend=backend)
    with pytest.raises(InputError, match=way_out):
        prepare(tiny_metric(), backend, "int8", tmp_path / "metric")
    assert not (tmp_path / "metric").exists()


def test_versions_are_told_by_packages_of_other_names(monkeypatch):
    versions = {"onnxruntime-gpu": "1.2.3+cu12"}

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(names.metadata, "version", version)
    monkeypatch.setattr(names.metadata, "packages_distributions", lambda: {"onnxruntime": ["onnxruntime-gpu"]})
    assert names.version("onnxruntime") == "1.2.3"
    with pytest.raises(BackendError, match=r"Expected the package openvino to have a version, but .* reinstall it"):
        names.version("openvino")


@pytest.mark.parametrize("bfloat16", [True, False])
@pytest.mark.parametrize(("wanted", "backend"), [("fast", "onnxruntime"), ("int8", "torch"), ("int8", "torch-compile")])
def test_a_back_end_without_the_precision_is_refused_on_any_processor(tiny_metric, pretend, wanted, backend, bfloat16):
    pretend(bfloat16=bfloat16)
    with pytest.raises(InputError, match=f"Expected a back-end with precision '{wanted}', but '{backend}' has none"):
        apply_precision(tiny_metric(), wanted, backend)


def test_fast_without_bfloat16_warns_and_is_exact_on_the_back_end_that_was_named(tiny_metric, pretend, caplog):
    pretend()
    assert chosen(apply_precision(tiny_metric(), "fast", "openvino")) == ("openvino", "exact")
    assert "No bfloat16 arithmetic on this cpu: precision 'fast' runs in float32." in caplog.text


def test_int8_without_a_back_end_names_the_extra(tiny_metric, monkeypatch):
    for processor, extra in (("", "onnxruntime"), ("AVX-512", "int8")):
        monkeypatch.setattr(precision_and_backend, "_processor", lambda processor=processor: processor)
        with pytest.raises(InputError, match=rf'none is installed: pip install "textmover\[{extra}\]"'):
            apply_precision(tiny_metric(), "int8")


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        *((one, rf'it is not installed: pip install "textmover\[{one}\]"') for one in ("openvino", "onnxruntime")),
        ("onnx", "Expected `backend` to be one of 'auto', 'torch', 'torch-compile', 'openvino'"),
    ],
)
def test_a_missing_package_names_the_extra_and_an_unknown_name_lists_the_choices(tiny_encoder, backend, said):
    with pytest.raises(InputError, match=said):
        Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", backend=backend)


@pytest.mark.parametrize(
    ("backend", "kept", "package", "extra"),
    [
        ("openvino", "int8", "nncf", "int8"),
        ("onnxruntime", "exact", "onnxscript", "onnxruntime"),
        ("onnxruntime", "int8", "onnx", "onnxruntime"),
    ],
)
def test_a_package_that_only_an_export_needs(
    tiny_metric, real_backends, monkeypatch, tmp_path, backend, kept, package, extra
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = names.util.find_spec
    monkeypatch.setattr(names.util, "find_spec", lambda name: None if name == package else found(name))
    for run in (
        lambda one: set_backend(one, backend, kept),
        lambda one: prepare(one, backend, kept, tmp_path / "metric"),
    ):
        with pytest.raises(BackendError, match=rf'package {package} .* pip install "textmover\[{extra}\]"'):
            run(tiny_metric())
    assert not list(tmp_path.rglob("backend.json"))


def test_what_is_installed_is_looked_up(real_backends, monkeypatch):
    assert names.installed() == EVERYTHING
    monkeypatch.setattr(names.util, "find_spec", lambda name: None)
    assert names.installed() == ("torch", "torch-compile")


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_exported_graphs_run_on_the_cpu_alone(device, pretend):
    pretend()
    with pytest.raises(InputError, match=f"to run on the CPU, but got the device {device}"):
        names.check_backend("openvino", torch.device(device))
    names.check_backend("torch-compile", torch.device(device))


def test_static_vectors_run_on_torch(tmp_path, pretend):
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1.0 0.5\ndog 0.5 1.0\n")
    pretend()
    options = {"encoder": str(path), "device": "cpu"}
    with pytest.raises(InputError, match="static vectors are only looked up"):
        Scorer.from_pretrained("wmd", backend="openvino", **options)
    with pytest.raises(InputError, match="static vectors"):
        Scorer.from_pretrained("wmd", precision="int8", **options)
    for wanted in ("exact", "auto"):
        assert "backend" not in Scorer.from_pretrained("wmd", precision=wanted, **options).signature.entries


def test_auto_waits_for_statistics_and_then_takes_the_back_end(tiny_encoder, pretend):
    pretend(installed=("torch", "onnxruntime"))
    scorer = Scorer.from_pretrained("twmd-b", encoder=str(tiny_encoder), device="cpu", precision="auto")
    assert chosen(scorer.metric) == ("torch", "exact")
    assert chosen(scorer.fit(TEXTS[0]).metric) == ("onnxruntime", "int8")
