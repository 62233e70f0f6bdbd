"""A score does not move with its batch mates, whatever the lengths and the scripts of the texts."""

import pytest

from textmover.scoring import Scorer


@pytest.mark.parametrize(
    "backend", ["torch", *(pytest.param(one, marks=pytest.mark.long) for one in ("openvino", "onnxruntime"))]
)
@pytest.mark.usefixtures("real_backends")
def test_no_company_moves_a_score(script, tiny_encoder, backend):
    pytest.importorskip(backend)
    options = {"encoder": str(tiny_encoder), "device": "cpu", "backend": backend}
    scorer = Scorer.from_pretrained("twmd", cache=False, **options)
    assert script.largest_change(scorer, *script.pairs(30)) <= 1e-6
