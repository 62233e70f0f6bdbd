"""Texts for the tests that a tiny encoder can learn from, made up by rules; modules and trainers for them."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from numpy.typing import NDArray

from textmover import Scorer
from textmover.data import LabelColumns, LabelsDataModule, MarkedDataModule, ParaphrasesDataModule, RatingsDataModule
from textmover.training import OptimizerConfig, RandomState

WORDS = ["cat", "dog", "boy", "girl", "man", "woman", "friend", "child", "red", "blue", "old", "young", "big", "small"]
TWINS = {
    "cat": "dog", "boy": "girl", "man": "woman", "friend": "child", "red": "blue", "old": "young", "big": "small",
    "door": "window", "river": "road", "book": "letter", "tea": "food", "morning": "evening", "green": "yellow",
}  # fmt: skip
POSITIVE = ["good", "happy", "warm", "great"]
NEGATIVE = ["cold", "less", "never", "under"]


def write_sentences(path: Path, n: int = 200, *, seed: int = 0, shuffled: bool = False) -> Path:
    """Sentences with one of two kinds of words, whose label is the kind."""
    rng = random.Random(seed)
    labels = [number % 2 for number in range(n)]
    texts = [
        " ".join(rng.sample([*rng.sample(WORDS, 4), rng.choice(POSITIVE if label else NEGATIVE)], 5))
        for label in labels
    ]
    if shuffled:
        rng.shuffle(labels)
    path.write_text("sentence\tlabel\n" + "".join(f"{t}\t{y}\n" for t, y in zip(texts, labels, strict=True)))
    return path


def write_pairs(path: Path, n: int = 200, *, seed: int = 0) -> Path:
    """Pairs of which the second text says `good` (entailment), `when` (neutral) or `never` (contradiction)."""
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        premise = rng.sample(WORDS, 4)
        label = ("entailment", "neutral", "contradiction")[number % 3]
        word = {"entailment": "good", "neutral": "when", "contradiction": "never"}[label]
        rows.append(f"{' '.join(premise)}\t{' '.join([word, *premise[:2]])}\t{label}\n")
    path.write_text("premise\thypothesis\tlabel\n" + "".join(rows))
    return path


def write_paraphrases(path: Path, n: int = 120, *, seed: int = 0) -> Path:
    """Pairs that differ in order, and by words that stand for each other."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        first = rng.sample(list(TWINS), 4)
        second = [first[0], *(TWINS[word] for word in first[1:])]
        rng.shuffle(second)
        rows.append(f"{' '.join(first)}\t{' '.join(second)}\n")
    path.write_text("first\tsecond\n" + "".join(dict.fromkeys(rows)))
    return path


def rated(path: Path, **options: Any) -> RatingsDataModule:
    return RatingsDataModule([str(path)], **{"held_back": 0.25, "batch_size": 8, **options})


def pairs(path: Path, **options: Any) -> LabelsDataModule:
    return LabelsDataModule([str(path)], "mnli", **{"held_back": 0.3, "batch_size": 16, **options})


def paraphrases(path: Path, **options: Any) -> ParaphrasesDataModule:
    given = {"columns": LabelColumns(("first", "second")), "held_back": 0.3, "batch_size": 8, **options}
    return ParaphrasesDataModule([str(path)], **given)


def marked(path: Path, **options: Any) -> MarkedDataModule:
    return MarkedDataModule([str(path)], **{"held_back": 0.3, "batch_size": 8, **options})


def over(encoder: Path, kind: type[pl.LightningModule], **options: Any) -> Any:
    """A module that trains an encoder; overrides are added to those that all have."""
    overrides = {"encoder": str(encoder), "temperature": 0.1, **options.pop("overrides", {})}
    optimizer = OptimizerConfig(learning_rate=2e-3, head_learning_rate=1e-2)
    return kind(overrides=overrides, **{"bfloat16": "no", "optimizer": optimizer, **options})


def scores_of(metric: Any, segments: list[Any]) -> NDArray[Any]:
    """Scores of segments against their references."""
    return Scorer(metric).score([one.hypothesis for one in segments], [one.references for one in segments]).scores


def missing_gradients(kind: type[pl.LightningModule]) -> tuple[type[Any], list[str]]:
    """A kind of module, and the names of parameters that had no gradient in its steps."""
    missing: list[str] = []

    class Watched(kind):
        def on_after_backward(self) -> None:
            missing.extend(name for name, one in self.named_parameters() if one.requires_grad and one.grad is None)

    return Watched, missing


def quiet_trainer(**options: Any) -> pl.Trainer:
    """A trainer on the CPU that writes and prints nothing."""
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    fixed = {"accelerator": "cpu", "enable_model_summary": False, "use_distributed_sampler": False}
    return pl.Trainer(**{**fixed, **quiet, **options})


def fit(
    module: pl.LightningModule, data: pl.LightningDataModule, epochs: int = 3, *, seed: int = 0, **options: Any
) -> pl.Trainer:
    """Train without files; returns the trainer."""
    pl.seed_everything(seed, verbose=False)
    once = {"max_epochs": epochs, "num_sanity_val_steps": 1, "callbacks": [RandomState()]}
    trainer = quiet_trainer(**{**once, **options})
    trainer.fit(module, datamodule=data)
    return trainer


def losses_and_gradients(rank: int, world: int, folder: Path, encoder: Path) -> None:
    """Loss and encoder gradients of a batch of labels and one of paraphrases, of which each process has its share.

    Gradients are averaged over the processes, as distributed strategies do, and the result is saved in ``folder``.
    """
    import torch
    from torch import distributed

    from textmover.modules import MetricConfig, MetricModel
    from textmover.training.tasks.classification import ClassificationTask
    from textmover.training.tasks.paraphrases import ContrastiveTask

    torch.set_num_threads(1)
    if world > 1:
        meeting = f"file://{folder / 'meeting'}"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    metric = MetricModel.from_config(MetricConfig(encoder=str(encoder), temperature=0.1)).eval()
    labels = pairs(folder / "pairs.tsv")
    found = []
    for data in (labels, paraphrases(folder / "same.tsv", negatives=2)):
        data.setup()
        (source,) = data.sources.values()
        torch.manual_seed(0)
        weights = {"neutral": 3.0}
        task = ClassificationTask(source, metric, class_weights=weights) if data is labels else ContrastiveTask(source)
        places = list(range(7))[rank::world]
        task.eval()
        loss = task.loss(metric, source.collate([source.items[at] for at in places], places, 7, metric.tokenize))
        metric.zero_grad()
        loss.backward()
        gradients = [one.grad for one in metric.encoder.parameters()]
        for gradient in gradients if world > 1 else ():
            distributed.all_reduce(gradient)
            gradient /= world
        found += [loss.detach(), *gradients]
    torch.save(found, folder / f"found{rank}of{world}.pt")
    if world > 1:
        distributed.destroy_process_group()


TAGGED = ["the", "dog", "small", "old", "she", "book", "tea", "warm", "water", "house", "street", "red"]
WRONG = ["seven", "blue"]


def write_tags(path, n: int, seed: int = 0):
    """Texts in which one of two words is always wrong, and a word of the reference is lost now and then."""
    draw = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["hypothesis", "reference", "hypothesis_tokens", "tags"])
        for _ in range(n):
            reference = draw.sample(TAGGED, 6)
            hypothesis, tags = list(reference), ["OK"] * 13
            if draw.random() < 0.7:
                place = draw.randrange(6)
                hypothesis[place], tags[2 * place + 1] = draw.choice(WRONG), "BAD"
            if draw.random() < 0.5:
                place = draw.randrange(1, 5)
                if tags[2 * place + 1] == "OK":
                    del hypothesis[place], tags[2 * place + 1 : 2 * place + 3]
                    tags[2 * place] = "BAD"
            writer.writerow([" ".join(hypothesis), " ".join(reference), " ".join(hypothesis), " ".join(tags)])
    return path
