import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

STAGE = {"config": "configs/wmt_da.yaml", "set": {"model.init_args.metric": "{previous}", "trainer.max_epochs": 2}}


class Runs:
    """Stands in for ``subprocess.run``: leaves a checkpoint and, unless it is told to die, a metric."""

    def __init__(self):
        self.commands = []
        self.dies = False

    def __call__(self, command, **_):
        self.commands.append(command)
        recipe = yaml.safe_load(Path(command[command.index("--config") + 1]).read_text())
        (folder,) = {Path(one["init_args"]["dirpath"]) for one in recipe["trainer"]["callbacks"][:2]}
        folder.mkdir(exist_ok=True)
        (folder / "resume.ckpt").touch()
        if self.dies:
            raise KeyboardInterrupt
        target = Path(command[command.index("--export") + 1])
        target.mkdir()
        (target / "config.json").write_text("{}")


@pytest.fixture
def runs(script, monkeypatch):
    found = Runs()
    monkeypatch.setattr(script.subprocess, "run", found)
    return found


@pytest.fixture
def ladder(script, tmp_path):
    return lambda **rungs: script.Ladder(rungs, tmp_path, [1, 2], [])


def test_stages_follow_one_another_and_know_seed_and_predecessor(ladder, runs, tmp_path):
    one = ladder(first=[{"metric": "trwmd"}, STAGE], second=[{"rung": "first"}, STAGE])
    for _ in range(2):  # what has been exported is not trained again
        result = one.run("second", 2)
    first, second = runs.commands
    assert first[first.index("--model.init_args.metric") + 1] == "trwmd"
    before = str(tmp_path / "first" / "seed2" / "stage1" / "metric")
    assert second[second.index("--model.init_args.metric") + 1] == before
    assert result == str(tmp_path / "second" / "seed2" / "stage1" / "metric")
    assert first[first.index("--seed_everything") + 1] == first[first.index("--data.init_args.seed") + 1] == "2"
    assert first[first.index("--trainer.max_epochs") + 1] == "2"
    assert not list(tmp_path.rglob("*.ckpt"))  # of 170 MB each


OTHER = {"config": "configs/wmt_da.yaml", "set": {"trainer.max_epochs": 3}}


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"first": [OTHER]}, "first"), ({"second": [{"rung": "first"}, OTHER]}, "second")],
    ids=["its own stage", "a later one"],
)
def test_what_was_made_of_another_recipe_is_not_taken(ladder, runs, tmp_path, changed, named):
    rungs = {"first": [STAGE], "second": [{"rung": "first"}, STAGE]}
    ladder(**rungs).run("second", 1)
    folder = re.escape(str(tmp_path / named / "seed1"))
    with pytest.raises(SystemExit, match=f"to be of the present recipe, but it was made with another.*{folder}, to"):
        ladder(**(rungs | changed)).run("second", 1)
    assert len(runs.commands) == 2


def test_what_hangs_on_a_rung_made_anew_or_of_unknown_making_is_not_taken(ladder, runs, tmp_path):
    rungs = {"first": [STAGE], "second": [{"rung": "first"}, STAGE]}
    ladder(**rungs).run("second", 1)
    shutil.rmtree(tmp_path / "first")
    changed = ladder(**(rungs | {"first": [OTHER]}))
    end = Path(changed.run("first", 1))
    with pytest.raises(SystemExit, match="second"):
        changed.run("second", 1)
    (end.parent / "made.json").unlink()
    with pytest.raises(SystemExit, match="made with another"):
        changed.run("first", 1)


def test_a_run_that_was_stopped_goes_on_from_its_checkpoint_with_its_own_recipe(ladder, runs, tmp_path):
    runs.dies = True
    with pytest.raises(KeyboardInterrupt):
        ladder(first=[STAGE]).run("first", 1)
    runs.dies = False
    with pytest.raises(SystemExit, match="made with another"):
        ladder(first=[OTHER]).run("first", 1)
    ladder(first=[STAGE]).run("first", 1)
    first, second = runs.commands
    assert "--ckpt_path" not in first
    folder = tmp_path / "first" / "seed1" / "stage0" / "checkpoints"
    assert Path(second[second.index("--ckpt_path") + 1]).parent == folder


def test_a_changed_recipe_is_another_but_for_comments_and_learning_curves(script, ladder, runs, monkeypatch, tmp_path):
    """Ladders that were begun before the recipe had curves go on; other callbacks decide on what is made."""
    recipe = yaml.safe_load((script.ROOT / STAGE["config"]).read_text())
    callbacks = recipe["trainer"]["callbacks"]
    watching = [one for one in callbacks if "Curves" in one["class_path"]]
    others = [one for one in callbacks if one not in watching]
    assert watching
    (tmp_path / "root" / "configs").mkdir(parents=True)
    file = tmp_path / "root" / STAGE["config"]
    monkeypatch.setattr(script, "ROOT", tmp_path / "root")

    def run(comment="", **changes):
        file.write_text(comment + yaml.safe_dump({**recipe, **changes}))
        ladder(first=[STAGE]).run("first", 1)

    def kept(several):
        return {**recipe["trainer"], "callbacks": several}

    run(trainer=kept(others))
    run(trainer=kept([*watching, *others]))
    run("# a comment\n")
    note = json.loads((tmp_path / "first" / "seed1" / "stage0" / "made.json").read_text())
    assert note["recipe"]["trainer"]["callbacks"] == others
    assert len(runs.commands) == 1
    for changes in ({"trainer": kept(others[1:])}, {"seed_everything": 7}):
        with pytest.raises(SystemExit, match="made with another"):
            run(**changes)


def test_a_run_writes_nowhere_but_into_its_folder(script, monkeypatch, tmp_path):
    recipe = yaml.safe_load((script.ROOT / "configs" / "quickstart.yaml").read_text())
    assert any("folder" in one["init_args"] for one in recipe["trainer"]["callbacks"])
    path = script._recipe("configs/quickstart.yaml", tmp_path / "stage0", tmp_path / "stage0" / "checkpoints")
    for one in yaml.safe_load(path.read_text())["trainer"]["callbacks"]:
        options = one["init_args"]
        assert options.get("folder", str(tmp_path / "stage0")) == str(tmp_path / "stage0")
        assert options.get("dirpath", str(path.parent / "checkpoints")) == str(path.parent / "checkpoints")


def test_an_average_is_of_all_seeds_of_one_rung_or_of_several(script, ladder, runs, monkeypatch, tmp_path):
    loaded, saved = [], []
    monkeypatch.setattr(script, "load_metric", lambda path: loaded.append(path) or path)
    monkeypatch.setattr(script, "fitted_names", lambda metric: [])
    mixture = lambda metrics, weights, texts, rated: (*metrics, *weights, *(rated or ()))  # noqa: E731
    monkeypatch.setattr(script, "average_metrics", mixture)
    monkeypatch.setattr(script, "save_checkpoint", lambda metric, target, card: saved.append((metric, target)))
    averages = {"mean": "first", "both": ["first", "second"], "uneven": {"first": 0.75, "second": 0.25}}
    mixed = {name: [{"average": parts}] for name, parts in averages.items()}
    one = ladder(first=[STAGE], second=[STAGE], **mixed)
    ends = [str(tmp_path / name / f"seed{seed}/stage0/metric") for name in ("first", "second") for seed in (1, 2)]
    assert [one.averages(name) for name in ("mean", "both", "first")] == [True, True, False]
    one.run("mean", None)
    assert loaded == ends[:2]
    loaded.clear()
    assert one.run("both", None) == str(tmp_path / "both" / "seed1-2" / "stage0" / "metric")
    assert saved[-1] == ((*ends, 1, 1, 1, 1), tmp_path / "both" / "seed1-2" / "stage0" / "metric")
    one.run("uneven", None)
    assert saved[-1][0] == (*ends, 0.75, 0.75, 0.25, 0.25)
    assert len(runs.commands) == 4  # each trained once
    rated = script.Ladder(one.rungs | {"rated": [{"average": "first"}]}, tmp_path, [1, 2], [], ["a segment"])
    rated.run("rated", None)
    assert saved[-1][0] == (*ends[:2], 1, 1, "a segment")


def test_a_rung_can_be_stored_as_an_adapter_of_what_it_has(script, ladder, runs, monkeypatch, tmp_path):
    saved = []
    monkeypatch.setattr(script, "load_metric", lambda path: path)
    monkeypatch.setattr(script, "save_checkpoint", lambda metric, target, **options: saved.append((metric, options)))
    ladder(first=[STAGE, {"adapter": 4}]).run("first", 1)
    ((metric, options),) = saved
    assert metric == str(tmp_path / "first" / "seed1" / "stage0" / "metric")
    assert options["adapter"].rank == 4


def test_tables_tell_means_with_the_lowest_and_the_highest(ladder, script, tmp_path):
    for seed, value in ((1, 0.7), (2, 0.75)):
        folder = tmp_path / "first" / f"seed{seed}"
        folder.mkdir(parents=True)
        values = {"pearson": value, "spearman": 0.5, "kendall": 0.25, "groups": {}}
        (folder / "agreement.json").write_text(json.dumps({"dev": values}))
    script.write_tables(ladder(first=[STAGE], empty=[STAGE]), tmp_path)
    rows = "first,1,dev,0.7000,0.5000,0.2500\nfirst,2,dev,0.7500,0.5000,0.2500\n"
    assert (tmp_path / "ladder.csv").read_text() == f"rung,seed,set,pearson,spearman,kendall\n{rows}"
    pearson, kendall = (tmp_path / "ladder.md").read_text().split("Kendall:")
    assert pearson.splitlines()[-2] == "| first | 1, 2 | .725 (.700-.750) |"
    assert kendall.splitlines()[-2] == "| first | 1, 2 | .250 |"
