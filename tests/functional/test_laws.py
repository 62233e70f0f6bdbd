"""Laws of every kernel: padding, batch mates, order, sides, tokens and sides without weight, precision, gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import pytest
import torch
from tests.functional.transport_rules import INF, PENALTIES, RULES, TIGHT, assert_gradients
from torch import Tensor

from textmover.functional import (
    exact_transport,
    greedy_matching,
    lazy_emd,
    mean_cosine,
    partial_transport,
    sinkhorn,
    trwmd,
    twmd,
    unbalanced_sinkhorn,
    wordset_cka,
)

VALUES = ("transport", "objective", "work", "emd", "recall", "precision")


class Case(NamedTuple):
    """A kernel over a problem and numbers, such as its temperature."""

    solve: Callable[..., Any]
    numbers: tuple[float, ...] = ()
    mirrored: tuple[float, ...] | None = None  # the numbers that give the same where the sides are exchanged
    learned: bool = True  # whether the numbers may be tensors
    splits: bool = False  # whether a token may be split into two halves
    scales: bool = True  # whether values scale with the similarities
    shifts: bool = False  # whether a constant added to all pairs is added to the values
    name: str = "cost"

    def __call__(self, given, *numbers) -> dict[str, Tensor]:
        found = self.solve(given, *(numbers or self.numbers))
        if isinstance(found, Tensor):
            return {"value": found}
        values = {name: getattr(found, name) for name in VALUES if hasattr(found, name)}
        if "recall" in values:
            values["f"] = found.f
        return values if found.plan is None else {**values, "plan": found.plan}


def until(given, rule):
    """A stopping rule in reach of the problem's dtype."""
    if "tolerance" not in rule or given.similarity.dtype == torch.float64:
        return rule
    return {"tolerance": 1e-6, "max_iterations": 1_000}  # in float32 some problems come no nearer


def balanced(rule, given, epsilon):
    return sinkhorn(1 - given.similarity, given.a, given.b, epsilon, **until(given, rule))


def unbalanced(rule, measure, given, *numbers):
    return unbalanced_sinkhorn(1 - given.similarity, given.a, given.b, *numbers, measure=measure, **until(given, rule))


def exact(given):
    return exact_transport(1 - given.similarity, given.a, given.b)


def of_mass(mass, given):
    return partial_transport(1 - given.similarity, given.a, mass * given.b)


def lazy(rule, given, epsilon, row, column):
    penalties = {"reference_penalty": row, "hypothesis_penalty": column}
    return lazy_emd(1 - given.similarity, *given[1:], epsilon, **penalties, **until(given, rule), with_plan=True)


def tempered(rule, value, given, temperature, *, with_plan=True, **options):
    return twmd(*given[:3], temperature, value=value, **until(given, rule), with_plan=with_plan, **options)


def relaxed(value, given, temperature, **options):
    return trwmd(*given, temperature, value=value, with_plan=True, **options)


def penalised(rule, measure, pair) -> Case:
    mirrored = (0.1, *pair[::-1]) if "tolerance" in rule else None
    return Case(partial(unbalanced, rule, measure), (0.1, *pair), mirrored)


CASES: dict[str, Case] = {
    **{
        f"sinkhorn, {name}": Case(
            partial(balanced, rule), (0.1,), (0.1,) if "tolerance" in rule else None, splits=True, shifts=True
        )
        for name, rule in RULES.items()
    },
    **{
        f"unbalanced {pair}, {measure}, {name}": penalised(rule, measure, pair)
        for pair in PENALTIES[:-1]
        for measure in ("entropy", "product")
        for name, rule in RULES.items()
    },
    "exact": Case(exact, mirrored=(), splits=True, shifts=True),
    **{f"partial {mass}": Case(partial(of_mass, mass), splits=True) for mass in (0.4, 1.0, 2.5)},
    "lazy": Case(partial(lazy, TIGHT), (0.03, 0.31, 0.23), (0.03, 0.23, 0.31)),
    "lazy, three iterations": Case(partial(lazy, {"iterations": 3}), (0.1, 0.95, 0.009)),
    "lazy, hard hypothesis": Case(partial(lazy, TIGHT), (0.1, 0.0, INF), (0.1, INF, 0.0)),
    **{
        f"lazy, {pair}, no entropy": Case(partial(lazy, {}), (0.0, *pair), (0.0, *pair[::-1]), learned=False)
        for pair in ((INF, INF), (INF, 0.0), (0.0, INF))
    },
    **{
        f"twmd {value}, {name}": Case(
            partial(tempered, rule, value), (0.1,), (0.1,), splits=True, shifts=True, name="similarity"
        )
        for value in ("transport", "objective")
        for name, rule in RULES.items()
    },
    **{
        f"trwmd {value}": Case(partial(relaxed, value), (0.1,), (0.1,), shifts=True, name="similarity")
        for value in ("transport", "objective")
    },
    "greedy": Case(
        lambda given: greedy_matching(*given, with_plan=True), mirrored=(), splits=True, shifts=True, name="similarity"
    ),
    **{
        f"twmd, norm 3, {name}": Case(
            partial(tempered, rule, "transport", error_norm=3.0, with_plan=plan),
            (0.1,),
            splits=True,
            scales=False,
            name="similarity",
        )
        for name, rule, plan in (("one kernel", {}, False), ("three iterations", {"iterations": 3}, True))
    },
    "trwmd, norm 3": Case(partial(relaxed, "transport", error_norm=3.0), (0.1,), scales=False, name="similarity"),
    "greedy, norm 3": Case(
        lambda given: greedy_matching(*given, error_norm=3.0, with_plan=True),
        splits=True,
        scales=False,
        name="similarity",
    ),
    "mean cosine": Case(
        lambda given: mean_cosine(*given[:3]), mirrored=(), splits=True, shifts=True, name="similarity"
    ),
    "wordset cka": Case(lambda given: wordset_cka(*given[:3]), mirrored=(), splits=True, name="similarity"),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
cases_with = {
    field: pytest.mark.parametrize("case", [one for one in CASES.values() if getattr(one, field) not in (None, False)])
    for field in ("mirrored", "scales", "splits", "shifts")
}
each_dtype = pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 5e-6)], ids=str)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], bound: float = 1e-12) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=bound, msg=name)


def without_plan(found: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in found.items() if name != "plan"}


@cache
def solved(problem, case, *, ragged=True, dtype=torch.float64):
    """A problem and its solution without padding, from which several laws begin; they change neither."""
    given = problem(ragged=ragged, dtype=dtype)
    return given, case(given)


@each_case
@each_dtype
def test_padding_moves_nothing_and_gets_no_gradient(problem, case, dtype, bound):
    given, expected = solved(problem, case, dtype=dtype)
    padded = given.padded(3, 2, fill=5.0)
    leaves = [tensor.clone().requires_grad_() for tensor in padded[:3]]
    found = case(padded._replace(similarity=leaves[0], a=leaves[1], b=leaves[2]))
    if "plan" in found:
        assert (found["plan"][:, 6:] == 0).all()
        assert (found["plan"][:, :, 5:] == 0).all()
        found["plan"] = found["plan"][:, :6, :5]
    assert_same(found, expected, bound)
    sum(value.sum() for value in without_plan(found).values()).backward()
    assert (leaves[0].grad[~(padded.reference_mask[:, :, None] & padded.hypothesis_mask[:, None, :])] == 0).all()
    assert all(leaf.grad is None or leaf.grad.isfinite().all() for leaf in leaves)


@each_case
def test_batch_is_a_loop_of_singles(problem, case):
    given, found = solved(problem, case)
    for row, single in enumerate(given.singles()):
        m, n = single.similarity.shape[1:]
        of_row = {name: value[row : row + 1] for name, value in found.items()}
        if "plan" in found:
            of_row["plan"] = of_row["plan"][:, :m, :n]
        assert_same(of_row, case(single))


@each_case
def test_order_of_tokens_does_not_matter(problem, case):
    given, expected = solved(problem, case)
    assert_same(case(given.permuted()), without_plan(expected))


@cases_with["scales"]
def test_values_scale_with_the_cost_and_the_numbers(problem, case):
    given, expected = solved(problem, case)
    for scale in (0.1, 7.0):
        block = scale * given.similarity + (1 - scale if case.name == "cost" else 0)
        power = 2 if case is CASES["wordset cka"] else 1
        found = case(given._replace(similarity=block), *(scale * number for number in case.numbers))
        assert_same(found, {name: scale**power * value for name, value in without_plan(expected).items()}, 1e-10)


@cases_with["shifts"]
def test_a_constant_added_to_all_pairs_is_added_to_the_values(problem, case):
    given, expected = solved(problem, case, ragged=False)
    for shift in (-0.3, 2.0):
        found = case(given._replace(similarity=given.similarity + (-shift if case.name == "cost" else shift)))
        shifted = {name: value + shift for name, value in without_plan(expected).items() if name != "f"}
        assert_same(found, shifted, 1e-11)


@cases_with["mirrored"]
def test_the_sides_can_be_exchanged(problem, case):
    given, expected = solved(problem, case)
    found = case(given.transposed(), *case.mirrored)
    if "recall" in found:
        found |= {"recall": found["precision"], "precision": found["recall"]}
    assert_same(found, without_plan(expected), 1e-10)


@each_case
def test_a_token_without_weight_behind_its_mask_is_invisible(problem, case):
    whole, expected = solved(problem, case, ragged=False)
    for side in ("rows", "columns"):
        given = whole if side == "rows" else whole.transposed()
        cost = given.similarity
        wider = given._replace(
            similarity=torch.cat([cost[:, :2], 4 + 0 * cost[:, :1], cost[:, 2:]], dim=1),
            a=torch.cat([given.a[:, :2], 0 * given.a[:, :1], given.a[:, 2:]], dim=1),
            reference_mask=torch.cat([given.a[:, :2] > 0, given.a[:, :1] < 0, given.a[:, 2:] > 0], dim=1),
        )
        assert_same(case(wider if side == "rows" else wider.transposed()), without_plan(expected))


@cases_with["splits"]
def test_a_token_may_be_split_into_two_halves(problem, case):
    whole, expected = solved(problem, case, ragged=False)
    for side in ("rows", "columns"):
        given = whole if side == "rows" else whole.transposed()
        half = given.a[:, :1] / 2
        split = given._replace(
            similarity=torch.cat([given.similarity, given.similarity[:, :1]], dim=1),
            a=torch.cat([half, given.a[:, 1:], half], dim=1),
            reference_mask=torch.cat([given.reference_mask, given.reference_mask[:, :1]], dim=1),
        )
        assert_same(case(split if side == "rows" else split.transposed()), without_plan(expected))


@each_case
@each_dtype
def test_an_empty_side_moves_nothing_with_finite_gradients(problem, case, dtype, bound):
    given = problem(5, dtype=dtype)
    a, b, rows, columns = (tensor.clone() for tensor in given[1:])
    a[[0, 2]], rows[[0, 2]] = 0, False
    b[[1, 2]], columns[[1, 2]] = 0, False
    leaves = [tensor.requires_grad_() for tensor in (given.similarity.clone(), a, b)]
    numbers = [torch.tensor(one, dtype=dtype, requires_grad=True) for one in case.numbers if case.learned]
    found = case(type(given)(*leaves, rows, columns), *numbers)
    sum(value.sum() for value in without_plan(found).values()).backward()
    assert all((value[:3] == 0).all() for value in found.values())
    assert all(one.grad is None or one.grad.isfinite().all() for one in (*leaves, *numbers))
    assert (leaves[0].grad[:3] == 0).all()
    rest = case(type(given)(*(tensor[3:] for tensor in given)))
    assert_same({name: value[3:] for name, value in found.items()}, rest, bound)


@each_case
def test_a_side_without_tokens_or_a_batch_without_pairs_moves_nothing(problem, case):
    whole = problem(3)
    for batch, rows, columns in ((3, 0, 5), (3, 6, 0), (3, 0, 0), (0, 6, 5)):
        sides = (tensor[:batch, :count] for tensor, count in zip(whole[1:], (rows, columns) * 2, strict=True))
        found = case(type(whole)(whole.similarity[:batch, :rows, :columns].requires_grad_(), *sides))
        assert all((value == 0).all() for value in found.values())
        assert all(value.shape == (batch,) for value in without_plan(found).values())
        assert found.get("plan") is None or found["plan"].shape == (batch, rows, columns)


@each_case
def test_float32_is_near_float64_and_autocast_changes_nothing(problem, case):
    given, expected = solved(problem, case, ragged=False, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = case(given)
    # Of weights rounded to float32 the two sides differ in mass: no iteration would come to the finer tolerance.
    _, finer = solved(problem, case, ragged=False)
    for name, value in found.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, expected[name])
        torch.testing.assert_close(value.double(), finer[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "name", [name for name in CASES if name.startswith(("lazy", "trwmd", "twmd", "greedy", "mean", "word"))]
)
def test_gradients_of_similarity_weights_and_numbers(problem, name):
    given, case = problem(1, 2, 3), CASES[name]
    numbers = [torch.tensor(one, dtype=torch.float64) for one in case.numbers if case.learned]
    numbers = [one.requires_grad_(0 < one.item() < INF) for one in numbers]

    def values(similarity, log_a, log_b, *numbers):
        masks = (mask.expand(len(similarity), -1) for mask in given[3:])
        found = case(type(given)(similarity, log_a.softmax(1), log_b.softmax(1), *masks), *numbers)
        return list(without_plan(found).values())

    assert_gradients(values, (given.similarity, given.a.log(), given.b.log()), numbers)


@each_case
@pytest.mark.usefixtures("without_shape_checks")
def test_bad_tensors_are_named(problem, case):
    given = problem()
    for wrong, kind, message in (
        (
            given._replace(similarity=given.similarity[0]),
            ValueError,
            rf"`{case.name}` to have shape \[B, M, N\], but got \[6, 5\]",
        ),
        (given._replace(a=given.b), ValueError, r"`a` to have shape \[4, 6\], but got \[4, 5\]"),
        (given._replace(b=given.a), ValueError, r"`b` to have shape \[4, 5\], but got \[4, 6\]"),
        (given.to(torch.bfloat16), TypeError, rf"`{case.name}` to be float32 or float64, but got torch\.bfloat16"),
        (given._replace(b=given.b.float()), TypeError, rf"`b` to be torch\.float64 on cpu like `{case.name}`, but got"),
    ):
        with pytest.raises(kind, match=f"Expected {message}"):
            case(wrong)
