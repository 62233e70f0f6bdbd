"""Commands whose output cannot be written: one sentence, exit code 2, and nothing that was computed is lost."""

import errno
import os

import pytest

PAIRS = [(f"the cat sat on street {n}", f"a cat sat in the street {n} today", n / 8) for n in range(8)]
TABLE = ["hypothesis\treference\tscore", *(f"{one}\t{two}\t{three}" for one, two, three in PAIRS)]
QUICK = "--samples 20 --trials 20 --format json"
COMMANDS = {
    "score": "score -i h.txt r.txt --output",
    "mbr": "mbr -i h.txt --num-candidates 2 --output",
    "evaluate": "evaluate --data table.tsv --samples 20 --output",
    "sweep": "sweep --data table.tsv --field layer=1,2 --samples 20 --no-figure --output",
    "compare": f"compare --hypotheses h.txt r.txt --references r.txt {QUICK} --output",
    "rank": f"rank --hypotheses h.txt r.txt --references r.txt {QUICK} --output",
    "explain": "explain cat cats --format json --output",
    "errors": "errors cat cats --format jsonl --output",
    "robustness": "robustness -i r.txt --types drop --samples 20 --no-figure --output",
    "robustness --keep": "robustness -i r.txt --types drop --samples 20 --no-figure --keep",
    "perturb": "perturb -i r.txt --types drop --format tsv --output",
    "analyse-layers": "analyse-layers --data r.txt --pairs 20 --no-figure --output",
    **{name: f"{name} --data r.txt --output" for name in ("fit-idf", "fit-mean", "fit-baseline")},
}

PRINTED = {
    "evaluate": "hypothesis\treference\thuman_score\ttwmd\n",
    "sweep": "layer\t",
    "compare": '"systems"',
    "rank": '"systems"',
    "robustness": "| drop",
    "robustness --keep": "hypothesis\treference",
    "analyse-layers": "layer\t",
}
"""What stands on standard output in place of the file."""


@pytest.fixture
def start(run, write, tiny_encoder):
    write("table.tsv", TABLE)
    write("h.txt", [one for one, _, _ in PAIRS])
    write("r.txt", [one for _, one, _ in PAIRS])

    def start(command, place, encoder=tiny_encoder):
        model = ("--encoder", encoder, "--device", "cpu")
        if command != "analyse-layers":
            model = (*model, "--model", "twmd")
        return run(*COMMANDS[command].split(), place, *(() if command == "perturb" else model))

    return start


def check_refused(ended, *parts):
    assert ended.code == 2, ended
    assert ended.err.startswith("textmover: Expected "), ended.err
    assert ended.err.count("\n") == 1, ended.err
    for part in parts:
        assert part in ended.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(start, tmp_path, monkeypatch, command):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        ended = start(command, "made")
    check_refused(ended, "Expected to be able to write ", "No space left on device")
    assert PRINTED.get(command, "") in ended.out
    assert "partial" not in ended.err
    assert command not in ("evaluate", "sweep") or ended.out.count(PRINTED[command]) == 1
    assert command != "sweep" or ended.out.count("\n") == 3  # a full disk ends no setting
    assert sorted(tmp_path.iterdir()) == before


INTO_FOLDERS = ("score", "sweep", "robustness", "analyse-layers")
"""Commands for whose output a folder is a place."""


@pytest.mark.parametrize(
    ("command", "place"),
    [
        *((command, "h.txt/inside") for command in COMMANDS),
        *((command, "folder") for command in COMMANDS if command not in INTO_FOLDERS),
        *((command, "-") for command in COMMANDS),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(start, tmp_path, command, place):
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    check_refused(start(command, place, encoder="no such encoder"), place)
    assert sorted(tmp_path.iterdir()) == before


def test_a_result_does_not_become_an_input_of_the_next_run(run, start, tmp_path, tiny_encoder):
    from pyarrow import csv, parquet

    (tmp_path / "pairs").mkdir()
    table = csv.read_csv(tmp_path / "table.tsv", parse_options=csv.ParseOptions(delimiter="\t"))
    parquet.write_table(table, tmp_path / "pairs" / "a.parquet")
    score = ("score", "--data", "pairs", "--encoder", tiny_encoder, "--output")
    check_refused(run(*score, "pairs/s.parquet"), "outside the folder of inputs, but got pairs/s.parquet")
    run(*score, "pairs/s.csv").ok()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_leaves_no_room_for_hidden_ones_is_refused_before_the_work(start, tmp_path, command):
    before = sorted(tmp_path.iterdir())
    ended = start(command, 80 * "あ", encoder="no such encoder")
    check_refused(ended, "Expected a file name of at most 215 bytes, but got あ", ": give a shorter one.")
    assert sorted(tmp_path.iterdir()) == before


def test_the_longest_name_is_written_with_its_manifest(run, start, tmp_path, tiny_encoder):
    start("score", "other")
    name = "n" * 215
    run("score", "-i", "h.txt", "r.txt", "--encoder", tiny_encoder, "--output", name, "--resume").ok()
    assert (tmp_path / f".{name}.textmover.json").exists()
