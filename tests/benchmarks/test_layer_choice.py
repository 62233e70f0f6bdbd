import numpy as np
import pytest
import torch

from textmover import Scorer
from textmover.experiments.anisotropy import with_all_layers
from textmover.presets import build_metric, preset_config
from textmover.types import Segment

SEGMENTS = [
    Segment("the old dog sat", ("a dog was there", "the young dog sat")),
    Segment("a red bird", ("the green bird",)),
    Segment("good", ("a warm house",)),
]


@pytest.mark.parametrize("preset", ["twmd", "bertscore-f1"])
def test_every_layer_scores_as_the_scorer_that_reads_it(script, tiny_encoder, preset):
    metric = build_metric(preset_config(preset, encoder=str(tiny_encoder), layer=-1)).eval()
    metric.encoder = with_all_layers(metric.parts).encoder
    with torch.inference_mode():
        found = script.layer_scores({preset: metric}, script.Judged(SEGMENTS, None), [(1, 3), (2, 2)])[preset]
    texts = [one.hypothesis for one in SEGMENTS], [one.references for one in SEGMENTS]
    for layer in range(4):
        expected = Scorer.from_pretrained(preset, encoder=str(tiny_encoder), layer=layer).score(*texts).scores
        np.testing.assert_allclose(found[:, layer], expected, atol=1e-5)
    np.testing.assert_allclose(found[:, 5], found[:, 2], atol=1e-5)  # a layer beside itself
    assert list(script.table_row(preset, "set", found[0], [(1, 3), (2, 2)]))[2:] == ["0", "1", "2", "3", "1+3", "2+2"]
