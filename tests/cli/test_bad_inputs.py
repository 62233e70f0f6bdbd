"""Bad inputs that are made by chance: every command ends with one sentence, in little time and memory."""

import contextlib
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest
import yaml
from pyarrow import parquet
from tests.cli.shared import Ended

from textmover.cli.commands import app
from textmover.cli.main import main
from textmover.types import BOUNDS

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from runs import recipe

INPUTS, MORE = range(20), range(20, 50)
"""Seeds of the inputs for each of the 26 cases: 1,300 in all, of which more than 1,000 are bad."""

SECONDS, BYTES = 10, 2 << 30
"""Most processor time of a command, and most memory beside 1 GiB for what its libraries map but do not use. On the wall
it may take six times as long: other tests run beside it."""

# --- what is spoiled --------------------------------------------------------------------------------------------------

ROWS = [
    {
        "hypothesis": f"the {one} sat",
        "reference": f"a {one} sat there",
        "score": place / 8,
        "system": "ab"[place % 2],
        "item": str(place // 2),
        "group": "all",
    }
    for place, one in enumerate(["cat", "dog", "man", "child", "bird", "horse", "girl", "boy"])
]
ENCODER = "--encoder encoder --backend torch --device cpu"
ENCODER_FILES = "encoder/config.json encoder/tokenizer.json encoder/tokenizer_config.json encoder/model.safetensors"
METRIC_FILES = "metric/config.json metric/model.safetensors"
CASES_TEXT = f"""
score csv: score --data t.csv {ENCODER} | t.csv
score jsonl: score --data t.jsonl {ENCODER} | t.jsonl
score parquet: score --data t.parquet {ENCODER} | t.parquet
score lines: score -i hyp.txt ref.txt {ENCODER} | hyp.txt ref.txt
score encoder: score -i hyp.txt ref.txt {ENCODER} | {ENCODER_FILES}
score checkpoint: score -i hyp.txt ref.txt --model ./metric | {METRIC_FILES}
explain: explain -i hyp.txt ref.txt --lines 1-3 --format json {ENCODER} | hyp.txt encoder/config.json
compare: compare --scores scores.tsv --samples 20 --trials 20 | scores.tsv
rank: rank --data t.tsv --system-column system --item-column item --metric-column score --samples 20 --trials 9 | t.tsv
mbr: mbr --data c.jsonl {ENCODER} | c.jsonl
evaluate: evaluate --data t.tsv --set set.yaml --samples 20 --permutations 9 {ENCODER} | t.tsv set.yaml
experiment: evaluate --experiment experiment.yaml --data t.tsv --samples 20 {ENCODER} | experiment.yaml set.yaml
sweep: sweep --data t.tsv --field temperature=0.1,0.2 --no-figure --samples 20 {ENCODER} | t.tsv
train: train --config recipe.yaml | recipe.yaml recipe.yaml t.tsv
train part: train --config whole.yaml | part.yaml part.yaml t.tsv
search: search --config recipe.yaml --space space.yaml --trials 1 --output found | recipe.yaml space.yaml space.yaml
export: export ./metric out | {METRIC_FILES}
fit: fit-idf --data t.csv --column hypothesis --output i.safetensors {ENCODER} | t.csv encoder/config.json
fit mean: fit-mean --model twmd-b --data t.csv --column hypothesis --output m.safetensors {ENCODER} | \
t.csv encoder/config.json
fit baseline: fit-baseline --rescale true --data t.csv --column hypothesis --output b.safetensors {ENCODER} | \
t.csv encoder/config.json
robustness: robustness -i t.csv --column hypothesis --types drop --samples 20 --no-figure {ENCODER} | t.csv
layers: analyse-layers --data t.csv --column hypothesis --encoder encoder --device cpu --pairs 20 --no-figure | \
t.csv encoder/config.json
cache: cache states --format json |
list: list twmd --format json |
perturb: perturb -i t.csv --column hypothesis --types drop swap | t.csv
app: app . --items t.jsonl --no-browser | t.jsonl
"""
"""Name, arguments, and the files of which one is spoiled; in half of the inputs an option is."""

CASES = dict(line.split(": ", 1) for line in CASES_TEXT.strip().splitlines())

LOGGING = ("train", "train part", "search")
"""Cases in which lines may stand before the sentence: they tell how far the work had come."""

EXPERIMENT = {
    "title": "Small",
    "paper": {"name": "Small", "authors": "One", "year": 2001, "where": "table 1"},
    "files": {"t": {"what": "ratings", "source": "here"}},
    "sets": {"Ratings": {"reader": "set.yaml"}},
    "metrics": {"ours": {"model": "twmd", "fields": {"temperature": 0.05}}},
    "tables": [{"title": "One", "sets": "Ratings", "groups": ["all"], "rows": [{"name": "Ours", "metric": "ours"}]}],
}


@pytest.fixture(scope="session")
def good(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that all commands can use."""
    from textmover.scoring import load_metric, save_checkpoint

    folder = tmp_path_factory.mktemp("good")
    for name, separator in (("t.csv", ","), ("t.tsv", "\t")):
        lines = [list(ROWS[0]), *(list(map(str, row.values())) for row in ROWS)]
        (folder / name).write_text("".join(separator.join(one) + "\n" for one in lines))
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    columns = {name: [str(row[name]) for row in ROWS] for name in ("hypothesis", "reference")}
    parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    sets = [{"candidates": [row["hypothesis"], row["reference"]], "weights": [0.5, 0.5]} for row in ROWS]
    (folder / "c.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sets))
    (folder / "hyp.txt").write_text("".join(f"{row['hypothesis']}\n" for row in ROWS))
    (folder / "ref.txt").write_text("".join(f"{row['reference']}\n" for row in ROWS))
    (folder / "scores.tsv").write_text("a\tb\n" + "".join(f"{row['score']}\t{row['score'] / 2}\n" for row in ROWS))
    (folder / "set.yaml").write_text("item: item\nsystem: system\nratings: {quality: score}\n")
    (folder / "experiment.yaml").write_text(yaml.safe_dump(EXPERIMENT, sort_keys=False))
    config = recipe(Path("run"), Path("encoder"), Path("t.tsv"), trainer__max_epochs=1)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (folder / "part.yaml").write_text(yaml.safe_dump(config["data"], sort_keys=False))
    (folder / "whole.yaml").write_text(yaml.safe_dump({**config, "data": "part.yaml"}, sort_keys=False))
    key = "model.init_args.optimizer.learning_rate"
    (folder / "space.yaml").write_text(yaml.safe_dump({key: {"low": 1e-4, "high": 1e-2, "log": True}}))
    shutil.copytree(tiny_encoder, folder / "encoder")
    (folder / "states/v3/one").mkdir(parents=True)
    shutil.copy(folder / "encoder/model.safetensors", folder / "states/v3/one/two.safetensors")
    save_checkpoint(load_metric("twmd", encoder=str(tiny_encoder)), folder / "metric", card="# card\n")
    return folder


# --- how it is spoiled ------------------------------------------------------------------------------------------------

WORDS = [b"", *b"-1 0 1e999 nan".split(), b"1" * 400, b"9" * 12, *b"null true [] {} \xff\xfe \0 ' \"".split()]
VALUES = [None, True, -1, 0, 10**12, 1e300, math.nan, "", "x", "../..", [], [[]], {}, {"x": 1}, ["x"] * 3]


def word(draw: random.Random, raw: bytes) -> bytes:
    """Put something else in the place of a word or number."""
    found = list(re.finditer(rb"[\w.+-]+", raw))
    if not found:
        return draw.choice(WORDS)
    one = draw.choice(found)
    return raw[: one.start()] + draw.choice(WORDS) + raw[one.end() :]


def flipped(draw: random.Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(draw.randint(1, 8) if raw else 0):
        changed[draw.randrange(len(raw))] = draw.randrange(256)
    return bytes(changed)


def cut(draw: random.Random, raw: bytes) -> bytes:
    place = draw.randrange(len(raw) + 1)
    return raw[:place] if draw.random() < 0.7 else raw[place:]


def without_mark(draw: random.Random, raw: bytes) -> bytes:
    """Leave out a comma, tab, quotation mark, bracket or line break."""
    found = list(re.finditer(rb"[,\t\"\[\]{}:\n]", raw))
    place = draw.choice(found).start() if found else 0
    return raw[:place] + raw[place + 1 :]


def nested(draw: random.Random, raw: bytes) -> bytes:
    place = draw.randrange(len(raw) + 1)
    return raw[:place] + draw.choice([b"[", b"{", b'{"a":', b"[{"]) * draw.choice([200, 5_000, 50_000]) + raw[place:]


def long(draw: random.Random, raw: bytes) -> bytes:
    place = draw.randrange(len(raw) + 1)
    return raw[:place] + draw.choice([b"a", b"a ", b"9", b"\n", b"- ", b"&a "]) * 200_000 + raw[place:]


def repeated(draw: random.Random, raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True) or [b""]
    place = draw.randrange(len(lines))
    return b"".join([*lines[:place], lines[place], *lines[place:]])


def typed(draw: random.Random, raw: bytes) -> bytes:
    """Put a value of another type into JSON or YAML, take a key away, or add one."""
    with contextlib.suppress(ValueError, yaml.YAMLError):
        line, *rest = raw.split(b"\n", 1) if raw.count(b"\n{") else (raw,)
        root = yaml.safe_load(line)
        holders, ways = [root], []
        while holders:
            one = holders.pop()
            keys = one if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
            ways += [(one, key) for key in keys]
            holders += [one[key] for key in keys]
        if not ways:
            return word(draw, raw)
        holder, key = draw.choice(ways)
        if draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = draw.choice(VALUES)
        return b"\n".join([json.dumps(root).encode(), *rest])
    return word(draw, raw)


MUTATIONS: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "flipped": flipped,
    "cut": cut,
    "word": word,
    "typed": typed,
    "typed again": lambda draw, raw: typed(draw, typed(draw, raw)),
    "without mark": without_mark,
    "nested": nested,
    "long": long,
    "repeated": repeated,
    "UTF-16": lambda draw, raw: raw.decode("latin-1").encode(draw.choice(["utf-16", "utf-16-be", "utf-32"])),
    "not UTF-8": lambda draw, raw: raw.replace(draw.choice([b"a", b"e", b"s"]), b"\xe9", 1),
    "noise": lambda draw, raw: draw.randbytes(draw.choice([1, 100, 10_000])),
    "empty": lambda draw, raw: draw.choice([b"", b"\n\n", b"\xef\xbb\xbf", b" "]),
}
OPTIONS = ["", "-1", "0", "nan", "1e999", str(10**12), "x", "a" * 5000, "../..", "[", "null", "é\udcff", "-"]


def spoiled_arguments(draw: random.Random, arguments: list[str]) -> tuple[list[str], str]:
    """Another value, a repeated or unknown option, or one without its value."""
    changed = list(arguments)
    places = [place for place, one in enumerate(changed) if place]
    place = draw.choice(places)
    way = draw.choice(["value", "value", "value", "again", "unknown", "without"])
    if way == "value":
        changed[place] = draw.choice(OPTIONS)
    elif way == "again":
        changed += changed[place:]
    elif way == "unknown":
        changed.insert(place, draw.choice(["--none-such", "--layer=x", "--batch-tokens=-5", "--temperature=-1"]))
    else:
        del changed[place]
    return changed, f"{way} at {place}"


def spoil(draw: random.Random, path: Path) -> str:
    way = draw.choice([*MUTATIONS, "gone", "folder", "pipe"])
    if way not in MUTATIONS:
        path.unlink()
        if way != "gone":
            (os.mkfifo if way == "pipe" else os.mkdir)(path)
        return way
    raw = path.read_bytes()
    path.write_bytes(MUTATIONS[way](draw, raw))
    return way


# --- what has to come of it -------------------------------------------------------------------------------------------


class TooMuchError(BaseException):
    """A command took too long; no handler of an exception takes it for its own."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """End what takes too much processor time or memory, or waits for ever."""

    def stop(number: int, _: object) -> None:
        raise TooMuchError(signal.Signals(number).name)

    signal.signal(signal.SIGPROF, stop), signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS), signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS)
    with open("/proc/self/statm") as stream:
        held = int(stream.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES + (1 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.setitimer(signal.ITIMER_PROF, 0), signal.setitimer(signal.ITIMER_REAL, 0)


def outcome_of(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> Ended:
    capfd.readouterr()
    code: int | str
    try:
        with bounded():
            code = main(arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException as error:
        code = "".join(traceback.format_exception(error)[-3:])
    return Ended(code, *capfd.readouterr())


def complaint(case: str, ended: Ended) -> str | None:
    """What is wrong with how a command ended; ``None`` if nothing is."""
    if ended.code not in (0, 2):
        return f"ended with {ended.code}"
    if "Traceback" in ended.err:
        return f"traceback: {ended.err[-600:]}"
    *before, last = ended.err.splitlines() or [""]
    if case in LOGGING:
        before = [line for line in before if line.startswith("textmover: ")]
    if ended.code == 2 and (before or not last.startswith("textmover: ")):
        return f"no single sentence: {ended.err[-600:]}"
    if ended.code == 2 and len(ended.err) > 6_000:
        return f"a sentence of {len(ended.err)} characters: {ended.err[:200]}"
    return None


def tried(case: str, seed: int, good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> tuple[str, Ended]:
    """Spoil one thing and run the command; returns what was spoiled."""
    draw = random.Random(f"{case} {seed}")
    arguments, files = (one.split() for one in CASES[case].split(" |"))
    folder = tmp_path / str(seed)
    shutil.copytree(good, folder)
    os.chdir(folder)
    if not files or draw.random() < 0.3:
        given, way = spoiled_arguments(draw, arguments)
    else:
        given, name = list(arguments), draw.choice(files)
        way = f"{name} {spoil(draw, folder / name)}"
    ended = outcome_of(given, capfd)
    os.chdir(tmp_path)
    shutil.rmtree(folder)
    return way, ended


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_is_spoiled_was_good(case, good, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(app, "needs_extra", lambda *_: sys.exit(0))
    shutil.copytree(good, tmp_path / "whole")
    monkeypatch.chdir(tmp_path / "whole")
    ended = outcome_of(CASES[case].partition(" |")[0].split(), capfd)
    assert ended.code == 0, ended


@pytest.mark.parametrize(
    "seeds", [pytest.param(INPUTS, marks=pytest.mark.slow), pytest.param(MORE, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("case", CASES)
def test_bad_inputs_end_with_one_sentence(case, seeds, good, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "needs_extra", lambda *_: sys.exit(0))  # texts and options are good: nobody serves them
    monkeypatch.setitem(BOUNDS, "pipe_seconds", (0, 0.2))
    found, bad = [], 0
    for seed in seeds:
        way, ended = tried(case, seed, good, tmp_path, capfd)
        bad += ended.code == 2
        if said := complaint(case, ended):
            found.append(f"seed {seed}, {way}: {said}")
    with capfd.disabled():
        sys.stderr.write(f"{case}: {bad} of {len(seeds)} inputs are bad\n")
    assert bad >= len(seeds) // 2, f"only {bad} of {len(seeds)} inputs are bad"
    assert not found, "\n".join(found)
