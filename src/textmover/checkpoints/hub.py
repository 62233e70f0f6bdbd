"""Released metrics by name, and checkpoints on the Hugging Face Hub."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from textmover._version import __version__
from textmover.checkpoints.checkpoint_files import CARD, CONFIG, check_checkpoint
from textmover.modules.shipped_folders import released_folders
from textmover.presets import PRESETS, unknown_metric
from textmover.safe_reading import expanded, read_json
from textmover.types import InputError

ADVICE = {
    400: "the name or the revision is invalid: correct it",
    401: "there is no valid token: log in with `hf auth login`, or set HF_TOKEN",
    403: "the token does not allow writing there: take one with write permission, or a name that is yours",
    404: "there is no such owner, or the token does not see it: check the name, and log in with `hf auth login`",
}
"""Explanations of the hub's HTTP status codes, with advice."""


def push_to_hub(
    folder: Path | str, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
) -> str:
    """Upload a checkpoint to the Hugging Face Hub, replacing all files there, and return the repository's URL.

    Args:
        folder: Folder written by :func:`~textmover.checkpoints.saving.save_checkpoint`.
        repo_id: The repository, ``"owner/name"``. It is created if missing.
        private: Whether a newly created repository is private; an existing one is not changed.
        revision: Branch to upload to, created if missing; ``None`` for the main branch.
        token: Token with write permission; ``None`` for that of ``hf auth login`` or ``HF_TOKEN``.

    Raises:
        InputError: If the checkpoint is incomplete, the repository name is invalid, or the hub cannot be reached or
            rejects the upload.
    """
    from huggingface_hub import HfApi

    folder = Path(folder)
    check_repository(repo_id)
    files = check_checkpoint(folder)["files"]
    card = folder / CARD
    if not card.is_file() or not card.read_text(encoding="utf-8").strip():
        raise InputError(
            f"Expected the checkpoint {folder} to hold a model card, {CARD}, but it holds "
            f"{'an empty one' if card.is_file() else 'none'}: write one."
        )
    api = HfApi(token=token)
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True, repo_type="model")
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True, repo_type="model")
        api.upload_folder(
            repo_id=repo_id,
            folder_path=str(folder),
            revision=revision,
            repo_type="model",
            commit_message=f"Checkpoint of textmover {__version__}",
            allow_patterns=[CONFIG, CARD, *files],  # exclude unrelated files of the folder
            delete_patterns="*",  # remove files of an earlier checkpoint
        )
    except Exception as error:  # the client also raises errors of its network library, which differs between versions
        raise InputError(f"Expected the hub to take {repo_id}, but {_reason(error)}.") from error
    return str(address)


def check_repository(repo_id: str) -> None:
    """Raise an error for an invalid repository name."""
    if not isinstance(repo_id, str) or re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", repo_id) is None:
        raise InputError(f"Expected `repo_id` to be a repository such as owner/name, but got {repo_id!r}.")


def _reason(error: Exception) -> str:
    from huggingface_hub.errors import LocalTokenNotFoundError, OfflineModeIsEnabled

    if isinstance(error, LocalTokenNotFoundError):
        return ADVICE[401]
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set: unset it to reach the network"
    line = next((one.strip().rstrip(".") for one in str(error).splitlines() if one.strip()), "no reason given")
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in ADVICE:
        return f"it answered {status} ({line}), so {ADVICE[status]}"
    if status is not None:
        return f"it answered {status} ({line}): try again later"
    return f"it cannot be reached ({type(error).__name__}: {line}): check the network, and try again"


DEFAULT_METRIC = "textmover-general"
AUTO = "auto"  # metric name that selects the default metric for English texts and the multilingual one for others

MULTILINGUAL_METRIC = "textmover-multilingual"

DEFAULT_PRESET = "twmd"  # default if the user sets an encoder, since released metrics have their own encoder


def released_metrics() -> dict[str, Path]:
    """Return the folders of locally available released metrics by name."""
    return {name: folder for name, folder in released_folders(CONFIG).items() if is_metric(folder / CONFIG)}


def released_folder(name: str) -> Path | None:
    """Return the folder of a released metric, or ``None``."""
    return released_metrics().get(name)


def local_folder(name: Path | str) -> Path | None:
    """Return the folder that a metric's name means, or ``None``.

    The name of a preset or a released metric or classifier means a folder of that name only if it holds a checkpoint.
    """
    folder, text = expanded(name), str(name)
    ours = text in PRESETS or text in released_folders(CONFIG)
    return folder if folder.is_dir() and not (ours and not (folder / CONFIG).exists()) else None


def check_known(name: str) -> None:
    """Raise an error unless the name is a locally available released metric or a preset."""
    released = list(released_metrics())
    if name in PRESETS or name in released:
        return
    hint = ""
    if name == AUTO:
        hint = "Only commands that read texts before they load a metric take `auto`, such as `textmover score`."
    elif name.startswith("textmover-"):
        hint = (
            f"Installed released metrics: {', '.join(released) or 'none'}; for others, give their path in the folder "
            "`checkpoints` of the repository."
        )
    raise unknown_metric(name, released, hint)


def default_metric(fields: Collection[str]) -> str:
    """Return the default metric's name, given the configuration fields that the user set."""
    return DEFAULT_PRESET if "encoder" in fields else DEFAULT_METRIC


def is_metric(path: Path) -> bool:
    """Return whether a ``config.json`` describes a metric's checkpoint, not a classifier's."""
    try:
        entries = read_json(path)
        return "textmover" in entries and entries["kind"] != "classifier"
    except (OSError, ValueError, TypeError, KeyError):
        return False
