"""Importing the package costs nothing, and tests cannot reach the network; how files import is in test_house.py."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "textmover"
PACKAGE = "textmover"


def test_importing_the_package_loads_the_standard_library_only():
    code = (
        "import json, sys; before = set(sys.modules); import textmover; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    loaded = set(json.loads(ran.stdout))
    assert not loaded & {"torch", "transformers", "numpy", "scipy"}
    assert loaded - set(sys.stdlib_module_names) == {PACKAGE}


@pytest.mark.parametrize("module", ["modules", "presets", "rome", "types"])
def test_configurations_are_read_without_torch(module):
    code = f"import sys, textmover.{module}; print({{'torch', 'transformers', 'scipy'}} & set(sys.modules) or 'none')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("none\n", "")


# --- the fence around the tests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org"])
def test_a_connection_to_elsewhere_is_refused_and_noted(network_attempts, host):
    with pytest.raises(OSError, match="Expected tests to stay on this computer"):
        socket.create_connection((host, 80), timeout=1)
    assert network_attempts
    assert host in network_attempts[0]
    network_attempts.clear()  # this one was on purpose


def test_a_connection_to_this_computer_is_open(network_attempts):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("localhost", port), timeout=5):
            pass
    assert network_attempts == []


def test_shapes_and_dtypes_of_the_kernels_are_checked():
    import torch

    from textmover.functional import mean_cosine

    with pytest.raises(TypeError, match="similarity"):
        mean_cosine(torch.zeros(2, 3, 4), torch.zeros(2, 5), torch.zeros(2, 4))
    with pytest.raises(TypeError, match="similarity"):
        mean_cosine(torch.zeros(2, 3, 4, dtype=torch.long), torch.zeros(2, 3), torch.zeros(2, 4))


# --- the tiny encoder -------------------------------------------------------------------------------------------------


def test_the_tiny_encoder_loads_offline_and_is_the_same_everywhere(tiny_encoder):
    import torch
    from transformers import AutoModel, AutoTokenizer

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in tiny_encoder.iterdir()}
    model, tokenizer = AutoModel.from_pretrained(tiny_encoder), AutoTokenizer.from_pretrained(tiny_encoder)
    model.eval()
    batch = tokenizer(["The cat sat, reading!", "dog"], padding=True, return_tensors="pt")
    pieces = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    assert pieces == ["[CLS]", "the", "cat", "s", "##a", "##t", ",", "read", "##ing", "!", "[SEP]"]
    assert "[UNK]" not in tokenizer.tokenize("Zwölf ~ Quarks @ $3.50 {x}")
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    assert len(states) == 4
    assert states[0].shape == (2, 11, 32)
