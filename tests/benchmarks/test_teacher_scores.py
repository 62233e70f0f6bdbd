"""Pairs for teachers: the same for a seed, of texts that differ, from every set."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

NOUNS = ["otter", "harbour", "violin", "glacier", "pepper", "lantern", "marble", "falcon", "orchard", "tunnel"]
SENTENCES = [f"the {noun} {rest}" for noun in NOUNS for rest in ("is over there", "was not here", "may be big")]


@pytest.fixture
def sets(script, tmp_path, monkeypatch):
    """Small sets in the place of the public ones; in each some texts differ in case and marks alone."""

    def written(name, lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(tmp_path / name)

    captions = ["hypothesis\tpremise", *(f"a {noun}\tone {noun} outside" for noun in NOUNS), "A dog.\ta dog"]
    parts = [f"{('train', 'test')[n % 2]}\tthis {noun}\tthat {noun}\tdas {noun}" for n, noun in enumerate(NOUNS)]
    translations = ["part\thypothesis\treference\tsource", *parts, "train\tAll right!\tall right\tgut"]
    lines = [*SENTENCES, *SENTENCES[:5], "too short", *(one.upper() for one in SENTENCES[:9])]
    monkeypatch.setattr(script, "PAIRS", {written("captions.tsv", captions): 11})
    monkeypatch.setattr(script, "TRANSLATIONS", written("translations.tsv", translations))
    monkeypatch.setattr(script, "SENTENCES", {written("sentences.txt", lines): 39})


@pytest.fixture
def rows_of(script, run, sets, tmp_path, monkeypatch):
    """Runs the script with a scorer that likes long references; returns bytes and rows of its table."""

    def from_pretrained(name, **_):
        score = lambda texts, others: SimpleNamespace(scores=np.array([float(len(one)) for one in others]))  # noqa: E731
        return SimpleNamespace(score=score)

    def rows(*options):
        output = tmp_path / "runs" / "teacher.csv"
        run("--output", output, *options)
        return output.read_bytes(), list(csv.DictReader(output.read_text(encoding="utf-8").splitlines()))

    monkeypatch.setattr(script, "Scorer", SimpleNamespace(from_pretrained=from_pretrained))
    return rows


@pytest.mark.parametrize("number", [5, len(SENTENCES)])
def test_each_sentence_stands_beside_another_one(script, number):
    texts = SENTENCES[:number]
    for seed in range(20):
        found = list(script.neighbours(texts, number, np.random.default_rng(seed)))
        assert sorted(one for one, _ in found) == sorted(texts)
        assert all(one != other for one, other in found)
        assert {other for _, other in found} <= set(texts)
    assert len(list(script.neighbours(texts, 3, np.random.default_rng(0)))) == 3


def test_the_nearest_sentence_shares_the_rare_word(script):
    in_order = SimpleNamespace(permutation=np.arange, exponential=lambda scale: 0.0)
    for one, other in script.neighbours(SENTENCES, len(SENTENCES), in_order):
        assert one.split()[1] == other.split()[1]


def test_a_seed_gives_the_same_bytes_and_texts_that_differ(rows_of):
    content, rows = rows_of("--translations", "20")
    assert rows_of("--translations", "20")[0] == content
    assert rows_of("--translations", "20", "--seed", "1")[0] != content
    assert {row["set"].rpartition("/")[2] for row in rows} == {"captions.tsv", "translations.tsv", "sentences.txt"}
    compared = [["".join(filter(str.isalnum, row[key].lower())) for key in ("hypothesis", "reference")] for row in rows]
    assert all(one != other for one, other in compared)
    assert "too short" not in content.decode()
    scores = np.array([float(row["score"]) for row in rows])
    assert (scores.mean(), scores.std()) == (pytest.approx(0, abs=1e-4), pytest.approx(1, abs=1e-4))


def test_a_share_takes_part_of_the_sets_and_translations_are_those_of_training(rows_of):
    _, rows = rows_of("--translations", "20", "--share", "0", "--teachers", "a", "b")
    assert sorted(row["hypothesis"] for row in rows) == sorted(f"this {noun}" for noun in NOUNS[::2])
    assert {row["source"] for row in rows} == {f"das {noun}" for noun in NOUNS[::2]}
    _, rows = rows_of("--share", "0.1")
    assert 0 < len(rows) <= 2 + 4
