"""Helpers lie beside the tests; an encoder without dropout, and trainings in processes of their own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def steady_encoder(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """The tiny encoder without dropout, whose masks would differ with the number of processes."""
    from transformers import AutoModel

    folder = tmp_path_factory.mktemp("steady") / "encoder"
    folder.mkdir()
    for path in tiny_encoder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    assert AutoModel.from_pretrained(folder).config.hidden_dropout_prob == 0
    return folder


@pytest.fixture
def train_py(programs: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def train(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [programs / "python", "train.py", *arguments]
        root = Path(__file__).parents[2]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=240)

    return train
