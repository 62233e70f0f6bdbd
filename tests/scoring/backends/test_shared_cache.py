"""One cache for several processes and for several versions of a back-end."""

import os
import subprocess
import sys
import time

import pytest

from textmover.scoring.backends import artefacts as tidying
from textmover.scoring.backends import names
from textmover.scoring.backends.artefacts import RECORD


def test_old_versions_are_bounded_and_those_in_use_stay(tmp_path):
    day = 24 * 3600
    ages = {"openvino-1-exact": 9, "openvino-2-exact": 8, "openvino-exact": 7, "openvino-3-exact": 6}
    ages |= {"openvino-1-int8": 90, "onnxruntime-1-exact": 90}
    for name, days in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / RECORD).touch()
        os.utime(tmp_path / name / RECORD, (time.time() - days * day,) * 2)
    tidying.used(tmp_path / "openvino-1-exact" / RECORD)
    tidying.bound_versions(tmp_path / "openvino-4-exact", "openvino-*exact")
    assert {one.name for one in tmp_path.iterdir()} == set(ages) - {"openvino-2-exact", "openvino-exact"}
    for name in ages:
        if (tmp_path / name).is_dir():
            tidying.used(tmp_path / name / RECORD)
    (tmp_path / "openvino-5-exact").mkdir()
    (tmp_path / "openvino-5-exact" / RECORD).touch()
    tidying.bound_versions(tmp_path / "openvino-4-exact", "openvino-*exact")
    assert len(list(tmp_path.glob("openvino-*-exact"))) == 3, "all of them have been opened today"


AT_ONCE = """
import sys, time
from pathlib import Path
from textmover import Scorer
from textmover.scoring.backends import preparation

encoder, here, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
fill = preparation._fill
preparation._fill = lambda *given: ((here / f"made by {name}").touch(), fill(*given))[1]
(here / f"ready {name}").touch()
while not (here / "go").exists():
    time.sleep(0.01)
scores = Scorer.from_pretrained("twmd", encoder=encoder, device="cpu", backend="openvino").score(["a cat"], ["the dog"])
print(scores.scores.tobytes().hex(), scores.signature.entries["backend"])
"""


@pytest.mark.long
def test_two_processes_at_once_make_one_artefact(tiny_encoder, real_backends, tmp_path):
    """Each says that it takes a while, since both wait; in Python as nobody has set up its logging."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, str(tiny_encoder), str(tmp_path), name],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("a", "b")
    ]  # fmt: skip
    try:
        while len(list(tmp_path.glob("ready *"))) < 2:
            assert all(one.poll() is None for one in running)
            time.sleep(0.01)
        (tmp_path / "go").touch()
        outputs = [one.communicate(timeout=120) for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()
    (first, told), (second, also_told) = outputs
    assert first == second
    assert first.endswith(f" openvino-{names.version('openvino')}\n")
    assert len(list(tmp_path.glob("made by *"))) == 1
    (folder,) = (tmp_path / "cache" / "textmover" / "backends").glob("*/*/")
    assert folder.name == f"openvino-{names.version('openvino')}-exact"
    for line in (told, also_told):
        assert line.startswith("Preparing backend openvino (exact) for this encoder, once: this takes about ten")
        assert line.count("\n") == 1
