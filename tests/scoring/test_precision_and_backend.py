"""Which arithmetic runs, and that it is told."""

import logging

import pytest
import torch

from textmover.scoring import Scorer, precision_and_backend
from textmover.scoring.precision_and_backend import apply_precision, has_bfloat16
from textmover.types import InputError

TEXTS = ["the small dog ran home", "she will buy a book"], ["a little dog runs home", "she sold two books"]


@pytest.fixture
def processor(monkeypatch):
    """Says whether the processor has bfloat16."""
    return lambda has: monkeypatch.setattr(precision_and_backend, "has_bfloat16", lambda device: has)


def dtypes(metric) -> set[torch.dtype]:
    return {one.dtype for one in metric.encoder.parameters()}


@pytest.mark.parametrize(("name", "warns"), [("exact", False), ("fast", True), ("auto", False)])
def test_without_bfloat16_everything_is_exact(tiny_metric, processor, caplog, name, warns):
    processor(False)
    metric = tiny_metric()
    with caplog.at_level(logging.WARNING):
        assert apply_precision(metric, name) is metric
    assert dtypes(metric) == {torch.float32}
    assert [record.getMessage() for record in caplog.records] == (
        ["No bfloat16 arithmetic on this cpu: precision 'fast' runs in float32."] if warns else []
    )


def test_fast_runs_the_encoder_alone_in_bfloat16(tiny_encoder, processor):
    processor(True)
    options = {"encoder": str(tiny_encoder), "device": "cpu", "temperature": 0.1}
    fast = Scorer.from_pretrained("twmd", precision="fast", learn_temperature=True, calibrate=True, **options)
    exact = Scorer.from_pretrained("twmd", **options)
    assert dtypes(fast.metric) == {torch.bfloat16}
    assert (
        fast.metric.calibration.scale.dtype == fast.metric.matching.temperature.log_temperature.dtype == torch.float32
    )
    assert str(fast.signature).endswith("|precision:bf16")
    one, other = fast.score(*TEXTS).scores, exact.score(*TEXTS).scores
    assert 0 < abs(one - other).max() < 0.1


@pytest.mark.parametrize(("bound", "ran"), [(1.0, "bf16"), (0.0, "exact")])
def test_auto_is_fast_only_where_the_probes_hold(tiny_metric, processor, monkeypatch, bound, ran):
    processor(True)
    monkeypatch.setattr(precision_and_backend, "AUTO_BOUND", bound)
    metric = tiny_metric()
    before = Scorer(metric, cache=False).score(*TEXTS).scores
    chosen = apply_precision(metric, "auto")
    assert chosen.precision == ran
    assert dtypes(chosen) == {torch.bfloat16 if ran == "bf16" else torch.float32}
    assert dtypes(metric) == {torch.float32}, "the metric that was given stays as it is"
    if ran == "exact":
        assert Scorer(chosen).score(*TEXTS).scores.tolist() == before.tolist()


def test_auto_needs_fitted_statistics(tiny_metric, processor):
    processor(True)
    with pytest.raises(InputError, match="fit them first, or name a precision"):
        apply_precision(tiny_metric(centering="corpus"), "auto")


def test_auto_settles_once_a_call_has_fitted_the_statistics(tiny_encoder, processor, monkeypatch):
    processor(True)
    monkeypatch.setattr(precision_and_backend, "AUTO_BOUND", 2.0)
    scorer = Scorer.from_pretrained("yisi-1", encoder=str(tiny_encoder), device="cpu", precision="auto")
    assert scorer.metric.precision == "exact"
    assert str(scorer.score(*TEXTS).signature).endswith("|precision:bf16")
    assert scorer.metric.fits_on_call  # and it goes on fitting


@pytest.mark.parametrize(("dtype", "told"), [("float32", "exact"), ("bfloat16", "bf16"), ("float16", "fp16")])
def test_the_signature_tells_the_type_of_the_weights(tiny_encoder, dtype, told):
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", dtype=dtype)
    assert str(scorer.signature).endswith(f"|precision:{told}")


@pytest.mark.parametrize("flags", [(True, False), (False, True), (False, False)])
def test_a_processor_has_bfloat16_by_its_flags(monkeypatch, flags):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: flags[0])
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: flags[1])
    assert has_bfloat16(torch.device("cpu")) == any(flags)
    assert not has_bfloat16(torch.device("mps"))
