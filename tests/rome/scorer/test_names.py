import json

import pytest
import torch

from textmover.rome import convert
from textmover.rome.config import RomeConfig
from textmover.rome.scorer.network import (
    OFFICIAL,
    UNTRAINED,
    FeatureScorer,
    ScorerConfig,
    build_scorer,
    convert_official,
    official_file,
    shipped_scorers,
    write_scorer,
)
from textmover.types import InputError

FEATURES = ("semantic", "syntactic", "acceptability")


@pytest.fixture
def theirs(tmp_path):
    """A file as the authors' is, and what it computes."""
    scorer = FeatureScorer(OFFICIAL, seed=3)
    names = {"weights.0": "hid1.weight", "biases.0": "hid1.bias", "weights.1": "hid2.weight", "biases.1": "hid2.bias"}
    names |= {"weights.2": "out.weight", "biases.2": "out.bias"}
    state = {names[name]: one.tolist() for name, one in scorer.state_dict().items() if name in names}
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(state))
    return path, scorer


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_mean_has_no_network():
    assert build_scorer("mean", FEATURES) is None


@pytest.mark.parametrize("name", UNTRAINED)
def test_new_networks_are_for_any_features(name):
    scorer = build_scorer(name, ("semantic", "chrf"))
    assert scorer.config.features == ("semantic", "chrf")
    assert scorer.config.monotone == (name == "new-monotone")


def test_shipped_networks_are_found_by_name():
    assert set(shipped_scorers()) == {"rome", "rome-paper", "rome-ratings"}


@pytest.mark.parametrize("name", shipped_scorers())
def test_shipped_networks_see_the_features_of_the_preset(name):
    scorer = build_scorer(name, FEATURES)
    assert scorer.config.features == RomeConfig().features == FEATURES
    assert scorer.config.monotone == (name != "rome-paper")
    best, worst = scorer(torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])).tolist()
    assert best > 0.6
    assert worst < 0.3
    found = scorer(torch.rand(200, 3, generator=torch.Generator().manual_seed(0)))
    assert float(found.detach().std()) > 0.02  # one that says the same of everything is no scorer


@pytest.mark.parametrize("name", shipped_scorers())
def test_shipped_networks_say_what_they_are(name):
    about = json.loads(shipped_scorers()[name].read_text(encoding="utf-8"))["about"]
    assert about["name"] == name
    assert about["data"]
    assert all(terms.strip() for terms in about["data"].values())
    assert not any(word in data for data in about["data"] for word in ("Quora", "QQP", "SICK", "WebNLG", "2017"))
    assert set(about["sizes"]) >= {"training", "calibration"}
    assert 0.5 <= about["accuracy on test pairs"] <= 1 or name == "rome-ratings"
    assert "metric:rome|" in about["features"]


def test_a_file_is_a_network(tmp_path):
    scorer = FeatureScorer(ScorerConfig(FEATURES), seed=4)
    write_scorer(scorer, tmp_path / "mine.json", about="a test")
    back = build_scorer(str(tmp_path / "mine.json"), FEATURES)
    assert back.fingerprint == scorer.fingerprint
    assert json.loads((tmp_path / "mine.json").read_text())["about"] == "a test"


def test_the_authors_network_is_named_once_it_is_converted(theirs):
    path, scorer = theirs
    with pytest.raises(InputError, match=r"convert them once: python -m textmover\.rome\.convert FILE"):
        build_scorer("official", FEATURES)
    assert convert_official(path) == official_file()
    given = torch.rand(5, 3)
    assert torch.allclose(build_scorer("official", FEATURES)(given), scorer(given), atol=1e-6)


def test_the_command_says_how_to_use_it(theirs, tmp_path, capsys):
    assert convert.main([str(theirs[0])]) == 0
    said = capsys.readouterr().out
    assert "--scorer official, or" in said  # a flag of `textmover score`
    assert 'scorer="official" in Python' in said
    assert convert.main([str(theirs[0]), "-o", str(tmp_path / "there.json")]) == 0
    assert f'scorer="{tmp_path / "there.json"}"' in capsys.readouterr().out


def test_the_command_refuses_what_is_no_network(tmp_path, capsys):
    (tmp_path / "other").write_text("nothing")
    assert convert.main([str(tmp_path / "other")]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"Expected {tmp_path / 'other'} to be the network of RoMe's authors")
    assert message.count("\n") == 1
    assert not official_file().exists()


@pytest.mark.parametrize("content", ["", "[]", '{"config": {}}', "\xff"])
def test_files_of_something_else_are_refused(content, tmp_path):
    (tmp_path / "network.json").write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"Expected .*network\.json to hold a scorer network, but: "):
        build_scorer(str(tmp_path / "network.json"), FEATURES)


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(InputError, match=r"to be one of mean, official, .*new-paper, new-monotone, or a file, but got"):
        build_scorer("unknown", FEATURES)
