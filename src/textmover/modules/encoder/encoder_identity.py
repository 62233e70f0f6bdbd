"""Identity of an encoder: its pretrained base by name and hash, and a hash of trained weights."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from textmover.files import file_sha256
from textmover.modules.encoder.source import (
    MULTILINGUAL,
    UNPACKED_SHA256,
    WEIGHT_FILES,
    EncoderSource,
    from_package,
    is_repository_name,
    resolve_encoder,
)
from textmover.types import InputError

logger = logging.getLogger(__name__)

NEVER_PACKED = ("embeddings.LayerNorm.bias", "embeddings.LayerNorm.weight")
NEVER_PACKED_PRINT = "24ede3ce"
"""Weights of the multilingual encoder that its 4-bit file stores unquantised, and their hash."""

TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "spm.model")
"""Files that define a tokenizer, in the order of preference."""


@dataclass(frozen=True)
class BaseEncoder:
    """Pretrained encoder that an encoder's weights were initialised from."""

    name: str  # name on the hub, or folder
    revision: str | None  # commit or tag on the hub
    sha256: str  # hash of its weight file, or the known first digits of it
    tokenizer: str | None = None  # hash of its tokenizer file; ``None`` if unknown
    weights: str | None = None  # :func:`weights_fingerprint` of the layers in use; ``None`` if unknown
    folder: Path | None = None  # its folder in this process; not saved in checkpoints

    @classmethod
    def found(cls, name: str, revision: str | None, source: EncoderSource) -> BaseEncoder:
        """Build the base from the folder in which it was found."""
        places = (source.folder / one for one in TOKENIZER_FILES)
        tokenizer = next((file_sha256(place) for place in places if place.is_file()), None)
        return cls(name, revision, source.sha256, tokenizer, folder=source.folder)

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any], name: str, revision: str | None) -> BaseEncoder | None:
        """Read the base from a checkpoint's ``encoder`` entry."""
        if "base" in entry:
            return cls(**entry["base"])
        sha256 = str(entry["identity"]).rpartition("@")[2]
        return cls(name, revision, sha256) if re.fullmatch(r"[0-9a-f]{8}", sha256) else None

    def entry(self) -> dict[str, Any]:
        """Return the entry for a checkpoint."""
        return {name: value for name, value in vars(self).items() if name != "folder"}

    def find(self) -> EncoderSource:
        """Find the base with :func:`resolve_encoder` and check its hashes."""
        here = self.folder is not None and self.folder.is_dir()
        name, revision = (str(self.folder), None) if here else (self.name, self.revision)
        extra = 'run `pip install "textmover[multilingual]"`, ' if self.name == MULTILINGUAL else ""
        fetch = f"fetch it where there is a network (`hf download {self.name}`), or "
        way_out = (
            f"The adapter needs this base: {extra}{fetch if is_repository_name(self.name) else ''}"
            "give its folder as `encoder`. Metrics on the default encoder, such as textmover-general, need the extra "
            '"embedded" alone.'
        )
        source = resolve_encoder(name, revision, way_out)
        if UNPACKED_SHA256.startswith(self.sha256[:8]) and source.sha256 != UNPACKED_SHA256:
            packed = from_package(self.name, revision)  # resolve_encoder prefers full weights in a cache
            source = packed if isinstance(packed, EncoderSource) else source
        misfit = self.misfit(BaseEncoder.found(self.name, self.revision, source))
        if misfit is not None and self._in_other_bits(source):
            logger.warning(
                "The adapter was trained on weights of %s with the hash %s, but those in %s have %s. One of them is in "
                "4 bits: scores differ slightly (the cosine of sentence vectors is .98 to .99).",
                *(self.name, self.sha256[:8], source.folder, source.sha256[:8]),
            )
        elif misfit is not None:
            raise InputError(
                f"Expected the base encoder {self.name} {misfit}: give the folder or hub name of the right one as "
                "`encoder`, or a preset as the metric, such as twmd, to score with another encoder."
            )
        return source

    def _in_other_bits(self, source: EncoderSource) -> bool:
        """Return whether this base and a source are the 4-bit and the full multilingual encoder, in either order."""
        if source.sha256 == UNPACKED_SHA256:
            return self.name == MULTILINGUAL
        from safetensors import SafetensorError, safe_open

        if not UNPACKED_SHA256.startswith(self.sha256[:8]):
            return False
        with contextlib.suppress(OSError, SafetensorError), safe_open(source.folder / WEIGHT_FILES[0], "pt") as stored:
            return weights_fingerprint({name: stored.get_tensor(name) for name in NEVER_PACKED}) == NEVER_PACKED_PRINT
        return False

    def misfit(self, found: BaseEncoder) -> str | None:
        """Describe how another base differs from this one; ``None`` if no known hash differs."""
        place = found.folder or found.name
        if not (found.sha256.startswith(self.sha256) or self.sha256.startswith(found.sha256)):
            return f"to have weights of the hash {self.sha256}, but those in {place} have {found.sha256}"
        unknown = self.tokenizer is None or (found.tokenizer is None and found.folder is None)
        if not unknown and found.tokenizer != self.tokenizer:
            return f"to have a tokenizer of the hash {self.tokenizer}, but that in {place} has {found.tokenizer}"
        return None


def remember_base(encoder: nn.Module, base: BaseEncoder | None) -> None:
    """Store the base of an encoder's weights with the encoder; copies and pickles keep it."""
    # Not declared by the class: an encoder only computes and does not know its weights' origin.
    vars(encoder)["base"] = base


def base_of(encoder: object) -> BaseEncoder | None:
    """Return the base of an encoder's weights; ``None`` if it is unknown or there is no encoder."""
    base = getattr(encoder, "base", None)
    return base if isinstance(base, BaseEncoder) else None


def weights_fingerprint(state: Mapping[str, Tensor]) -> str:
    """Return eight hex digits of a hash of weights, rounded to bfloat16 so that float32 and bfloat16 agree."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        if tensor.is_floating_point():
            digest.update(name.encode())
            rounded = tensor.detach().to(torch.bfloat16).cpu().contiguous()
            digest.update(rounded.flatten().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:8]


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of named tensors, independent of their order."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def identity_of(identity: str, base: BaseEncoder | None, weights: str) -> str:
    """Return an encoder's name and hash for the signature, given its previous identity and the hash of its weights.

    Unchanged weights of the base give ``name@hash``, trained ones ``name+weights@hash``. The hash after ``@`` stays
    the base's, so statistics that depend only on the tokenizer fit both.
    """
    name, _, sha256 = identity.rpartition("@")
    name = re.sub(r"\+[0-9a-f]{8}$", "", name)
    return f"{name}@{sha256}" if base is not None and weights == base.weights else f"{name}+{weights}@{sha256}"
