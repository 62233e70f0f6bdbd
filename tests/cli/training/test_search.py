import csv
import errno
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runs import recipe, write_ratings, write_recipe
from textmover.cli.training import search as command
from textmover.experiments.search.space import (
    Choices,
    JudgedParts,
    Range,
    check_keys,
    read_space,
    validation_fingerprint,
)
from textmover.experiments.search.study import placed
from textmover.runs.exit_codes_and_signals import Terminated
from textmover.types import InputError

ROOT = Path(__file__).parents[3]

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


class Trials(list):
    """Takes the place of trainings: lists the recipes of trials, which ``judge`` values.

    The nearer the learning rate is to 1e-3, the better, unless a test judges otherwise.
    """

    def judge(self, number, recipe, report, judged):
        value = 1 - abs(recipe["model"]["init_args"]["optimizer"]["learning_rate"] - 1e-3) * 100
        for validation in (1, 2):
            report(validation, value)
        return value, 2

    def __call__(self, recipe, folder, objective, *, maximise, report, judged):
        self.append(recipe)
        return self.judge(len(self) - 1, recipe, report, judged)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    """Trials without training, of a recipe that is not checked before, in a database that need not survive a crash."""
    import sqlalchemy

    made = Trials()
    monkeypatch.setattr(command, "run_trial", made)
    monkeypatch.setattr(command, "_check", lambda search: write_recipe(search.folder / "recipe.yaml", search.recipe))
    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", in_memory)
    yield made
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", in_memory)


def in_memory(connection: sqlite3.Connection, _: object) -> None:
    connection.executescript("pragma synchronous = off; pragma journal_mode = memory;")


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="") as stream:
        return [{**row, "seconds": ""} for row in csv.DictReader(stream)]


def states(folder: Path) -> list[str]:
    return [row["state"] for row in table(folder)]


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
def test_what_no_validation_logs_ends_the_search_with_what_there_is(run, asked, tmp_path):
    given = asked(trainer__max_epochs=1, trainer__limit_train_batches=1)
    said = run(*given, "--objective", "held-back/persson").complaint()
    assert "held-back/kendall, held-back/pearson, held-back/spearman" in said
    assert states(tmp_path / "out") == ["failed"]


# --- the search -------------------------------------------------------------------------------------------------------


def test_the_best_of_all_trials_is_told_and_kept(run, asked, trials, tmp_path):
    arguments = asked()
    ended = run(*arguments, "--trials", 6).ok()
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
    assert "Train with the best" in run(*arguments, "--trials", 6, "--resume").ok().out
    assert len(trials) == 6
    for change in (["--objective", "held-back/kendall"], ["--seeds", "3"], ["--minimise"]):
        said = run(*arguments, "--trials", 7, "--resume", *change).complaint()
        assert f"{change[0]} differs" in said
    run(*arguments, "--trials", 7, "--resume").ok()
    assert len(table(tmp_path / "out")) == 7
    arguments[arguments.index("out")] = "less"
    run(*arguments, "--trials", 4, "--minimise", "--no-pruning").ok()
    worst = min(table(tmp_path / "less"), key=lambda row: float(row["held-back/pearson"]))
    assert f"trial {worst['trial']} of 4" in (tmp_path / "less" / "best.yaml").read_text()


def test_the_mean_over_seeds_counts(run, asked, trials, tmp_path):
    trials.judge = lambda number, recipe, *_: (float(recipe["seed_everything"]), 1)
    assert run(*asked(data__init_args__seed=9), "--trials", 1, "--seeds", 1, 4).code == 0
    assert [(one["seed_everything"], one["data"]["init_args"]["seed"]) for one in trials] == [(1, 1), (4, 4)]
    (row,) = table(tmp_path / "out")
    assert float(row["held-back/pearson"]) == 2.5
    assert row["values"] == "1.0 4.0"


def test_a_trial_below_the_median_ends_early(run, asked, trials, tmp_path):
    epochs = [0] * 6

    def judge(place, recipe, report, judged):
        value = 0.1 if place == 5 else 0.5 + place / 100
        for number in (1, 2, 3):
            epochs[place] = number
            report(number, value)
        return value, 3

    trials.judge = judge
    assert run(*asked(), "--trials", 6).code == 0
    assert epochs == [3] * 5 + [1]
    assert states(tmp_path / "out") == ["complete"] * 5 + ["pruned"]


def test_a_trial_that_fails_is_in_the_table_with_its_reason_and_the_others_go_on(run, asked, trials, tmp_path):
    def judge(number, *_):
        if number == 1:
            raise RuntimeError("out of\nmemory")
        return 0.5, 1

    trials.judge = judge
    ended = run(*asked(), "--trials", 3).ok()
    assert states(tmp_path / "out") == ["complete", "failed", "complete"]
    assert table(tmp_path / "out")[1]["reason"] == "out of memory"
    assert "Trial 2 of 3: failed" in ended.err


def test_a_search_whose_first_trials_all_fail_ends_and_defects_keep_their_traceback(run, asked, trials, tmp_path):
    def judge(*_):
        raise InputError("Expected a loss, but got `foo`.")

    trials.judge = judge
    said = run(*asked(), "--trials", 20).complaint()
    assert "the first 3 failed" in said
    assert "`foo`" in said
    assert len(table(tmp_path / "out")) == 3
    trials.judge = lambda *_: {}["missing"]
    with pytest.raises(KeyError):
        run(*asked(), "--trials", 5, "--resume")


# --- what trials are judged on ----------------------------------------------------------------------------------------


def test_a_trial_that_is_judged_on_other_parts_is_refused_with_the_likely_key(run, asked, trials, tmp_path):
    def judge(number, recipe, report, judged):
        judged("few" if recipe["data"]["init_args"]["batch_size"] == 4 else "many")
        return 0.5, 1

    trials.judge = judge
    arguments = asked({RATE: {"low": 1e-4, "high": 1e-2}, "data.init_args.batch_size": {"choices": [4, 8]}})
    assert run(*arguments, "--trials", 6, "--sampler", "random").code == 0
    rows = table(tmp_path / "out")
    first = rows[0]["data.init_args.batch_size"]
    assert {(row["data.init_args.batch_size"] == first, row["state"]) for row in rows} == {
        (True, "complete"), (False, "failed"),
    }  # fmt: skip
    refused = next(row for row in rows if row["state"] == "failed")
    assert refused["reason"] == (
        "Expected the same validation data for all trials, but it differs from that of the first trial: "
        "leave data.init_args.batch_size out of the space."
    )
    trials.judge = lambda number, recipe, report, judged: (judged("changed"), (0.9, 1))[1]
    run(*arguments, "--trials", 7, "--sampler", "random", "--resume").ok()
    assert states(tmp_path / "out")[6] == "failed", "what the first trial was judged on is kept"


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
        return validation_fingerprint(data)

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


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize(("ending", "code"), [(KeyboardInterrupt, 130), (Terminated, 143), (Killed, None)])
def test_an_ended_search_keeps_what_is_there_and_goes_on(run, asked, trials, tmp_path, ending, code):
    def judge(number, *rest):
        if number == 2:
            raise ending
        return plain(number, *rest)

    plain, trials.judge = trials.judge, judge
    arguments = asked()
    if code is None:
        with pytest.raises(Killed):
            run(*arguments, "--trials", 5, "--no-pruning")
    else:
        ended = run(*arguments, "--trials", 5, "--no-pruning")
        assert ended.code == code
        assert "out/trials.csv: 2 trials so far; continue with --resume" in ended.err
        assert (tmp_path / "out" / "best.yaml").exists()
    assert states(tmp_path / "out") == ["complete", "complete"]

    assert "continue it with --resume" in run(*arguments, "--trials", 5).complaint()
    run(*arguments, "--trials", 5, "--no-pruning", "--resume").ok()
    rows = table(tmp_path / "out")
    arguments[arguments.index("out")] = "unbroken"
    run(*arguments, "--trials", 5, "--no-pruning").ok()
    assert rows == table(tmp_path / "unbroken")
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
    said = "Expected to be able to read and write out/search.db, but got: database or disk is full. Free some space,"
    assert said in ended.complaint()
    run(*arguments, "--resume").ok()
    assert states(tmp_path / "out") == ["complete"] * 4


def test_two_searches_do_not_share_a_folder(run, asked, tmp_path):
    from filelock import FileLock

    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"):
        assert "another search runs in out" in run(*asked()).complaint()


def test_a_file_system_without_locks_is_told(run, asked, trials, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    assert "out is on a file system without locks" in run(*asked(), "--trials", 1).ok().err


def test_a_search_that_is_refused_leaves_the_earlier_one_as_it_was(run, asked, trials, tmp_path):
    run(*asked(), "--trials", 1).ok()
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    other = asked(trainer__max_epochs=5)
    assert "continue it with --resume" in run(*other).complaint()
    assert "--config differs" in run(*other, "--resume").complaint()
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}


@pytest.mark.parametrize("held", ["recipe.yaml", "trial-007", "trials.csv", "best.yaml"])
def test_what_is_in_the_folder_and_not_of_a_search_is_kept(run, asked, trials, tmp_path, held):
    arguments = asked()
    arguments[arguments.index("out")] = "."
    (tmp_path / held).touch()
    content = (tmp_path / held).read_bytes()
    said = run(*arguments, "--trials", 1).complaint()
    assert f"has {held}, which the search would replace: give another folder" in said
    assert (tmp_path / held).read_bytes() == content
    assert not trials


# --- bad input --------------------------------------------------------------------------------------------------------


def test_a_key_that_is_none_names_the_nearest(run, asked):
    said = run(*asked({"model.init_args.optimizer.learning_rat": {"low": 1, "high": 2}})).complaint()
    assert "learning_rat" in said
    assert "did you mean model.init_args.optimizer.learning_rate?" in said


@pytest.fixture(scope="module")
def known(tmp_path_factory, tiny_encoder):
    """All keys of a recipe."""
    folder = tmp_path_factory.mktemp("known")
    return command.config_of(recipe(folder, tiny_encoder, folder / "ratings.tsv"), folder / "recipe.yaml")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("model.init_args.overrides.temprature", "did you mean model.init_args.overrides.temperature?"),
        ("trainer.max_epoch", "did you mean trainer.max_epochs?"),
        ("data.init_args.held_back", "changes it"),
        ("data.init_args.train", "changes it"),
        ("data.init_args.where", "changes it"),
        ("data.init_args.columns.references", "changes it"),
        ("data.class_path", "changes it"),
        ("seed_everything", "set by the search"),
        ("nothing.like.it", "--print_config"),
    ],
)
def test_a_key_that_cannot_be_searched_is_refused(known, key, words):
    with pytest.raises(InputError) as told:
        check_keys({key: {"low": 1, "high": 2}}, known)
    assert words in str(told.value)
    assert key in str(told.value)


def test_keys_of_several_sources_are_read_behind_their_names():
    config = {"data.init_args.sources": {}, "data.init_args.weights": None}
    one = {"low": 1, "high": 2}
    for name in ("sources", "sources.texts", "sources.wmt.init_args.train", "sources.damaged.init_args.words"):
        with pytest.raises(InputError, match=f"sources.*changes it|{name}.*changes it"):
            check_keys({f"data.init_args.{name}": one}, config)
    for name in ("sources.texts.init_args.batch_size", "sources.train.init_args.batch_group", "weights.train"):
        check_keys({f"data.init_args.{name}": one}, config)


SPACES = """
a.b: {low: 2, high: 1} | `low` of a.b to be below `high`
a.b: {low: 1, high: 1} | `low` of a.b to be below `high`
a.b: {low: 0, high: 1, log: true} | above 0 on a logarithmic scale
a.b: {low: 0, high: 1, step: 2} | `step` of a.b
a.b: {low: 1, high: 2, log: true, step: 1} | without log
a.b: {low: few, high: 2} | `low` of a.b to be a finite number, but got 'few'
a.b: {low: true, high: 2} | `low` of a.b to be a finite number
a.b: {low: 1, high: .inf} | `high` of a.b to be a finite number
a.b: {low: 1, high: 2, log: "yes"} | `log` of a.b to be true or false
a.b: {low: 1} | to have {low, high}
a.b: {low: 1, high: 2, lgo: true} | to have {low, high}
a.b: [1, 2] | to have {low, high}
a.b: {choices: []} | `choices` of a.b
a.b: {choices: [1, 1]} | to differ
a: [ | space.yaml to be YAML, but got
- a | to be a search space, a mapping of keys to values, but got a list
# none | to be a search space, a mapping of keys to values, but got none
"""
"""Search spaces, and what is said of them."""


@pytest.mark.parametrize("line", SPACES.strip().splitlines())
def test_a_space_that_cannot_be_used(tmp_path, line):
    text, _, words = line.partition(" | ")
    (tmp_path / "space.yaml").write_text(text)
    with pytest.raises(InputError) as told:
        read_space(tmp_path / "space.yaml")
    assert words in str(told.value)


@pytest.mark.parametrize("file", ["space.yaml", "recipe.yaml"])
def test_a_file_that_is_not_there(run, asked, tmp_path, file):
    arguments = asked()
    (tmp_path / file).unlink()
    assert f"a file at {tmp_path / file}, but there is none" in run(*arguments).complaint()


def test_a_value_that_the_recipe_refuses_is_told_before_the_first_trial(run, asked):
    space = {"model.init_args.bfloat16": {"choices": ["no", "maybe"]}, "trainer.max_epochs": {"choices": ["few"]}}
    assert "max_epochs" in run(*asked(space)).complaint()


# --- parts ------------------------------------------------------------------------------------------------------------


def test_values_are_drawn_as_they_are_meant(tmp_path):
    import optuna

    (tmp_path / "space.yaml").write_text("a: {low: 1e-5, high: 3E-4, log: true}\nb: {low: 2, high: 8, step: 2}\n")
    space = read_space(tmp_path / "space.yaml")
    assert space["a"] == Range(1e-5, 3e-4, log=True)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [space["b"].suggest(study.ask(), "b") for _ in range(40)]
    assert set(drawn) == {2, 4, 6, 8}
    assert all(isinstance(one, int) for one in drawn)
    kinds = Choices((1, True, "1", None, {"mse": 1.0, "pearson": 2.0}))
    found = {json.dumps(kinds.suggest(study.ask(), "a"), sort_keys=True) for _ in range(100)}
    assert found == {"1", "true", '"1"', "null", '{"mse": 1.0, "pearson": 2.0}'}


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "search").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_space_that_ships_fits_its_recipe(path, run, monkeypatch):
    space = read_space(path)
    monkeypatch.setattr(command, "run_trial", Trials())
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
