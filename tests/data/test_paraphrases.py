from itertools import pairwise

import numpy as np
import pytest

from data_files import all_items, source_of, texts_of, write_table
from textmover.data import LabelColumns, PairFile, ParaphrasesDataModule
from textmover.data.paraphrases import nearest_others, tf_idf
from textmover.data.split import is_held_back, normalise_reference
from textmover.types import InputError

BOTH = LabelColumns(("a", "b"))


@pytest.fixture
def pairs(tmp_path):
    """90 pairs: of each three, two are connected by a text that they share."""
    rows = []
    for n in range(30):
        rows += [f"red cat {n}\tred feline {n}\t1", f"RED  feline {n}\tcat in red {n}\t1", f"dog {n}\thound {n}\t1"]
    return write_table(tmp_path / "pairs.tsv", "a\tb\tlabel", rows)


def read(*arguments, **options):
    return source_of(ParaphrasesDataModule(*arguments, **options))


def test_connected_pairs_are_one_cluster_and_go_the_same_way(pairs):
    source = read([pairs], columns=BOTH, held_back=0.3)
    held_back = source.parts["held-back"]
    assert len(source.items) + len(held_back) == 90
    assert not texts_of(source.items) & texts_of(held_back)
    for part in (source.items, held_back):
        of_text = {}
        for item in part:
            for text in item.texts:
                assert of_text.setdefault(normalise_reference(text), item.cluster) == item.cluster
    reds = [item.cluster for item in source.items if "red" in item.texts[0].lower()]
    assert len(set(reds)) == len(reds) / 2


def test_only_pairs_of_the_paraphrase_class_are_taken(tmp_path):
    rows = (f"a{n}\tb{n}\t{n % 2}" for n in range(100))
    taken = all_items(read([write_table(tmp_path / "qqp.tsv", "question1\tquestion2\tlabel", rows)], "qqp"))
    assert len(taken) == 50
    assert all(int(item.texts[0][1:]) % 2 for item in taken)


@pytest.mark.parametrize("count", [1, 3])
def test_negatives_are_mined_by_overlap_among_other_clusters_and_said_so(pairs, count):
    source = read([pairs], columns=BOTH, negatives=count)
    known = {item.texts[0]: item.cluster for item in source.items}
    for item in source.items:
        assert len(item.negatives) == count
        for negative in item.negatives:
            assert known[negative.texts[0]] == negative.cluster != item.cluster
            assert set(negative.texts[0].lower().split()) & set(item.texts[0].lower().split())
    assert source.describe()["mined negatives"] == f"{count} to a pair, by overlap"
    assert "Nobody judged the negatives" in source.notice
    assert "share the most words" in source.notice


def test_nearest_others_are_those_of_brute_force():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    clusters = rng.integers(40, size=300)
    found = nearest_others(vectors, clusters, 4)
    for row in (0, 7, 255, 256, 299):
        others = [place for place in range(300) if clusters[place] != clusters[row]]
        expected = sorted(others, key=lambda place: -vectors[row] @ vectors[place])[:4]
        assert found[row] == expected


def test_texts_without_words_have_neighbours_too():
    assert [len(places) for places in nearest_others(tf_idf(["?", "!", "a cat"]), range(3), 2)] == [2, 2, 2]


def test_of_equal_ones_the_first_are_the_nearest():
    vectors = np.eye(3)[[0, 1, 0, 0, 1, 2, 0, 0]]
    assert nearest_others(vectors, list(range(8)), 5)[:2] == [[2, 3, 6, 7, 1], [4, 0, 2, 3, 5]]
    assert nearest_others(vectors, list(range(8)), 0) == [[]] * 8


@pytest.mark.parametrize("options", [{"without": True}, {"most": 40}])
def test_paraphrases_whose_link_is_not_trained_on_are_no_negatives_of_each_other(tmp_path, options):
    chain = [f"way {n} to cook rice" for n in range(12)]
    rows = [f"{one}\t{two}" for one, two in pairwise(chain)]
    rows += [f"alpha {n} beta\tgamma {n} delta" for n in range(60)]
    if "without" in options:
        options = {"without": [PairFile(write_table(tmp_path / "test.tsv", "a\tb", rows[1:11:2]), ("a", "b"))]}
    source = read([write_table(tmp_path / "pairs.tsv", "a\tb", rows)], columns=BOTH, negatives=1, **options)
    about_rice = [item for item in source.items if "rice" in item.texts[0]]
    assert 2 <= len(about_rice) < 11
    assert len({item.cluster for item in about_rice}) == 1
    assert not any("rice" in negative.texts[0] for item in about_rice for negative in item.negatives)


def test_a_part_of_paraphrases_of_one_another_is_refused_as_it_is_read(tmp_path):
    word = next(f"word{n}" for n in range(100) if is_held_back(f"word{n} 0"))
    rows = [f"{word} {k}\t{word} {k + 1}" for k in range(6)]
    rows += [f"a{n}\tb{n}" for n in range(30) if not is_held_back(f"a{n}")]
    with pytest.raises(InputError, match=r"the held-back part, but got 6 in 1 cluster of .*pairs\.tsv"):
        read([write_table(tmp_path / "pairs.tsv", "a\tb", rows)], columns=BOTH)
    rows.append(next(f"a{n}\tb{n}" for n in range(100) if is_held_back(f"a{n}")))
    assert len(read([write_table(tmp_path / "pairs.tsv", "a\tb", rows)], columns=BOTH).parts["held-back"]) == 7


def test_too_few_clusters_to_mine_from(tmp_path):
    path = write_table(tmp_path / "one.tsv", "a\tb", (f"same\tb{n}" for n in range(20)))
    with pytest.raises(InputError, match=r"the training part, but got 20 in 1 cluster of"):
        read([path], columns=BOTH, negatives=1, held_back=0.0)
    with pytest.raises(InputError, match="at least 1 text of other paraphrases"):
        nearest_others(tf_idf(["same"] * 5), [0] * 5, 1)


def test_the_pairs_of_a_test_set_are_not_trained_on(pairs, tmp_path):
    whole = read([pairs], columns=BOTH, held_back=0.3)
    turned = (f"{one.texts[1].upper()}\t{one.texts[0]}" for one in whole.items[:5])
    path = write_table(tmp_path / "test.tsv", "x\ty", turned)
    source = read([pairs], columns=BOTH, held_back=0.3, without=[PairFile(path, ("x", "y"))])
    assert [one.texts for one in source.items] == [one.texts for one in whole.items[5:]]
    assert "(5 pairs left out)" in source.describe()["without the pairs of"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "mnli"}, "a task with paraphrases"),
        ({"columns": LabelColumns(("a",))}, "two columns of texts"),
        ({"columns": LabelColumns(("a", "b"), "label")}, r"a `task` that defines the labels of `columns\.label`"),
        ({"columns": BOTH, "batch_size": 1}, "`batch_size` to be at least 2"),
        ({"columns": BOTH, "mining": "foo"}, "`mining` to be overlap or metric, but got 'foo'"),
        ({"columns": BOTH, "negatives": -1}, "`negatives` to be a whole number from 0"),
        ({"columns": BOTH, "where": {"label": ["1"]}}, r"`columns\.groups`"),
    ],
)
def test_what_cannot_be_read_is_refused(pairs, options, message):
    with pytest.raises(InputError, match=message):
        read([pairs], **options)


def test_the_files_at_hand_are_read(shared_folder):
    folder = shared_folder / "data" / "nli_paraphrase"
    source = read([str(folder / "qqp_positives.tsv")], "qqp", LabelColumns(label="is_duplicate"))
    assert len(source.items) + len(source.parts["held-back"]) == 15_026
    assert not texts_of(source.items) & texts_of(source.parts["held-back"])
    paws = read([str(folder / "paws_positive_pairs_from_xpaws.tsv")], "paws")
    assert len(paws.items) + len(paws.parts["held-back"]) == 724
