"""Files for the tests of readers: records in every format, packed as their suffix says, and plain lines."""

import gzip
import json
from pathlib import Path

import pyarrow
import zstandard
from pyarrow import parquet


def delimited(records: list[dict], separator: str, *, quoted: bool) -> bytes:
    rows = [list(records[0]), *(list(map(str, record.values())) for record in records)]
    cells = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' if quoted else cell for cell in row] for row in rows]
    return "".join(separator.join(row) + "\n" for row in cells).encode()


TEXTS = {
    "csv": lambda records: delimited(records, ",", quoted=True),
    "tsv": lambda records: delimited(records, "\t", quoted=False),
    "jsonl": lambda records: "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records).encode(),
}
PACKERS = {
    "": lambda content: content,
    ".gz": gzip.compress,
    ".zst": lambda content: zstandard.ZstdCompressor().compress(content),
}


def write(path: Path, content: bytes) -> str:
    path.write_bytes(PACKERS[path.suffix if path.suffix in PACKERS else ""](content))
    return str(path)


def write_records(path: Path, records: list[dict]) -> Path:
    """Records as a table of the format that the suffix says."""
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(records), path)
    else:
        path.write_bytes(TEXTS[{".json": "jsonl", ".ndjson": "jsonl"}.get(path.suffix, path.suffix[1:])](records))
    return path


def write_lines(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
