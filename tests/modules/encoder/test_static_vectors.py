"""Static vectors: three text formats, a cache that is trusted no further than it goes, and words for an encoder."""

import copy
import gzip
import logging
import os
import pickle
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from textmover.modules.encoder import conversion_cache, static_vectors, vector_files
from textmover.modules.encoder import vector_files as vector_cache
from textmover.modules.encoder.source import file_sha256
from textmover.modules.encoder.static_vectors import StaticEncoder, StaticVectors, is_static
from textmover.modules.tokens.word_tokenizer import WordTokenizer, split_words
from textmover.types import InputError, SpecialToken, TokenBatch, TokenTrait

TABLE = {
    "the": [0.1, 0.2, 0.3],
    "dog": [1.0, 0.0, -0.5],
    "cat": [0.9, 0.1, -0.4],
    "Paris": [0.0, -1.0, 2.0],
    ",": [0.01, 0.02, 0.03],
    "don't": [-1.0, 1.5, 0.25],
    "do": [0.5, 0.5, 0.0],
    "n't": [-0.5, 0.0, 1.0],
    "'s": [0.0, 0.0, 1.0],
    "known": [1.0, 1.0, 1.0],
    "well": [2.0, 0.0, 1.0],
    "3.50": [0.0, 3.0, 0.0],
    "élan": [0.3, 0.3, -0.3],
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "textmover" / vector_cache.LAYOUT


def lines_of(table=TABLE):
    return [f"{word} {' '.join(map(str, vector))}" for word, vector in table.items()]


def write(path: Path, lines, *, end="\n", packed=False) -> Path:
    data = "".join(f"{line}{end}" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def glove(path: Path, table=TABLE, **options) -> Path:
    return write(path, lines_of(table), **options)


def parsed(cache: Path) -> list[str]:
    return sorted(folder.name for folder in cache.iterdir() if folder.name != "hashes")


@pytest.fixture
def vectors(tmp_path):
    return StaticVectors.open(glove(tmp_path / "vectors.txt"))


@pytest.fixture
def no_parser(monkeypatch):
    """From here on, nothing can be parsed."""

    def forbid():
        def parse(*_):
            raise AssertionError("The file was parsed again.")

        monkeypatch.setattr(vector_cache, "_parse", parse)

    return forbid


# --- the text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])  # word2vec and fastText put a space behind the last number
def test_every_format_gives_the_same(tmp_path, packed, header, end):
    lines = [f"{len(TABLE)} 3"] * header + lines_of()
    vectors = StaticVectors.open(write(tmp_path / "vectors", lines, end=end, packed=packed))
    assert (len(vectors), vectors.dimension) == (len(TABLE), 3)
    assert list(vectors.vocabulary) == list(TABLE)
    np.testing.assert_array_equal(vectors.matrix, np.array(list(TABLE.values()), dtype=np.float32))
    np.testing.assert_allclose(vectors.mean, np.mean(list(TABLE.values()), axis=0), rtol=1e-6)


def test_words_may_hold_spaces_and_look_like_numbers(tmp_path):
    path = write(tmp_path / "v", [". . . 0.1 1e-3", "2024 1 -2", "at name@domain.com .5 6.", "\u00a0 7 8", "1_0 9 10"])
    vectors = StaticVectors.open(path)
    assert list(vectors.vocabulary) == [". . .", "2024", "at name@domain.com", "\u00a0", "1_0"]
    np.testing.assert_array_equal(vectors.matrix[1:], np.float32([[1, -2], [0.5, 6], [7, 8], [9, 10]]))


def test_a_number_for_a_word_is_no_header(tmp_path):
    assert list(StaticVectors.open(write(tmp_path / "one", ["5 3", "a 7"])).vocabulary) == ["5", "a"]
    assert list(StaticVectors.open(write(tmp_path / "two", ["2 1", "a 7", "b 8"])).vocabulary) == ["a", "b"]
    assert list(StaticVectors.open(write(tmp_path / "three", ["5 3 4", "a 7 8"])).vocabulary) == ["5", "a"]


def test_bytes_that_are_no_utf8_are_replaced(tmp_path):
    path = tmp_path / "v"
    path.write_bytes(b"\xef\xbb\xbffirst 1 2\ncaf\xe9 3 4\n\n")
    assert list(StaticVectors.open(path).vocabulary) == ["first", "caf\N{REPLACEMENT CHARACTER}"]


def test_the_first_of_repeated_words_wins_and_they_are_counted(tmp_path, caplog):
    path = write(tmp_path / "v", ["4 2", "a 1 2", "b 3 4", "a 5 6", "a 7 8"])
    with caplog.at_level(logging.INFO):
        vectors = StaticVectors.open(path)
    np.testing.assert_array_equal(vectors.matrix, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(vectors.mean, [2, 3])
    assert "2 words, 2 dimensions; 2 repeated words left out" in caplog.text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a 1 2 3", "b 1 2"], "a word and 3 numbers, but line 2 holds 2: "),
        (["a 1 2 3", "b 1 2 3 4"], "a word and 3 numbers, but line 2 holds 4: "),
        (["2 3", "a 1 2 3", "b"], "a word and 3 numbers, but line 3 holds 0: "),
        (["2 3", "a 1 2", "b 1 2 3"], "a word and 3 numbers, but line 2 holds 2: "),
        (["7 99999999999999", "a 1 2"], "a word and 99,999,999,999,999 numbers, but line 2 holds 2: "),
        (["a 1 2 3", "", "b 1 2x 3"], "3 numbers, but line 3 holds '2x', which is not a finite number"),
        (["a 1 2 3", "b 1 1_0 3"], "3 numbers, but line 2 holds '1_0', which is not a finite number"),
        (["a 1 2 3", ". . . 1 2"], r"3 numbers, but line 2 holds '\.', which is not a finite number"),
        (["a 1 nan 3"], "3 numbers, but line 1 holds 'nan', which is not a finite number"),
        (["a 1 2 3", "b 1 2 -inf"], "3 numbers, but line 2 holds '-inf', which is not a finite number"),
        (["a 1 2 3", "b 1 2 1e39"], "3 numbers, but line 2 holds '1e39', which is not a finite number of float32"),
        (["3 2", "a 1 2", "b 3 4"], "to hold 3 words, as its line 1 says, but got 2: "),
        (["1 2", "a 1 2", "b 3 4"], "to hold 1 word, as its line 1 says, but got 2: "),
        ([], "to hold word vectors, but it holds none: "),
        (["", " "], "to hold word vectors, but it holds none: "),
        (["5 300"], "to hold word vectors, but it holds none: "),
        (["Call me Ishmael.", "Some years ago"], "word2vec, GloVe or fastText, but line 1 holds no numbers: "),
    ],
)
def test_what_is_no_vector_file_is_an_error_with_its_line(tmp_path, cache, lines, message):
    path = write(tmp_path / "vectors.txt", lines)
    with pytest.raises(InputError, match=message) as error:
        StaticVectors.open(path)
    assert str(path) in str(error.value)
    assert parsed(cache) == []


def word2vec_binary() -> bytes:
    values = np.random.default_rng(0).normal(size=(40, 16)).astype("<f4")
    return b"40 16\n" + b"".join(b"word%d " % row + one.tobytes() + b"\n" for row, one in enumerate(values))


def test_binary_files_archives_and_damaged_gzip_files_are_errors(tmp_path):
    path, packed = tmp_path / "vectors", glove(tmp_path / "v.gz", packed=True).read_bytes()
    archive = Path(shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path, "v.gz"))
    for content, message in (
        (word2vec_binary(), "but it is binary: save the vectors as text first"),
        (gzip.compress(word2vec_binary()), "but it is binary: save the vectors as text first"),
        (archive.read_bytes(), "but it is a ZIP archive: unpack it first"),
        (packed[:-12], "to be a file of word vectors that can be read, but got: "),
        (packed[:30] + b"\xff\xff\xff" + packed[33:], "to be a file of word vectors that can be read, but got: "),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            StaticVectors.open(path)


def test_a_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(InputError, match="can be read, but got: No such file or directory"):
        StaticVectors.open(tmp_path / "nowhere.txt")
    assert not is_static(str(tmp_path / "nowhere.txt"))
    assert not is_static(str(tmp_path))
    assert not is_static("sentence-transformers/all-MiniLM-L6-v2")
    assert is_static(str(glove(tmp_path / "v")))


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, cache, monkeypatch):
    path = glove(tmp_path / "v")
    original = vector_files._header

    def header(*arguments):
        with path.open("a") as stream:
            stream.write("new 1 2 3\n")
        return original(*arguments)

    monkeypatch.setattr(vector_files, "_header", header)
    with pytest.raises(InputError, match="to stay as it is while it is read"):
        StaticVectors.open(path)
    assert parsed(cache) == []


# --- the cache --------------------------------------------------------------------------------------------------------


def test_a_file_is_parsed_once(tmp_path, cache, no_parser):
    path = glove(tmp_path / "v")
    first = StaticVectors.open(path)
    assert parsed(cache) == [file_sha256(path)]
    no_parser()
    again = StaticVectors.open(str(path))
    np.testing.assert_array_equal(again.matrix, first.matrix)
    assert again.vocabulary == first.vocabulary
    assert again.identity == first.identity == f"v@{file_sha256(path)[:8]}"
    renamed = path.rename(tmp_path / "other name")
    assert StaticVectors.open(renamed).identity == f"other name@{first.sha256[:8]}"


def test_a_changed_file_is_read_anew(tmp_path, cache):
    path = glove(tmp_path / "v")
    first = StaticVectors.open(path)
    times = path.stat()
    glove(path, {**TABLE, "the": [0.1, 0.2, 0.4]})  # as long as before
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = StaticVectors.open(path)
    assert second.matrix[0, 2] == np.float32(0.4)
    assert first.matrix[0, 2] == np.float32(0.3)
    assert first.identity != second.identity
    assert len(parsed(cache)) == 2


def test_a_file_that_rests_is_hashed_once(tmp_path, cache, monkeypatch):
    path, hashed = glove(tmp_path / "v"), []
    monkeypatch.setattr(vector_cache, "file_sha256", lambda one: hashed.append(one) or file_sha256(one))
    for _ in range(2):
        first = StaticVectors.open(path)
    assert hashed == [path] * 2  # just written: it may change once more within the resolution of its times
    monkeypatch.setattr(vector_cache, "SETTLED_NS", -1)
    for _ in range(3):
        assert StaticVectors.open(path).sha256 == first.sha256
    assert hashed == [path] * 3
    (note,) = (cache / "hashes").iterdir()
    note.write_text("damaged")
    assert StaticVectors.open(path).sha256 == first.sha256
    glove(path, {"other": [1.0]})
    assert StaticVectors.open(path).sha256 == file_sha256(path) != first.sha256


@pytest.mark.parametrize("name", [vector_cache.MATRIX, vector_cache.WORDS, conversion_cache.ENTRY])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_cache_is_made_anew(tmp_path, cache, name, damage):
    path = glove(tmp_path / "v")
    file = cache / StaticVectors.open(path).sha256 / name
    whole = file.read_bytes()
    file.unlink() if damage == "gone" else file.write_bytes(whole[:-3])
    assert list(StaticVectors.open(path).vocabulary) == list(TABLE)
    assert file.read_bytes() == whole
    assert len(parsed(cache)) == 1


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(tmp_path, monkeypatch, caplog, no_parser):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(conversion_cache, "_temporary", {})
    path = glove(tmp_path / "v")
    vectors = StaticVectors.open(path)
    assert list(vectors.vocabulary) == list(TABLE)
    (record,) = (one for one in caplog.records if one.levelno >= logging.WARNING)
    assert str(path) in record.getMessage()
    no_parser()
    assert len(StaticVectors.open(path)) == len(TABLE)
    shutil.rmtree(vectors._folder)


def test_no_room_anywhere_is_an_error(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    path = glove(tmp_path / "v")
    for name in ("mkdtemp", "mkstemp"):
        monkeypatch.setattr(conversion_cache.tempfile, name, full)
    with pytest.raises(InputError, match=r"space for .*, unpacked, .*: No space left on device\. Set XDG_CACHE_HOME"):
        StaticVectors.open(path)


def test_the_cache_is_in_the_home_folder_unless_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for stated in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", stated)
        assert vector_cache.user_cache() == tmp_path / "home/.cache/textmover"


def test_two_at_the_same_time_get_the_same(tmp_path, cache, monkeypatch):
    path, both, original = glove(tmp_path / "v"), threading.Barrier(2, timeout=30), vector_cache._parse

    def parse(*arguments):
        original(*arguments)
        both.wait()  # both have parsed before either gives its folder the name

    monkeypatch.setattr(vector_cache, "_parse", parse)
    opened = []
    threads = [threading.Thread(target=lambda: opened.append(StaticVectors.open(path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(one.vocabulary) for one in opened] == [list(TABLE)] * 2
    assert parsed(cache) == [file_sha256(path)]


def test_a_stated_hash_is_held_to(tmp_path, cache, no_parser):
    path = glove(tmp_path / "v")
    with pytest.raises(InputError, match="to have the SHA-256 0000, but got"):
        StaticVectors.open(path, sha256="0000")
    sha256 = file_sha256(path)
    assert len(StaticVectors.open(path, sha256=sha256)) == len(TABLE)
    no_parser()
    path.unlink()
    assert len(StaticVectors.open(path, sha256=sha256)) == len(TABLE)


def test_what_was_saved_is_found_again(tmp_path, cache):
    path, folder = glove(tmp_path / "v.txt"), tmp_path / "checkpoint"
    folder.mkdir()
    first = StaticVectors.open(path, "mean")
    WordTokenizer(first).save(folder)
    assert [file.name for file in folder.iterdir()] == [static_vectors.DESCRIPTION]

    shutil.rmtree(cache)
    again = StaticVectors.load(folder)
    assert (again.identity, again.unknown_words) == (first.identity, "mean")
    assert StaticVectors.load(folder, "zero").unknown_words == "zero"

    moved = path.rename(tmp_path / "elsewhere.txt")
    assert StaticVectors.load(folder).identity == first.identity  # from the cache
    shutil.rmtree(cache)
    with pytest.raises(InputError, match=r"Expected the word vectors .*v\.txt .*put it there, or into"):
        StaticVectors.load(folder)
    moved.rename(folder / "v.txt")
    assert StaticVectors.load(folder).identity == first.identity
    shutil.rmtree(cache)
    glove(folder / "v.txt", {"other": [1.0]})
    with pytest.raises(InputError, match="give the file of that hash"):
        StaticVectors.load(folder)


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The dog's (old) bone...", ["The", "dog's", "(", "old", ")", "bone", ".", ".", "."]),
        ("well-known - not ‘don’t’", ["well-known", "-", "not", "‘", "don’t", "’"]),
        ("$1,234.50, or 5%", ["$", "1,234.50", ",", "or", "5", "%"]),
        ("end.Start a,b New_York", ["end", ".", "Start", "a", ",", "b", "New_York"]),
        ("e\u0301lan", ["élan"]),
        ("हिन्दी में क्‍ष", ["हिन्दी", "में", "क्‍ष"]),
        ("می‌روم", ["می‌روم"]),
        ("good \N{THUMBS UP SIGN}\ufe0f\u200b!", ["good", "\N{THUMBS UP SIGN}", "!"]),
        (" \n\t", []),
    ],
)
def test_words_and_marks(text, words):
    assert split_words(text) == words


def test_a_word_is_looked_up_as_it_is_and_in_lower_case(vectors):
    assert [vectors.find(word) for word in ("the", "The", "THE", "Paris", "paris", "bone")] == [0, 0, 0, 3, None, None]
    batch = WordTokenizer(vectors)(["The DOG, Paris"])
    assert batch.input_ids.tolist() == [[0, 1, 4, 3]]
    assert WordTokenizer(vectors)(["\x07\u200b"]).mask.sum() == 0  # a bell that nobody sees


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't Don’t DON'T", ["don't"] * 3),
        ("do doN't", ["do", "don't"]),
        ("dogn't", ["dog", "n't"]),
        ("the dog’s", ["the", "dog", "'s"]),
        ("well-known cat-dog", ["well", "known", "cat", "dog"]),
        ("l'élan", ["élan"]),  # the apostrophe is tried with the word that it begins, then without
        ("3.50 well-3.50", ["3.50", "well"]),
        ("un-heard", []),
    ],
)
def test_a_compound_without_a_vector_is_taken_apart(vectors, text, words):
    rows = [list(TABLE).index(word) for word in words]
    assert WordTokenizer(vectors)([text]).input_ids.tolist() == [rows]


def test_a_batch_has_no_special_tokens(vectors):
    batch = WordTokenizer(vectors)([" the dog\n", "", "cat"])
    assert batch.input_ids.tolist() == [[0, 1], [0, 0], [2, 0]]
    assert batch.input_ids.dtype == torch.int64
    assert batch.mask.tolist() == [[True, True], [False, False], [True, False]]
    assert (batch.special == SpecialToken.NONE).all()
    assert batch.special.dtype == torch.int8
    assert batch.texts == ("the dog", "", "cat")
    assert batch.truncated == (False,) * 3
    assert batch.traits is None


def test_traits_tell_punctuation_and_stop_words(vectors):
    tokenizer = WordTokenizer(vectors, traits=True, stop_words=frozenset({"the", "mustn't", "don't"}))
    tokenizer.vectors.unknown_words = "zero"
    stop, mark = TokenTrait.STOP_WORD, TokenTrait.PUNCTUATION
    batch = tokenizer(["The dog, … don’t mustn't", "!"])
    assert batch.traits.tolist() == [[stop, 0, mark, 0, stop, stop, stop], [mark] + [0] * 6]
    assert batch.traits.dtype == torch.int8
    assert len(batch.select([1]).traits[0]) == 1


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("It's the cat’s", [1, 1, 1, 0, 1]),  # it 's the cat 's
        ("DON'T don’t dogn't", [1, 1, 0, 1]),  # of which the vocabulary holds the first whole
        ("the-do it-s", [1, 1, 1]),  # of the second, no part has a vector: it stays whole
        ("known-well well-s 's", [0, 0, 0, 1, 0, 1]),  # an apostrophe that begins a text stands alone
        ("— ’", [0, 0]),
    ],
)
def test_endings_and_compounds_of_stop_words_are_stop_words(vectors, text, stops):
    vectors.unknown_words = "zero"
    tokenizer = WordTokenizer(vectors, traits=True, stop_words=frozenset({"it", "the", "do", "s", "t"}))
    marked = tokenizer([text]).traits[0] & TokenTrait.STOP_WORD
    assert marked.bool().int().tolist() == stops


def test_there_is_no_limit_unless_given(vectors):
    assert WordTokenizer(vectors).max_length is None
    assert WordTokenizer(vectors)(["dog " * 5000]).lengths.tolist() == [5000]


def test_choices_are_checked(tmp_path, vectors):
    with pytest.raises(InputError, match="`unknown_words` to be one of 'drop', 'zero', 'mean', 'error'"):
        StaticVectors.open(tmp_path / "vectors.txt", "skip")
    with pytest.raises(InputError, match="`long_texts` to be one of"):
        WordTokenizer(vectors, 3, "cut")


@pytest.mark.parametrize("bad", [None, 3, b"bytes", ["nested"]])
def test_what_is_no_string_is_refused_with_its_place(vectors, bad):
    with pytest.raises(TypeError, match=rf"strings, but got {type(bad).__name__} at position 1\."):
        WordTokenizer(vectors)(["the", bad])


# --- the encoder ------------------------------------------------------------------------------------------------------


def encode(vectors, texts) -> tuple[TokenBatch, torch.Tensor]:
    batch = WordTokenizer(vectors)(texts)
    (layer,) = StaticEncoder(vectors)(batch)
    return batch, layer


def test_vectors_of_a_batch(vectors):
    batch, layer = encode(vectors, ["the dog", "", "Paris"])
    assert layer.shape == (3, 2, 3)
    assert layer.dtype == torch.float32
    assert torch.equal(layer[0], torch.tensor([TABLE["the"], TABLE["dog"]]))
    assert torch.equal(layer[2, 0], torch.tensor(TABLE["Paris"]))
    assert not layer[~batch.mask].any()


@pytest.mark.parametrize("texts", [[], [""], ["unheard of"]])
def test_nothing_to_encode(vectors, texts):
    _, layer = encode(vectors, texts)
    assert layer.shape == (len(texts), 0, 3)


def test_an_id_of_another_vocabulary_is_refused(vectors):
    batch = TokenBatch(torch.tensor([[99]]), torch.ones(1, 1).bool(), torch.zeros(1, 1).char(), ("x",), (False,))
    with pytest.raises(ValueError, match="ids of at most 13"):
        StaticEncoder(vectors)(batch)


def test_nothing_to_train_and_nothing_to_keep(vectors):
    encoder = StaticEncoder(vectors)
    assert (encoder.layers, encoder.depth, encoder.dimension, encoder.whole_words) == ((0,), 0, 3, True)
    assert encoder.device == torch.device("cpu")
    assert list(encoder.parameters()) == []
    assert encoder.state_dict() == {}
    encoder.load_state_dict({})
    batch, layer = encode(vectors, ["the dog"])
    for dtype in (torch.bfloat16, torch.float64):
        assert torch.equal(encoder.to(dtype)(batch)[0], layer)
    assert encoder.train()(batch)[0].requires_grad is False


def test_copies_share_the_rows_and_pickles_open_them_again(tmp_path, no_parser):
    vectors = StaticVectors.open(glove(tmp_path / "v"), "mean")
    encoder, tokenizer = StaticEncoder(vectors), WordTokenizer(vectors, 5, traits=True, stop_words=frozenset({"the"}))
    batch = tokenizer(["the unheard-of dog"])
    no_parser()
    assert copy.deepcopy(encoder).vectors is vectors
    stored = pickle.dumps((encoder, tokenizer))
    assert len(stored) < 4000
    for again, words in (copy.deepcopy((encoder, tokenizer)), pickle.loads(stored)):
        assert isinstance(again.vectors.matrix, np.memmap)
        assert again.vectors.identity == vectors.identity
        assert torch.equal(again(words(batch.texts))[0], encoder(batch)[0])
        assert torch.equal(words(batch.texts).traits, batch.traits)
