import contextlib
import json
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from labelled_runs import over, quiet_trainer, rated
from pytorch_lightning.callbacks import ModelCheckpoint
from safetensors.torch import load_file, save_file

from data_files import write_table
from runs import recipe, write_ratings, write_recipe
from textmover.checkpoints.lightning_checkpoints import read_run_checkpoint
from textmover.training import OptimizerConfig, RandomState, RatingsModule
from textmover.types import InputError

RUNS = Path(__file__).with_name("runs.py")


@pytest.fixture(scope="module")
def start(programs: Path):
    """Begin a training that a signal may end at a step; 35 steps at most, none at -1."""

    def start(step: int, *arguments: str, by: str = "SIGKILL") -> subprocess.Popen[str]:
        command = [programs / "python", RUNS, str(step), by, "fit", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


@pytest.fixture(scope="module")
def run(start):
    def run(*arguments, **options) -> subprocess.CompletedProcess[str]:
        with start(*arguments, **options) as process:
            out, said = process.communicate(timeout=240)
        return subprocess.CompletedProcess(process.args, process.returncode, out, said)

    return run


def arguments_of(folder: Path, encoder: Path) -> list[str]:
    """A run of 35 steps: eleven or twelve to an epoch, a checkpoint every five, dropout on."""
    ratings = write_ratings(folder / "ratings.tsv")
    config = recipe(folder, encoder, ratings, trainer__max_steps=35, trainer__max_epochs=-1)
    return ["--config", str(write_recipe(folder / "recipe.yaml", config))]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, run) -> tuple[Path, float]:
    """Folder of a run that nothing stops, and the seconds that it took."""
    folder = tmp_path_factory.mktemp("unbroken")
    begun = time.monotonic()
    finished = run(-1, *arguments_of(folder, tiny_encoder))
    assert finished.returncode == 0, finished.stderr
    return folder, time.monotonic() - begun


def check_same(folder: Path, unbroken: Path) -> None:
    """Compare a run with an unbroken one: weights of all checkpoints and of the metric, and the names of all files."""
    for name in ("resume", "best"):
        states = [torch.load(one / "checkpoints" / f"{name}.ckpt", weights_only=True) for one in (unbroken, folder)]
        assert states[0]["global_step"] == states[1]["global_step"]
        for key, tensor in states[0]["state_dict"].items():
            assert torch.equal(tensor, states[1]["state_dict"][key]), key
    for place in ("checkpoints", "metric"):
        assert names(folder / place) == names(unbroken / place)
    assert (folder / "metric/model.safetensors").read_bytes() == (unbroken / "metric/model.safetensors").read_bytes()
    assert {one.name for one in folder.iterdir()} == {one.name for one in unbroken.iterdir()}


def names(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))


@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.long)])
def test_kills_at_random_moments_change_nothing_and_leave_nothing(
    tmp_path: Path, tiny_encoder: Path, start, unbroken: tuple[Path, float], kills: int
) -> None:
    draw, steps = random.Random(kills), []
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        arguments, resume = arguments_of(folder, tiny_encoder), folder / "checkpoints" / "resume.ckpt"
        # In turn at a random step, and at any moment of start, training and export.
        step, moment = (draw.randrange(1, 35), 240.0) if number % 2 else (-1, draw.uniform(0, unbroken[1]))
        with start(step, *arguments) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            process.kill()
            process.communicate(timeout=240)
        going_on = ["--ckpt_path", str(resume)] if resume.is_file() else []
        steps.append(read_run_checkpoint(resume)["global_step"] if going_on else 0)
        left = [one for one in names(folder) if "/." in f"/{one}"]
        when = f"at step {step}" if number % 2 else f"after {moment:.2f} of {unbroken[1]:.2f} s"
        print(f"killed {when}, goes on from step {steps[-1]}; left: {left}")  # noqa: T201  the report
        with start(-1, *arguments, *going_on) as process:
            said = process.communicate(timeout=240)[1]
            assert process.returncode == 0, said
        check_same(folder, unbroken[0])
    assert len(set(steps)) > 1 or kills < 5


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, tiny_encoder: Path, run, sent: str, code: int) -> None:
    config = recipe(tmp_path, tiny_encoder, write_ratings(tmp_path / "ratings.tsv"))
    ended = run(8, "--config", str(write_recipe(tmp_path / "recipe.yaml", config)), by=sent)
    assert ended.returncode == code, ended.stderr
    assert f"--ckpt_path {tmp_path / 'checkpoints' / 'resume.ckpt'}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "metric").exists()


class Rates(pl.Callback):
    """Keeps the settings of all groups at every step, and may write a checkpoint after the fourth one."""

    def __init__(self, keep: Path | None) -> None:
        self.seen: list[list[tuple[float, float, float]]] = []
        self.keep = keep

    def on_train_batch_start(self, trainer: pl.Trainer, *_: object) -> None:
        groups = trainer.optimizers[0].param_groups
        self.seen.append([(one["lr"], one["weight_decay"], one["betas"][0]) for one in groups])

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        if self.keep is not None and trainer.global_step == 4:
            trainer.save_checkpoint(self.keep)


def fit(
    folder: Path,
    encoder: Path,
    start: Path | None = None,
    *,
    keep: Path | None = None,
    config: OptimizerConfig = OptimizerConfig(),  # noqa: B008 - frozen
    resume_other_data: bool = False,
    train: str | None = None,
    **changes: object,
) -> list[list[tuple[float, float, float]]]:
    """Eight steps, or those that a checkpoint has left of them; returns the settings of each."""
    pl.seed_everything(0, verbose=False)
    module = over(encoder, RatingsModule, optimizer=config)
    data = rated(write_ratings(folder / "ratings.tsv", 60) if train is None else folder / f"{train}.tsv", **changes)
    data.resume_other_data = resume_other_data
    watch = Rates(keep)
    trainer = quiet_trainer(max_steps=8, limit_val_batches=0, callbacks=[RandomState(), watch])
    trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
    return watch.seen


def without(path: Path, entry: str, *within: str) -> Path:
    """The checkpoint without an entry, such as earlier versions wrote it, in a file of its own."""
    content = torch.load(path, weights_only=True)
    holder = content
    for name in within:
        holder = holder[name]
    del holder[entry]
    torch.save(content, path.with_name(f"without {entry}.ckpt"))
    return path.with_name(f"without {entry}.ckpt")


def test_a_resumed_run_takes_the_rates_of_its_own_recipe(tmp_path: Path, tiny_encoder: Path) -> None:
    fast = OptimizerConfig(learning_rate=1e-3, head_learning_rate=1e-2, weight_decay=0.5, beta1=0.8, layer_decay=0.5)
    slow = OptimizerConfig(learning_rate=1e-6, head_learning_rate=1e-5, beta1=0.7, layer_decay=0.9, schedule="cosine")
    path = tmp_path / "four.ckpt"
    first = fit(tmp_path, tiny_encoder, keep=path, config=fast)
    assert fit(tmp_path, tiny_encoder, path, config=fast) == first[4:]
    other = fit(tmp_path, tiny_encoder, path, config=slow)
    assert other == fit(tmp_path, tiny_encoder, config=slow)[4:]
    assert other != first[4:]


def test_a_checkpoint_of_layers_at_one_rate_is_no_start_for_rates_by_layer(tiny_encoder: Path, four: Path) -> None:
    with pytest.raises(InputError, match="as this recipe does, but it trains all layers at one rate"):
        fit(four, tiny_encoder, four / "four.ckpt", config=OptimizerConfig(thaw=0.1))


@pytest.mark.parametrize("given", [[], [RandomState()]])
def test_a_run_in_python_resumes_exactly_without_naming_a_callback(tmp_path: Path, tiny_encoder: Path, given) -> None:
    ratings, path = write_ratings(tmp_path / "ratings.tsv", 60), tmp_path / "four.ckpt"

    def trained(seed: int, start: Path | None = None, *callbacks: pl.Callback) -> dict[str, torch.Tensor]:
        pl.seed_everything(0, verbose=False)
        module = over(tiny_encoder, RatingsModule)  # with dropout
        pl.seed_everything(seed, verbose=False)
        trainer = quiet_trainer(max_steps=8, limit_val_batches=0, callbacks=[*given, *callbacks])
        trainer.fit(module, rated(ratings), ckpt_path=start, weights_only=True)
        assert sum(isinstance(one, RandomState) for one in trainer.callbacks) == 1
        return module.state_dict()

    unbroken, resumed = trained(1, None, Rates(path)), trained(2, path)
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in unbroken.items())


class Judged(pl.Callback):
    """Keeps the step and the agreement of each validation."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def on_validation_end(self, trainer: pl.Trainer, *_: object) -> None:
        self.seen.append((trainer.global_step, float(trainer.callback_metrics["held-back/pearson"])))


@pytest.mark.parametrize(("batches", "interval"), [(4, 4), (5, 2)], ids=["end of an epoch", "within one"])
def test_a_checkpoint_that_was_written_before_a_validation_goes_on_with_it(tmp_path, tiny_encoder, batches, interval):
    ratings, path = write_ratings(tmp_path / "ratings.tsv", 60), tmp_path / "four.ckpt"

    def trained(start: Path | None = None, *callbacks: pl.Callback) -> tuple[list[tuple[int, float]], int]:
        pl.seed_everything(0, verbose=False)
        limits = {
            "max_epochs": 2,
            "limit_train_batches": batches,
            "val_check_interval": interval,
            "num_sanity_val_steps": 0,
        }
        trainer = quiet_trainer(**limits, callbacks=[judged := Judged(), *callbacks])
        trainer.fit(over(tiny_encoder, RatingsModule), rated(ratings, batch_size=8), ckpt_path=start, weights_only=True)
        return judged.seen, trainer.global_step

    unbroken, steps = trained(None, Rates(path))
    assert (unbroken[0][0], steps) == (interval, 2 * batches)
    assert trained(path) == ([one for one in unbroken if one[0] >= 4], steps)


# --- other data -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """Folder with a checkpoint of four steps, and data that differ from its own by a rating, a word and a row."""
    folder = tmp_path_factory.mktemp("four")
    fit(folder, tiny_encoder, keep=folder / "four.ckpt")
    rows = (folder / "ratings.tsv").read_text().splitlines()
    cells = rows[1].split("\t")
    others = {
        "rating": ["\t".join([*cells[:-1], "99"]), *rows[2:]],
        "word": ["\t".join([*cells[:2], f"the {cells[2]}", cells[3]]), *rows[2:]],
        "fewer": rows[2:],
        "order": [*rows[2:], rows[1]],
        "group": ["\t".join(["g9", *cells[1:]]), *rows[2:]],
    }
    for name, lines in others.items():
        write_table(folder / f"{name}.tsv", rows[0], lines)
    return folder


OTHER_DATA = [
    ({"batch_size": 4}, "`ratings: batch_size` is 4 and was 8"),
    ({"seed": 5}, "`seed` is 5 and was 0"),
    ({"held_back": 0.3}, "`ratings: items` is"),
    *(({"train": name}, "`ratings: (items|held-back)` is") for name in ("rating", "word", "fewer", "order")),
    ({"batch_group": "group", "columns": {"groups": ["group"]}}, "`ratings: items` is"),
]


@pytest.mark.parametrize(("changes", "message"), OTHER_DATA)
def test_no_run_goes_on_with_other_data_unless_that_is_wanted(tiny_encoder, four, changes, message):
    with pytest.raises(InputError, match=f"Expected the data of the checkpoint's run.*{message}.*--resume_other_data"):
        fit(four, tiny_encoder, four / "four.ckpt", **changes)


@pytest.mark.parametrize(
    "changes", [{"batch_size": 4, "resume_other_data": True}, {"train": "group"}, {"validation_batch_size": 3}]
)
def test_a_run_goes_on_where_its_batches_are_the_same_or_others_are_wanted(tiny_encoder, four, changes):
    assert len(fit(four, tiny_encoder, four / "four.ckpt", **changes)) == 4


def test_a_run_on_other_data_chooses_anew_and_tells_what_it_was_trained_on(tmp_path, tiny_encoder, caplog):
    """What is held back now was trained on before, and the best weights were those of the other data."""
    write_ratings(tmp_path / "ratings.tsv", 60)

    def trained(steps: int, start: Path | None = None, **options):
        data = rated(tmp_path / "ratings.tsv", **options)
        data.resume_other_data = True
        best = ModelCheckpoint(tmp_path, monitor="held-back/pearson", mode="max")
        trainer = quiet_trainer(
            max_steps=steps, val_check_interval=2, callbacks=[RandomState(), best], enable_checkpointing=True
        )
        trainer.fit(over(tiny_encoder, RatingsModule), data, ckpt_path=start, weights_only=True)
        trainer.save_checkpoint(tmp_path / f"{steps}.ckpt")
        return best.best_model_score, {name: one for name, one in data.describe().items() if "before" in name}

    assert trained(2)[1] == {}
    content = torch.load(tmp_path / "2.ckpt", weights_only=True)
    (state,) = (one for one in content["callbacks"].values() if "best_model_score" in one)
    state["best_model_score"].fill_(2.0)  # above any correlation
    torch.save(content, tmp_path / "2.ckpt")
    assert trained(4, tmp_path / "2.ckpt") == (2.0, {})
    assert "chosen again" not in caplog.text
    score, about = trained(4, tmp_path / "2.ckpt", held_back=0.4)
    assert score <= 1.0
    assert "The data have changed: held-back may hold texts that the run before resuming was trained on" in caplog.text
    assert about.keys() > {"before resuming, training files", "before resuming, not apart"}
    assert trained(6, tmp_path / "4.ckpt", held_back=0.4)[1] == about


def test_a_checkpoint_of_an_earlier_version_says_nothing_of_its_data(tiny_encoder, four):
    assert len(fit(four, tiny_encoder, without(four / "four.ckpt", "fingerprint", "textmover"), batch_size=4)) == 4


def test_no_fit_goes_on_from_weights_alone(tiny_encoder, four):
    with pytest.raises(InputError, match="it holds only weights, without `optimizer_states`"):
        fit(four, tiny_encoder, without(four / "four.ckpt", "optimizer_states"))


# --- another encoder under the same name ------------------------------------------------------------------------------


@pytest.fixture
def encoder(tmp_path: Path, tiny_encoder: Path) -> Path:
    """A folder whose encoder a run was trained from, to ``four.ckpt``."""
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    fit(tmp_path, encoder, keep=tmp_path / "four.ckpt")
    return encoder


@pytest.fixture
def replaced(encoder: Path) -> Path:
    """The folder with other weights of the same shapes."""
    state = load_file(encoder / "model.safetensors")
    other = {name: one + 0.1 if one.is_floating_point() else one for name, one in state.items()}
    save_file(other, encoder / "model.safetensors", metadata={"format": "pt"})
    return encoder


def test_no_run_goes_on_over_other_weights_in_the_place_of_its_encoder(tmp_path: Path, replaced: Path) -> None:
    there = torch.load(tmp_path / "four.ckpt", weights_only=True)["textmover"]["encoder"]["base"]["sha256"]
    with pytest.raises(
        InputError, match=f"to have weights of the hash {there}, but those in {replaced} have .*without the checkpoint"
    ):
        fit(tmp_path, replaced, tmp_path / "four.ckpt")


def test_no_run_goes_on_over_another_tokenizer(tmp_path: Path, encoder: Path) -> None:
    path = encoder / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase": true', '"lowercase": false'))
    with pytest.raises(InputError, match=f"to have a tokenizer of the hash .* but that in {encoder} has"):
        fit(tmp_path, encoder, tmp_path / "four.ckpt")


def test_a_run_of_an_earlier_version_goes_on_whatever_its_encoder_is(tmp_path: Path, replaced: Path) -> None:
    assert len(fit(tmp_path, replaced, without(tmp_path / "four.ckpt", "encoder", "textmover"))) == 4


@pytest.mark.parametrize(
    ("field", "size", "told"), [("intermediate_size", 96, "size mismatch"), ("num_hidden_layers", 2, "key")]
)
def test_weights_of_another_shape_are_one_sentence(
    tmp_path: Path, encoder: Path, field: str, size: int, told: str
) -> None:
    from transformers import BertConfig, BertModel

    config = json.loads((encoder / "config.json").read_text())
    BertModel(BertConfig(**{**config, field: size})).save_pretrained(encoder)
    with pytest.raises(InputError, match=f"but got: .*{told}.*restore the encoder that it was trained from") as caught:
        fit(tmp_path, encoder, without(tmp_path / "four.ckpt", "encoder", "textmover"))
    assert "\n" not in str(caught.value)


def test_nothing_is_hashed_for_a_checkpoint(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = RatingsModule(overrides={"encoder": str(tiny_encoder)})
    for place in ("encoder_identity", "source"):
        monkeypatch.setattr(f"textmover.modules.encoder.{place}.file_sha256", None)
    content = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(content)
    module.on_load_checkpoint(content)
    assert len(content["textmover"]["encoder"]["base"]["sha256"]) == 64


def test_dropout_is_on_in_training(tiny_encoder: Path) -> None:
    from textmover.presets import build_metric, preset_config

    metric = build_metric(preset_config("twmd", encoder=str(tiny_encoder)))
    metric.train()
    tokens = metric.tokenize(["the old dog ran"])
    assert not torch.equal(metric.token_vectors(tokens), metric.token_vectors(tokens))
