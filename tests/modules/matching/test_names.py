"""Matchings that others bring: registered, found by an entry point, kept in checkpoints, refused where wrong."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest
import torch

from textmover import Scorer
from textmover.checkpoints.loading import load_metric
from textmover.checkpoints.saving import save_checkpoint
from textmover.functional import f_score
from textmover.modules import Matching, MetricConfig, register_matching
from textmover.modules.matching.matchings import Twmd, build_matching
from textmover.modules.matching.names import ENTRY_POINTS, REGISTERED, registered_matching, who_reads
from textmover.types import InputError, MatchResult


class Means(Matching):
    """The mean of all cosines, to a power."""

    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    @classmethod
    def from_config(cls, config):
        return cls(config.alpha)

    def forward(self, similarity, reference, hypothesis, *, with_plan=False):
        plan = reference.weights[:, :, None] * hypothesis.weights[:, None, :]
        value = (plan * similarity).sum(dim=(1, 2))
        return MatchResult(value, value, f_score(value, value, self.alpha), plan if with_plan else None)


@pytest.fixture
def means():
    register_matching("means", Means, reads=["alpha"])
    yield "means"
    REGISTERED.pop("means", None)


def test_a_registered_matching_scores_as_its_twin_of_the_project(means, tiny_encoder):
    texts = ["a b c", "", "a"], ["c b", "a", "a d b c"]
    own = Scorer.from_pretrained("sbert", encoder=str(tiny_encoder), matching=means).score(*texts)
    twin = Scorer.from_pretrained("sbert", encoder=str(tiny_encoder)).score(*texts)
    assert own.scores == pytest.approx(twin.scores, abs=1e-6)
    assert "metric:means|" in str(own.signature)


def test_a_checkpoint_of_it_loads_where_it_is_registered_and_says_so_elsewhere(means, tiny_encoder, tmp_path):
    metric = load_metric("sbert", encoder=str(tiny_encoder), matching=means)
    save_checkpoint(metric, tmp_path / "metric", card="of a test")
    assert load_metric(tmp_path / "metric").config.matching == means
    REGISTERED.pop(means)
    with pytest.raises(InputError, match="but got 'means': correct it, or import what registers it"):
        load_metric(tmp_path / "metric")


def test_only_the_fields_it_reads_can_be_changed(means):
    assert MetricConfig().override(matching=means, alpha=0.3).alpha == 0.3
    assert who_reads("alpha") == {"twmd", "trwmd", "bertscore", means}
    with pytest.raises(InputError, match="matching='means' reads, but got `temperature`"):
        MetricConfig().override(matching=means, temperature=0.3)


def test_a_name_can_be_registered_anew(means):
    register_matching(means, Twmd)
    assert isinstance(build_matching(MetricConfig(matching=means)), Twmd)


def test_an_entry_point_of_a_package_registers(monkeypatch):
    class Point:
        loaded = 0

        def load(self):
            Point.loaded += 1
            register_matching("brought", Means)

    def entry_points(*, group, name):
        return [Point()] if (group, name) == (ENTRY_POINTS, "brought") else []

    monkeypatch.setattr("textmover.modules.matching.names.entry_points", entry_points)
    try:
        assert MetricConfig(matching="brought").matching == "brought"
        assert registered_matching("brought").matching is Means
        assert Point.loaded == 1
    finally:
        REGISTERED.pop("brought", None)


def test_an_entry_point_that_does_not_load_is_named(monkeypatch):
    points = EntryPoints([EntryPoint("brought", "no_such_package.matchings", ENTRY_POINTS)])
    monkeypatch.setattr("textmover.modules.matching.names.entry_points", points.select)
    with pytest.raises(InputError, match=r"matching 'brought', .* 'No module named 'no_such_package'': repair"):
        MetricConfig(matching="brought")
    with pytest.raises(InputError, match=r"one of 'twmd', .*, 'brought', but got 'brougth'"):
        MetricConfig(matching="brougth")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        *(((name, Means), InputError, "a name for the .* that is not taken") for name in ("twmd", "", "  ", 3)),
        *((("mine", given), TypeError, "a subclass of textmover") for given in (torch.nn.Linear, Means(0.5), "Means")),
        (("mine", Means, ["temprature"]), InputError, "`reads` to be among temperature"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        register_matching(*arguments)


@pytest.mark.parametrize("name", ["nonsense", None, 3, ["twmd"]])
def test_unknown_names_are_refused(name):
    with pytest.raises(InputError, match="`matching` to be one of 'twmd'"):
        MetricConfig(matching=name)
