"""Released folders are found by name, and the package's own come first."""

from textmover.modules import shipped_folders as module


def test_folders_with_the_marker_by_name(tmp_path, monkeypatch):
    places = {"INSTALLED": tmp_path / "package", "REPOSITORY": tmp_path / "repository"}
    for attribute, place in places.items():
        monkeypatch.setattr(module, attribute, place)
    assert module.released_folders("config.cfg") == {}
    for folder, marker in [("package/a", "config.cfg"), ("repository/a", "config.cfg"), ("repository/b", "config.cfg"),
                           ("repository/c", "config.json")]:  # fmt: skip
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / marker).write_text("")
    found = module.released_folders("config.cfg")
    assert found == {"a": tmp_path / "package" / "a", "b": tmp_path / "repository" / "b"}
