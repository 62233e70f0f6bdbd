import csv
import json
import sqlite3
import sys
from pathlib import Path

import pytest
import yaml

from textmover.cli.training import search as command
from textmover.cli.training.search import ObjectiveError, placed
from textmover.experiments.search.space import Choices, JudgedParts, Range, check_keys, judged_print, read_space
from textmover.runs.termination import Terminated
from textmover.types import InputError

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "training"))
from runs import recipe, write_ratings, write_recipe  # noqa: E402

pytest.importorskip("optuna", reason="needs optuna: pip install 'textmover[search]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning")  # of SQLite connections that wait to be collected
]
RATE, SHARP = "model.init_args.optimizer.learning_rate", "model.init_args.overrides.temperature"


@pytest.fixture
def asked(tmp_path: Path, tiny_encoder: Path):
    """Arguments of a search over a recipe in the folder that commands run in."""

    def write(space: dict | None = None, **changes) -> list[str]:
        config = recipe(tmp_path / "mine", tiny_encoder, write_ratings(tmp_path / "ratings.tsv"), **changes)
        write_recipe(tmp_path / "recipe.yaml", config)
        default = {RATE: {"low": 1.0e-4, "high": 1.0e-2, "log": True}, SHARP: {"choices": [0.05, 0.1]}}
        (tmp_path / "space.yaml").write_text(yaml.safe_dump(default if space is None else space))
        return ["search", "--config", "recipe.yaml", "--space", "space.yaml", "--output", "out"]

    return write


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """Trials without training: the nearer the rate is to 1e-3, the better; those that were run are listed."""
    run: list[dict] = []

    def fake(recipe, folder, objective, *, maximise, report, judged):
        rate = recipe["model"]["init_args"]["optimizer"]["learning_rate"]
        run.append(recipe)
        value = 1 - abs(rate - 1e-3) * 100
        for number in (1, 2):
            report(number, value)
        return value, 2

    monkeypatch.setattr(command, "run_trial", fake)
    return run


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def untimed(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{**row, "seconds": ""} for row in rows]


def complaint(err: str) -> str:
    lines = [line for line in err.splitlines() if line.startswith("textmover: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


# --- real trials ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_trials_are_fits_and_the_best_recipe_runs_as_it_is(run, asked, tmp_path):
    from textmover.cli.training.train import main as train

    run(*asked(trainer__max_epochs=2), "--trials", 2, "--no-pruning").ok()
    rows = table(tmp_path / "out")
    assert [row["state"] for row in rows] == ["complete", "complete"]
    for row in rows:
        folder = tmp_path / "out" / f"trial-{int(row['trial']):03}"
        with next(folder.glob("log/version_*/metrics.csv")).open(newline="") as stream:
            logged = [one["held-back/pearson"] for one in csv.DictReader(stream) if one["held-back/pearson"]]
        assert float(row["held-back/pearson"]) == pytest.approx(max(map(float, logged)), abs=1e-6)
        own = yaml.safe_load((folder / "recipe.yaml").read_text())
        assert own["model"]["init_args"]["optimizer"]["learning_rate"] == pytest.approx(float(row[RATE]), rel=1e-5)
        assert not list(folder.rglob("*.ckpt"))
    assert not (tmp_path / "mine").exists()
    assert train(["fit", "--config", "out/best.yaml"]) == 0
    best = max(rows, key=lambda row: float(row["held-back/pearson"]))
    again = (tmp_path / "out" / "best" / "log" / "version_0" / "metrics.csv").read_text()
    assert f"{float(best['held-back/pearson']):.5f}"[:-1] in again
    assert (tmp_path / "out" / "best" / "metric" / "config.json").exists()


@pytest.mark.long
def test_what_no_validation_logs_is_told_with_what_there_is(run, asked, tmp_path):
    assert (
        "held-back/kendall, held-back/pearson, held-back/spearman"
        in run(
            *asked(trainer__max_epochs=1, trainer__limit_train_batches=1), "--objective", "held-back/persson"
        ).complaint()
    )
    assert table(tmp_path / "out")[0]["state"] == "failed"


# --- the search -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_best_of_all_trials_is_told_and_kept(run, asked, trials, tmp_path):
    ended = run(*asked(), "--trials", 6).ok()
    rows = table(tmp_path / "out")
    assert len(rows) == 6
    complete = [row for row in rows if row["state"] == "complete"]
    best = max(complete, key=lambda row: float(row["held-back/pearson"]))
    first = ended.out.splitlines()[1].split()
    assert first[0] == best["trial"]
    assert "best" in first
    assert "is optimistic" in ended.out
    kept = yaml.safe_load((tmp_path / "out" / "best.yaml").read_text())
    assert kept["model"]["init_args"]["optimizer"]["learning_rate"] == pytest.approx(float(best[RATE]), rel=1e-5)
    assert kept["model"]["init_args"]["overrides"]["temperature"] == float(best[SHARP])
    assert kept["export"] == "out/best/metric"
    assert all(1e-4 <= float(row[RATE]) <= 1e-2 for row in rows)


@pytest.mark.long
def test_the_mean_over_seeds_counts_and_each_has_its_folder(run, asked, tmp_path, monkeypatch):
    seen = []

    def fake(recipe, folder, objective, *, maximise, report, judged):
        seen.append((recipe["seed_everything"], recipe["data"]["init_args"]["seed"], folder.name))
        return float(recipe["seed_everything"]), 1

    monkeypatch.setattr(command, "run_trial", fake)
    assert run(*asked(data__init_args__seed=9), "--trials", 1, "--seeds", 1, 4).code == 0
    assert seen == [(1, 1, "seed-1"), (4, 4, "seed-4")]
    (row,) = table(tmp_path / "out")
    assert float(row["held-back/pearson"]) == 2.5
    assert row["values"] == "1.0 4.0"


@pytest.mark.long
def test_less_is_more_where_it_is_minimised(run, asked, trials, tmp_path):
    assert run(*asked(), "--trials", 4, "--minimise", "--no-pruning").code == 0
    rows = table(tmp_path / "out")
    worst = min(rows, key=lambda row: float(row["held-back/pearson"]))
    assert f"trial {worst['trial']} of 4" in (tmp_path / "out" / "best.yaml").read_text()


def test_a_trial_below_the_median_ends_early(run, asked, tmp_path, monkeypatch):
    epochs = []

    def fake(recipe, folder, objective, *, maximise, report, judged):
        place = len(epochs)
        epochs.append(0)
        value = 0.1 if place == 5 else 0.5 + place / 100
        for number in (1, 2, 3):
            epochs[place] = number
            report(number, value)
        return value, 3

    monkeypatch.setattr(command, "run_trial", fake)
    assert run(*asked(), "--trials", 6).code == 0
    assert epochs == [3] * 5 + [1]
    assert [row["state"] for row in table(tmp_path / "out")] == ["complete"] * 5 + ["pruned"]


def test_a_trial_that_fails_is_in_the_table_with_its_reason_and_the_others_go_on(run, asked, tmp_path, monkeypatch):
    count = []

    def fake(recipe, folder, objective, *, maximise, report, judged):
        count.append(1)
        if len(count) == 2:
            raise RuntimeError("out of\nmemory")
        return 0.5, 1

    monkeypatch.setattr(command, "run_trial", fake)
    ended = run(*asked(), "--trials", 3).ok()
    rows = table(tmp_path / "out")
    assert [row["state"] for row in rows] == ["complete", "failed", "complete"]
    assert rows[1]["reason"] == "out of memory"
    assert "Trial 2 of 3: failed" in ended.err


@pytest.mark.long
def test_a_search_whose_first_trials_all_fail_ends(run, asked, tmp_path, monkeypatch):
    def fake(*_, **__):
        raise InputError("Expected a loss, but got `foo`.")

    monkeypatch.setattr(command, "run_trial", fake)
    said = run(*asked(), "--trials", 20).complaint()
    assert "the first 3 failed" in said
    assert "`foo`" in said
    assert len(table(tmp_path / "out")) == 3


def test_defects_keep_their_traceback(run, asked, monkeypatch):
    monkeypatch.setattr(command, "run_trial", lambda *_, **__: {}["missing"])
    with pytest.raises(KeyError):
        run(*asked(), "--trials", 2)


# --- what trials are judged on ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_trial_that_is_judged_on_other_parts_is_refused_with_the_likely_key(run, asked, tmp_path, monkeypatch):
    def fake(recipe, folder, objective, *, maximise, report, judged):
        judged("few" if recipe["data"]["init_args"]["batch_size"] == 4 else "many")
        return 0.5, 1

    monkeypatch.setattr(command, "run_trial", fake)
    space = {RATE: {"low": 1e-4, "high": 1e-2}, "data.init_args.batch_size": {"choices": [4, 8]}}
    arguments = asked(space)
    assert run(*arguments, "--trials", 6, "--sampler", "random").code == 0
    rows = table(tmp_path / "out")
    first = rows[0]["data.init_args.batch_size"]
    states = {(row["data.init_args.batch_size"] == first, row["state"]) for row in rows}
    assert states == {(True, "complete"), (False, "failed")}
    refused = next(row for row in rows if row["state"] == "failed")
    assert refused["reason"] == (
        "Expected the parts that trials are judged on to stay the same, but they are not those of the first trial: "
        "leave data.init_args.batch_size out of the space."
    )
    monkeypatch.setattr(command, "run_trial", lambda *_, judged, **__: (judged("changed"), (0.9, 1))[1])
    ended = run(*arguments, "--trials", 7, "--sampler", "random", "--resume")
    assert table(tmp_path / "out")[6]["state"] == "failed", "what the first trial was judged on is kept"
    assert ended.code == 0


class Study:
    """What keeps the attributes of a study of Optuna."""

    def __init__(self):
        self.user_attrs = {}

    def set_user_attr(self, name, value):
        self.user_attrs[name] = json.loads(json.dumps(value))


def test_each_seed_may_have_parts_of_its_own_and_only_a_trial_that_ends_well_counts():
    study = Study()
    JudgedParts(study, {"a": 1}).check(1, "of a trial that failed")
    first = JudgedParts(study, {"a": 1, "data.b": [2]})
    first.check(1, "x")
    first.check(2, "y")
    first.keep()
    JudgedParts(study, {"a": 3, "data.b": [2]}).check(1, "x")
    JudgedParts(study, {"a": 3, "data.b": [2]}).check(2, "y")
    for values, said in (
        ({"a": 3, "data.b": [2]}, "leave a out of the space"),
        ({"a": 3, "data.b": [4]}, "leave data.b out of the space"),
        ({"a": 1, "data.b": [2]}, "the files have changed: search again"),
    ):
        with pytest.raises(InputError, match=said):
            JudgedParts(study, values).check(2, "x")


def test_the_print_is_that_of_texts_ratings_and_groups(tmp_path):
    from textmover.data import RatingsDataModule
    from textmover.readers.segments import Columns

    def found(**options):
        data = RatingsDataModule([str(file)], columns=Columns(groups=["group"]), **options)
        data.setup()
        return judged_print(data)

    file = write_ratings(tmp_path / "ratings.tsv")
    first = found()
    assert found(batch_size=4, seed=5, batch_group="group", validation_batch_size=8) == first
    different = [found(held_back=0.3), found(group="group"), found(where={"group": ["g1", "g2"]})]
    file.write_text(file.read_text().replace("\t100", "\t99"))
    assert len({first, *different, found()}) == 5


@pytest.mark.slow
def test_a_trial_tells_what_it_is_judged_on_before_its_first_step(asked, tmp_path):
    from textmover.cli.training.search import run_trial

    class EnoughError(InputError):
        pass

    def judged(found):
        assert len(found) == 64
        raise EnoughError("seen")

    def report(*_):
        raise AssertionError("a validation")

    asked()
    config = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    with pytest.raises(EnoughError):
        run_trial(config, tmp_path / "trial", "held-back/pearson", maximise=True, report=report, judged=judged)


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_an_interrupted_search_keeps_what_is_there_and_goes_on(run, asked, trials, tmp_path, monkeypatch, ending, code):
    whole = command.run_trial

    def interrupted(*arguments, **options):
        if len(trials) == 2:
            trials.append({"interrupted": True})
            raise ending
        return whole(*arguments, **options)

    monkeypatch.setattr(command, "run_trial", interrupted)
    arguments = asked()
    ended = run(*arguments, "--trials", 5, "--no-pruning")
    assert ended.code == code
    assert "2 trials are in out/trials.csv; go on with --resume" in ended.err
    broken = table(tmp_path / "out")
    assert [row["state"] for row in broken] == ["complete", "complete"]
    assert (tmp_path / "out" / "best.yaml").exists()

    assert "--resume goes on" in complaint(run(*arguments, "--trials", 5).err)
    assert run(*arguments, "--trials", 5, "--no-pruning", "--resume").code == 0
    rows = table(tmp_path / "out")
    arguments[arguments.index("out")] = "unbroken"
    assert run(*arguments, "--trials", 5, "--no-pruning").code == 0
    assert untimed(rows) == untimed(table(tmp_path / "unbroken"))
    assert len({row[RATE] for row in rows}) == 5


@pytest.mark.parametrize("sql", ["insert into trials", "insert into trial_intermediate_values"])
def test_a_full_disk_keeps_the_trials_that_have_ended(run, asked, trials, tmp_path, sql):
    import sqlalchemy

    def full(_, cursor, statement, *__):
        if statement.lower().startswith(sql) and len(trials) == 2:
            raise sqlite3.OperationalError("database or disk is full")

    arguments = (*asked(), "--trials", 4, "--no-pruning")
    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", full)
    try:
        ended = run(*arguments)
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", full)
    assert ended.code == 2
    said = "Expected to be able to read and write out/search.db, but got: database or disk is full. Make room for it,"
    assert said in complaint(ended.err)
    assert run(*arguments, "--resume").code == 0
    rows = table(tmp_path / "out")
    assert [row["state"] for row in rows] == ["complete"] * 4


def test_a_killed_search_goes_on_with_the_trial_that_it_was_at(run, asked, trials, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    arguments = asked()
    with monkeypatch.context() as patch:
        patch.setattr(command, "run_trial", kill)
        with pytest.raises(Killed):
            run(*arguments, "--trials", 2)
    assert table(tmp_path / "out") == []
    assert run(*arguments, "--trials", 2, "--resume").code == 0
    rows = table(tmp_path / "out")
    assert [row["state"] for row in rows] == ["complete", "complete"]
    arguments[arguments.index("out")] = "unbroken"
    assert run(*arguments, "--trials", 2).code == 0
    assert untimed(rows) == untimed(table(tmp_path / "unbroken"))


@pytest.mark.long
def test_a_finished_search_only_prints_and_more_trials_add_to_it(run, asked, trials, tmp_path):
    arguments = asked()
    assert run(*arguments, "--trials", 2).code == 0
    ended = run(*arguments, "--trials", 2, "--resume").ok()
    assert "Train with the best" in ended.out
    assert len(trials) == 2
    assert run(*arguments, "--trials", 3, "--resume").code == 0
    assert len(table(tmp_path / "out")) == 3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["--objective", "held-back/kendall"], "--objective"),
        pytest.param(["--seeds", "3"], "--seeds", marks=pytest.mark.long),
        pytest.param(["--minimise"], "--minimise", marks=pytest.mark.long),
    ],
)
def test_another_search_is_not_mixed_in(run, asked, trials, change, named):
    arguments = asked()
    assert run(*arguments, "--trials", 1).code == 0
    said = run(*arguments, "--trials", 2, "--resume", *change).complaint()
    assert f"{named} is another" in said or "direction" in said


def test_two_searches_do_not_share_a_folder(run, asked, tmp_path):
    from filelock import FileLock

    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"):
        ended = run(*asked())
    assert ended.code == 2
    assert "another search runs in out" in complaint(ended.err)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("model.init_args.optimizer.learning_rat", "did you mean model.init_args.optimizer.learning_rate?"),
        ("model.init_args.overrides.temprature", "did you mean model.init_args.overrides.temperature?"),
        ("trainer.max_epoch", "did you mean trainer.max_epochs?"),
        ("data.init_args.held_back", "changes them"),
        ("data.init_args.train", "changes them"),
        ("data.init_args.where", "changes them"),
        ("data.init_args.columns.references", "changes them"),
        ("data.class_path", "changes them"),
        ("seed_everything", "set by the search"),
        ("nothing.like.it", "--print_config"),
    ],
)
def test_a_key_that_is_none_names_the_nearest(run, asked, trials, key, words):
    said = run(*asked({key: {"low": 1, "high": 2}})).complaint()
    assert words in said
    assert key in said
    assert trials == []


def test_keys_of_several_sources_are_read_behind_their_names():
    config = {"data.init_args.sources": {}, "data.init_args.weights": None}
    one = {"low": 1, "high": 2}
    for name in ("sources", "sources.texts", "sources.wmt.init_args.train", "sources.damaged.init_args.words"):
        with pytest.raises(InputError, match=f"sources.*changes them|{name}.*changes them"):
            check_keys({f"data.init_args.{name}": one}, config)
    for name in ("sources.texts.init_args.batch_size", "sources.train.init_args.batch_group", "weights.train"):
        check_keys({f"data.init_args.{name}": one}, config)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"low": 2, "high": 1}, "`low` of a.b to be below `high`"),
        ({"low": 1, "high": 1}, "`low` of a.b to be below `high`"),
        ({"low": 0, "high": 1, "log": True}, "above 0 on a logarithmic scale"),
        ({"low": 0, "high": 1, "step": 2}, "`step` of a.b"),
        ({"low": 1, "high": 2, "log": True, "step": 1}, "without log"),
        ({"low": "few", "high": 2}, "`low` of a.b to be a finite number, but got 'few'"),
        ({"low": True, "high": 2}, "`low` of a.b to be a finite number"),
        ({"low": 1, "high": float("inf")}, "`high` of a.b to be a finite number"),
        ({"low": 1, "high": 2, "log": "yes"}, "`log` of a.b to be true or false"),
        ({"low": 1}, "to have {low, high}"),
        ({"low": 1, "high": 2, "lgo": True}, "to have {low, high}"),
        ([1, 2], "to have {low, high}"),
        ({"choices": []}, "`choices` of a.b"),
        ({"choices": [1, 1]}, "to differ"),
    ],
)
def test_an_entry_that_is_none(tmp_path, entry, words):
    (tmp_path / "space.yaml").write_text(yaml.safe_dump({"a.b": entry}))
    with pytest.raises(InputError) as told:
        read_space(tmp_path / "space.yaml")
    assert words in str(told.value)


def test_a_value_that_the_recipe_refuses_is_told_before_the_first_trial(run, asked, trials):
    said = run(
        *asked({"model.init_args.bfloat16": {"choices": ["no", "maybe"]}, "trainer.max_epochs": {"choices": ["few"]}})
    ).complaint()
    assert "max_epochs" in said
    assert trials == []


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("space.yaml", None, "a file at space.yaml, but there is none"),
        ("recipe.yaml", None, "a file at recipe.yaml, but there is none"),
        ("space.yaml", "a: [", "space.yaml to be YAML, but got"),
        ("space.yaml", "- a", "to be a search space, a mapping of keys to values, but got a list"),
        ("space.yaml", "", "to be a search space, a mapping of keys to values, but got none"),
    ],
)
def test_files_that_cannot_be_read(run, asked, tmp_path, file, text, words):
    arguments = asked()
    (tmp_path / file).unlink() if text is None else (tmp_path / file).write_text(text)
    assert words in run(*arguments).complaint()


@pytest.mark.long
def test_the_objective_is_told_apart_from_a_trial_that_fails(run, asked, tmp_path, monkeypatch):
    def fake(*_, **__):
        raise ObjectiveError("Expected --objective to be one of what validation logs (a, b), but got 'c'.")

    monkeypatch.setattr(command, "run_trial", fake)
    assert run(*asked(), "--trials", 9).code == 2
    assert len(table(tmp_path / "out")) == 1


# --- parts ------------------------------------------------------------------------------------------------------------


def test_numbers_without_a_point_are_numbers_and_whole_ends_give_whole_values(tmp_path):
    import optuna

    (tmp_path / "space.yaml").write_text("a: {low: 1e-5, high: 3E-4, log: true}\nb: {low: 2, high: 8, step: 2}\n")
    space = read_space(tmp_path / "space.yaml")
    assert space["a"] == Range(1e-5, 3e-4, log=True)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [space["b"].suggest(study.ask(), "b") for _ in range(40)]
    assert set(drawn) == {2, 4, 6, 8}
    assert all(isinstance(one, int) for one in drawn)


def test_choices_keep_their_kind():
    import optuna

    space = Choices((1, True, "1", None, {"mse": 1.0, "pearson": 2.0}))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = {json.dumps(space.suggest(study.ask(), "a"), sort_keys=True) for _ in range(100)}
    assert drawn == {"1", "true", '"1"', "null", '{"mse": 1.0, "pearson": 2.0}'}


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "search").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_space_that_ships_fits_its_recipe(path, run, trials, monkeypatch):
    space = read_space(path)
    run("search", "--config", ROOT / "configs" / path.name, "--space", path, "--output", "out", "--trials", 1).ok()
    for key in space:
        assert key in (Path("out") / "trials.csv").read_text()


def test_a_trial_writes_nowhere_but_into_its_folder(tmp_path, tiny_encoder):
    config = recipe(tmp_path / "mine", tiny_encoder, tmp_path / "ratings.tsv")
    curves = {
        "class_path": "textmover.training.reports.learning_curves.LearningCurves",
        "init_args": {"folder": str(tmp_path / "mine")},
    }
    config["trainer"]["callbacks"].append(curves)
    for checkpoints in (False, True):
        found = yaml.safe_dump(placed(config, tmp_path / "trial", 5, checkpoints=checkpoints))
        assert str(tmp_path / "mine") not in found
        assert ("ModelCheckpoint" in found) is checkpoints
