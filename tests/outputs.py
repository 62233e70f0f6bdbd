"""Writes what the commands of textmover print and make on fixed inputs, and compares two such folders.

    python tests/outputs.py FOLDER                    one folder an entry: stdout, stderr, code, and the files made
    python tests/outputs.py FOLDER --artefacts        what later versions must load, as it was written
    python tests/outputs.py FOLDER --artefacts-of OLD one folder an entry that loads it
    python tests/outputs.py FOLDER --compare OTHER    the differences by entry and file; ends with 1 if there is any

Paths are normalised everywhere; times, durations and rates in what is printed; in files, digests of paths and random
names of cache files. PNG is compared by pixels, zip, npz and safetensors by content.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import preloaded

ROOT = Path(__file__).resolve().parents[1]
FORMATS = {"txt": "text", "json": "json", "jsonl": "jsonl", "csv": "csv", "tsv": "tsv", "parquet": "parquet"}
PRESETS = (
    *("sbert", "sbert-pooled", "wordset-cka", "bertscore-p", "bertscore-r", "bertscore-f1", "bertscore-p-idf"),
    *("bertscore-r-idf", "bertscore-f1-idf", "yisi-1", "f-alpha", "rwmd", "wmd", "moverscore-wmd1", "moverscore-wmd2"),
    *("moverscore-smd", "moverscore-v2", "hmd-p", "hmd-r", "hmd-f1", "lazy-emd-en", "lazy-emd-zh", "lazy-emd-other"),
    *("twmd", "twmd-b", "trwmd", "trwmd-b", "sinkhorn-divergence", "rome", "textmover-general", "textmover-wmt"),
)
TINY = "--encoder {in}/tiny --layer 2"
PAIR = "-i {in}/a.txt {in}/r.txt"
SYSTEMS = "--hypotheses {in}/a.txt {in}/b.txt --references {in}/r.txt"
RATED = "--data {in}/ratings.tsv"

ENTRIES: dict[str, str] = {
    **{
        f"help-{one}": f"textmover {one} --help"
        for one in ("score", "explain", "compare", "rank", "evaluate", "sweep", "perturb", "mbr")
    },
    "version": "textmover --version",
    "list": "textmover list",
    "list-cite": "textmover list bertscore-f1 rome --cite",
    "score": f"textmover score {PAIR} {TINY}",
    "score-stream": f"cat {{in}}/a.txt | textmover score -i - {{in}}/r.txt {TINY}",
    **{f"score-format-{one}": f"textmover score {PAIR} {TINY} --format {one}" for one in FORMATS.values()},
    **{f"score-file-{one}": f"textmover score {PAIR} {TINY} --output o.{one}" for one in FORMATS},
    "score-folder": f"textmover score --data {{in}}/ratings.tsv {TINY} --output shards/",
    "score-resume": " && ".join(f"textmover score {PAIR} {TINY} --output o.txt{more}" for more in ("", " --resume")),
    "score-systems": f"textmover score {SYSTEMS} {TINY} --output o.tsv",
    "score-signature": f"textmover score {TINY} --signature",
    "score-latex": f"textmover score {TINY} --signature latex",
    "score-cite": "textmover score --model twmd --cite",
    "score-missing": "textmover score -i none.txt none.txt",
    "score-uneven": f"textmover score -i {{in}}/a.txt {{in}}/short.txt {TINY}",
    "score-unknown": f"textmover score {PAIR} --model none",
    **{f"preset-{one}": f"textmover score {PAIR} --model {one} --format json" for one in PRESETS},
    **{f"explain-{one}": f"textmover explain {PAIR} --line 1 {TINY} --format {one}" for one in ("text", "json")},
    **{
        f"explain-{one}": f"textmover explain {PAIR} --line 1 {TINY} --output o.{one}" for one in ("html", "svg", "png")
    },
    "explain-lines": f"textmover explain {PAIR} --lines 1-3 {TINY} --output o.jsonl",
    "compare": f"textmover compare {SYSTEMS} {TINY}",
    "compare-html": f"textmover compare {SYSTEMS} {TINY} --output o.html",
    "rank": f"textmover rank {SYSTEMS} {TINY}",
    "rank-html": f"textmover rank {SYSTEMS} {TINY} --output o.html",
    **{
        f"{c}-{f}": f"textmover {c} {SYSTEMS} {TINY} --format {f}"
        for c in ("compare", "rank")
        for f in ("json", "csv", "tsv", "markdown", "latex")
    },
    "evaluate": f"textmover evaluate {RATED} {TINY} --model twmd --model bertscore-f1",
    "evaluate-group": f"textmover evaluate {RATED} {TINY} --model twmd --group perturbation --baselines chrf",
    "evaluate-report": f"textmover evaluate {RATED} {TINY} --model twmd --report report",
    **{
        f"evaluate-{f}": f"textmover evaluate {RATED} {TINY} --model twmd --format {f}"
        for f in ("json", "csv", "tsv", "markdown", "latex")
    },
    "sweep": f"textmover sweep {RATED} --encoder {{in}}/tiny --model twmd --field layer=1,2",
    "analyse-layers": "textmover analyse-layers --data {in}/r.txt --encoder {in}/tiny --no-figure",
    "perturb-list": "textmover perturb --list",
    **{f"perturb-{one}": f"textmover perturb -i {{in}}/r.txt -o o.{one} --seed 7" for one in ("tsv", "jsonl", "csv")},
    "robustness": f"textmover robustness -i {{in}}/r.txt --models twmd --baselines chrf {TINY}",
    "mbr": f"textmover mbr -i {{in}}/a.txt {{in}}/b.txt {{in}}/r.txt {TINY}",
    "mbr-jsonl": f"textmover mbr -i {{in}}/a.txt {{in}}/b.txt {{in}}/r.txt {TINY} --format jsonl",
    "fit-idf": f"textmover fit-idf --data {{in}}/r.txt --model yisi-1 {TINY} --output o.safetensors",
    "export": "textmover export twmd metric",
    "cache": f"textmover score {PAIR} {TINY} --cache kept && textmover cache kept",
    "scores-hex": "python {in}/scores.py",
    "door-module": "python -m textmover list",
    "door-train": f"python {ROOT}/train.py --help",
    "door-evaluate": f"python {ROOT}/evaluate.py --help",
}
ARTEFACTS = {
    "cache": f"textmover score {PAIR} {TINY} --cache kept",
    "export": "textmover export twmd metric",
    "idf": f"textmover fit-idf --data {{in}}/r.txt --model yisi-1 {TINY} --output o.safetensors",
    "run": f"textmover score {PAIR} {TINY} --output o.txt",
}
"""What `--artefacts` keeps as it was written."""

LOADED = {
    "old-run": f"cp -r {{old}}/run/files/. . && textmover score {PAIR} {TINY} --output o.txt --resume",
    "old-cache": "textmover cache {old}/cache/files/kept",
    "old-export": f"textmover score {PAIR} --model {{old}}/export/files/metric --format json",
    "old-idf": f"textmover score {PAIR} --model yisi-1 {TINY} --statistics {{old}}/idf/files/o.safetensors",
}
"""What `--artefacts-of` runs on a copy of them."""

SCORES = """
import textmover
hypotheses, references = (open(f"{FOLDER}/{name}.txt").read().splitlines() for name in "ar")
for name in PRESETS:
    print(name, *(float(one).hex() for one in textmover.score(hypotheses[:4], references[:4], model=name)))
"""

IN_FILES = [
    (r'"scores": "[0-9a-f]{32}"', '"scores": "DIGEST"')  # of a table whose header has the paths of its inputs
]
PRINTED = [
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?([+-]\d\d:?\d\d|Z)?", "TIME"),
    (r"\d\d:\d\d:\d\d|\b\d+:\d\d:\d\d", "TIME"),
    (r"\d[\d,.]* ?(ms|s|seconds|min|minutes)\b(?!\w)", "DURATION"),
    (r"\d[\d,.]* ?(pairs|segments|lines|texts|it|rows)(/s| a second| per second)", "RATE"),
]


def write_inputs(folder: Path) -> None:
    """Texts of the quickstart and an encoder of two layers with seeded weights."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    lines = (ROOT / "examples/quickstart/ratings.tsv").read_text(encoding="utf-8").splitlines()
    (folder / "ratings.tsv").write_text("\n".join(lines[:41]) + "\n", encoding="utf-8")
    rows = [line.split("\t") for line in lines[1:131]]
    texts = {
        "r": [row[0] for row in rows[::13]],
        "a": [row[1] for row in rows[::13]],
        "b": [row[1] for row in rows[1::13]],
    }
    texts["short"] = texts["r"][:3]
    for name, own in texts.items():
        (folder / f"{name}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
    script = SCORES.replace("{FOLDER}", str(folder)).replace("PRESETS", repr(PRESETS))
    (folder / "scores.py").write_text(script, encoding="utf-8")
    words = sorted({word for row in rows for text in row[:2] for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    (folder / "tiny").mkdir()
    vocabulary = folder / "tiny" / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]), encoding="utf-8")
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(words) + 5, **size)).save_pretrained(folder / "tiny")
    BertTokenizerFast(str(vocabulary)).save_pretrained(folder / "tiny")


def normalised(text: str, places: list[Path], patterns: list[tuple[str, str]]) -> str:
    """The text without what differs from run to run."""
    for place in [*places, ROOT]:
        text = text.replace(str(place), "FOLDER")
    for pattern, word in patterns:
        text = re.sub(pattern, word, text)
    return text


def run_entry(name: str, command: str, folder: Path, inputs: Path, environment: dict[str, str], clean: bool) -> None:
    """Run the command in a folder of its own and keep what it printed."""
    made = folder / name / "files"
    made.mkdir(parents=True)
    line = command.replace("{in}", str(inputs))
    kept = {"cwd": made, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run(line, shell=True, stdin=subprocess.DEVNULL, **kept)
    places = [made, inputs, Path(environment["XDG_CACHE_HOME"])]
    (folder / name / "stdout").write_text(normalised(done.stdout, places, PRINTED), encoding="utf-8")
    (folder / name / "stderr").write_text(normalised(done.stderr, places, PRINTED), encoding="utf-8")
    (folder / name / "code").write_text(f"{done.returncode}\n", encoding="utf-8")
    if not clean:
        return
    stored = [one for one in made.rglob("*.safetensors") if re.fullmatch("[0-9a-f]{16}", one.stem)]
    for path in stored:  # a cache draws the names of its files at random
        path.rename(path.with_name(f"{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.states.safetensors"))
    for path in [one for one in made.rglob("*") if one.is_file()]:
        with contextlib.suppress(UnicodeDecodeError):
            path.write_text(normalised(path.read_bytes().decode(), places, IN_FILES), encoding="utf-8", newline="")


def content(path: Path) -> object:
    """What must be equal in two files of this kind."""
    if path.suffix == ".png":
        from matplotlib.image import imread

        return imread(path).tobytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return {one: hashlib.sha256(archive.read(one)).hexdigest() for one in sorted(archive.namelist())}
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "np") as tensors:
            values = {one: tensors.get_tensor(one) for one in sorted(tensors.keys())}
            return tensors.metadata(), {one: (str(v.dtype), v.shape, v.tobytes()) for one, v in values.items()}
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences(first: Path, second: Path) -> list[str]:
    """One line for each file that differs or stands on one side only."""
    names = sorted({str(p.relative_to(side)) for side in (first, second) for p in side.rglob("*") if p.is_file()})
    found = []
    for name in names:
        one, other = first / name, second / name
        if not (one.is_file() and other.is_file()):
            found.append(f"{name}: only in {first if one.is_file() else second}")
        elif content(one) != content(other):
            found.append(f"{name}: differs")
    return found


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="*", help="entries to write, as a shell pattern: 'evaluate*'")
    parser.add_argument("--artefacts", action="store_true", help="write into FOLDER what later versions must load")
    parser.add_argument("--artefacts-of", type=Path, help="load what another version has written into this folder")
    arguments = parser.parse_args()
    if arguments.compare:
        found = differences(arguments.folder, arguments.compare)
        sys.stdout.write("".join(f"{one}\n" for one in found))
        return int(bool(found))
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        write_inputs(scratch / "inputs")
        environment = {**preloaded.offline(scratch / "cache"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        arguments.folder.mkdir(parents=True)
        entries = ARTEFACTS if arguments.artefacts else ENTRIES
        if arguments.artefacts_of:
            shutil.copytree(arguments.artefacts_of, scratch / "inputs" / "old")
            entries = {one: line.replace("{old}", "{in}/old") for one, line in LOADED.items()}
        entries = {name: line for name, line in entries.items() if fnmatch.fnmatch(name, arguments.only)}
        (scratch / "bin").mkdir()
        with preloaded.programs_in(scratch / "bin", environment) as programs, ThreadPoolExecutor(2) as pool:
            environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
            rest = arguments.folder, scratch / "inputs", environment, not arguments.artefacts
            jobs = [pool.submit(run_entry, *entry, *rest) for entry in entries.items()]
            for job in jobs:
                job.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
