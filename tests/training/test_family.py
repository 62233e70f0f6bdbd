"""The quickstart recipe: it improves every member of the family, and learns nothing from shuffled ratings."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import yaml
from labelled_runs import quiet_trainer

from textmover.data.datamodule import RatingsDataModule
from textmover.readers.segments import Columns
from textmover.training.modules import RatingsModule
from textmover.training.optimization import OptimizerConfig
from textmover.training.reports.fit_report import judge

ROOT = Path(__file__).parents[2]
RECIPE = yaml.safe_load((ROOT / "configs/quickstart.yaml").read_text())
GIVEN = RECIPE["data"]["init_args"]


def trained_on(train: Path, epochs: int, **changes: Any) -> tuple[RatingsModule, RatingsDataModule]:
    """A module after training by the recipe, with changes, on a file; and its data."""
    own = RECIPE["model"]["init_args"]
    pl.seed_everything(RECIPE["seed_everything"], verbose=False)
    module = RatingsModule(**{**own, "optimizer": OptimizerConfig(**own["optimizer"]), **changes})
    columns = Columns(**{**GIVEN["columns"], "groups": ("perturbation",)})
    data = RatingsDataModule(**{**GIVEN, "train": [str(train)], "columns": columns})
    quiet_trainer(max_epochs=epochs, limit_val_batches=0).fit(module, datamodule=data)
    return module, data


@pytest.mark.long
@pytest.mark.parametrize(
    ("preset", "overrides"),
    [("twmd", {"temperature": 0.1}), ("lazy-emd-en", {}), ("wmd", {"centering": "corpus"})],
)
def test_one_epoch_of_the_quickstart_improves_every_member(embedded: Path, preset: str, overrides: dict) -> None:
    trained, data = trained_on(ROOT / GIVEN["train"][0], 1, metric=preset, overrides=overrides)
    assert trained.metric.higher_is_better
    if preset.startswith("lazy"):
        assert trained.metric.calibration.scale < 0  # of a distance
    for part in judge(trained, data).parts:
        gain = part.gains["pearson"]
        assert gain.before > 0, (part.name, gain)  # distances are judged the right way round
        assert gain.low > 0.02, (part.name, gain)


@pytest.mark.long
def test_the_quickstart_recipe_does_not_improve_on_shuffled_ratings(embedded: Path, tmp_path: Path) -> None:
    """The recipe as it is, on its own file; only which rating belongs to which row is left to a fixed seed."""
    header, *rows = [line.split("\t") for line in (ROOT / GIVEN["train"][0]).read_text("utf-8").splitlines()]
    place = header.index("score")
    ratings = [row[place] for row in rows]
    random.Random(0).shuffle(ratings)
    shuffled = [[*row[:place], rating, *row[place + 1 :]] for row, rating in zip(rows, ratings, strict=True)]
    path = tmp_path / "shuffled.tsv"
    path.write_text("\n".join("\t".join(row) for row in [header, *shuffled]) + "\n", "utf-8")
    trained, data = trained_on(path, RECIPE["trainer"]["max_epochs"])
    for part in judge(trained, data).parts:
        gain = part.gains["pearson"]
        assert gain.low <= 0, (part.name, gain)
        assert abs(gain.after) < 0.2, (part.name, gain)

    # Against the true ratings of the same rows: what fine-tuning on noise alone does. True ratings bring +.23 there.
    true = {(row[0], row[1]): float(row[place]) for row in rows}
    assert header[:2] == ["reference", "hypothesis"]
    for name, part in data.parts.items():
        data.parts[name] = [replace(one, score=true[one.references[0], one.hypothesis]) for one in part]
    for part in judge(trained, data).parts:
        gain = part.gains["pearson"]
        assert gain.estimate < 0.02, (part.name, gain)
