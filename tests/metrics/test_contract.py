"""Every Metric in the hands of torchmetrics: failing calls, wrappers, merged states, several processes."""

import copy
import functools
import itertools
import pickle

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch.utils.data import DataLoader
from torchmetrics import MetricCollection, MetricTracker
from torchmetrics.wrappers import BootStrapper, ClasswiseWrapper, MinMaxMetric, MultitaskWrapper, Running

from textmover.metrics import OrderedScores, RoMeScore, TextMoverBERTScore, TextMoverScore
from textmover.modules.encoder.encoder import Encoder
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring import Scorer, load_metric
from textmover.types import InputError

PREDS = ["the small dog ran home", "she will buy a book", "tea", "go home", "a cat"]
TARGET = ["a little dog runs home", "she sold two books", "warm tea", "go home now", "the cat sat"]
ALL = range(5)
KINDS = {
    "mean": (TextMoverScore, {}),
    "each": (TextMoverScore, {"reduction": "none"}),
    "bertscore": (TextMoverBERTScore, {}),
    "bertscore-idf": (TextMoverBERTScore, {"idf": True}),
    "rome": (RoMeScore, {}),
    "rome-each": (RoMeScore, {"reduction": "none"}),
}


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def scorers(tiny_encoder):
    """One scorer for all metrics of a class."""
    rome = RomeConfig(
        encoder=str(tiny_encoder), parser="none", features=("semantic", "length-ratio"), weights="uniform"
    )
    return {
        TextMoverScore: Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="cpu", backend="torch"),
        TextMoverBERTScore: TextMoverBERTScore(str(tiny_encoder), device="cpu", backend="torch").scorer,
        RoMeScore: Scorer(RomeMetric.from_config(rome).eval()),
    }


@pytest.fixture(scope="module")
def build(scorers):
    """Builds a metric of a kind."""

    def build(kind: str, **options):
        made, own = KINDS[kind]
        return made(scorers[made], **own, **options)

    return build


@pytest.fixture(scope="module")
def alone(build):
    """The value of some pairs, of a metric that has seen nothing else."""
    return functools.cache(lambda kind, *rows: of(build(kind), *rows))


def numbers(value) -> torch.Tensor:
    """All numbers of a result."""
    return torch.cat([one.reshape(-1).double() for one in (value.values() if isinstance(value, dict) else [value])])


def of(metric, *rows: int):
    """The value of the pairs at these rows."""
    metric.update([PREDS[row] for row in rows], [TARGET[row] for row in rows])
    return metric.compute()


def same(found, expected) -> None:
    torch.testing.assert_close(numbers(found), numbers(expected), rtol=0, atol=1e-6)


def out_of_memory(*_, **__):
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("at_each_step", "fails"),
    [(False, "first update"), (False, "value"), (True, "first update"), (True, "second update"), (True, "value")],
)
def test_a_call_that_raises_changes_nothing(build, alone, monkeypatch, kind, at_each_step, fails):
    """Both ways of torchmetrics: one update and joined states, or an update for all and one for the batch alone."""
    metric = build(kind, dist_sync_on_step=at_each_step)
    metric(PREDS[:2], TARGET[:2])
    metric.update(PREDS[2:3], TARGET[2:3])
    before = {name: str(value) for name, value in vars(metric).items()}
    updates = iter([fails == "first update", fails == "second update"])
    kept = metric.keep
    with monkeypatch.context() as patch:
        patch.setattr(metric, "keep", lambda *given: (kept(*given), next(updates) and out_of_memory()))
        if fails == "value":
            patch.setattr(metric, "order", out_of_memory)
        with pytest.raises(RuntimeError, match="out of memory"):
            metric(PREDS[3:4], TARGET[3:4])
    assert {name: str(value) for name, value in vars(metric).items()} == before
    metric(PREDS[3:], TARGET[3:])
    same(metric.compute(), alone(kind, *ALL))


REFUSED = (
    ([3], ["x"]),
    (["a", "b"], ["x"]),
    (["a"], [[]]),
    ({"a": 1}, ["x"]),
    (["a"], {"x": 1}),
    (["a \ud800"], ["x"]),
)


def test_refused_texts_leave_what_was_collected(build, alone, kind):
    metric = build(kind)
    metric(PREDS[:2], TARGET[:2])
    for way, texts in itertools.product((metric, metric.update), REFUSED):
        with pytest.raises((InputError, TypeError), match="Expected"):
            way(*texts)
    metric(PREDS[2:], TARGET[2:])
    same(metric.compute(), alone(kind, *ALL))


@pytest.mark.parametrize("broken", ["gathering", "value"])
def test_a_value_that_raises_leaves_the_states_of_this_process(build, alone, kind, broken):
    """What is gathered goes away again, whatever fails behind it."""
    gathered = out_of_memory if broken == "gathering" else lambda tensor, group: [tensor, tensor]
    metric = build(kind, dist_sync_fn=gathered, distributed_available_fn=lambda: True)
    metric.update(PREDS[:2], TARGET[:2])
    if broken == "value":
        metric.order = out_of_memory
    with pytest.raises(RuntimeError, match="out of memory"):
        metric.compute()
    vars(metric).pop("order", None)
    assert not metric._is_synced
    metric.dist_sync_fn = lambda tensor, group: [tensor]
    same(of(metric, 2), alone(kind, 0, 1, 2))


@pytest.mark.parametrize("way", ["update", "forward"])
def test_a_running_value_is_that_of_the_last_batches(build, alone, kind, way):
    running = Running(build(kind), window=2)
    call = running if way == "forward" else running.update
    call(PREDS[:2], TARGET[:2])
    same(running.compute(), alone(kind, 0, 1))
    for row in (2, 3):
        call(PREDS[row : row + 1], TARGET[row : row + 1])
    expected = alone(kind, 3, 2)  # torchmetrics goes through its places, and the third batch has that of the first
    same(running.compute(), expected)
    same(running.compute(), expected)
    running.reset()
    call(PREDS[3:], TARGET[3:])
    same(running.compute(), alone(kind, 3, 4))


WRAPPERS = {
    "collection": (lambda one: MetricCollection({"a": one}), lambda found: found, KINDS),
    "multitask": (lambda one: MultitaskWrapper({"a": one}), lambda found: found["a"], KINDS),
    "minmax": (lambda one: MinMaxMetric(one), lambda found: found["raw"], ["mean"]),
    "classwise": (lambda one: ClasswiseWrapper(one), lambda found: torch.stack([*found.values()]), ["each"]),
    "sum": (lambda one: (one + one.clone()) / 2, lambda found: found, ["mean", "each"]),
    "scaled": (lambda one: 1 - (1 - one), lambda found: found, ["mean", "each"]),
}


@pytest.mark.parametrize(
    ("wrapper", "kind"), [(name, kind) for name, (_, _, kinds) in WRAPPERS.items() for kind in kinds]
)
def test_wrappers_give_the_value(build, alone, wrapper, kind):
    wrap, value, _ = WRAPPERS[wrapper]
    wrapped = wrap(build(kind))
    for rows in (slice(0, 2), slice(2, 5)):
        batch = (PREDS[rows], TARGET[rows])
        wrapped.update(*([{"a": one} for one in batch] if wrapper == "multitask" else batch))
    same(value(wrapped.compute()), alone(kind, *ALL))


def test_a_tracker_keeps_one_value_per_epoch(build, alone, kind):
    tracker = MetricTracker(build(kind))
    epochs = [[0, 1], [2, 3]]
    for rows in epochs:
        tracker.increment()
        of(tracker, *rows)
    first, second = (numbers(alone(kind, *rows)) for rows in epochs)
    found = numbers(tracker.compute_all())
    assert sorted(found.tolist()) == pytest.approx(sorted([*first.tolist(), *second.tolist()]), abs=1e-6)
    if kind == "mean":
        assert tracker.best_metric() == found.max().item()


def test_doubles_go_on_with_the_same_states(build, alone, kind):
    metric = build(kind)
    metric.update(PREDS[:2], TARGET[:2])
    pickled = pickle.loads(pickle.dumps(metric))
    for other in (copy.deepcopy(metric), metric.clone(), pickled):
        assert (other.scorer is metric.scorer) == (other is not pickled)
        same(of(other, 2, 3, 4), alone(kind, *ALL))
    same(metric.compute(), alone(kind, 0, 1))


def test_reset_starts_anew(build, kind):
    metric = build(kind)
    first = of(metric, 0, 1)
    metric.reset()
    assert [getattr(metric, name) for name in metric._columns] == [[]] * len(metric._columns)
    same(of(metric, 0, 1), first)


def test_computing_reads_no_text_and_loads_nothing(build, kind, monkeypatch):
    metric = build(kind)
    metric.update(PREDS, TARGET)
    monkeypatch.setattr(Encoder, "forward", None)
    monkeypatch.setattr(type(metric.scorer.metric), "tokenize", None)
    monkeypatch.setattr(Scorer, "from_pretrained", None)
    assert numbers(metric.compute()).isfinite().all()


@pytest.mark.parametrize(
    ("wrap", "kind", "error"),
    [(BootStrapper, kind, TypeError) for kind in KINDS]
    + [(MinMaxMetric, kind, RuntimeError) for kind in KINDS if kind != "mean"]
    + [(lambda one: one + one, kind, TypeError) for kind in KINDS if kind not in ("mean", "each")],
)
def test_wrappers_that_take_other_values_refuse(build, wrap, kind, error):
    """Torchmetrics resamples tensors alone, compares single numbers, and adds tensors."""
    wrapped = wrap(build(kind))
    with pytest.raises(error):
        of(wrapped, 0, 1, 2, 3, 4)


def test_options_of_torchmetrics_change_no_value(build, alone, kind):
    options = {"sync_on_compute": False, "compute_with_cache": False, "compute_on_cpu": True, "dist_sync_on_step": True}
    for name, value in options.items():
        metric = build(kind, **{name: value})
        same(metric(PREDS[:2], TARGET[:2]), alone(kind, 0, 1))
        same(of(metric, 2, 3, 4), alone(kind, *ALL))


def test_saved_states_go_on_elsewhere(build, alone, kind):
    metric, other = build(kind), build(kind)
    metric.update(PREDS[:3], TARGET[:3])
    assert metric.state_dict() == {}
    for one in (metric, other):
        one.persistent(True)
    other.load_state_dict(metric.state_dict())
    same(of(other, 3, 4), alone(kind, *ALL))


def test_merged_metrics_have_the_value_of_all(build, alone, kind):
    other = build(kind)
    other.update(PREDS[:2], TARGET[:2], positions=[0, 1])
    for given in (other, other.metric_state):
        one = build(kind)
        one.update(PREDS[2:], TARGET[2:], positions=[2, 3, 4])
        one.merge_state(given)
        same(one.compute(), alone(kind, *ALL))


def test_metrics_that_score_differently_are_not_merged(build, alone, tiny_encoder):
    metric = build("mean")
    of(metric, 0)
    other = TextMoverScore("twmd", encoder=str(tiny_encoder), device="cpu", temperature=0.5)
    other.update(PREDS[1:2], TARGET[1:2], positions=[1])
    with pytest.raises(InputError, match="score alike, but their signatures differ in T"):
        metric.merge_state(other)
    with pytest.raises(InputError, match="got none of f1, precision, recall: merge metrics that were made alike"):
        build("bertscore").merge_state(build("bertscore-idf"))
    with pytest.raises(InputError, match="got none of identity, value_score"):
        metric.merge_state(OrderedScores())
    same(metric.compute(), alone("mean", 0))


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_there_is_no_mean_of_nothing(build, alone, kind):
    metric = build(kind)
    for _ in range(2):  # before any update, and after one of nothing
        if kind in ("mean", "rome"):
            with pytest.raises(InputError, match="at least one segment for a mean, but got none: call `update`"):
                metric.compute()
        else:
            assert numbers(metric.compute()).tolist() == []
        metric.update([], [])
    same(of(metric, 0, 1), alone(kind, 0, 1))


class Validating(LightningModule):
    """Calls a metric in its validation, and logs it where it is one number."""

    def __init__(self, metric):
        super().__init__()
        self.metric, self.value = metric, None

    def validation_step(self, rows):
        self.metric([PREDS[row] for row in rows], [TARGET[row] for row in rows])
        if isinstance(self.metric, TextMoverScore) and self.metric.reduction == "mean":
            self.log("score", self.metric)

    def on_validation_epoch_end(self):
        self.value = self.metric.compute()

    def val_dataloader(self):
        return DataLoader([[0, 1], [2, 3, 4]], batch_size=None, collate_fn=list)

    def configure_optimizers(self):
        return None


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_a_trainer_in_half_precision_changes_no_value(build, alone, scorers, kind, precision):
    expected = alone(kind, *ALL)
    scorers[KINDS[kind][0]].clear_cache()
    module = Validating(build(kind))
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    logged = Trainer(precision=precision, accelerator="cpu", **quiet).validate(module, verbose=False)
    same(module.value, expected)
    if logged[0]:
        same(torch.tensor(logged[0]["score"]), expected)


def test_values_that_are_not_finite_are_refused(tiny_encoder, kind):
    """An update reads the present weights and names the segment; with idf too, whose values come in the end."""
    metric = KINDS[kind][0]
    config = RomeConfig(encoder=str(tiny_encoder), parser="none", features=("semantic",), weights="uniform")
    model = {
        TextMoverScore: lambda: load_metric("twmd", encoder=str(tiny_encoder)),
        TextMoverBERTScore: lambda: load_metric("bertscore-f1", encoder=str(tiny_encoder)),
        RoMeScore: lambda: RomeMetric.from_config(config).eval(),
    }[metric]()
    one = metric(model.train(), **KINDS[kind][1])
    one.update(PREDS[:1], TARGET[:1])
    assert model.training
    assert list(one.parameters()) == list(one.children()) == []
    encoder = model.reader.metric.encoder if metric is RoMeScore else model.encoder
    for broken in (float("nan"), float("inf")):
        with torch.no_grad():
            encoder.model.embeddings.word_embeddings.weight.fill_(broken)
        for way in (one.update, one):
            with pytest.raises(InputError, match=r"Expected finite values .* of segment 1 is nan"):
                way(PREDS[1:], TARGET[1:])
    assert numbers(one.compute()).isfinite().all()


@pytest.mark.slow
def test_two_processes_go_on_after_calls_that_raised(build, alone, in_two_processes, tiny_encoder):
    """Each keeps its share, and syncing is on: both have the value of all five."""
    whole = {
        "TextMoverScore": alone("mean", *ALL),
        "TextMoverBERTScore": alone("bertscore", *ALL)["f1"],
    }
    expected = {f"{name} {at_each_step}": whole[name] for name in whole for at_each_step in (False, True)}
    expected["running"] = alone("mean", *range(4))
    for result in in_two_processes("values_after_failures", str(tiny_encoder), PREDS, TARGET):
        assert {*result} == {*expected}
        for name, value in result.items():
            torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6, msg=name)
