"""Released metrics by name, and checkpoints on the Hugging Face Hub."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from textmover._version import __version__
from textmover.checkpoints.files import CARD, CONFIG, check_checkpoint
from textmover.modules.shipped_folders import released_folders
from textmover.presets import PRESETS, unknown_metric
from textmover.safe_reading import read_json
from textmover.types import InputError

ADVICE = {
    400: "the name or the revision does not suit it",
    401: "there is no valid token: log in with `hf auth login`, or set HF_TOKEN",
    403: "the token does not allow writing there: take one with write permission, or a name that is yours",
    404: "there is no such owner, or the token does not see it: check the name, and log in with `hf auth login`",
}
"""Meanings of the hub's status codes, and the way out."""


def push_to_hub(
    folder: Path | str, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
) -> str:
    """Put a checkpoint's folder on the Hugging Face Hub, replacing what is there, and return the repository's address.

    Args:
        folder: What :func:`~textmover.checkpoints.saving.save_checkpoint` wrote.
        repo_id: The repository, ``"owner/name"``; made if there is none.
        private: Whether a repository that is made now is private; one that is there stays as it is.
        revision: Branch to write to, made if there is none; the main one if ``None``.
        token: Token with write permission; the one of ``hf auth login`` or ``HF_TOKEN`` if ``None``.

    Raises:
        InputError: If the folder is not a whole checkpoint, the name not a repository's, or the hub cannot be reached
            or refuses.
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
            allow_patterns=[CONFIG, CARD, *files],  # not what else lies there
            delete_patterns="*",  # a file of an earlier checkpoint would travel along
        )
    except Exception as error:  # the hub's client raises those of its network library too, which changed with versions
        raise InputError(f"Expected the hub to take {repo_id}, but {_reason(error)}.") from error
    return str(address)


def check_repository(repo_id: str) -> None:
    """Refuse what cannot be the name of a repository."""
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
AUTO = "auto"  # in place of a metric's name: the default one for English texts, the multilingual one for others

MULTILINGUAL_METRIC = "textmover-multilingual"

DEFAULT_PRESET = "twmd"  # default preset with another encoder, on which the released metrics were not trained


def released_metrics() -> dict[str, Path]:
    """Folders of the released metrics that are here, by name."""
    return {name: folder for name, folder in released_folders(CONFIG).items() if is_metric(folder / CONFIG)}


def released_folder(name: str) -> Path | None:
    """The folder of a released metric; ``None`` if there is none of this name."""
    return released_metrics().get(name)


def check_known(name: str) -> None:
    """Refuse what is neither a released metric that is here nor a preset."""
    released = list(released_metrics())
    if name in PRESETS or name in released:
        return
    hint = ""
    if name == AUTO:
        hint = "`auto` is for commands that read texts before they take a metric, such as `textmover score`."
    elif name.startswith("textmover-"):
        hint = (
            f"Released metrics that are here: {', '.join(released) or 'none'}; others lie in the folder `checkpoints` "
            "of the repository: give the path."
        )
    raise unknown_metric(name, released, hint)


def default_metric(fields: Collection[str]) -> str:
    """Name of the metric that scores by default, given the fields of the configuration that are set."""
    return DEFAULT_PRESET if "encoder" in fields else DEFAULT_METRIC


def is_metric(path: Path) -> bool:
    """Return whether a file describes a checkpoint, and not that of a classifier, which is a part of a metric."""
    try:
        entries = read_json(path)
        return "textmover" in entries and entries["kind"] != "classifier"
    except (OSError, ValueError, TypeError, KeyError):
        return False
