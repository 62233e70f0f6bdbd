"""Tables of judgements: what the description says is what comes out, and nothing is lost in silence."""

import math
from pathlib import Path

import numpy as np
import pytest
from tests.readers.shared import write_lines, write_records

from textmover.readers.judgements.description import SetDescription
from textmover.readers.judgements.table_sets import read_judgements, set_name
from textmover.types import InputError


def tsv(tmp_path: Path, *lines: str, name: str = "ratings.tsv") -> Path:
    return write_lines(tmp_path / name, *lines)


def jsonl(tmp_path: Path, *records: dict) -> Path:
    return write_records(tmp_path / "ratings.jsonl", list(records))


def row(**fields: object) -> dict:
    return {"hypothesis": "a", "reference": "b", "score": 1.0} | fields


class TestFields:
    def test_all_of_them(self, tmp_path):
        path = tsv(
            tmp_path,
            "out\tr1\tr2\tflu\terr\tyear\ttask\tdoc\tmodel\ttext\tbleu",
            "a\tb\tc\t0.30000000000000004\t2\t2012\tnews\td1\tS\tsrc\t10",
            "d\t\tf\t-1\t0\t2013\tweb\td1\tT\t\tnan",
        )
        description = SetDescription(
            name="mine",
            hypothesis="out",
            references=("r1", "r2"),
            ratings={"fluency": "flu", "errors": "err"},
            lower_is_better=("errors",),
            groups=("year", "task"),
            item="doc",
            system="model",
            source="text",
            scores={"BLEU": "bleu"},
        )
        found = read_judgements(path, description)
        assert (found.name, len(found)) == ("mine", 2)
        assert found.hypotheses == ("a", "d")
        assert found.references == (("b", "c"), ("f",))
        assert found.groups == ("2012 / news", "2013 / web")
        assert (found.items, found.systems, found.sources) == (("d1", "d1"), ("S", "T"), ("src", ""))
        assert found.ratings["fluency"].tolist() == [0.1 + 0.2, -1.0]
        assert found.ratings["errors"].tolist() == [-2.0, 0.0]
        assert not np.signbit(found.ratings["errors"][1])
        assert [values.dtype for values in found.ratings.values()] == [np.float64, np.float64]
        np.testing.assert_array_equal(found.scores["BLEU"], [10.0, math.nan])
        assert found.left_out == {}
        assert found.preferences is None

    def test_plain_table(self, tmp_path):
        found = read_judgements(tsv(tmp_path, "hypothesis\treference\tscore", "a\tb\t1"), "table")
        assert (found.name, found.groups) == ("ratings", ("all",))
        assert (found.items, found.systems, found.sources, found.scores) == (None, None, None, {})

    def test_plain_table_with_more(self, tmp_path):
        path = tsv(tmp_path, "system\thypothesis\treference\tscore\tgroup\titem", "S\ta\tb\t1\tde-en\t7")
        found = read_judgements(path, name="other")
        assert (found.name, found.groups, found.items, found.systems) == ("other", ("de-en",), ("7",), ("S",))

    def test_empty_columns_say_nothing(self, tmp_path):
        path = tsv(tmp_path, "hypothesis\treference\tscore\titem\tsystem", "a\tb\t1\t\t", "a\tb\t2\t\t")
        found = read_judgements(path, "table")
        assert (found.items, found.systems) == (None, None)

    @pytest.mark.parametrize("column", ["item", "system"])
    def test_some_empty_names_are_refused(self, tmp_path, column):
        """They would be one more item, or a nameless system, in averages."""
        rows = [row(item=f"i{place}", system="S") for place in range(3)]
        rows[1][column] = ""
        with pytest.raises(
            InputError, match=rf"to name its {column}, but got an empty cell in line 2 of .*jsonl: name"
        ):
            read_judgements(jsonl(tmp_path, *rows))

    def test_groups_of_several_columns_do_not_run_together(self, tmp_path):
        pairs = [("a / b", "c"), ("a", "b / c"), ("a", ""), ("", "a")]
        path = jsonl(tmp_path, *(row(dom=first, sub=second) for first, second in pairs))
        found = read_judgements(path, SetDescription(groups=("dom", "sub")))
        assert found.groups == ("a \\/ b / c", "a / b \\/ c", "a / (empty)", "(empty) / a")

    KEYS = ("hypothesis", "references", "ratings", "groups", "item", "system", "source", "scores", "where", "leave_out")

    @pytest.mark.parametrize("key", KEYS)
    def test_missing_column_of_every_key(self, tmp_path, key):
        value = "{gone: x}" if key in ("where", "leave_out") else "gone"
        path = tsv(tmp_path, "hypothesis\treference\tscore", "a\tb\t1")
        mine = tmp_path / "mine.yaml"
        mine.write_text(f"{key}: {value}\n")
        said = rf"Expected a column 'gone' in .*ratings\.tsv, .*set `{key}` of .*mine\.yaml to the name of the right"
        with pytest.raises(InputError, match=said):
            read_judgements(path, mine)

    @pytest.mark.parametrize(
        ("path", "name"),
        [("a/b.tsv", "b"), ("b.v2.jsonl.gz", "b.v2"), ("hub:owner/name", "name"), ("folder", "folder")],
    )
    def test_set_name(self, path, name):
        assert set_name(path) == name


class TestPaths:
    def test_list_of_numbers(self, tmp_path):
        path = jsonl(tmp_path, row(scores=[0.1] * 10))
        # Ten times 0.1 sums to less than 1 unless the sum is exact.
        assert read_judgements(path, SetDescription(ratings={"s": "scores.*"})).ratings["s"].tolist() == [0.1]

    def test_objects_in_objects(self, tmp_path):
        path = jsonl(tmp_path, row(meta={"lp": "de-en", "id": {"doc": 7}}))
        found = read_judgements(
            path, SetDescription(groups=("meta.lp",), item="meta.id.doc", where={"meta.lp": ("de-en",)})
        )
        assert (found.groups, found.items) == (("de-en",), ("7",))

    def test_references_from_objects(self, tmp_path):
        path = jsonl(tmp_path, row(refs=[{"text": "b"}, {"text": ""}, {"text": "c"}, {}]))
        assert read_judgements(path, SetDescription(references=("refs.*.text",))).references == (("b", "c"),)

    def test_parquet(self, tmp_path):
        path = tmp_path / "ratings.parquet"
        records = [row(experts=[{"flu": 1.0}, {"flu": 2.0}], other="x")]
        write_records(path, records)
        found = read_judgements(path, SetDescription(ratings={"flu": "experts.*.flu"}))
        assert found.ratings["flu"].tolist() == [1.5]

    @pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
    def test_name_with_dots(self, tmp_path, suffix):
        path = write_records(tmp_path / f"a.{suffix}", [row(**{"rouge.1": 0.25})])
        found = read_judgements(path, SetDescription(scores={"R1": "rouge.1"}))
        assert found.scores["R1"].tolist() == [0.25]


class TestRatings:
    def test_missing_where_allowed(self, tmp_path):
        description = SetDescription(missing_ratings="keep")
        records = [row(score=value) for value in (1, None, "", math.nan, "NaN", "NA", 2)]
        path = jsonl(tmp_path, *records)
        scores = read_judgements(path, description).ratings["score"]
        np.testing.assert_array_equal(scores, [1, *[math.nan] * 5, 2])

    def test_missing_in_a_list(self, tmp_path):
        path = jsonl(tmp_path, row(e=[1, None, 4]), row(e=[]), row(e=None))
        found = read_judgements(path, SetDescription(ratings={"e": "e.*"}, missing_ratings="keep"))
        np.testing.assert_array_equal(found.ratings["e"], [2.5, math.nan, math.nan])

    def test_ready_scores_that_a_file_may_lack(self, tmp_path):
        description = SetDescription(scores={"BLEU": "bleu", "chrF": "chrf"}, optional=("bleu",))
        path = tsv(tmp_path, "hypothesis\treference\tscore\tchrf", "a\tb\t1\t0.5")
        assert {name: values.tolist() for name, values in read_judgements(path, description).scores.items()} == {
            "chrF": [0.5]
        }


class TestLeftOut:
    def test_counted_by_reason(self, tmp_path):
        records = [
            row(hypothesis="kept", split="test", year=2017),
            row(split="train", year=2017),
            row(split="train", hypothesis="null", year=2017),
            row(hypothesis="null", split="test", year=2017.0),
            row(hypothesis="", split="test", year="2017"),
            row(split="test", year=2018),
            row(split="test", year=2019),
            row(split="test", year=2017, reference=None),
        ]
        description = SetDescription(
            where={"split": ("test",), "year": ("2016", "2017")},
            leave_out={"hypothesis": ("null", "")},
            missing_references="leave out",
        )
        found = read_judgements(jsonl(tmp_path, *records), description)
        assert found.hypotheses == ("kept",)
        assert found.left_out == {
            "split is not 'test'": 2,
            "hypothesis is 'null'": 1,
            "hypothesis is empty": 1,
            "year is none of '2016', '2017'": 2,
            "no reference": 1,
        }
        assert len(found) + sum(found.left_out.values()) == len(records)

    def test_true_and_false(self, tmp_path):
        path = jsonl(tmp_path, row(seen=True), row(seen=False), row(seen="true"))
        assert len(read_judgements(path, SetDescription(where={"seen": ("true",)}))) == 2

    def test_what_is_left_out_need_not_be_right(self, tmp_path):
        path = jsonl(tmp_path, row(), row(score="unrated", reference=[], split="x"))
        assert len(read_judgements(path, SetDescription(leave_out={"split": ("x",)}))) == 1

    @pytest.mark.parametrize("cell", ["", None, [], [None, ""]])
    def test_missing_references(self, tmp_path, cell):
        path = jsonl(tmp_path, row(), row(reference=cell))
        message = (
            r"reference in column 'reference' of .*ratings\.jsonl, line 2, but got none.*`missing_references: leave"
        )
        with pytest.raises(InputError, match=message):
            read_judgements(path, SetDescription())
        assert read_judgements(path, SetDescription(missing_references="leave out")).left_out == {"no reference": 1}


TWICE = (
    "hypothesis\treference\tscore\tgroup\titem\tsystem",
    "a\tb\t1\tg\t1\tS",
    "a\tb\t1\tg\t1\tT",
    "c\tb\t1\tg\t1\tS",
)
PLAIN = "hypothesis\treference\tscore"
OF_MINE = "in a YAML file of your own that says `based_on: table`"
OBJECTS = [row(experts=[{"flu": 1}], meta=3)]
REFUSED = [
    ((PLAIN,), None, r"ratings\.tsv to hold at least one row"),
    ((PLAIN.replace("rence", ""), "a\tb\t1"), None, rf"'reference' in .*\.tsv, .*set `references` {OF_MINE} to the"),
    ([{"hypothesis": "a", "reference": "b"}], None, r"column 'score' in .*ratings\.jsonl, .*set `ratings`"),
    *(((PLAIN, "a\tb\t1", f"a\tb\t{text}"), None,
       rf"number.* in column 'score' of .*\.tsv, line 3, but got '{text}'.*`missing_ratings: keep` {OF_MINE}")
      for text in ("", "nan", "n/a", "inf", "-Infinity", "1e999")),
    *(([row(), row(score=value)], {"missing_ratings": "keep"},
       r"finite number.* in column 'score' .* line 2.* or [^k]*\.$")
      for value in ("n/a", "inf", True, [1], 1e300, "1_000", "٣")),
    ([row(e={"flu": 1})] * 2, {"ratings": {"a": "e.flo"}, "missing_ratings": "keep"},
     r"ratings in column 'e\.flo' of .*, but got none in 2 rows: correct `ratings`"),
    ((f"{PLAIN}\tbleu", "a\tb\t1\tNaN", "a\tb\t1\t"), {"scores": {"BLEU": "bleu"}},
     r"number.* in column 'bleu' .* line 3, .*or write nan where there is none"),
    ([row(split="a"), row(split="b")], {"where": {"split": ("test",)}},
     r"that the description keeps, but got none of 2 \(2 since split is not"),
    ([row(reference=3)], {}, r"Expected text in column 'reference' .* line 1, but got 3"),
    ([row(hypothesis=None)], {}, r"Expected text in column 'hypothesis' .* line 1, but got nothing"),
    (OBJECTS, {"groups": ("meta.lp",)}, r"Expected an object at 'meta' of .*ratings\.jsonl, line 1, but got int"),
    (OBJECTS, {"ratings": {"a": "meta.*"}}, r"Expected a list at 'meta' of .*, line 1, but got int: .*'meta\.\*'"),
    (OBJECTS, {"ratings": {"a": "experts.*.flo"}}, r"number.* in column 'experts\.\*\.flo' .*line 1, but got nothing"),
    (OBJECTS, {"ratings": {"a": "nothing.flu"}}, r"column 'nothing\.flu' in .*set `ratings`"),
    ([row(e=[0.1] * 10)], {"ratings": {"s": "e"}}, r"number.* in column 'e' .* line 1, .*or write e\.\* for the mean"),
    ([row(e=[1, None])], {"ratings": {"e": "e.*"}}, r"column 'e\.\*' .* line 1, but got nothing"),
    (TWICE, None, r"one text for group 'g', item '1', system 'S', but got one in line 2 of .* and another in line 4 "
     "of .*`duplicates: keep` in a YAML file"),
    # Systems that nobody named.
    (TWICE, {"item": "item"}, "name the column of systems with `system` of the description, or allow it with `dup"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "fields", "message"), REFUSED)
def test_what_the_description_does_not_allow_is_refused(tmp_path, rows, fields, message):
    path = jsonl(tmp_path, *rows) if isinstance(rows, list) else tsv(tmp_path, *rows)
    with pytest.raises(InputError, match=message):
        read_judgements(path, "table" if fields is None else SetDescription(**fields))


class TestDuplicates:
    def test_kept_where_allowed(self, tmp_path):
        description = SetDescription(groups=("group",), item="item", system="system", duplicates="keep")
        assert len(read_judgements(tsv(tmp_path, *TWICE), description)) == 3

    def test_other_group_or_left_out(self, tmp_path):
        path = tsv(tmp_path, *TWICE[:3], "c\tb\t1\th\t1\tS")
        assert len(read_judgements(path, "table")) == 3
        path = tsv(tmp_path, *TWICE)
        description = SetDescription(item="item", system="system", leave_out={"hypothesis": ("c",)})
        assert len(read_judgements(path, description)) == 2

    def test_several_systems_in_one_row(self, tmp_path):
        path = tsv(
            tmp_path, "lp\tsystem\tseg_id\tsource\treference\thypothesis\tscore", "de-en\tA.1+B.2\t3\ts\tr\th\t-.5"
        )
        found = read_judgements(path, "wmt-da")
        assert (found.systems, found.items, found.groups) == (("A.1+B.2",), ("3",), ("de-en",))


SUMM_EVAL = {
    "id": "dm-test-1",
    "model_id": "M8",
    "decoded": "a summary",
    "references": ["one", "two"],
    "filepath": "x.story",
    "expert_annotations": [
        {"coherence": c, "consistency": 5, "fluency": 4, "relevance": r} for c, r in ((1, 2), (2, 2), (4, 5))
    ],
    "turker_annotations": [{"coherence": 3, "consistency": 3, "fluency": 3, "relevance": 3}],
}


class TestSummEval:
    def test_as_published(self, tmp_path):
        found = read_judgements(jsonl(tmp_path, SUMM_EVAL, SUMM_EVAL | {"model_id": "M9"}), "summeval")
        assert (found.name, found.items, found.systems) == ("SummEval", ("dm-test-1",) * 2, ("M8", "M9"))
        assert found.references[0] == ("one", "two")
        assert {name: values[0] for name, values in found.ratings.items()} == {
            "coherence": 7 / 3,
            "consistency": 5.0,
            "fluency": 4.0,
            "relevance": 3.0,
        }
        assert found.sources is None

    def test_paired_with_the_articles(self, tmp_path):
        assert read_judgements(jsonl(tmp_path, SUMM_EVAL | {"text": "news"}), "summeval").sources == ("news",)


def test_dialogue(tmp_path):
    path = tsv(
        tmp_path,
        "dataset\tsystem\tquery_id\tquery\treference\tresponse\tscore",
        "in-car\tGLMP\t1\twhere ?\tthere\there\t2",
        "in-car\tMem2Seq\t1\twhere ?\tthere\tno\t1",
    )
    found = read_judgements(path, "dialogue")
    assert found.groups == ("in-car / GLMP", "in-car / Mem2Seq")
    assert (found.items, found.sources, found.hypotheses) == (("1", "1"), ("where ?",) * 2, ("here", "no"))


REAL = [
    ("wmt_da/newstest2015_da_toen.tsv", "wmt-da", 2000, 0, 4, 500),
    ("wmt_da/newstest2016_da_toen.tsv", "wmt-da", 3360, 0, 6, 560),
    ("wmt_da/newstest2017_da_toen.tsv", "wmt-da", 3920, 0, 7, 560),
    ("wmt_da/wmt1516_toen_bleurt_dedup.tsv", "wmt-da", 5344, 0, 6, None),
    ("sts/sts2012_2016.tsv", "sts", 11794, 1484, 5, None),
    ("sts/sts2012_2016.tsv", "sts-tasks", 11794, 1484, 23, None),
    ("sts/stsb_en.tsv", "stsb", 1379, 7249, 1, 1379),
    ("sts/sick2014.tsv", "sick", 4927, 5000, 1, 4927),
    ("webnlg2017_human/webnlg2017_human.jsonl", "webnlg", 1982, 0, 1, 1982),
    ("webnlg2017_human/webnlg2017_human.jsonl", "webnlg-systems", 1982, 0, 9, None),
    ("d2t_bagel_sfhotel/d2t_human.jsonl", "bagel", 404, 2056, 1, 404),
    ("d2t_bagel_sfhotel/d2t_human.jsonl", "sfhotel", 875, 1585, 1, 875),
]


@pytest.mark.parametrize(("file", "description", "count", "left_out", "groups", "each"), REAL)
def test_public_sets(shared_folder, file, description, count, left_out, groups, each):
    found = read_judgements(shared_folder / "data" / file, description)
    assert (len(found), sum(found.left_out.values()), len(set(found.groups))) == (count, left_out, groups)
    if each is not None:
        assert {found.groups.count(group) for group in found.groups} == {each}
    assert all(np.isfinite(values).all() for values in found.ratings.values())


@pytest.mark.slow
def test_years_of_sts(shared_folder):
    """The sizes that the TWMD paper names, but for the 750 pairs of MSRvid that are not in this copy of 2012."""
    found = read_judgements(shared_folder / "data" / "sts" / "sts2012_2016.tsv", "sts")
    assert {year: found.groups.count(year) for year in found.groups} == {
        "2012": 3108 - 750,
        "2013": 1500,
        "2014": 3750,
        "2015": 3000,
        "2016": 1186,
    }


@pytest.mark.parametrize("column", ["system", "lp"])
@pytest.mark.parametrize(("one", "other"), [("\u00e9", "e\u0301"), ("A", "A "), ("b c", "b\u00a0c")])
def test_names_that_look_the_same_are_refused(tmp_path, column, one, other):
    """They would be two systems or groups in the same table."""
    row = {"lp": "de", "system": "S", "hypothesis": "h", "reference": "r"}
    rows = [{**row, "seg": str(n), "score": n} for n in range(4)]
    rows[1][column], rows[3][column] = one, other
    description = SetDescription(groups=("lp",), item="seg", system="system")
    with pytest.raises(InputError, match=r"s that look different, but got '.*' and '.*': write them alike"):
        read_judgements(jsonl(tmp_path, *rows), description)
