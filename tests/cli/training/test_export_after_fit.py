"""The best weights are found where a run began, and where it was moved to; judged where it was trained."""

from types import SimpleNamespace

import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from textmover.training import export_after_fit
from textmover.training.export_after_fit import ExportOptions, _load_best, finish_run
from textmover.types import InputError


def trainer(dirpath, best):
    watcher = ModelCheckpoint(dirpath=dirpath, monitor="held-back/pearson")
    watcher.best_model_path = str(best)
    return SimpleNamespace(callbacks=[watcher])


@pytest.mark.parametrize("moved", [False, True])
def test_the_best_weights_are_taken_also_of_a_run_that_was_moved(tmp_path, moved):
    begun, now = tmp_path / "begun", tmp_path / "now"
    place = now if moved else begun
    place.mkdir()
    torch.save({"state_dict": {"weight": torch.ones(1, 2), "bias": torch.ones(1)}}, place / "best.ckpt")
    module = torch.nn.Linear(2, 1)
    _load_best(module, trainer(now, begun / "best.ckpt"))
    assert module.weight.tolist() == [[1.0, 1.0]]


def test_best_weights_that_are_gone_are_told(tmp_path):
    with pytest.raises(InputError, match=r"begun/best.ckpt, but there is no such file"):
        _load_best(torch.nn.Linear(2, 1), trainer(tmp_path, tmp_path / "begun" / "best.ckpt"))


def test_nothing_was_watched():
    module = torch.nn.Linear(2, 1)
    before = module.weight.clone()
    _load_best(module, SimpleNamespace(callbacks=[ModelCheckpoint(monitor="loss"), ModelCheckpoint()]))
    assert torch.equal(module.weight, before)


def test_the_metric_is_judged_on_the_device_that_it_was_trained_on(monkeypatch):
    """A trainer takes its module back to the processor, where a large encoder takes minutes to be judged."""
    module, judged = torch.nn.Linear(2, 1), []
    module.finish = module.eval
    strategy = SimpleNamespace(root_device=torch.device("meta"), checkpoint_io=None)
    trained = SimpleNamespace(callbacks=[], checkpoint_callbacks=[], strategy=strategy)

    def judge(one, data):
        judged.append(one.weight.device.type)
        return SimpleNamespace(tables=list)

    monkeypatch.setattr(export_after_fit, "judge", judge)
    finish_run(module, SimpleNamespace(notices=[]), trained, ExportOptions(None, None, 0.0), "")
    assert judged == ["meta"]
