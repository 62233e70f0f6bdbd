"""The recipes: all are parsed and explained, and those of stages run over files with the columns that they name."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from runs import write_recipe
from textmover import Scorer
from textmover.cli.training.train import main as train
from textmover.readers.public_sets.catalogue import place_of

ROOT = Path(__file__).parents[2]
CONFIGS, OWN = ROOT / "configs", ROOT / "examples" / "own_ratings" / "recipe.yaml"
STAGES = sorted((CONFIGS / "stages").glob("*.yaml"))
RUN = [*STAGES, *(CONFIGS / f"{name}.yaml" for name in ("general", "base", "quickstart", "wmt_da")), OWN]
"""Recipes that run here."""
OTHERS = ("papers", "search", "ladder", "released")
"""Folders of configurations that are not for ``train.py``."""
DRAWN = [*STAGES, CONFIGS / "quickstart.yaml", CONFIGS / "wmt_da.yaml", OWN]
"""Recipes that draw learning curves."""
RECIPES = [*(path for path in sorted(CONFIGS.rglob("*.yaml")) if path.parent.name not in OTHERS), OWN]

CURVES = "textmover.training.LearningCurves"

SAYS_ITSELF = {
    *("batch_size", "centering", "class_path", "columns", "devices", "dirpath", "enable_version_counter"),
    *("every_n_train_steps", "filename", "held_back", "log_every_n_steps", "max_epochs", "mode", "monitor", "mse"),
    *("name", "notice", "patience", "pearson", "save_dir", "sentences", "task", "temperature", "train", "weight_decay"),
    *("weights", "mnli", "snli", "qnli", "rte"),
}
"""Keys that a recipe need not explain."""

COLUMNS = {
    "newstest2015_da_toen": ("lp", "year", "reference", "hypothesis", "score"),
    "newstest2016_da_toen": ("lp", "year", "reference", "hypothesis", "score"),
    "sts2012_2016": ("task", "sentence1", "sentence2", "score"),
    "stsb_en": ("split", "sentence1", "sentence2"),
    "sick2014": ("split", "sentence1", "sentence2", "relatedness"),
    "to_english": ("part", "lp", "reference", "hypothesis", "z_mean", "da_mean", "hter"),
    "paws_positive_pairs_from_xpaws": ("sentence1", "sentence2"),
    "cola": ("sentence", "label"),
    "mnli_dev": ("premise", "hypothesis", "label"),
    "snli_dev": ("premise", "hypothesis", "label"),
    "qnli_dev": ("premise", "hypothesis", "label"),
    "rte_train": ("premise", "hypothesis", "label"),
    "qqp_positives": ("question1", "question2", "is_duplicate"),
    "teacher": ("original", "perturbed", "type", "score"),
    "runs": ("set", "hypothesis", "reference", "score"),
}
"""Columns by the beginning of a file's name, or that of its folder."""

LABELS = {
    "cola": ["0", "1"],
    "mnli_dev": ["entailment", "neutral", "contradiction"],
    "snli_dev": ["entailment", "neutral", "contradiction"],
    "qnli_dev": ["entailment", "not_entailment"],
    "rte_train": ["entailment", "not_entailment"],
    "qqp_positives": ["1"],
}


TASKS = (
    *("OnWN", "FNWN", "SMTeuroparl", "SMTnews", "headlines", "images", "answers-forums", "answers-students"),
    *("answer-answer", "question-question", "postediting"),
)
"""Of STS, those that may be trained on."""


def made_up(name: str, folder: Path) -> str:
    """A file in place of one that a recipe names; of the project's own, every eighth line."""
    path = Path(place_of(name))
    target = path if name.startswith("data:") else folder / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / name).is_file():
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()[::8]
    elif path.suffix == ".txt":
        lines = [f"The {number} old men of {path.stem} never saw {number + 3} green trees." for number in range(40)]
    else:
        kind = path.stem if path.stem in COLUMNS else path.parent.name
        mark = "," if path.suffix == ".csv" else "\t"
        lines = [mark.join(COLUMNS[kind])]
        lines += [mark.join(cell(column, number, kind) for column in COLUMNS[kind]) for number in range(64)]
    target.write_text("\n".join(lines) + "\n")
    return name if name.startswith("data:") else str(target)


def cell(column: str, number: int, kind: str) -> str:
    """What stands in a column of a made-up file."""
    if column in ("label", "is_duplicate"):
        return LABELS[kind][number % len(LABELS[kind])]
    if column in ("score", "relatedness", "z_mean"):
        return str(number % 7 / 2)
    if column in ("da_mean", "hter"):
        return {"da_mean": "90", "hter": "0.2"}[column]
    task = TASKS[number % len(TASKS)]
    parts = ("train", "train", "trial", "test") if kind == "sick2014" else ("dev", "test")
    groups = {"part": "train", "lp": "de-en", "year": "2015", "task": task, "split": parts[number % len(parts)]}
    return groups.get(column, f"the {column} {number} of {kind}")


def replaced(value: Any, folder: Path) -> Any:
    """The data of a recipe with made-up files."""
    if not isinstance(value, dict):
        return value
    found = {key: replaced(one, folder) for key, one in value.items()}
    found |= {"held_back": max(value["held_back"], 0.2)} if "held_back" in value else {}  # the files are small
    found |= {"records": min(value["records"], 100)} if isinstance(value.get("records"), int) else {}
    for key in {"train", "validation", "texts"} & set(value):
        if isinstance(value[key], list) and all(re.search("[/:]", name) for name in value[key]):
            found[key] = [made_up(name, folder) for name in value[key]]
    for key in {"without", "pairs"} & set(value):
        found[key] = [one | {"path": made_up(one["path"], folder)} for one in value[key]]
    return found


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


RUN_OFTEN = ("base.yaml", "cola.yaml", "quickstart.yaml", "wmt_da.yaml")
"""One of each kind, of ratings the one with all sources; the others are long."""


@pytest.mark.parametrize(
    "path",
    [path if path.name in RUN_OFTEN else pytest.param(path, marks=pytest.mark.long) for path in RUN],
    ids=lambda path: named(path).replace("/", "-"),
)
def test_a_recipe_runs_two_steps_and_exports(path, tmp_path, tiny_encoder, embedded, monkeypatch):
    monkeypatch.setenv("TEXTMOVER_DATA", str(tmp_path / "data"))
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["data"] = replaced(config["data"], tmp_path)
    overrides = config["model"]["init_args"]["overrides"]
    overrides["encoder"] = str(tiny_encoder)
    overrides |= {"layer": 2} if "layer" in overrides else {}
    overrides["freeze_layers"] = min(overrides.get("freeze_layers", 0), 1)  # of the tiny encoder's three
    curves = [one["init_args"] for one in config["trainer"]["callbacks"] if one["class_path"] == CURVES]
    drawn = path.name == "cola.yaml"  # which has the fewest curves; a picture takes a second
    for one in curves if not drawn else ():
        one["picture"] = False
    config["trainer"] |= {"max_epochs": 1, "limit_train_batches": 2, "accelerator": "cpu"}
    monkeypatch.chdir(tmp_path)
    assert train(["fit", "--config", str(write_recipe(tmp_path / "recipe.yaml", config))]) == 0
    scorer = Scorer.from_pretrained(tmp_path / config["export"])
    assert scorer.score("a cat", "a cat").mean > scorer.score("a cat", "very old green houses").mean
    if not scorer.metric.config.calibrate:
        assert scorer.score("a cat", "a cat").mean == pytest.approx(1, abs=1e-4)
    options = [one["init_args"] for one in config["trainer"]["callbacks"]]
    for one in (one for one in options if {"monitor", "dirpath"} <= one.keys()):
        folder = tmp_path / config["trainer"]["default_root_dir"] / one["dirpath"]
        assert (folder / f"{one['filename']}.ckpt").is_file()
    if has_curves(config):
        (table,) = tmp_path.rglob("curves.csv")
        folder = next((one["folder"] for one in options if "folder" in one), None)
        log = Path(config["trainer"]["default_root_dir"], "log", "version_0")
        assert table.parent == tmp_path / (folder or log)
        assert len(table.read_text().splitlines()) == 3
        assert table.with_suffix(".png").is_file() == drawn


def has_curves(config: dict[str, Any]) -> bool:
    return any(one["class_path"] == CURVES for one in config["trainer"]["callbacks"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: named(path).replace("/", "-"))
def test_every_recipe_is_parsed_as_it_stands(path, capsys):
    with pytest.raises(SystemExit) as stopped:
        train(["fit", "--config", str(path), "--print_config"])
    assert stopped.value.code == 0
    parsed, given = (yaml.safe_load(text) for text in (capsys.readouterr().out, path.read_text(encoding="utf-8")))
    for part in ("model", "data"):
        assert parsed[part]["class_path"] == given[part]["class_path"]
        assert set(given[part]["init_args"]) <= set(parsed[part]["init_args"])
    assert parsed["export"] == given["export"]
    assert has_curves(given) or path not in DRAWN


def test_an_option_takes_an_empty_mapping(capsys):
    """The overrides of a recipe do not fit the metric of an earlier stage."""
    recipe = str(CONFIGS / "stages" / "mnli.yaml")
    with pytest.raises(SystemExit) as stopped:
        train(["fit", "--config", recipe, "--model.init_args.overrides", "{}", "--print_config"])
    assert stopped.value.code == 0
    assert yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]["overrides"] == {}


@pytest.mark.parametrize("path", [OWN, CONFIGS / "general.yaml"], ids=["own", "general"])
def test_a_key_that_is_not_there_is_refused(path, tmp_path, capsys):
    text = path.read_text(encoding="utf-8").replace("learning_rate:", "learning_rat:")
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    assert train(["fit", "--config", str(tmp_path / "recipe.yaml"), "--print_config"]) == 2
    assert "learning_rat" in capsys.readouterr().err


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: named(path).replace("/", "-"))
def test_every_recipe_says_what_its_fields_mean(path):
    text = path.read_text(encoding="utf-8")
    assert f"python train.py fit --config {named(path)}" in text
    assert unexplained(text) == set()


def test_a_field_without_a_comment_is_found():
    text = "# What it does\nmodel:\n  rate: 0.1\n  depth: 3 # of the tree\n  depth: 4\n  name: one\n"
    assert unexplained(text) == {"rate"}


def unexplained(text: str) -> set[str]:
    """Keys with a value that no comment of the recipe is about."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    keys = [(found[1], "#" in line) for line in lines if (found := re.match(r"\s*(?:- )?(\w+): +[^\s#]", line))]
    return {key for key, _ in keys} - {key for key, commented in keys if commented} - SAYS_ITSELF


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: named(path).replace("/", "-"))
def test_recipes_name_no_file_outside_the_clone(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.(])(\.\./|~/|/\w+/)", re.sub(r"https?://\S+", "", text))
    for name in re.findall(r"\bdata:[\w-]+", text):
        if name != "data:NAME":
            place_of(name)  # refuses what is no file of a named set


def test_recipes_name_public_sets_or_files_that_their_commands_make():
    for path in RECIPES:
        text = path.read_text(encoding="utf-8")
        commands, config = text.split("\nseed_everything")[0], yaml.safe_load(text)["data"]["init_args"]
        for data in [one["init_args"] for one in config.get("sources", {"": {"init_args": config}}).values()]:
            for name in [*data.get("train", []), *data.get("texts", []), *data.get("validation", [])]:
                made = re.search(rf"(>|--output) {name}", commands)
                assert name.startswith("data:") or (ROOT / name).is_file() or made, name


def test_the_shared_folder_has_the_files_of_all_recipes(shared_folder, monkeypatch):
    monkeypatch.setenv("TEXTMOVER_DATA", str(shared_folder / "data"))
    names = {name for path in RECIPES for name in re.findall(r"\bdata:[a-z][\w-]+", path.read_text(encoding="utf-8"))}
    assert len(names) > 10
    assert [name for name in names if not Path(place_of(name)).is_file()] == []
