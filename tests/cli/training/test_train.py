"""``train.py`` and ``textmover train`` as a user meets them, over the tiny encoder."""

import itertools
import shutil
from pathlib import Path

import pytest
import yaml
from labelled_runs import write_sentences

from runs import recipe, write_recipe
from textmover import Scorer
from textmover.checkpoints.averaging import as_token_table
from textmover.checkpoints.saving import save_checkpoint
from textmover.cli.main import main as textmover
from textmover.cli.training.train import _load
from textmover.cli.training.train import main as train
from textmover.training import RatingsModule
from textmover.training.trainer_checks import NotFiniteError

ROOT = Path(__file__).parents[3]


def run(tmp_path: Path, config: dict, *arguments: str) -> int:
    return train(["fit", "--config", str(write_recipe(tmp_path / "recipe.yaml", config)), *arguments])


def test_a_fit_reports_the_gain_exports_and_says_how_to_score(fitted):
    metric = fitted.folder / "metric"
    for words in (
        *("held-back", "pearson", "before", "after", "interval", "These ratings are made up.", "textmover score -i"),
        str(metric),
    ):
        assert words in fitted.out
    card = (metric / "README.md").read_text(encoding="utf-8")
    ratings = str(fitted.folder / "ratings.tsv")
    for words in ("These ratings are made up.", "| held-back |", "max_epochs: 3", ratings, "Signature"):
        assert words in card
    assert Scorer.from_pretrained(metric).score("the cat sat", "the cat sat").mean > 50


def test_the_best_weights_are_exported_and_export_of_its_lightning_checkpoint_gives_the_same(fitted, tmp_path):
    assert textmover(["export", str(fitted.folder / "checkpoints" / "best.ckpt"), str(tmp_path / "again")]) == 0
    texts = ["old red cat sat", "on mat big"], ["young green dog ran", "on mat small"]
    places = fitted.folder / "metric", tmp_path / "again"
    first, second = (Scorer.from_pretrained(place).score(*texts).scores for place in places)
    assert first.tolist() == second.tolist()


@pytest.mark.slow
def test_an_adapter_mixed_with_the_untrained_weights_is_what_is_judged_and_exported(
    tmp_path, tiny_encoder, ratings, capsys
):
    config = recipe(tmp_path, tiny_encoder, ratings, trainer__max_epochs=1)
    config |= {"adapter": {"rank": 2}, "untrained_share": 0.5}
    assert run(tmp_path, config) == 0
    out = capsys.readouterr().out
    assert "Adapter over" in out
    card = (tmp_path / "metric" / "README.md").read_text(encoding="utf-8")
    for words in ("untrained_share: 0.5", "rank: 2", "| held-back |"):
        assert words in card
    scorer = Scorer.from_pretrained(tmp_path / "metric")
    assert str(scorer.signature) in card
    human = [float(line.rsplit("\t", 1)[1]) for line in ratings.read_text().splitlines()[1:]]
    scores = scorer.score("old cat sat on mat", "old cat sat on mat").scores
    assert abs(scores[0] - max(human)) < 30, "the scale was fitted again for the mixed weights"
    assert not (tmp_path / "metric" / "encoder").exists()


def test_a_checkpoint_of_another_encoder_is_refused(fitted, tmp_path, tiny_encoder, refuse):
    shutil.copytree(tiny_encoder, tmp_path / "other")
    best = str(fitted.folder / "checkpoints" / "best.ckpt")
    said = refuse("--ckpt_path", best, model__init_args__overrides__encoder=str(tmp_path / "other"))
    assert "a checkpoint of the metric that is trained here, but its `encoder` is" in said


@pytest.mark.parametrize("command", ["test", "predict"])
def test_what_the_modules_cannot_do_is_not_offered(tmp_path, tiny_encoder, ratings, complaint, command, capsys):
    config = write_recipe(tmp_path / "recipe.yaml", recipe(tmp_path, tiny_encoder, ratings))
    for main in (train, lambda arguments: textmover(["train", *arguments])):
        message = complaint(command, "--config", config, main=main)
        assert all(word in message for word in (command, "fit", "validate"))
    with pytest.raises(SystemExit):
        train(["--help"])
    assert "{fit,validate}" in capsys.readouterr().out


def test_validation_of_a_metric_that_was_never_fitted_says_what_to_name(fitted, tmp_path, complaint, capsys):
    config = {**fitted.config, "trainer": {**fitted.config["trainer"], "logger": False}}
    file = write_recipe(tmp_path / "recipe.yaml", config)
    message = complaint("validate", "--config", file)
    assert "never fitted: name a run's checkpoint with --ckpt_path, or an exported metric with --model.init" in message
    named = (
        ("--ckpt_path", str(fitted.folder / "checkpoints" / "best.ckpt")),
        ("--model.init_args.metric", str(fitted.folder / "metric"), "--model.init_args.overrides", "null"),
    )
    for options in named:
        assert train(["validate", "--config", str(file), *options]) == 0
        assert "held-back/pearson" in capsys.readouterr().out


def test_textmover_train_means_fit_and_every_key_can_be_changed(tmp_path, tiny_encoder, ratings):
    config = write_recipe(tmp_path / "recipe.yaml", recipe(tmp_path, tiny_encoder, ratings))
    changes = ["--trainer.max_epochs", "1", "--model.init_args.losses", "{pairwise: 1.0}"]
    changes += ["--model.init_args.overrides.temperature", "0.5", "--export", str(tmp_path / "other")]
    changes += ["--trainer.precision", "bf16-mixed"]  # all of training may be autocast
    assert textmover(["train", "--config", str(config), *changes]) == 0
    assert "T:0.5|" in str(Scorer.from_pretrained(tmp_path / "other").signature)
    assert not (tmp_path / "metric").exists()


def test_a_second_run_names_the_metric_that_it_replaces_and_warns_once_of_empty_texts(
    tmp_path, tiny_encoder, ratings, capsys
):
    rows = [line.split("\t") for line in ratings.read_text().splitlines()]
    rows = [[*row[:2], "" if number % 9 == 5 else row[2], row[3]] for number, row in enumerate(rows)]
    ratings.write_text("".join("\t".join(row) + "\n" for row in rows))
    config = recipe(tmp_path, tiny_encoder, ratings, trainer__limit_train_batches=3)
    for replaced in (False, True):
        assert run(tmp_path, config, "--trainer.max_epochs", "1") == 0
        said = capsys.readouterr()
        assert (f"Replaced: {tmp_path / 'metric'}\n" in said.out) == replaced
        assert said.err.count("had an empty or unreadable") == 1


def test_values_of_options_are_yaml_and_lists_are_new_each_time():
    found = {text: _load(text) for text in ("true", "12", "1.5e-3", "a.b/c-d", "null", "a:", "{a}", "{a: 1}")}
    assert list(found.values()) == [True, 12, 1.5e-3, "a.b/c-d", None, "a:", "{a}", {"a": 1}]
    assert [_load(text) is _load(text) for text in ("[1]", "{a: 1}", "- 1", "[]")] == [False] * 4


# --- bad input --------------------------------------------------------------------------------------------------------


def test_low_rank_updates_of_a_table_are_refused_with_the_way_to_a_trained_one(tmp_path, tiny_metric, refuse):
    metric = as_token_table(tiny_metric(layer=0, temperature=0.1))
    folder = str(save_checkpoint(metric, tmp_path / "table", card="# card"))
    start = {"metric": folder, "overrides": {}, "lora": {"rank": 4}}
    said = refuse(**{f"model__init_args__{name}": value for name, value in start.items()})
    assert "got TokenTable: train with `layer: 0` and without `lora`" in said
    assert "`textmover export RUN FOLDER --table`" in said


@pytest.mark.parametrize(
    ("number", "words"), [(110, "line 112, but got ''"), (130, "as in the header, but got 2 in line 122")]
)
def test_scores_of_a_teacher_that_do_not_fit_their_pairs_are_refused(number, words, ratings, refuse):
    cells = [line.rpartition("\t") for line in ratings.read_text().splitlines()]
    scores = [cells[0][2], *(["1.5", "2.5"] * len(cells))[:number]]
    joined = itertools.zip_longest((pair for pair, *_ in cells), scores, fillvalue="")
    ratings.write_text("".join("\t".join(line) + "\n" for line in joined))
    assert words in refuse()


def test_a_folder_of_a_classifier_with_other_files_is_refused_before_training(tmp_path, refuse, tiny_encoder):
    sentences = write_sentences(tmp_path / "sentences.tsv", 60)
    (tmp_path / "metric-labels").mkdir()
    (tmp_path / "metric-labels" / "thesis.txt").write_text("keep")
    module = {"overrides": {"encoder": str(tiny_encoder)}, "classifiers": True, "bfloat16": "no"}
    data = {"train": [str(sentences)], "task": "cola", "held_back": 0.3}
    said = refuse(
        model={"class_path": "textmover.training.ClassificationModule", "init_args": module},
        data={"class_path": "textmover.data.LabelsDataModule", "init_args": data},
    )
    assert "metric-labels to be new, empty or an earlier checkpoint" in said


def test_a_file_in_place_of_the_folder_of_checkpoints_is_refused_before_training(tmp_path, refuse):
    (tmp_path / "taken").write_text("a file")
    options = {"dirpath": str(tmp_path / "taken"), "every_n_train_steps": 1}
    said = refuse(
        trainer__callbacks=[{"class_path": "pytorch_lightning.callbacks.ModelCheckpoint", "init_args": options}]
    )
    assert "`dirpath` to be a folder, but got the file" in said
    said = refuse(trainer__callbacks=[], trainer__default_root_dir=str(tmp_path / "taken"))
    assert "`trainer.default_root_dir` to be a folder, but got the file" in said


OVERRIDES = "model__init_args__overrides__"


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        ("", {"data__init_args__train": ["missing.tsv"]}, "missing.tsv"),
        ("", {"data__init_args__columns__score": "ratting"}, "ratting ratings.tsv"),
        ("", {"export": "ratings.tsv/below/a/file"}, "below"),
        ("", {"export": "."}, "holds other files"),
        ("", {f"{OVERRIDES}encoder": "nobody/no-such-encoder"}, "folder cache hub Correct"),
        ("", {"model__init_args__metric": "twmb"}, "twmd"),
        ("", {f"{OVERRIDES}temprature": 0.1}, "`temperature`"),
        ("", {"model__init_args__lossses": {"mse": 1.0}}, "lossses did you mean losses? (see"),
        ("--data.init_args.held_bac 0.1", {}, "data: 'held_bac' did you mean held_back? (see"),
        ("--ckpt_path gone.ckpt", {}, "gone.ckpt"),
        *((f"--untrained_share {one}", {}, "`untrained_share` between 0 and 1") for one in ("-0.1", "1.5")),
        ("--model.init_args.losses {foo: 1}", {}, "foo"),
        ("--data.init_args.batch_size many", {}, "`batch_size` to be a whole number, but got many"),
        ("--model.init_args.optimizer.learning_rate fast", {}, "`optimizer.learning_rate` to be a number, got fast"),
        ("--trainer.max_epochs few", {}, "`trainer.max_epochs` to be a whole number, but got few"),
        ("--trainer.callbacks few", {}, "list of classes, [pytorch_lightning.callbacks.LearningRateMonitor], got few"),
        ("--trainer.callbacks [1]", {}, "a class by path, as in package.module.Class, but got 1. --help-all"),
        ("--trainer.foo 3", {}, "--trainer.foo"),
        ("--trainer.accelerator cuda", {}, "CUDA"),
        ("--trainer.gradient_clip_val 1.0", {}, "gradient_clip"),
        *((f"--trainer.precision {one}", {}, "bfloat16") for one in ("16-mixed", "bf16-true", "64-true")),
        ("--model.init_args.optimizer.beta1 1.0", {}, "below 1"),
    ],
)
def test_a_wrong_value_or_key_is_told_in_one_sentence(options, changes, words, tmp_path, refuse, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = refuse(*options.split(maxsplit=1), **changes)
    for word in words.split():
        assert word in message
    assert "<class" not in message
    assert len(message) < 650


def test_a_checkpoint_that_cannot_be_written_leaves_the_earlier_one(tmp_path, monkeypatch):
    import torch

    from textmover.training import AtomicCheckpoints
    from textmover.types import InputError

    path = tmp_path / "resume.ckpt"
    AtomicCheckpoints().save_checkpoint({"step": 1}, path)

    def full(content, stream):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(InputError, match=r"resume\.ckpt, but got: No space left"):
        AtomicCheckpoints().save_checkpoint({"step": 2}, path)
    assert torch.load(path, weights_only=True) == {"step": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["resume.ckpt"]


@pytest.mark.parametrize("option", ["adapter", pytest.param("untrained_share", marks=pytest.mark.long)])
def test_a_base_encoder_that_the_export_needs_is_missed_before_training(
    option, tmp_path, tiny_encoder, ratings, complaint
):
    shutil.copytree(tiny_encoder, tmp_path / "gone")
    config = recipe(tmp_path, tmp_path / "gone", ratings, trainer__max_steps=1, trainer__callbacks=[])
    assert run(tmp_path, config) == 0
    shutil.rmtree(tmp_path / "gone")
    config["model"]["init_args"] |= {"metric": str(tmp_path / "metric"), "overrides": {}}
    config |= {"export": str(tmp_path / "next"), option: {"adapter": {"rank": 2}, "untrained_share": 0.5}[option]}
    config["trainer"]["logger"]["init_args"]["name"] = "second"
    message = complaint("fit", "--config", write_recipe(tmp_path / "recipe.yaml", config))
    assert f"the pretrained encoder for `{option}`, but got" in message
    assert str(tmp_path / "gone") in message
    assert "of an adapter" not in message
    assert not (tmp_path / "second").exists(), "nothing was trained"
    config[option] = {"adapter": None, "untrained_share": 0.0}[option]
    assert run(tmp_path, config) == 0


def test_recipes_stop_early_after_validations_alone():
    """Elsewhere nothing has been logged to look at where a run ends before the first one."""
    found = []
    for path in (ROOT / "configs").rglob("*.yaml"):
        trainer = yaml.safe_load(path.read_text(encoding="utf-8")).get("trainer") or {}
        callbacks = trainer.get("callbacks") or []
        found += [(path, one["init_args"]) for one in callbacks if one["class_path"].endswith("EarlyStopping")]
    assert len(found) >= 2
    for path, options in found:
        assert options.get("check_on_train_epoch_end") is False, path


@pytest.mark.filterwarnings("ignore:The dirpath has changed.*", "ignore:.*could not find the monitored key.*")
@pytest.mark.long
def test_a_run_that_was_resumed_elsewhere_names_a_checkpoint_that_is_there(
    tmp_path, tiny_encoder, ratings, complaint, monkeypatch
):
    """Lightning's callback knows the path of the run before, which is gone here."""
    config = recipe(tmp_path / "old", tiny_encoder, ratings, trainer__max_steps=6, export=None)
    assert run(tmp_path, config) == 0
    (tmp_path / "old").rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "checkpoints" / "resume.ckpt"
    config = recipe(tmp_path / "new", tiny_encoder, ratings, trainer__max_steps=8, export=None)

    def step(*_):
        raise NotFiniteError("Expected a finite loss.")

    monkeypatch.setattr(RatingsModule, "training_step", step)
    said = complaint("fit", "--config", write_recipe(tmp_path / "recipe.yaml", config), "--ckpt_path", moved)
    assert said.endswith(f"--ckpt_path {moved}")
