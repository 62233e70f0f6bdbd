import contextlib
import json
import os
import pickle
from collections import OrderedDict

import pytest
import torch
from torch import nn

from textmover.rome.convert import main
from textmover.rome.scorer.network import read_official
from textmover.types import InputError


class Net(nn.Module):
    """The authors' layers."""

    def __init__(self):
        super().__init__()
        self.hid1, self.hid2, self.out = nn.Linear(3, 30), nn.Linear(30, 20), nn.Linear(20, 1)
        self.drop, self.seen = nn.Dropout(0.2), {"epochs"}

    def forward(self, x):
        return torch.sigmoid(self.out(torch.relu(self.hid2(self.drop(self.hid1(x))))))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(params=["module", "weights", "legacy", "json"])
def file(request, net, tmp_path):
    path = tmp_path / "network"
    if request.param == "json":
        path.write_text(json.dumps({name: one.tolist() for name, one in net.state_dict().items()}))
    else:
        saved = net if request.param == "module" else net.state_dict()
        torch.save(saved, path, _use_new_zipfile_serialization=request.param != "legacy")
    return path


def test_scores_are_those_of_the_authors_network(net, file):
    given = torch.rand(50, 3)
    assert torch.allclose(read_official(file)(given), net(given)[:, 0], atol=1e-6)


def test_the_published_network(shared_folder):
    file = shared_folder / "data" / "rome_official" / "scorer_nn_weights.json"
    given = torch.tensor(
        [[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.9, 0.6, 0.8], [0.1, 0.6, 0.8]], dtype=torch.float32
    )
    expected = [0.0032, 0.7828, 0.7509, 0.0243, 0.0384, 0.7281, 0.1406]
    assert read_official(file)(given).tolist() == pytest.approx(expected, abs=6e-5)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_in_a_file_is_run(tmp_path, net, zipped):
    content = OrderedDict(x=Bomb(tmp_path / "bang"), **net.state_dict())
    torch.save(content, tmp_path / "network", _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match="but got a damaged file or objects that are no tensors"):
        read_official(tmp_path / "network")
    assert not (tmp_path / "bang").exists()
    torch.load(tmp_path / "network", weights_only=False)
    assert (tmp_path / "bang").exists()  # it would have been


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_torchscript_is_refused_and_not_run(tmp_path, net, suffix, monkeypatch, capsys):
    path = tmp_path / f"network{suffix}"
    torch.jit.script(net).save(str(path))
    monkeypatch.setattr(torch.jit, "load", lambda *_, **__: pytest.fail("TorchScript was run"))
    with pytest.raises(InputError, match="but got TorchScript, which is code: save the weights"):
        read_official(path)
    assert main([str(path), "--output", str(tmp_path / "out.json")]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert not (tmp_path / "out.json").exists()


DAMAGED = "RoMe's authors .* but got a damaged file or objects that are no tensors: save"
OTHERS = (b"", b"text", b"PK\x03\x04 nothing", b"[1, 2]", b'{"hid1.weight": [[1, 2], [3]]}', pickle.dumps({"a": 3}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((content, DAMAGED) for content in OTHERS),
        (b'{"hid1.weight": ', "network to be JSON, but got 'Expecting value' in line 1"),
        (b'{"hid1.weight": [[1, 2, 3]]}', r"to hold hid1.weight of shape \[30, 3\], but got \[1, 3\]"),
    ],
)
def test_other_files_are_refused(content, message, tmp_path):
    (tmp_path / "network").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_official(tmp_path / "network")
    assert str(caught.value).count("Expected") == 1


@pytest.mark.parametrize("zipped", [True, False])
def test_a_module_is_read_from_a_zip_archive_alone(tmp_path, net, zipped):
    torch.save(net, tmp_path / "network", _use_new_zipfile_serialization=zipped)
    with contextlib.nullcontext() if zipped else pytest.raises(InputError, match="save the weights again"):
        read_official(tmp_path / "network")


def test_a_flipped_bit_is_refused(tmp_path, net):
    torch.save(net.state_dict(), tmp_path / "network")
    damaged = bytearray((tmp_path / "network").read_bytes())
    damaged[damaged.index(net.hid2.weight.detach().numpy().tobytes()) + 3] ^= 64
    (tmp_path / "network").write_bytes(damaged)
    with pytest.raises(InputError, match="but got a damaged file"):
        read_official(tmp_path / "network")


def test_other_layers_are_refused_and_a_file_that_is_missing(tmp_path):
    torch.save(nn.Linear(3, 1), tmp_path / "network")
    with pytest.raises(InputError, match=r"to hold hid1.weight of shape \[30, 3\], but got none"):
        read_official(tmp_path / "network")
    with pytest.raises(InputError, match="but there is no file"):
        read_official(tmp_path / "missing")
