"""Every family of encoders on every back-end: padded batches of unlike lengths have the hidden states of torch."""

import pytest
import torch
from tests.scoring.backends.test_torch_runners import FAMILIES, graph_of

from textmover.modules.encoder.encoder import Encoder
from textmover.scoring.backends import onnxruntime, openvino

LENGTHS = ([17, 9, 1], [2, 1], [64, 5], [200, 3, 2], [300, 140, 3, 1])
DEEP = {"modernbert": {"num_hidden_layers": 4}}
"""What one layer makes of padding, another one spreads to the texts."""

BACKENDS = {"openvino": openvino, "onnxruntime": onnxruntime}
FREQUENT = {
    ("modernbert", "openvino"): (),
    ("mpnet", "openvino"): pytest.mark.slow,
    ("deberta-v2", "onnxruntime"): pytest.mark.slow,
}
"""Those that are tried more often than now and then: the kinds of attention."""


def batches():
    draw = torch.Generator().manual_seed(2)
    for lengths in LENGTHS:
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        yield torch.randint(5, 100, mask.shape, generator=draw).where(mask, 1), mask


@pytest.mark.parametrize(
    ("family", "backend"),
    [
        pytest.param(family, backend, marks=FREQUENT.get((family, backend), pytest.mark.long))
        for family in FAMILIES
        for backend in BACKENDS
    ],
)
def test_unlike_lengths_in_a_padded_batch(family, backend, tmp_path):
    pytest.importorskip(backend)
    model = graph_of(family, **DEEP.get(family, {})).model
    top = model.config.num_hidden_layers
    encoder = Encoder(model, top, (1, top)).eval()
    (ids, mask), *_ = batches()
    BACKENDS[backend].export(encoder, (ids, mask.long()), "exact", tmp_path)
    runner = BACKENDS[backend].Runner(tmp_path, "exact")
    for ids, mask in batches():
        with torch.inference_mode():
            wanted, found = encoder.graph()(ids, mask.long()), runner(ids, mask)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one[mask], other[mask], rtol=1e-5, atol=1e-5)
            assert one.isfinite().all()  # padding too: what is masked afterwards is multiplied by 0


def test_weights_that_are_damaged_are_told_by_every_kind_of_score(tiny_metric):
    from textmover.metrics import TextMoverBERTScore
    from textmover.types import InputError

    metric = tiny_metric(
        matching="bertscore", normalize=False, hypothesis_special_tokens="drop", reference_special_tokens="drop"
    )
    with torch.no_grad():
        next(metric.encoder.parameters()).fill_(float("nan"))
    for idf in (True, False):
        with pytest.raises(InputError, match=r"finite values from the metric, but its .* of segment 1 is nan"):
            TextMoverBERTScore(metric, idf=idf).update(["a cat", "tea"], ["the dog", "tea"])
