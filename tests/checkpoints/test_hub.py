"""The hub, mocked: what is sent there is the whole checkpoint and nothing else, and every refusal is one sentence."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalTokenNotFoundError, OfflineModeIsEnabled
from huggingface_hub.utils import filter_repo_objects

from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.classifier import classifier_folder
from textmover.checkpoints.hub import local_folder, push_to_hub, released_metrics
from textmover.checkpoints.loading import checkpoint_folder
from textmover.modules.score_deviation import probe_scores
from textmover.scoring import Scorer, save_checkpoint
from textmover.types import InputError


class Hub:
    """Repositories as folders, behind the names of the client."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.asked, self.error = root, [], None
        patch.setattr(huggingface_hub, "HfApi", self.api)
        patch.setattr(huggingface_hub, "snapshot_download", self.download)

    def api(self, token=None):
        self.asked.append(("token", token))
        return self

    def place(self, repo_id: str, revision: str | None) -> Path:
        return self.root / repo_id / (revision or "main")

    def create_repo(self, repo_id, *, private, exist_ok, repo_type):
        if self.error is not None:
            raise self.error
        self.asked.append(("create", repo_id, private))
        self.place(repo_id, None).mkdir(parents=True, exist_ok=exist_ok)
        return f"https://huggingface.co/{repo_id}"

    def create_branch(self, repo_id, *, branch, exist_ok, repo_type):
        shutil.copytree(self.place(repo_id, None), self.place(repo_id, branch), dirs_exist_ok=exist_ok)

    def upload_folder(
        self, *, repo_id, folder_path, revision, repo_type, commit_message, allow_patterns, delete_patterns
    ):
        assert "textmover" in commit_message
        target = self.place(repo_id, revision)
        for one in filter_repo_objects(
            [path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()],
            allow_patterns=delete_patterns,
        ):
            (target / one).unlink()
        names = [path.relative_to(folder_path).as_posix() for path in Path(folder_path).rglob("*") if path.is_file()]
        for one in filter_repo_objects(names, allow_patterns=allow_patterns):
            (target / one).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder_path) / one, target / one)

    def download(self, repo_id, *, revision=None, local_files_only=False):
        if local_files_only or not self.place(repo_id, revision).is_dir():
            raise OSError("not here")
        return str(self.place(repo_id, revision))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    return Hub(tmp_path / "hub", monkeypatch)


@pytest.fixture
def metric(tiny_metric):
    metric = tiny_metric(calibrate=True)
    with torch.no_grad():
        metric.encoder.model.embeddings.LayerNorm.bias.add_(0.5)
    return metric


@pytest.fixture(params=[None, AdapterConfig(4)], ids=["full", "adapter"])
def folder(request, metric, tmp_path):
    return save_checkpoint(metric, tmp_path / "saved", card="# card", adapter=request.param)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_pushed_can_be_loaded_by_its_name(hub, folder, metric):
    assert push_to_hub(folder, "owner/metric") == "https://huggingface.co/owner/metric"
    assert names(hub.place("owner/metric", None)) == names(folder)
    again = Scorer.from_pretrained("owner/metric", device="cpu").metric
    assert (probe_scores(again) - probe_scores(metric)).abs().max() < 1e-3
    assert hub.asked == [("token", None), ("create", "owner/metric", False)]


def test_a_revision_is_a_branch_of_its_own(hub, folder):
    push_to_hub(folder, "owner/metric", revision="v2", private=True, token="secret")
    assert names(hub.place("owner/metric", "v2")) == names(folder)
    assert names(hub.place("owner/metric", None)) == set()
    assert hub.asked == [("token", "secret"), ("create", "owner/metric", True)]
    Scorer.from_pretrained("owner/metric", revision="v2", device="cpu")


def test_the_repository_holds_the_checkpoint_and_nothing_else(hub, folder):
    place = hub.place("owner/metric", None)
    place.mkdir(parents=True)
    (place / "old.bin").write_text("of an earlier checkpoint")
    (folder / "notes.txt").write_text("mine")
    push_to_hub(folder, "owner/metric")
    assert names(place) == names(folder) - {"notes.txt"}


@pytest.mark.parametrize("lacking", ["config.json", "model.safetensors", "README.md", "card"])
def test_a_folder_that_is_not_whole_or_has_an_empty_card_is_not_pushed(hub, folder, lacking):
    if lacking == "card":
        (folder / "README.md").write_text("\n")
    else:
        (folder / lacking).unlink()
    with pytest.raises(InputError, match="an empty one: write one" if lacking == "card" else lacking):
        push_to_hub(folder, "owner/metric")
    assert hub.asked == []


@pytest.mark.parametrize("name", ["metric", "a/b/c", "owner/", "/metric", "owner/met ric", "../metric"])
def test_names_of_repositories_are_checked(hub, folder, name):
    with pytest.raises(InputError, match=r"such as owner/name, but got "):
        push_to_hub(folder, name)
    assert hub.asked == []


class AnswerError(Exception):
    """An error of the client with an answer of the hub."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} Client Error.\nRequest ID: 1")
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LocalTokenNotFoundError("Token is required"), "there is no valid token: log in with `hf auth login`, or set"),
        (AnswerError(401), "it answered 401 .* no valid token"),
        (AnswerError(403), "it answered 403 .* the token does not allow writing there"),
        (AnswerError(404), "it answered 404 .* no such owner"),
        (AnswerError(400), "it answered 400 .* the name or the revision is invalid"),
        (AnswerError(503), "it answered 503 .*: try again later"),
        (ConnectionError("Name or service not known"), "it cannot be reached .ConnectionError: Name or service"),
        (OfflineModeIsEnabled("Cannot reach it: offline mode is enabled."), "HF_HUB_OFFLINE is set: unset it"),
    ],
    ids=str,
)
def test_refusals_are_one_sentence_with_a_way_out(hub, folder, error, said):
    hub.error = error
    with pytest.raises(InputError, match=f"Expected the hub to take owner/metric, but {said}") as caught:
        push_to_hub(folder, "owner/metric", token="secret")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_plain_folder_with_the_name_of_a_preset_does_not_hide_it(tmp_path, monkeypatch, tiny_metric, caplog):
    monkeypatch.chdir(tmp_path)
    for name in ("twmd", "textmover-static", "textmover-acceptability"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("mine")
        assert local_folder(name) is None
        assert local_folder(f"./{name}") is not None
    assert checkpoint_folder("twmd") is None
    assert checkpoint_folder("textmover-static") == released_metrics()["textmover-static"]
    assert classifier_folder("textmover-acceptability").parent != tmp_path
    (tmp_path / "twmd" / "notes.txt").unlink()
    save_checkpoint(tiny_metric(), "twmd", card="# Mine")
    assert not caplog.text
    assert checkpoint_folder("twmd").resolve() == tmp_path / "twmd"
    assert "write ./twmd to mean the folder, or rename it" in caplog.text
