"""Marked errors are split as ratings are, and meet the references that the options ask for."""

from pathlib import Path

import pytest

from data_files import all_items, source_of, write_table
from textmover.data import MadeErrorsDataModule, MarkedDataModule, MixtureDataModule, PairFile
from textmover.data.error_spans.segment_augmentation import closest_others, reworded, with_references
from textmover.data.split import is_held_back
from textmover.readers.error_spans import MarkedColumns
from textmover.types import InputError
from textmover.types.error_spans import ErrorSpan, MarkedSegment


@pytest.fixture
def tagged(tmp_path):
    def row(number):
        tags = "OK OK OK BAD OK OK OK" if number % 3 else "OK OK OK OK OK OK OK"
        return f"Cat {number}.\tDog {number}.\tCat {number} .\t{tags}\t{'de' if number % 2 else 'fi'}-en"

    header = "hypothesis\treference\thypothesis_tokens\ttags\tlp"
    return write_table(tmp_path / "tagged.tsv", header, map(row, range(200)))


def read(*args, **options):
    return source_of(MarkedDataModule(*args, **options))


def test_references_are_held_back_by_their_hash(tagged):
    source = read([tagged], held_back=0.3)
    kept = source.parts["held-back"]
    assert all(is_held_back(one.references[0], 0.3) for one in kept)
    assert not any(is_held_back(one.references[0], 0.3) for one in source.items)
    assert len(source.items) + len(kept) == 200
    assert source.describe()["texts with errors"].startswith(f"{sum(bool(one.errors) for one in source.items)} of")
    assert source.fingerprint(1) == read([tagged], held_back=0.3).fingerprint(1)


def test_rows_are_chosen_and_left_out(tagged, tmp_path):
    test = write_table(tmp_path / "test.tsv", "hypothesis\treference", ["dog 7\tCAT 7!"])
    columns = MarkedColumns(groups=("lp",))
    source = read(
        [tagged], [tagged], columns, where={"lp": ["de-en"]}, validation_where={"lp": ["fi-en"]},
        without=[PairFile(test)],
    )  # fmt: skip
    assert {one.groups["lp"] for one in source.items} == {"de-en"}
    assert {one.groups["lp"] for one in source.parts["held-back"]} == {"fi-en"}
    assert len(source.items) == 99
    assert "Cat 7." not in [one.hypothesis for one in source.items]


def test_at_most_so_many_rows_are_trained_on_the_same_each_time(tagged):
    """They are chosen by a hash, after others are held back."""
    whole, part = read([tagged], held_back=0.3), read([tagged], held_back=0.3, most=40)
    assert part.parts["held-back"] == whole.parts["held-back"]
    assert len(part.items) == 40
    assert part.items == read([tagged], held_back=0.3, most=40).items
    assert {one.hypothesis for one in part.items} <= {one.hypothesis for one in whole.items}


def test_bad_rows_are_refused_or_left_out(tagged, caplog):
    with Path(tagged).open("a") as stream:
        stream.write("Cat.\tDog.\tCat !\tOK OK OK OK OK\tde-en\n")
    with pytest.raises(InputError, match=r"line 202"):
        read([tagged])
    assert len(all_items(read([tagged], unusable="leave-out"))) == 200
    assert "Rows left out: 1 of" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": MarkedColumns(references=())}, "`columns` to name a reference or a source"),
        ({"held_back_by": ["source"]}, "`held_back_by` to name"),
        ({"held_back_by": []}, "`held_back_by` to name"),
        ({"references": {"others": 1.0}}, r"`references` to give weights .*, but got others: 1\.0"),
        ({"held_back": 0.001}, "at least 3 segments in the held-back part"),
        ({"most": 0}, "`most` to be a whole number from 1 to 1,000,000,000, but got 0"),
    ],
)
def test_options_that_cannot_be_used_are_named(tagged, options, message):
    with pytest.raises(InputError, match=message):
        read([tagged], **options)


def test_texts_without_errors_teach_nothing(tagged):
    Path(tagged).write_text(Path(tagged).read_text().replace("BAD", "OK"))
    with pytest.raises(InputError, match=r"texts with errors in the training part .*, but none of the"):
        read([tagged])


def segment(number, reference, source=None):
    return MarkedSegment(f"hypothesis {number}", (ErrorSpan(0, 3),), (reference,), source)


SEGMENTS = [
    segment(0, "The big cat sat on a mat."),
    segment(1, "The big cat sat on the red mat!"),
    segment(2, "the BIG cat sat on a  mat."),  # the first one again
    segment(3, "我爱北京"),
    segment(4, "我爱北京城"),
    segment(5, "Nothing alike."),
]


def test_the_closest_other_reference_is_found():
    found = closest_others(SEGMENTS, range(6))
    first = [one.references[0] for one in SEGMENTS]
    assert {row: first.index(text) for row, text in found.items()} == {0: 1, 1: 0, 2: 1, 3: 4, 4: 3}
    assert closest_others(SEGMENTS, []) == {}


def test_references_are_drawn_by_weight_and_seed():
    segments = [segment(number, f"The big cat {number} sat on a beautiful mat.") for number in range(300)]
    weights = {"given": 1.0, "other": 2.0, "paraphrase": 3.0}
    found = with_references(segments, weights, 0)
    counts = {kind: sum(one.groups["reference"] == kind for one in found) for kind in weights}
    assert all(abs(counts[kind] - 50 * weight) < 30 for kind, weight in weights.items())
    assert found == with_references(segments, weights, 0) != with_references(segments, weights, 1)
    assert found[7:9] == with_references(segments, weights, 0)[7:9]
    for old, new in zip(segments, found, strict=True):
        assert (old.hypothesis, old.errors) == (new.hypothesis, new.errors)
        assert (old.references == new.references) == (new.groups["reference"] == "given")


def test_a_reference_stays_where_there_is_no_other():
    (alone,) = with_references([segment(0, "Nothing alike.")], {"other": 1.0}, 0)
    (plain,) = with_references([segment(0, "Go.")], {"paraphrase": 1.0}, 0)
    assert alone.groups == plain.groups == {"reference": "given"}
    assert alone.references == ("Nothing alike.",)
    (bare,) = with_references([MarkedSegment("a", (), (), "b")], {"other": 1.0}, 0)
    assert bare.references == ()


def test_paraphrases_say_the_same_in_other_words():
    assert reworded("It has 12 beautiful rooms.", 0) not in (None, "It has 12 beautiful rooms.")
    assert reworded("Go.", 0) is None


def test_marked_and_made_errors_mix(tagged, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"The old cat number {number} was sitting on a mat.\n" for number in range(60)))
    mixture = MixtureDataModule(
        {"people": MarkedDataModule([tagged]), "made": MadeErrorsDataModule([str(texts)], versions=1)}
    )
    mixture.setup()
    assert list(mixture.sources) == ["people", "made"]
    assert [part for _, part in mixture.judged] == ["held-back", "held-back"]
