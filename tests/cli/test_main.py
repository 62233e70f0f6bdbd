import io
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from textmover import __version__
from textmover.cli import main as main_module
from textmover.cli.options.help_files import SingleOption, examples, repeated_option
from textmover.files import atomic_file, check_output
from textmover.modules.devices import log_device
from textmover.presets import PRESETS
from textmover.runs.exit_codes_and_signals import exit_code_context
from textmover.types import BOUNDS, InputError

HELP_OF_ALL = """
import contextlib, io, json, sys
from textmover.cli.main import COMMANDS, main
found = {}
for command in ("", *COMMANDS):
    for flag in ("--help", "-h", "--help-all"):
        if (command, flag) not in (("", "--help-all"), ("train", "--help-all")):  # of Lightning
            with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
                main([command, flag] if command else [flag])
            heavy = {"torch", "numpy", "scipy", "transformers", "pytorch_lightning", "yaml"} & set(sys.modules)
            assert not heavy, (command, flag, heavy)
            found[f"{command} {flag}"] = text.getvalue()
print(json.dumps(found))
"""


@pytest.mark.parametrize(("columns", "most"), [(80, 60), (100, 50)])
def test_help_fits_one_screen_and_loads_no_package(columns, most):
    how = {"capture_output": True, "text": True, "check": False, "env": {**os.environ, "COLUMNS": str(columns)}}
    ended = subprocess.run([sys.executable, "-c", HELP_OF_ALL], **how)
    assert ended.returncode == 0, ended.stderr
    texts = json.loads(ended.stdout)
    for name in main_module.COMMANDS:
        assert re.search(rf"^ +{name}\s", texts[" --help"], flags=re.MULTILINE)
    sizes = {name: text.count("\n") for name, text in texts.items() if not name.endswith("--help-all")}
    assert {name: size for name, size in sizes.items() if not 5 < size <= most} == {}
    wide = {(name, line) for name, text in texts.items() for line in text.splitlines() if len(line) > columns}
    assert wide == set()
    assert all(texts[f"{name} -h"] == texts[f"{name} --help"] for name in main_module.COMMANDS)
    assert "--trials" in texts["compare --help-all"]
    assert "--trials" not in texts["compare --help"]
    ended = ran("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"textmover {__version__}\n", "")


@pytest.mark.parametrize(
    ("command", "option", "choices"),
    [
        ("score", "--format", "textmover.runs.shards.score_formats:FORMATS"),
        ("score", "--precision", "textmover.scoring.precision_and_backend:Precision"),
        ("score", "--backend", "textmover.scoring.backends.names:BACKENDS"),
        ("score", "--on-error", "textmover.readers.row_streams:OnError"),
        ("score", "--missing-references", "textmover.readers.row_streams:MissingReferences"),
        ("explain", "--format", "textmover.report.explanation.output:FORMATS"),
        ("errors", "--format", "textmover.report.error_spans:FORMATS"),
        ("errors", "--fail-on", "textmover.types:SEVERITIES"),
        ("compare", "--format", "textmover.cli.commands.compare:SUFFIXES"),
        ("rank", "--format", "textmover.cli.commands.rank:SUFFIXES"),
        ("rank", "--test", "textmover.meta_evaluation.systems.ranking:RankTest"),
        ("mbr", "--format", "textmover.runs.mbr_output:FORMATS"),
        ("evaluate", "--baselines", "textmover.scoring.lexical:LEXICAL"),
        ("evaluate", "--statistic", "textmover.meta_evaluation:STATISTICS"),
        ("evaluate", "--level", "textmover.meta_evaluation:LEVELS"),
        ("robustness", "--baselines", "textmover.scoring.lexical:LEXICAL"),
        ("robustness", "--format", "textmover.report.table_formats:PAGE_FORMATS"),
        ("analyse-layers", "--centering", "textmover.experiments.anisotropy:CENTERINGS"),
        ("export", "--backend", "textmover.scoring.backends.names:EXPORTED"),
    ],
)
def test_choices_are_those_of_the_code(command, option, choices):
    found = pkgutil.resolve_name(choices)
    suffixes = isinstance(found, dict) and next(iter(found)).startswith(".")
    known = set(found.values() if suffixes else get_args(found) or found)
    shown = set(parser_of(command)._option_string_actions[option].choices)
    assert shown - {"text", "table"} == known - {"text", "table"}


def parser_of(command):
    return main_module._parser(command)._subparsers._group_actions[0].choices[command]


def test_no_parser_expands_shortened_options():
    assert not any(parser_of(command).allow_abbrev for command in main_module.COMMANDS)
    made = [
        path
        for path in Path(main_module.__file__).parents[1].rglob("*.py")
        if "argparse.ArgumentParser(\n" in path.read_text()
    ]
    assert made
    assert all("allow_abbrev=False" in path.read_text() for path in made)


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--config", "x.yaml"], ["fit", "--config", "x.yaml"]),
        (["fit", "--config", "x.yaml"], ["fit", "--config", "x.yaml"]),
        (["validate", "--config", "x.yaml"], ["validate", "--config", "x.yaml"]),
        (["--help-all"], ["fit", "--help"]),
        ([], []),
    ],
)
def test_train_passes_the_rest_on_and_means_fit(monkeypatch, given, passed):
    from textmover.cli.training import train

    seen = []
    monkeypatch.setattr(train, "main", lambda arguments: seen.append(arguments) or 0)
    assert main_module.main(["train", *given]) == 0
    assert seen == [passed]


def test_libraries_that_print_their_messages_print_them_once():
    code = (
        "import logging, sys\n"
        "from textmover.runs.exit_codes_and_signals import set_up_logging\n"
        "set_up_logging()\n"
        "logging.getLogger('hub').addHandler(logging.StreamHandler())\n"
        "logging.getLogger('hub.http').warning('again')\n"
        "logging.getLogger('other').warning('as it is')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == "again\nas it is\n"


@pytest.mark.parametrize(("device", "quiet"), [("cuda:0", []), ("mps", []), ("cuda:0", ["--quiet"]), ("cpu", [])])
@pytest.mark.parametrize("command", ["score", "evaluate"])
def test_another_device_than_the_processor_is_said_once(
    run, texts, write, tiny_encoder, monkeypatch, device, quiet, command
):
    from textmover.scoring import scorer

    def twice(name: str, _: object) -> None:
        for _ in range(2):
            log_device(name, device)

    monkeypatch.setattr(scorer, "log_device", twice)
    write("t.tsv", ["hypothesis\treference\tscore", *(f"a {n}\ta dog\t{n}" for n in range(4))])
    given = {"score": ["-i", *texts], "evaluate": ["--data", "t.tsv", "--samples", 20]}[command]
    ended = run(command, *given, "--model", "twmd", "--encoder", tiny_encoder, *quiet).ok()
    said = [] if quiet or device == "cpu" else [f"twmd computes on {device}."]
    assert [line for line in ended.err.splitlines() if "computes on" in line] == said


@pytest.mark.parametrize(("option", "code"), [((), 0), (("--fail-on", "major"), 2)])
def test_a_reader_that_stops_does_not_pass_a_check(monkeypatch, capsys, option, code):
    from textmover.cli.commands import errors

    def stopped(_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(errors, "run", stopped)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert main_module.main(["errors", "a cat", "a dog", *option]) == code
    assert ("its reader stopped" in capsys.readouterr().err) is (code == 2)


def ran(command: str, **how: object) -> subprocess.CompletedProcess:
    how = {"capture_output": True, **how}
    return subprocess.run(f"{sys.executable} -m textmover {command}", shell=True, text=True, check=False, **how)


@pytest.mark.slow
def test_pipes_whose_reader_stops_and_json_of_a_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    ended = ran("list", capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")
    ended = ran("list --format json")
    assert ended.stderr == ""
    assert json.loads(ended.stdout)[-1]["name"] == list(PRESETS)[-1]


def test_a_closed_output_is_one_line_and_nobody_is_told_where_nobody_listens():
    ended = ran("list >&-")
    said = "textmover: standard output: it is closed, so that nothing can be written there\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", said)
    ended = ran("list --nothing 2>&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")


def test_unusable_input_is_one_line_and_a_defect_keeps_its_traceback(capsys):
    with exit_code_context() as outcome:
        raise InputError("Expected one\nbut got two.")
    assert outcome.code == 2
    assert capsys.readouterr().err == "textmover: Expected one but got two.\n"
    with pytest.raises(ValueError, match="a defect"), exit_code_context():
        raise ValueError("a defect")
    with exit_code_context() as outcome:
        raise FileNotFoundError(2, "No such file or directory", "gone.txt")
    assert outcome.code == 2
    assert capsys.readouterr().err == "textmover: gone.txt: No such file or directory\n"


def test_every_field_of_the_configuration_is_a_flag_that_is_explained(run):
    from dataclasses import fields

    from textmover.modules.config import MetricConfig
    from textmover.scoring.metric_field_options import field_flag

    text, usual = run("score", "--help-metric").out, run("score", "--help").out
    for entry in fields(MetricConfig):
        if entry.name not in ("kind", "revision"):
            assert re.search(rf"^  {field_flag(entry.name)} \S+\s+\S", text, flags=re.MULTILINE), entry.name
            assert entry.name == "encoder" or f"  {field_flag(entry.name)} " not in usual


@pytest.mark.parametrize(
    ("work", "unneeded"),
    [
        (
            "import textmover.cli.commands.score, textmover.cli.commands.mbr",
            "scipy pandas matplotlib pytorch_lightning",
        ),
        (
            "from textmover.cli.main import main; main(['list']), main(['data', 'list']), main(['perturb', '-i', '-'])",
            "scipy pandas torch transformers",
        ),
    ],
)
def test_commands_wait_for_no_packages_that_they_do_not_need(work, unneeded):
    code = f"import sys; {work}\nassert not {set(unneeded.split())} & set(sys.modules)"
    given = {"input": "The old cat sat on 12 mats.\n", "capture_output": True, "text": True}
    ran = subprocess.run([sys.executable, "-c", code], **given, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("command", [name for name in main_module.COMMANDS if name != "train"])
def test_the_help_of_a_command_opens_with_what_it_is_for_and_examples_that_parse(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    text = parser_of(command).format_help().splitlines()
    assert text[:5] == [f"usage: textmover {command} [options]", "", text[2], "", "examples:"]
    assert max(map(len, text)) <= 110
    given = examples(command)
    assert text[5 : 5 + len(given)] == [f"  {example}" for example in given]
    for example in given:
        options = main_module._parser(command).parse_args(shlex.split(example)[1:])
        assert options.command == command


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        (["--temperature", "1e-2"], {"temperature": 0.01}),
        (["--temperature", "1"], {"temperature": 1}),
        (["--layer", "-2"], {"layer": -2}),
        (["--layer", "null", "--tolerance", "1e-4"], {"layer": None, "tolerance": 1e-4}),
        (["--normalize", "false"], {"normalize": False}),
        (["--hypothesis-penalty", "inf"], {"hypothesis_penalty": float("inf")}),
        (["--encoder", "123"], {"encoder": "123"}),
        (["--metric-output", "distance"], {"output": "distance"}),
        (["--hypothesis-special-tokens", "drop"], {"hypothesis_special_tokens": "drop"}),
    ],
)
def test_values_of_fields_are_read_as_yaml_and_texts_as_they_are(monkeypatch, run, texts, flags, changed):
    from textmover.scoring import scorer

    seen = {}

    def from_pretrained(name: str, **options: object) -> None:
        seen.update(options)
        raise InputError("stop")

    monkeypatch.setattr(scorer.Scorer, "from_pretrained", from_pretrained)
    assert run("score", "-i", *texts, *flags).code == 2
    known = {"precision", "backend", "device", "batch_tokens", "cache", "progress", "revision", "statistics", "memory"}
    assert {name: value for name, value in seen.items() if name not in known} == changed
    assert seen["cache"] is True


# --- options of one value ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [name for name in main_module.COMMANDS if name != "train"])
def test_every_option_of_one_value_is_refused_where_it_comes_twice_or_below_its_bound(command, capsys):
    parser = main_module._parser(command)
    own = parser._subparsers._group_actions[0].choices[command]
    for action in own._actions:
        if not isinstance(action, SingleOption) or not action.option_strings:
            continue
        own.__dict__.pop("seen_options", None)
        value = str(next(iter(action.choices or [action.least or 1])))
        option = action.option_strings[-1]
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args([command, option, value, option, value])
        assert f"Expected {option} once, but got it twice" in capsys.readouterr().err
        if option in LEAST:
            own.__dict__.pop("seen_options", None)
            with pytest.raises(InputError, match=f"Expected {option} to be at least {LEAST[option]}, but got"):
                parser.parse_args([command, option, str(LEAST[option] - 1)])


LEAST = {"--samples": 20} | dict.fromkeys(("--trials", "--permutations", "--versions"), 1)
LEAST |= dict.fromkeys(("--fewest", "--texts", "--limit"), 2) | {"--segments": 0}


def test_entries_of_lists_have_options_of_their_own():
    again = ["--trainer.callbacks.verbose", "true"]
    assert repeated_option(["--config", "a", "--config", "b", "--trainer.callbacks+=A", *again, *again]) is None


def test_every_bound_is_that_of_an_option():
    commands = [name for name in main_module.COMMANDS if name != "train"]
    known = {option for command in commands for option in parser_of(command)._option_string_actions}
    assert {name for name in BOUNDS if name.startswith("--")} <= known


def test_outputs_of_what_ran_before_in_the_process_are_not_named(tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("A cat sat.\n")
    with atomic_file(check_output(tmp_path / "earlier.txt", ())) as stream:  # as training does
        stream.write("metric")
    output = tmp_path / "now.jsonl"
    options = ["-i", str(tmp_path / "texts.txt"), "--types", "identity", "--output", str(output)]
    assert main_module.main(["perturb", *options]) == 0
    assert f"Written: {output}\n" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-16"])
def test_texts_are_printed_in_utf_8_whatever_the_locale(tmp_path, monkeypatch, encoding):
    (tmp_path / "texts.txt").write_text("A caf\u00e9 \U0001f600 and \u65e5\u672c sat here.\n", encoding="utf-8")
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=encoding))
    assert main_module.main(["perturb", "-i", str(tmp_path / "texts.txt"), "--types", "identity", "--quiet"]) == 0
    assert printed.getvalue().decode("utf-8").count("A caf\u00e9 \U0001f600 and \u65e5\u672c sat here.") > 0


@pytest.mark.parametrize("option", ["-i", "--output"])
def test_a_value_that_begins_with_a_dash_is_told_from_none(capsys, option):
    with pytest.raises(SystemExit):
        main_module.main(["score", option, "-h\u00e9.txt", "r.txt"])
    said = ", but got -h\u00e9.txt: for a file of this name write ./-h\u00e9.txt (see `textmover score --help`)\n"
    assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main_module.main(["score", option, "--quiet"])
    assert ", but got none (see" in capsys.readouterr().err
    for value, hint in (
        ("--formt", ": did you mean --format?"),
        ("--formt=tsv", ": did you mean --format?"),
        ("-x", " ("),
    ):
        with pytest.raises(SystemExit):
            main_module.main(["score", option, value])
        assert f", but got {value}{hint}" in capsys.readouterr().err


def test_commands_collect_garbage_rarely_unless_they_train():
    code = (
        "import contextlib, gc, io; from textmover.cli import main\n"
        "for command in ('train', 'search', 'list'):\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "        main.main([command, '-h'])\n"
        "    print(gc.get_threshold()[0] == main.COLLECT_AFTER)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["False", "False", "True"], ended.stderr
