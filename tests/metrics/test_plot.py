"""Figures hold the values that were computed."""

import matplotlib as mpl
import pytest
import torch
from torchmetrics import MetricCollection

from textmover import EncoderMemory
from textmover.metrics import TextMoverBERTScore, TextMoverScore

PREDS = ["the small dog ran home", "she will buy a book", "tea"]
TARGET = [["a little dog runs home", "the dog ran"], ["she sold two books"], ["warm tea"]]


@pytest.fixture(autouse=True)
def pyplot(monkeypatch):
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def heights(axes) -> list[list[float]]:
    return [[float(value) for value in line.get_ydata()] for line in axes.get_lines()]


def bounds(axes) -> list[float]:
    (lines,) = axes.collections
    return sorted(float(segment[0][1]) for segment in lines.get_segments())


@pytest.fixture(params=["mean", "none"])
def score(request, tiny_encoder) -> TextMoverScore:
    return TextMoverScore("twmd", reduction=request.param, encoder=str(tiny_encoder), device="cpu")


def test_a_score_is_drawn_as_its_mean_between_its_bounds(score):
    score.update(PREDS, TARGET)
    figure, axes = score.plot()
    assert figure is axes.figure
    assert heights(axes) == [[pytest.approx(score.compute().mean().item())]]
    assert bounds(axes) == [-1, 1]
    assert axes.get_ylabel() == "TextMoverScore"


def test_a_series_is_drawn_value_by_value(score):
    values = [score(PREDS[rows], TARGET[rows]) for rows in (slice(0, 1), slice(0, 3), slice(1, 3))]
    _, axes = score.plot(values)
    assert heights(axes) == [pytest.approx([value.mean().item() for value in values])]


def test_a_value_is_drawn_as_it_is_and_into_given_axes(score, pyplot):
    axes = pyplot.figure().subplots()
    figure, same = score.plot(torch.tensor([0.25, 0.5]), axes)
    assert figure is None
    assert same is axes
    assert heights(axes) == [[0.25], [0.5]]


def test_a_distance_has_its_own_bounds(tiny_encoder):
    metric = TextMoverScore("lazy-emd-en", encoder=str(tiny_encoder), device="cpu")
    metric.update(PREDS, TARGET)
    _, axes = metric.plot()
    assert bounds(axes) == sorted(one for one in metric.scorer.metric.range if abs(one) < float("inf"))
    assert not metric.higher_is_better


def test_a_collection_is_drawn_metric_by_metric_or_together(tiny_encoder):
    options = {"encoder": str(tiny_encoder), "device": "cpu", "memory": EncoderMemory()}
    metrics = MetricCollection({name: TextMoverScore(name, **options) for name in ("twmd", "bertscore-f1")})
    metrics.update(PREDS, TARGET)
    values = metrics.compute()
    found = {name: heights(axes) for name, (_, axes) in zip(values, metrics.plot(), strict=True)}
    assert found == {name: [[pytest.approx(value.item())]] for name, value in values.items()}
    metrics = MetricCollection({"a": TextMoverScore("twmd", **options), "b": TextMoverBERTScore(tiny_encoder)})
    metrics.update(PREDS, TARGET)
    _, axes = metrics.plot(together=True)  # with a value of several parts, the only way that torchmetrics has
    found, expected = heights(axes), metrics["b"].compute()
    assert found == [
        [pytest.approx(metrics["a"].compute().item())],
        *(pytest.approx(one.tolist()) for one in expected.values()),
    ]


@pytest.mark.parametrize("idf", [False, True])
def test_the_three_values_of_bertscore_are_drawn(tiny_encoder, idf):
    metric = TextMoverBERTScore(tiny_encoder, idf=idf, return_hash=True, device="cpu")
    values = [metric(PREDS[rows], TARGET[rows]) for rows in (slice(0, 1), slice(0, 3))]
    whole = metric.compute()
    _, axes = metric.plot()
    assert heights(axes) == [[pytest.approx(whole[name].mean().item())] for name in ("precision", "recall", "f1")]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["precision", "recall", "f1"]
    assert bounds(axes) == [0, 1]
    _, axes = metric.plot(values)
    assert heights(axes)[2] == pytest.approx([value["f1"].mean().item() for value in values])
    _, axes = metric.plot(whole)
    assert heights(axes)[1] == pytest.approx(whole["recall"].tolist())
