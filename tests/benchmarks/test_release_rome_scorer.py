import importlib
import json
import re
from collections import Counter
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml

from textmover import Scorer
from textmover.cli.training.train import main as train_command
from textmover.perturbations.parsed_clauses import Parses
from textmover.rome.scorer.network import build_scorer
from textmover.types import InputError, ParsedText, Segment

ROOT = Path(__file__).resolve().parents[2]
SPEC = yaml.safe_load((ROOT / "configs/released/rome-scorers.yaml").read_text(encoding="utf-8"))
NAMES = ("semantic", "syntactic", "acceptability")


@pytest.fixture
def data(script):
    """The part of the script that makes pairs and features."""
    return importlib.import_module("rome_scorer_data")


def words(text):
    """Stands in for a parser: words, the first one the head of the others."""
    found = list(re.finditer(r"\w+|[^\w\s]", text))
    n = len(found)
    return ParsedText(
        tuple(one.group() for one in found),
        tuple(one.group().lower() for one in found),
        tuple("PROPN" if one.group().istitle() else "ADJ" if one.group() == "big" else "NOUN" for one in found),
        ("",) * n,
        (-1, *(0,) * (n - 1))[:n],
        ("root", *("dep",) * (n - 1))[:n],
        tuple(one.span() for one in found),
    )


def test_parts_share_no_text_whatever_the_order(data):
    items = [Segment(f"Sentence {n}.", (f"Sentence {n + 1 - n % 2}.",)) for n in range(400)]
    shares = {"test": 0.2, "calibration": 0.3}
    found = data.split_parts(items, shares)
    assert sorted((one for part in found.values() for one in part), key=items.index) == items
    texts = [{text for one in part for text in (one.hypothesis, *one.references)} for part in found.values()]
    assert not any(one & other for one, other in combinations(texts, 2))
    assert len(found["test"]) == pytest.approx(80, abs=35)
    turned = data.split_parts(items[::-1], shares)
    assert {name: part[::-1] for name, part in turned.items()} == found


def test_what_a_kind_lacks_the_others_make_up(data):
    most, weights = {"drop": 3, "swap": 50, "negate": 50}, {"swap": 1.0, "drop": 1.0, "negate": 2.0}
    made = [data.Pair("r", f"{kind} {n}", kind, False, 0.5) for kind in most for n in range(most[kind])]
    taken = data.balanced(made, weights, 40)
    count = Counter(one.kind for one in taken)
    assert (count["drop"], len(taken)) == (3, 40)
    assert count["negate"] == pytest.approx(2 * count["swap"], abs=2)
    assert set(data.balanced(made[::-1], weights, 40)) == set(taken)


@pytest.fixture
def spec(tmp_path):
    """A configuration over made-up files."""
    places = ("Oslo", "Rome", "Paris", "Cairo", "Lima")
    plain = [f"The big house number {n} near {places[n % 5]} was sold to {n} old men." for n in range(120)]
    (tmp_path / "plain.txt").write_text("\n".join([*plain, "Too short.", "This sentence has no end"]) + "\n")
    rows = [f"{5 - n % 2}\tThe boat {n} sank at night.\tAt night the boat {n} went down." for n in range(160)]
    (tmp_path / "same.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *rows]) + "\n")
    pair = "At night the boat 0 went down.\tThe boat 0 sank at night."
    (tmp_path / "test.tsv").write_text(f"sentence1\tsentence2\n{pair}\n")
    (tmp_path / "known.txt").write_text("\n".join(plain[:20]) + "\n")
    recipe = {"texts": [str(tmp_path / "known.txt")], "words": [3, 20], "sentences": None, "seed": 1}
    (tmp_path / "stage.yaml").write_text(yaml.safe_dump({"data": {"init_args": recipe}}))
    names = ("plain.txt", "same.tsv")
    files = {name: {"name": name, "file": str(tmp_path / name), "licence": "ours"} for name in names}
    return {
        **SPEC,
        "plain": [{**files["plain.txt"], "sentences": 90, "words": [4, 20]}],
        "paraphrases": [{**files["same.tsv"], "least": {"score": 4.5}}],
        "without": [{"path": str(tmp_path / "test.tsv"), "columns": ["sentence1", "sentence2"]}],
        "classifier": [str(tmp_path / "stage.yaml")],
        "damaged": ["repeat", "drop", "entity", "negate"],
        "parts": {"training": 40, "calibration": 16, "test": 16},
        "shares": {"test": 0.25, "calibration": 0.25},
    }


def test_pairs_are_balanced_and_come_of_the_right_sentences(data, spec):
    found = data.build_parts(spec, Parses(lambda texts: [words(text) for text in texts]))
    for name, part in found.items():
        assert sum(one.good for one in part) == sum(not one.good for one in part) == spec["parts"][name]
        assert {one.kind for one in part if not one.good} == set(spec["damaged"])
        assert {"paraphrase", "synonym", "identity"} <= {one.kind for one in part if one.good}
        assert all(one.severity < 0.2 for one in part if one.good)
        assert all(one.severity > 0.07 for one in part if not one.good)
        damaged = [one.reference.startswith("The big house") for one in part if not one.good]
        assert sum(damaged) == len(damaged) // 2
    known = set(Path(spec["classifier"][0]).with_name("known.txt").read_text().splitlines())
    every = [one for part in found.values() for one in part]
    assert not known & {text for one in every for text in one[:2]}
    assert not any({"At night the boat 0 went down.", "The boat 0 sank at night."} == set(one[:2]) for one in every)
    assert not any(re.search(r"boat \d*[13579] ", one.reference) for one in every), "rated below the limit"
    references = [{one.reference for one in part} for part in found.values()]
    assert not any(one & other for one, other in combinations(references, 2))


def test_too_few_sentences_are_named(data, spec):
    spec["parts"] = {**spec["parts"], "test": 500}
    with pytest.raises(InputError, match=r"Expected 500 good and 500 damaged pairs in the test part, but got \d+ and"):
        data.build_parts(spec, Parses(lambda texts: [words(text) for text in texts]))


def test_the_limit_is_the_best_there_is(script):
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, good = rng.random(30).round(1), rng.random(30) > 0.4
        limit = script.threshold(scores, good)
        best = max(float(((scores > one) == good).mean()) for one in (-1, *scores))
        assert float(((scores > limit) == good).mean()) == best


def test_reliability_puts_each_score_beside_what_it_should_be(script):
    scores, good = np.array([0.0, 0.05, 0.55, 0.5, 1.0]), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    bins = script.reliability(scores, good)
    assert bins[:, 0].tolist() == [2, 2, 1]
    assert bins[0, 2] / bins[0, 0] == pytest.approx(0.025)
    assert bins[:, 1].tolist() == [1.0, 1.0, 1.0]
    assert script.calibration_error(bins) == pytest.approx((2 * 0.475 + 2 * 0.025) / 5)


def test_areas_count_pairs_in_order(script, data):
    kinds = ["identity", "identity", "drop", "drop", "swap"]
    made = [data.Pair("r", str(n), kind, kind == "identity", 0.0) for n, kind in enumerate(kinds)]
    scores = np.array([0.9, 0.4, 0.5, 0.4, 0.1])
    found = script.areas(scores, made)
    assert found["drop"] == (2, pytest.approx((1 + 1 + 0 + 0.5) / 4))
    assert found["swap"] == (1, 1.0)
    assert found["identity"] == (2, pytest.approx((3 + 0 + 0.5 + 1) / 6))


def test_features_are_computed_once(data, tmp_path):
    asked = []

    def score(hypotheses, references):
        asked.extend(hypotheses)
        both = list(zip(hypotheses, references, strict=True))
        same, length = ([float(h == r) for h, r in both], [float(len(h)) for h, _ in both])
        return SimpleNamespace(components={"same": np.array(same), "length": np.array(length)})

    config = SimpleNamespace(features=("length", "same"))
    scorer = SimpleNamespace(signature="counted", metric=SimpleNamespace(config=config), score=score)
    texts = [("a" * n, "aaa") for n in range(1, 300)]
    first = data.features_of(scorer, texts, tmp_path)
    assert first.shape == (299, 2)
    assert first[2].tolist() == [3.0, 1.0]
    assert torch.equal(data.features_of(scorer, texts, tmp_path), first)
    assert len(asked) == 299
    assert not torch.equal(data.features_of(scorer, texts[:1] + texts, tmp_path)[:299], first)
    assert len(asked) > 299


@pytest.fixture
def material(data):
    """Features of which good pairs have more, of every kind of damage that the configuration names."""
    rng = np.random.default_rng(3)

    def part(count):
        kinds = [*SPEC["damaged"], *("paraphrase",) * len(SPEC["damaged"])]
        found = []
        for n in range(count):
            good = kinds[n % len(kinds)] == "paraphrase"
            found.append(data.Pair(f"r {n // 2}", f"h {n}", kinds[n % len(kinds)], good, 0.07 if good else 0.6))
        low = np.array([0.35 if one.good else 0.1 for one in found])[:, None]
        return found, torch.from_numpy(low + 0.5 * rng.random((count, 3))).float()

    made = {name: part(count) for name, count in (("training", 480), ("calibration", 240), ("test", 240))}
    human = rng.random(80)
    rated = torch.from_numpy(np.clip(human[:, None] * 0.6 + 0.4 * rng.random((80, 3)), 0, 1)).float()
    segments = [Segment("h", (str(n // 2), "r"), score=one, groups={"lp": "ab"[n % 2]}) for n, one in enumerate(human)]
    judged = data.Rated(data.Judged(segments, "lp"), torch.stack([rated, rated * 0.5], dim=1).flatten(0, 1))
    pairs, features = ({name: one[place] for name, one in made.items()} for place in (0, 1))
    ratings = dict.fromkeys(("training", "calibration"), (rated, human))
    return data.Material(NAMES, pairs, features, ratings, {SPEC["rated_bins"]: judged}, "features:made-up")


def test_segments_have_the_score_of_their_best_reference(material):
    judged = material.development[SPEC["rated_bins"]]
    assert np.allclose(judged.best(judged.features[:, 1]), judged.features[::2, 1])


@pytest.mark.parametrize("name", SPEC["networks"])
def test_networks_learn_what_they_are_to(script, material, name):
    recipe = {**SPEC["networks"][name], "epochs": 30, "batch": 32}
    if recipe["optimizer"] == "SGD":
        recipe["options"] = {"lr": 0.5}  # here in 450 steps
    scorer, _ = script.fit_network(recipe, material, 0)
    again, _ = script.fit_network(recipe, material, 0)
    assert scorer.fingerprint == again.fingerprint
    with torch.no_grad():
        found = scorer(material.features["test"]).numpy()
    good = np.array([one.good for one in material.pairs["test"]])
    assert found[good].mean() > found[~good].mean() + 0.1
    if recipe["calibrated"]:
        assert float(scorer.log_scale) != 0
    if recipe["targets"] == "labels":
        assert ((found > 0.5) == good).mean() > 0.8


def test_networks_and_tables_are_written(script, material, tmp_path, capsys):
    spec = {**SPEC, "trials": SPEC["trials"][:1], "paper": None}
    spec["networks"] = {name: {**one, "epochs": 5} for name, one in SPEC["networks"].items()}
    release = Path("configs/released/rome-scorers.yaml")
    script.make(spec, material, release, tmp_path / "networks", tmp_path, tmp_path)
    text = capsys.readouterr().out
    assert re.search(r"\n\| rome \| [+-]0\.", text.partition("gain in Pearson over the mean")[2])
    for name in ("semantic", "mean", *SPEC["networks"]):
        assert re.search(rf"^\| {name} \|", text, re.MULTILINE)
    kinds = (tmp_path / "rome_scorers_kinds.csv").read_text(encoding="utf-8")
    for kind in SPEC["damaged"]:
        assert f"\n{kind},corrupted,10," in kinds
    assert "\nrome-ratings," in (tmp_path / "rome_scorers_reliability.csv").read_text(encoding="utf-8")
    assert "\nrome-ratings,new-monotone," in (tmp_path / "rome_scorers_recipes.csv").read_text(encoding="utf-8")
    assert "nan" not in text.lower().replace("unanimous", "")
    for name in SPEC["networks"]:
        path = tmp_path / "networks" / f"{name}.json"
        entries = json.loads(path.read_text(encoding="utf-8"))
        assert entries["about"]["sizes"]["training"] == (80 if name == "rome-ratings" else 480)
        assert entries["about"]["data"]
        found = build_scorer(str(path), NAMES)
        values = found(material.features["test"]).detach().numpy()
        good = np.array([one.good for one in material.pairs["test"]])
        expected = ((values > 0.5) == good).mean()
        assert entries["about"]["accuracy on test pairs"] == pytest.approx(expected, abs=1e-4)


def test_examples_are_read_from_the_paper(script, shared_folder):
    found = script.paper_examples(shared_folder / "papers" / "rome_2022.txt")
    assert [one[2] for one in found["table 2"]] == [0.80, 0.69, 0.11]
    assert [one[2] for one in found["table 3"]] == [0.15, 0.13]
    for table in found.values():
        for reference, hypothesis, _ in table:
            assert reference != hypothesis
            assert min(len(reference), len(hypothesis)) > 20
            assert not re.search(r"0\.\d", reference + hypothesis)


def test_the_recipe_for_users_trains_a_scorer(tmp_path, tiny_encoder, monkeypatch):
    config = yaml.safe_load((ROOT / "configs/rome_ratings.yaml").read_text(encoding="utf-8"))
    lines = ["lp\tyear\treference\thypothesis\tscore"]
    for n, (lp, keep) in enumerate(product(("de-en", "cs-en"), (0, 1, 2, 3) * 12)):
        reference = f"the cat {n} sat on a mat"
        hypothesis = " ".join([*reference.split()[: 3 + keep], *["no"] * (4 - keep)])
        lines.append(f"{lp}\t2015\t{reference}\t{hypothesis}\t{keep + n % 3 / 10}")
    (tmp_path / "ratings.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config["data"]["init_args"] |= {"train": [str(tmp_path / "ratings.tsv")], "batch_size": 8}
    # Word vectors of the tiny encoder, and features that need neither parser nor classifier.
    config["model"]["init_args"]["overrides"] |= {
        "encoder": str(tiny_encoder), "parser": "none", "features": ["semantic", "chrf"],
    }  # fmt: skip
    config["trainer"] |= {"max_epochs": 2, "accelerator": "cpu", "enable_progress_bar": False}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert train_command(["fit", "--config", "recipe.yaml"]) == 0
    scorer = Scorer.from_pretrained(tmp_path / config["export"])
    assert scorer.metric.scorer.config.monotone
    found = scorer.score(["the cat 1 sat on a mat", "no no no no"], ["the cat 1 sat on a mat"] * 2).scores
    assert found[0] > found[1]
