"""`textmover app`: what is refused before anything is served."""

import json
import re
import socket
from pathlib import Path

import pytest

import textmover


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.json"
    path.write_text(json.dumps([{"id": "a", "hypothesis": "a", "reference": "b"}]))
    return path


def test_a_port_in_use(refused, items):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("app", "--port", port, "--no-browser")
    assert said == (
        f"textmover: Expected port {port} to be free, but another program uses it: choose another one with --port, or "
        "any that is free with --port 0.\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["missing"], "Expected a folder, but got missing"),
        (["items.json"], "Expected a folder, but got items.json"),
        ([".", "--items", "broken.json"], "broken.json"),
        ([".", "--items", "none.json"], "file of texts at none.json"),
        ([".", "--items", "../outside.json"], "outside of which nothing is read"),
        ([".", "--scale", "3-1"], "low before high"),
        ([".", "--scale", "x"], "a scale such as 1-3"),
        ([".", "--criteria", "fluency", "fluency"], "twice"),
        ([".", "--errors", "both"], "--errors"),
        ([".", "--errors", "only", "--criteria", "fluency"], "`--errors only` or `--criteria`, but got both"),
        ([".", "--suggest", "twmd"], "`--errors also` or `--errors only` with `--suggest`"),
        ([".", "--port", "0", "--errors", "only", "--suggest", "no/such/metric"], "no/such/metric"),
        ([".", "--annotator", "a\x00b"], "control characters"),
        ([".", "--hypothesis-column", "text"], "--hypothesis-column"),
        ([".", "--reference-column", "gold"], "--reference-column"),
        ([".", "--port", "70000"], "0 to 65535"),
        ([".", "--host", "999.9.9.9"], "address of this computer"),
        ([".", "--port", "0", "--model", "no/such/metric"], "no/such/metric"),
        ([".", "--port", "0", "--device", "abacus"], "that this machine has, but got 'abacus'"),
    ],
)
def test_refused(refused, items, options, message):
    (items.parent.parent / "outside.json").write_text("[]")
    if "broken.json" in options:  # whatever is chosen reads all texts of the folder
        (items.parent / "broken.json").write_text("[{")
    assert message in refused("app", *options, "--no-browser")


def test_gradio_is_not_loaded_before_it_is_needed():
    needing = re.compile(r"^(import gradio|from textmover\.app\.(interface|annotate_tab) import)", re.MULTILINE)
    source = Path(textmover.__file__).parent
    found = {path.name for path in source.rglob("*.py") if needing.search(path.read_text(encoding="utf-8"))}
    assert found == {"interface.py", "annotate_tab.py"}
