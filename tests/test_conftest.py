"""What is collected, and in which order."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
Source = pytest.Config.ArgsSource


@pytest.fixture
def shared(pytestconfig):
    """The module with what all tests share."""
    return pytestconfig.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))


@pytest.mark.parametrize(
    ("marks", "source", "passed_over"),
    [
        ("slow", Source.TESTPATHS, True),
        ("long", Source.TESTPATHS, True),
        ("slow", Source.ARGS, False),  # who names a file has it collected
        ("slow and long", Source.TESTPATHS, False),
        ("not slow and not long", Source.TESTPATHS, False),
    ],
)
def test_files_without_the_mark_are_passed_over(shared, tmp_path, marks, source, passed_over):
    config = SimpleNamespace(option=SimpleNamespace(markexpr=marks), args_source=source)
    (tmp_path / "test_with.py").write_text("@pytest.mark.slow\n@pytest.mark.long\ndef test_x(): ...\n")
    (tmp_path / "test_without.py").write_text("def test_x(): ...\n")
    (tmp_path / "conftest.py").touch()
    found = {path.name: bool(shared.pytest_ignore_collect(path, config)) for path in tmp_path.iterdir()}
    assert found == {"test_with.py": False, "test_without.py": passed_over, "conftest.py": False}


def test_the_longest_tests_begin_first_and_exist(shared):
    items = [SimpleNamespace(name=name) for name in ("test_a", "test_a_whole_round", "test_b", shared.LONGEST[0])]
    shared.pytest_collection_modifyitems(items)
    assert [one.name for one in items] == [shared.LONGEST[0], "test_a_whole_round", "test_a", "test_b"]
    texts = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in shared.LONGEST if f"def {name.partition('[')[0]}(" not in texts] == []


def test_what_a_machine_may_lack_is_an_allowed_reason_to_skip():
    allowed = (ROOT / "tests" / "allowed_skips.txt").read_text(encoding="utf-8").splitlines()
    texts = [one.read_text(encoding="utf-8") for one in (ROOT / "tests").rglob("*.py")]
    reasons = {reason for text in texts for reason in re.findall(r'(?:pytest\.skip\(|reason=)"(needs [^"]+)"', text)}
    of_the_extra_dev = {reason for reason in reasons if re.search(r"'textmover\[(embedded|search|wandb)\]'", reason)}
    assert reasons - of_the_extra_dev - set(allowed) == set()
