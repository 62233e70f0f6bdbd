"""What is collected, and in which order."""

import re
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

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


def test_a_file_goes_to_one_worker_and_what_converts_encoders_too(shared):
    commands = "tests/docs/test_blocks.py::test_commands[docs/app.md]"
    tests = {
        "tests/test_house.py::test_no_figure_rises[lines]": "tests/test_house.py",
        "tests/scoring/backends/test_runners.py::test_texts_of_any_length[2]": "back-ends",
        "tests/scoring/test_forking.py::test_x": "back-ends",
        "tests/docs/test_blocks.py::test_python[docs/app.md]": "programs",
        commands: commands,
        "src/textmover/files.py::textmover.files": "src/textmover/files.py",
    }
    assert {test: shared.unit_of(test) for test in tests} == tests
    needs = re.compile(r"(def \w+|run)\(.*\b(programs|commands|serve|in_two_processes)\b")
    assert [one for one in shared.SERVED if not needs.search((ROOT / one).read_text(encoding="utf-8"))] == []


def test_the_tests_of_a_file_are_sent_to_one_worker(shared):
    """Otherwise what they share is made by every worker, and nothing says so."""
    option = SimpleNamespace(dist="loadfile")
    config = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * 2)
    scheduler = shared.pytest_xdist_make_scheduler(config, None)
    files = ("tests/test_house.py", "tests/scoring/test_forking.py", "tests/test_files.py", "tests/cli/test_mpnet.py")
    tests = [f"{file}::test_{number}" for file in files for number in range(3)]
    nodes = [Mock(shutting_down=False), Mock(shutting_down=False)]
    for node in nodes:
        scheduler.add_node(node)
    for node in nodes:
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    sent = [[call.args[0] for call in node.send_runtest_some.call_args_list] for node in nodes]
    assert sent == [[[0, 1, 2]], [[3, 4, 5, 9, 10, 11]]]  # the third file waits
    option.dist = "load"
    assert shared.pytest_xdist_make_scheduler(config, None) is None


def test_what_a_machine_may_lack_is_an_allowed_reason_to_skip():
    allowed = (ROOT / "tests" / "allowed_skips.txt").read_text(encoding="utf-8").splitlines()
    texts = [one.read_text(encoding="utf-8") for one in (ROOT / "tests").rglob("*.py")]
    reasons = {reason for text in texts for reason in re.findall(r'(?:pytest\.skip\(|reason=)"(needs [^"]+)"', text)}
    of_the_extra_dev = {reason for reason in reasons if re.search(r"'textmover\[(embedded|search|wandb)\]'", reason)}
    assert reasons - of_the_extra_dev - set(allowed) == set()
