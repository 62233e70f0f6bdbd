"""Members of the family beside TWMD learn from ratings too: exact and lazy transport, and a distance as such."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import yaml

from textmover.data.datamodule import RatingsDataModule
from textmover.readers.segments import Columns
from textmover.training.modules import RatingsModule
from textmover.training.optimization import OptimizerConfig
from textmover.training.reports.agreement import judge

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("preset", "overrides"),
    [("twmd", {"temperature": 0.1}), ("lazy-emd-en", {}), ("wmd", {"centering": "corpus"})],
)
def test_one_epoch_of_the_quickstart_improves_every_member(embedded: Path, preset: str, overrides: dict) -> None:
    settings = yaml.safe_load((ROOT / "configs/quickstart.yaml").read_text())
    recipe, given = settings["model"]["init_args"], settings["data"]["init_args"]
    pl.seed_everything(settings["seed_everything"], verbose=False)
    trained = RatingsModule(
        **{
            **recipe,
            "metric": preset,
            "overrides": overrides,
            "optimizer": OptimizerConfig(**recipe["optimizer"]),
        }
    )
    train = [str(ROOT / name) for name in given["train"]]
    columns = Columns(**{**given["columns"], "groups": ("perturbation",)})
    data = RatingsDataModule(**{**given, "train": train, "columns": columns})
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )
    trainer.fit(trained, datamodule=data)
    assert trained.metric.higher_is_better
    if preset.startswith("lazy"):
        assert trained.metric.calibration.scale < 0  # of a distance
    for part in judge(trained, data).parts:
        gain = part.gains["pearson"]
        assert gain.before > 0, (part.name, gain)  # distances are judged the right way round
        assert gain.low > 0.02, (part.name, gain)
