"""Values find their order again."""

import copy
import pickle

import pytest
import torch

from textmover.metrics import OrderedScores, ordered_states
from textmover.types import InputError


def of(*parts) -> OrderedScores:
    metric = OrderedScores()
    for values, positions in parts:
        metric.update(torch.tensor(values), positions)
    return metric


@pytest.mark.parametrize(
    ("parts", "values", "positions"),
    [
        ([([0.5, 0.25], [7, 2]), ([1.0], torch.tensor([4]))], [0.25, 1.0, 0.5], [2, 4, 7]),
        ([([1.0, 2.0], None), ([3.0], None)], [1, 2, 3], [0, 1, 2]),
        ([([1.0, 2.0], [0, 1]), ([1.0, 3.0], [0, 2])], [1, 2, 3], [0, 1, 2]),
        ([([1.0, 2.0, 1.0], [0, 1, 0])], [1, 2], [0, 1]),  # as samplers repeat it
        ([([], [])], [], []),
    ],
)
def test_values_come_in_the_order_of_positions_or_of_updates_and_each_once(parts, values, positions):
    found = of(*parts).ordered()
    assert (found[0].tolist(), found[1].tolist(), found[0].dtype) == (values, positions, torch.float64)
    assert of(*parts).compute().tolist() == values


def test_a_position_that_comes_again_with_another_value_is_refused():
    again = of(([100.0, 2.0], [0, 1]), ([100.0 + 1e-4, 3.0], [0, 2]))  # rounding of another batch
    assert again.compute().tolist() == [100, 2, 3]
    again.update(torch.tensor([0.5, 4.0]), [2, 3])
    with pytest.raises(InputError, match="the same one for two different segments"):
        again.compute()


@pytest.mark.parametrize(("rank", "expected"), [(0, [0, 3, 6]), (2, [2, 5, 8])])
def test_processes_number_as_samplers_deal(monkeypatch, rank, expected):
    monkeypatch.setattr(ordered_states, "_rank_and_world_size", lambda: (rank, 3))
    metric = of(([0.0, 0.0], None), ([0.0], None))
    assert torch.cat(metric.positions).tolist() == expected


def test_reset_forgets_values_and_numbering():
    metric = of(([1.0, 2.0], None))
    metric.reset()
    metric.update(torch.tensor([5.0]))
    assert metric.ordered()[0].tolist() == [5]
    assert metric.ordered()[1].tolist() == [0]


@pytest.mark.parametrize(
    "positions",
    [[0], [0, 1, 2], [[0, 1]], [], [0.2, 1.7], [-1, 0], [True, False], ["a", "b"], [0, None], [0, float("nan")]],
)
def test_positions_are_as_many_whole_numbers_as_values(positions):
    with pytest.raises(InputError, match="one whole number from 0 up per segment"):
        of(([1.0, 2.0], positions))


def test_a_position_stands_for_one_segment():
    with pytest.raises(InputError, match=r"per segment, but got \[3\] for 0 segments"):
        of(([], [3]))
    with pytest.raises(InputError, match="one position per segment"):
        of(([1.0, 2.0, 3.0], [0, 1, 0]))


@pytest.mark.parametrize("rank", [0, 1])
def test_forward_that_synchronises_at_each_step_goes_on_counting(monkeypatch, rank):
    monkeypatch.setattr(ordered_states, "_rank_and_world_size", lambda: (rank, 2))
    metric = OrderedScores(dist_sync_on_step=True)
    for _ in range(3):
        metric(torch.tensor([0.0, 1.0]))
    assert metric.ordered()[1].tolist() == list(range(rank, 12, 2))


@pytest.mark.parametrize("way", ["update", "forward"])
@pytest.mark.parametrize(("first", "then"), [(None, [7]), ([7], None)])
@pytest.mark.parametrize(
    "between", [lambda one: one, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), lambda one: one.clone()]
)
def test_positions_are_given_at_every_update_or_at_none(way, first, then, between):
    metric = OrderedScores()
    getattr(metric, way)(torch.tensor([1.0]), first)
    metric.update(torch.zeros(0), None if then is None else [])  # nothing is nowhere
    metric = between(metric)
    for other in ("update", "forward"):
        with pytest.raises(InputError, match=r"given as at earlier updates, but got (some after none|none after some)"):
            getattr(copy.deepcopy(metric), other)(torch.tensor([2.0]), then)
    metric.update(torch.tensor([3.0]), None if first is None else [8])
    assert metric.compute().tolist() == [1, 3]
    metric.reset()
    metric(torch.tensor([2.0]), then)
    metric(torch.tensor([3.0]), None if then is None else [8])
    assert metric.compute().tolist() == [2, 3]


def test_loaded_states_know_whether_positions_were_given():
    metric, other = of(([1.0], [5])), OrderedScores()
    metric.persistent(True)
    other.load_state_dict(metric.state_dict())
    with pytest.raises(InputError, match="got none after some"):
        other.update(torch.tensor([2.0]))


def test_merged_states_of_both_kinds_take_in_no_more():
    metric = of(([0.0, 1.0], None))
    metric.merge_state(of(([2.0], [2])))
    assert metric.compute().tolist() == [0, 1, 2]
    for positions in (None, [3]):
        with pytest.raises(InputError, match="in all processes, or at none"):
            metric.update(torch.tensor([3.0]), positions)


def test_numbers_of_one_process_are_not_taken_for_the_positions_of_another():
    """What is gathered where one process was given positions and another not."""
    metric, other = of(([0.0, 1.0], None)), of(([2.0], [1]))
    for name in metric._defaults:
        mine, theirs = getattr(metric, name), getattr(other, name)
        both = mine + theirs if isinstance(mine, list) else torch.stack([mine, theirs])
        setattr(metric, name, metric._reductions[name](both))
    with pytest.raises(InputError, match="tell all segments apart"):
        metric.compute()


def test_updates_may_be_collected_in_inference_mode_and_go_on_outside():
    metric = OrderedScores()
    with torch.inference_mode():
        metric.update(torch.tensor([1.0]))
        metric.reset()
        metric.update(torch.tensor([1.0]))
    metric.update(torch.tensor([2.0]))
    assert metric.compute().tolist() == [1, 2]


@pytest.mark.filterwarnings("error:The ``compute`` method")
def test_a_result_is_computed_again_after_a_merge_and_after_loading():
    metric, other, empty = of(([1.0, 2.0], [0, 1])), of(([3.0, 4.0], [5, 6])), OrderedScores()
    for one in (metric, other, empty):
        one.persistent(True)
    saved = metric.state_dict()
    assert metric.compute().tolist() == [1, 2]
    metric.merge_state(other)
    empty.merge_state(other)
    assert [one.compute().tolist() for one in (metric, empty)] == [[1, 2, 3, 4], [3, 4]]
    metric.load_state_dict(saved)
    assert metric.compute().tolist() == [1, 2]


def test_metrics_loaded_from_one_dictionary_collect_on_their_own():
    metric = of(([1.0, 2.0], None))
    first, second = OrderedScores(), OrderedScores()
    for one in (metric, first, second):
        one.persistent(True)
    saved = metric.state_dict()
    first.load_state_dict(saved)
    second.load_state_dict(saved)
    first.update(torch.tensor([3.0]))
    assert [one.compute().tolist() for one in (first, second)] == [[1, 2, 3], [1, 2]]
    assert len(saved["values"]) == 1


def test_segments_at_the_same_position_are_not_merged_away():
    one = of(([0.0, 1.0], None))
    with pytest.raises(InputError, match="both have one at position 0: give `positions`"):
        one.merge_state(of(([2.0], None)))
    assert one.compute().tolist() == [0, 1]


@pytest.mark.parametrize(
    "cast",
    [
        lambda one: one.half(),
        lambda one: one.to(torch.bfloat16),
        lambda one: one.set_dtype(torch.float16),
        lambda one: torch.nn.ModuleList([one]).half(),
        lambda one: torch.nn.ModuleList([one]).to(dtype=torch.bfloat16),
        lambda one: one.to("cpu"),
    ],
)
def test_a_cast_leaves_the_values_alone(cast):
    metric = of(([0.1234567890123], None))
    cast(metric)
    metric.update(torch.tensor([0.9876543210987], dtype=torch.float64))
    assert metric.compute().dtype == torch.float64
    assert metric.compute()[0].item() == torch.tensor(0.1234567890123).item()
    assert metric.compute()[1].item() == 0.9876543210987
    assert [{one.dtype for one in state} for state in (metric.values, metric.positions)] == [
        {torch.float64},
        {torch.int64},
    ]


def test_a_move_takes_the_states_along():
    metric = of(([1.0], None))
    metric.to("meta")
    assert {one.device.type for one in (*metric.values, *metric.positions)} == {"meta"}


def test_gradients_are_not_kept():
    metric = OrderedScores()
    metric.update(torch.ones(2, requires_grad=True))
    assert not metric.compute().requires_grad
