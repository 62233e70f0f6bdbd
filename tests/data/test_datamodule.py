import math
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from data_files import write_table
from textmover.data import (
    Columns,
    LabelsDataModule,
    MixtureDataModule,
    PairFile,
    ParaphrasesDataModule,
    PerturbedDataModule,
    RatingsDataModule,
)
from textmover.data.datamodule import HELD_BACK, HELD_OUT
from textmover.data.leakage import read_pairs
from textmover.types import InputError


@pytest.fixture
def ratings(tmp_path):
    kinds = ["drop", "swap", "same"]
    rows = (f"{kinds[n % 3]}\tr{n // 3}\th{n}\t{n}" for n in range(180))
    return write_table(tmp_path / "ratings.tsv", "kind\treference\thypothesis\tscore", rows)


COLUMNS = Columns(groups=("kind",))


def ready(data):
    data.setup()
    return data


def read(train, *validation, columns=COLUMNS, **options):
    return ready(RatingsDataModule(train, *validation, columns=columns, **options))


def test_references_that_files_share_stand_on_one_side(tmp_path):
    files = []
    for number in (0, 1):
        rows = (f"h{n}\tr{n + number}\tr{n + number + 1}\t{n}" for n in range(0, 300, 3))
        files.append(write_table(tmp_path / f"{number}.tsv", "hypothesis\treference\tother\tscore", rows))
    data = read(files, columns=Columns(references=("reference", "other")))
    trained = {text for one in data.segments for text in one.references}
    held_back = {text for one in data.parts[HELD_BACK] for text in one.references}
    assert len(held_back) > 10
    assert not trained & held_back


def test_held_out_kinds_are_judged_on_held_back_references_only(ratings):
    data = read([ratings], held_out={"kind": ["swap"]}, beside={"kind": ["same"]}, held_back=0.3)
    kinds = lambda part: {one.groups["kind"] for one in part}  # noqa: E731
    assert kinds(data.segments) == kinds(data.parts[HELD_BACK]) == {"drop", "same"}
    assert kinds(data.parts[HELD_OUT]) == {"swap", "same"}
    assert not {one.references for one in data.segments} & {one.references for one in data.parts[HELD_OUT]}


@pytest.mark.parametrize(
    ("roles", "named"),
    [
        ({"references": "score"}, "'score' as `references` and as `score`"),
        ({"references": ("reference", "hypothesis")}, "'hypothesis' as `hypothesis` and as `references`"),
    ],
)
def test_one_column_for_two_roles_is_refused(ratings, roles, named):
    with pytest.raises(InputError, match=f"Expected `columns` to name a column each, but got {named}"):
        RatingsDataModule([ratings], columns=Columns(**roles))


# --- tables in memory -------------------------------------------------------------------------------------------------

FORMS = {
    "a data frame": lambda frame: frame,
    "rows": lambda frame: frame.to_dict("records"),
    "columns": lambda frame: frame.to_dict("list"),
    "arrays": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "polars": lambda frame: SimpleNamespace(to_dicts=lambda: frame.to_dict("records")),
    "a list of one": lambda frame: [frame],
}


@pytest.mark.parametrize("form", FORMS)
def test_tables_in_memory_give_the_batches_of_their_file(ratings, form):
    frame = pd.read_csv(ratings, sep="\t")
    data = read(FORMS[form](frame), FORMS[form](frame[:90]))
    assert (len(data.segments), len(data.parts[HELD_BACK])) == (180, 90)
    assert read(FORMS[form](frame)).fingerprint == read(ratings).fingerprint


def test_files_and_tables_stand_beside_one_another(ratings):
    data = read([ratings, pd.read_csv(ratings, sep="\t")])
    assert len(data.segments) + len(data.parts[HELD_BACK]) == 360
    assert data.describe()["training files"] == f"{ratings}, the data frame `train[1]`"


def test_missing_cells_of_frames_are_missing():
    rows = {"hypothesis": ["a"] * 9, "reference": [f"r{n}" for n in range(9)], "other": [None, pd.NA, math.nan] * 3}
    frame = pd.DataFrame({**rows, "score": range(9)})
    data = read(frame, frame, columns=Columns(references=("reference", "other")))
    assert [one.references for one in data.segments] == [(f"r{n}",) for n in range(9)]


def row(**cells):
    return [{"hypothesis": "h", "reference": "r", "score": 1.0}, {"hypothesis": "h", "reference": "r", **cells}]


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (5, "`train` to be the path of a file, a data frame, a list of dicts or a dict of lists, but got 5"),
        ([["a"]], r"`train\[0\]` to be the path of a file, a data frame, .* but got \['a'\]"),
        ({"score": [1], "reference": ["a", "b"]}, "columns of `train` to be of one length, but got 'score' 1, 'ref"),
        ({"score": "x"}, "columns of `train` to be lists, but 'score' is 'x'"),
        (row(), "finite number in column 'score' of the rows of `train`, row 2, but got nothing"),
        (row(score="n/a"), "finite number in column 'score' of the rows of `train`, row 2, but got 'n/a'"),
        (row(score=1, reference=math.nan), "a reference in column 'reference' of the rows of `train`, row 2"),
        (pd.DataFrame(row(score=1)).rename(columns={"score": "Score"}), "'score' in the data frame .* mean 'Score'"),
        (pd.DataFrame(columns=["hypothesis", "reference", "score"]), "data frame `train` to hold at least one"),
    ],
)
def test_tables_in_memory_that_cannot_be_used_are_one_sentence(train, message):
    with pytest.raises(InputError, match=message):
        ready(RatingsDataModule(train))


# --- annotators, columns to hold back by, rows that cannot be used ----------------------------------------------------


def rated_by(names, scores, texts=30):
    """Rows of annotators who rate each text by a number of their own and how good it is."""
    return [
        {"hypothesis": f"h{n}", "reference": f"r{n}", "score": score(n), "by": name, "prompt": f"p{n // 3}"}
        for n in range(texts)
        for name, score in zip(names, scores, strict=True)
    ]


BY = Columns(groups=("by", "prompt"))


@pytest.mark.parametrize(
    ("how", "other"),
    [
        ("mean", lambda n: 100 + 2 * n),
        ("standardised", lambda n: 100 + 2 * n),  # the same in other units
        ("standardised", lambda n: 29),  # who never differs counts as the mean
        ("standardised", lambda n: 0.7),  # a rounding error is no deviation: that of thirty times .7 is 1e-16
    ],
)
def test_ratings_of_annotators_are_averaged(how, other):
    rows = rated_by(["a", "b"], [lambda n: n, other])
    data = read(rows, rows, columns=BY, annotator="by", annotators=how)
    found = [one.score for one in data.segments]
    assert np.corrcoef(found, range(30))[0, 1] == pytest.approx(1)
    assert np.mean(found) == pytest.approx(np.mean([row["score"] for row in rows]))
    assert how != "mean" or found == [(n + other(n)) / 2 for n in range(30)]
    assert data.segments[0].groups == {"prompt": "p0"}


def test_parts_are_held_back_by_a_column():
    rows = rated_by(["a", "b", "c"], [lambda n: n] * 3, texts=60)
    data = read(rows, columns=BY, held_back=0.3, held_back_by=["reference", "prompt"])
    trained, held_back = ({one.groups["prompt"] for one in part} for part in (data.segments, data.parts[HELD_BACK]))
    assert trained
    assert held_back
    assert not trained & held_back
    assert data.describe()["held back"].startswith("30% of the 'reference' and 'prompt' by a hash")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"held_back_by": by, "annotator": "by"}, "`held_back_by` to name `reference`, a column of")
            for by in ([], ["by"], ["source"])
        ),
        *(
            ({field: value}, f"`{field}` to be among `columns.groups`, but got 'who': add it there")
            for field, value in (
                ("annotator", "who"),
                ("held_back_by", ["who"]),
                ("group", "who"),
                ("where", {"who": ["drop"]}),
            )
        ),
        ({"columns": Columns(score=None)}, r"columns\.score"),
    ],
)
def test_columns_that_are_not_read_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        RatingsDataModule(["x.csv"], **{"columns": BY, **options})


def test_rows_that_cannot_be_used_are_left_out_where_asked(caplog):
    rows = rated_by(["a"], [float], texts=40)
    for row, field, value in ((3, "score", "n/a"), (5, "reference", None), (7, "hypothesis", None), (9, "score", "")):
        rows[row][field] = value
    with pytest.raises(InputError, match=r"row 4, but got 'n/a': .*, or set `unusable` to leave-out\.$"):
        read(rows, rows, columns=BY)
    data = read(rows, rows, columns=BY, unusable="leave-out")
    assert len(data.segments) == 36
    assert "Rows left out: 4 of the rows of `train`. The first: Expected a finite number" in caplog.text


def test_too_few_ratings_are_refused_with_the_file(tmp_path):
    path = write_table(tmp_path / "few.tsv", "reference\thypothesis\tscore", ["a\tb\t1"])
    with pytest.raises(InputError, match=re.escape(path)):
        ready(RatingsDataModule([path]))


# --- parts that nothing can be judged by ------------------------------------------------------------------------------


def rated(path, rows):
    """A file of ratings in groups, a reference to a row."""
    lines = (f"{kind}\tr{n}\th{n}\t{score}" for n, (kind, score) in enumerate(rows))
    return write_table(path, "kind\treference\thypothesis\tscore", lines)


def test_validation_ratings_that_are_all_equal_are_refused(ratings, tmp_path):
    flat = rated(tmp_path / "flat.tsv", [("drop", 5)] * 20)
    for group in (None, "kind"):
        with pytest.raises(InputError, match=r"differ in the held-back part of .*flat\.tsv, .*all 20 are equal there"):
            read([ratings], [flat], group=group)
        with pytest.raises(InputError, match="all 20 are equal there"):
            ready(MixtureDataModule({"mine": RatingsDataModule([ratings], [flat], columns=COLUMNS)}))
    read([flat], [ratings], scales="as-is")  # training itself refuses those to train on


def test_a_held_out_kind_whose_ratings_are_all_equal_is_refused(tmp_path):
    path = rated(tmp_path / "mine.tsv", [("swap", 5) if n % 3 else ("drop", n) for n in range(180)])
    wanted = {"held_out": {"kind": ["swap"]}, "held_back": 0.3}
    with pytest.raises(InputError, match=r"differ in the held-out part of .*mine\.tsv"):
        read([path], **wanted)
    read([path], **wanted, beside={"kind": ["drop"]})


@pytest.mark.parametrize("rows", [[(f"k{n // 4}", n // 4) for n in range(20)], [(f"k{n // 2}", n) for n in range(20)]])
def test_groups_none_of_which_has_a_correlation_are_refused(ratings, tmp_path, rows):
    """Equal ratings within each group, or two segments to a group; one group with a correlation is enough."""
    path, more = (
        rated(tmp_path / "groups.tsv", rows),
        rated(tmp_path / "more.tsv", [*rows, *[("drop", 1)] * 2, ("drop", 2)]),
    )
    with pytest.raises(InputError, match=r"a group of 'kind' with 3 or more .* in the held-back part .* among \d+"):
        read([ratings], [path], group="kind", scales="as-is")
    read([ratings], [path], scales="as-is")
    read([ratings], [more], group="kind", scales="as-is")


def test_training_texts_are_distinct_and_at_most_as_many(ratings):
    data = read([ratings])
    texts, every = data.training_texts(10), data.training_texts(1000)
    assert len(texts) == len(set(texts)) == 10
    assert data.training_texts(len(every) - 1)[-1] in every[-2:]  # and from all over the data


def test_rows_are_chosen_by_group(ratings):
    data = read([ratings], where={"kind": ["drop", "same"]})
    assert {one.groups["kind"] for one in [*data.segments, *data.parts[HELD_BACK]]} == {"drop", "same"}
    with pytest.raises(InputError, match="'drip', but got none: it holds drop, same, swap"):
        read([ratings], where={"kind": ["drip"]})


def test_the_pairs_of_a_test_set_are_not_trained_on(ratings, tmp_path):
    path = write_table(tmp_path / "test.tsv", "split\ta\tb", ["test\tH4\tr1", "test\tr2\th7 ", "train\th9\tr3"])
    file = PairFile(path, ("a", "b"), {"split": ["test"]})
    data = RatingsDataModule([ratings], columns=COLUMNS, without=[file], held_back=0)
    data.validation_files = [ratings]
    data.setup()
    assert {one.hypothesis for one in data.parts[HELD_BACK]} - {one.hypothesis for one in data.segments} == {"h4", "h7"}
    assert "2 segments left out" in data.describe()["without the pairs of"]


def test_nor_do_they_choose_what_is_kept_of_a_training(ratings, tmp_path):
    whole = read([ratings], held_back=0.3)
    pairs = [whole.segments[0], whole.parts[HELD_BACK][0]]
    path = write_table(tmp_path / "test.tsv", "a\tb", (f"{one.hypothesis}\t{one.references[0]}" for one in pairs))
    data = read([ratings], without=[PairFile(path, ("a", "b"))], held_back=0.3)
    assert len(data.segments) == len(whole.segments) - 1
    assert len(data.parts[HELD_BACK]) == len(whole.parts[HELD_BACK]) - 1
    assert "2 segments left out" in data.describe()["without the pairs of"]


@pytest.fixture
def two_scales(tmp_path):
    files = []
    for name, scale in (("z.tsv", 0.1), ("percent.tsv", 1.0)):
        rows = (f"{name}{n}\th{n}\t{scale * (n - 50 * (scale < 1))}" for n in range(100))
        files.append(write_table(tmp_path / name, "reference\thypothesis\tscore", rows))
    return files


def test_files_on_different_scales_are_refused_or_standardised(two_scales):
    with pytest.raises(InputError, match=r"z\.tsv.*percent\.tsv.*set `scales`"):
        ready(RatingsDataModule(two_scales))
    data = ready(RatingsDataModule(two_scales, scales="per-file"))
    for name in ("z.tsv", "percent.tsv"):
        scores = [one.score for one in data.segments if one.references[0].startswith(name)]
        assert np.mean(scores) == pytest.approx(0, abs=1e-12)
        assert np.std(scores) == pytest.approx(1)
    raw = ready(RatingsDataModule(two_scales, scales="as-is"))
    before, after, trained = (
        np.array([one.score for one in part if one.references[0].startswith("percent")])
        for part in (raw.parts[HELD_BACK], data.parts[HELD_BACK], raw.segments)
    )
    assert max(*before, *trained) == 99
    assert after == pytest.approx((before - trained.mean()) / trained.std())  # on the scale of their file


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [10, 40]),
        ({"temperature": 2.0}, [17, 33]),
        ({"temperature": 1e9}, [25, 25]),
        ({"weights": {"small": 4.0}}, [25, 25]),
        ({"batches": 10}, [2, 8]),
        ({"batches": 2}, [1, 1]),
    ],
)
def test_shares_of_a_mixture(ratings, options, expected):
    sources = {name: RatingsDataModule([ratings]) for name in ("small", "large")}
    mixture = ready(MixtureDataModule(sources, **options))
    assert list(mixture.sources) == ["small", "large"]
    assert mixture.batch_counts([10, 40]) == expected
    assert [mixture.label(*one) for one in mixture.judged] == ["small/held-back", "large/held-back"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.5}, "`temperature`"),
        ({"weights": {"other": 1.0}}, r"sources \(one\), but got 'other'"),
        ({"weights": {"one": 0.0}}, "above 0"),
        ({"batches": 0}, "`batches`"),
        ({"sources": {}}, "at least one data module"),
        ({"sources": {"a.b": RatingsDataModule(["some.tsv"])}}, "names of letters"),
        ({"sources": {"one": "ratings.tsv"}}, r"`sources\['one'\]` to be SourcesDataModule, but got 'ratings.tsv'"),
    ],
)
def test_a_mixture_that_cannot_be_made_is_refused(ratings, options, message):
    with pytest.raises(InputError, match=message):
        MixtureDataModule(**{"sources": {"one": RatingsDataModule([ratings])}, **options})


def test_the_batches_asked_for_are_the_batches_made(ratings):
    names = [f"source{number}" for number in range(6)]
    module = ready(MixtureDataModule({name: RatingsDataModule([ratings]) for name in names[:3]}, batches=200))
    assert module.batch_counts([50, 50, 50]) == [67, 67, 66]
    module = ready(MixtureDataModule({name: RatingsDataModule([ratings]) for name in names}, batches=9))
    assert module.batch_counts([1000, 1, 1, 1, 1, 1]) == [4, 1, 1, 1, 1, 1], "small ones at the cost of the large one"
    for sizes in ([1, 2, 3, 4, 5, 6], [7, 7, 7, 1, 1, 900]):
        counts = module.batch_counts(sizes)
        assert sum(counts) == 9
        assert min(counts) == 1


def test_a_source_that_trains_on_the_held_back_texts_of_another_is_named(ratings, tmp_path, caplog):
    rows = [f"drop\tr{n}\tother{n}\t{n}" for n in range(60)]
    other = write_table(tmp_path / "other.tsv", "kind\treference\thypothesis\tscore", rows)

    def warned(**second):
        caplog.clear()
        sources = {"one": RatingsDataModule([ratings], held_back=0.3), "two": RatingsDataModule(**second)}
        mixture = ready(MixtureDataModule(sources))
        return [record.getMessage() for record in caplog.records if "trains on" in record.getMessage()], mixture

    assert warned(train=[other], held_back=0.3)[0] == []
    (message,), mixture = warned(train=[other], held_back=0.1)
    assert re.search(r"held-back part of one, \d+ of \d+ share .* that two trains on.* the same `held_back`", message)
    assert any("two trains on" in key for key in mixture.describe())
    first, second = warned(train=[other], validation=[ratings])[0]
    assert "part of one" in first
    assert "part of two" in second


def test_messages_of_a_mixture_follow_the_name_of_their_source(ratings, caplog):
    caplog.set_level("INFO", logger="textmover")
    ready(MixtureDataModule({name: RatingsDataModule([ratings]) for name in ("one", "two")}))
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    kept = [one for one in said if one.startswith("Source") or one == "Ratings"]
    assert kept == ["Source one", "Ratings", "Source two", "Ratings"]


def test_a_mixture_in_a_mixture_needs_a_batch_for_each_of_its_sources(ratings):
    inner = MixtureDataModule({name: RatingsDataModule([ratings]) for name in ("one", "two", "three")})
    with pytest.raises(InputError, match="`batches` to be at least 3"):
        ready(MixtureDataModule({"inner": inner}, batches=2))


@pytest.fixture
def saved(tmp_path):
    """A data set with three splits, saved as the hub's library saves them."""
    datasets = pytest.importorskip("datasets")
    rows = [{"reference": f"r{n}", "hypothesis": f"h{n}", "score": n / 7} for n in range(60)]
    splits = {"train": rows[:40], "validation": rows[40:50], "test": rows[50:]}
    folder = str(tmp_path / "saved")
    datasets.DatasetDict({name: datasets.Dataset.from_list(part) for name, part in splits.items()}).save_to_disk(folder)
    return folder


def hypotheses(segments):
    return [int(one.hypothesis[1:]) for one in segments]


def test_each_part_is_of_its_own_split(saved, ratings):
    data = ready(RatingsDataModule([saved], validation=[saved]))
    assert hypotheses(data.segments) == list(range(40))
    assert hypotheses(data.parts[HELD_BACK]) == list(range(40, 50))
    data = ready(RatingsDataModule([saved], validation=[f"hub:{saved}"], split="validation", validation_split="test"))
    assert hypotheses(data.segments) == list(range(40, 50))
    assert hypotheses(data.parts[HELD_BACK]) == list(range(50, 60))
    assert (
        len(ready(RatingsDataModule([saved, ratings], validation=[ratings], scales="as-is", split="test")).segments)
        == 10 + 180
    )
    with pytest.raises(InputError, match="a split 'dev', but got"):
        ready(RatingsDataModule([saved], validation=[saved], validation_split="dev"))


@pytest.mark.parametrize(
    ("module", "splits", "got"),
    [
        (RatingsDataModule, {"split": "test"}, "`split` .*ratings.tsv"),
        (RatingsDataModule, {"validation": True, "validation_split": "test"}, "`validation_split` .*ratings.tsv"),
        (RatingsDataModule, {"validation_split": "test"}, "`validation_split` .* none"),
        (partial(LabelsDataModule, task="mnli"), {"validation_split": "test"}, "`validation_split` .* none"),
        (partial(ParaphrasesDataModule, task="mrpc"), {"split": "dev"}, "`split` .*ratings.tsv"),
        (PerturbedDataModule, {"column": "reference", "split": "dev"}, "`split` .*ratings.tsv"),
    ],
)
def test_a_split_of_files_without_splits_is_refused(ratings, module, splits, got):
    splits = {name: [ratings] if one is True else one for name, one in splits.items()}
    with pytest.raises(InputError, match=f"Expected {got}: leave it out"):
        module([ratings], **splits).setup()
    with pytest.raises(InputError, match=r"Expected `split` .*ratings.tsv: leave it out"):
        read_pairs(PairFile(ratings, split="dev"))
    assert read_pairs(PairFile(ratings))


def test_the_pairs_to_leave_out_are_those_of_the_test_split_unless_said_otherwise(saved):
    for options, first in (({}, 50), ({"split": "validation"}, 40)):
        pairs = read_pairs(PairFile(saved, **options))
        assert pairs == {frozenset({f"h{n}", f"r{n}"}) for n in range(first, first + 10)}


def test_the_card_says_what_was_held_back(ratings):
    data = read([ratings], held_back=0.3)
    count = len(data.parts[HELD_BACK])
    assert 20 < count < 90
    assert len(data.segments) + count == 180
    assert data.describe()["held back"] == f"30% of the references by a hash of their text ({count} of 180 segments)"
    judged = read([ratings], validation=[ratings])
    assert len(judged.segments) == len(judged.parts[HELD_BACK]) == 180
    assert judged.describe()["validation files"] == ratings
    assert "held back" not in judged.describe()


@pytest.mark.parametrize(
    "build",
    [
        RatingsDataModule,
        lambda files, **sizes: LabelsDataModule(files, "mnli", **sizes),
        lambda files, **sizes: ParaphrasesDataModule(files, "qqp", **sizes),
        PerturbedDataModule,
    ],
)
def test_nothing_to_read_and_batches_of_nothing_are_refused(build):
    with pytest.raises(InputError, match="at least one file, but got none"):
        build([])
    for name in ("batch_size", "validation_batch_size"):
        with pytest.raises(InputError, match=f"`{name}` to be at least 1, but got 0"):
            build(["x.tsv"], **{name: 0})


def test_a_list_of_dicts_of_lists_is_a_list_of_tables(ratings):
    rows = pd.read_csv(ratings, sep="\t")
    found = read([rows[:90].to_dict("list"), rows[90:].to_dict("list")], scales="as-is")
    assert [one.hypothesis for one in found.segments] == [one.hypothesis for one in read(rows).segments]


@pytest.mark.parametrize(("kind", "task"), [(RatingsDataModule, {}), (LabelsDataModule, {"task": "mnli"})])
def test_validation_without_a_file_is_refused(ratings, kind, task):
    with pytest.raises(InputError, match="Expected `validation` to name at least one file, but got none"):
        kind([ratings], validation=[], **task)


def test_two_ways_to_write_one_path_read_it_once(ratings, monkeypatch):
    folder, name = ratings.rsplit("/", 1)
    monkeypatch.chdir(folder)
    data = read([name, f"./{name}", ratings])
    assert len(data.segments) + len(data.parts[HELD_BACK]) == 180
    assert data.files == [name]
