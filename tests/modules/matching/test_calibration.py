"""The head that maps scores to a human scale."""

import numpy as np
import pytest
import torch

from textmover.modules.base_metric import Calibration


def test_a_new_head_changes_nothing():
    scores = torch.tensor([0.1, -2.0, 3.0])
    assert torch.equal(Calibration()(scores), scores)


def test_the_fit_is_least_squares():
    generator = np.random.default_rng(0)
    scores, noise = generator.random(200), generator.normal(size=200)
    ratings = 40 * scores + 10 + noise
    head = Calibration()
    head.fit(torch.from_numpy(scores), torch.from_numpy(ratings))
    assert [head.scale.item(), head.offset.item()] == pytest.approx(np.polyfit(scores, ratings, 1), rel=1e-6)


@pytest.mark.parametrize("ratings", [[30.0, 20.0, 10.0], [5.0, 5.0, 5.0]])
def test_a_fit_never_turns_the_order_around(ratings):
    head, scores = Calibration(), torch.tensor([0.1, 0.2, 0.3])
    head.fit(scores, torch.tensor(ratings))
    assert head.scale.item() == 1.0
    assert head(scores).mean().item() == pytest.approx(sum(ratings) / 3)


def test_constant_scores_keep_the_slope_and_meet_the_mean():
    head = Calibration()
    head.fit(torch.full((4,), 0.5), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert [head.scale.item(), head.offset.item()] == pytest.approx([1.0, 2.0])


def test_scale_and_offset_are_trained():
    head = Calibration()
    head(torch.tensor([2.0, 3.0])).sum().backward()
    assert [head.scale.grad.item(), head.offset.grad.item()] == [5.0, 2.0]
    assert set(head.state_dict()) == {"scale", "offset"}
