"""The head that maps scores to a human scale."""

import numpy as np
import pytest
import torch

from textmover.modules.base_metric import Calibration


def test_the_fit_is_least_squares():
    generator = np.random.default_rng(0)
    scores, noise = generator.random(200), generator.normal(size=200)
    ratings = 40 * scores + 10 + noise
    head = Calibration()
    head.fit(torch.from_numpy(scores), torch.from_numpy(ratings))
    assert [head.scale.item(), head.offset.item()] == pytest.approx(np.polyfit(scores, ratings, 1), rel=1e-6)


def test_scale_and_offset_are_trained():
    head = Calibration()
    head(torch.tensor([2.0, 3.0])).sum().backward()
    assert [head.scale.grad.item(), head.offset.grad.item()] == [5.0, 2.0]


@pytest.mark.parametrize(
    ("scores", "ratings"),
    [([0.1, 0.2, 0.3], [30.0, 20.0, 10.0]), ([0.1, 0.2, 0.3], [5.0] * 3), ([0.5] * 4, [1.0, 2.0, 3.0, 4.0])],
)
def test_a_fit_that_scores_do_not_call_for_keeps_the_slope_and_meets_the_mean(scores, ratings):
    head = Calibration()
    head.fit(torch.tensor(scores), torch.tensor(ratings))
    mean = sum(ratings) / len(ratings)
    assert [head.scale.item(), head.offset.item()] == pytest.approx([1.0, mean - sum(scores) / len(scores)])
