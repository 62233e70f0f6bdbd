"""What is judged: descriptions and ways out of their errors, duplicates, preferences, sets that are no tables."""

import json

import numpy as np
import pytest

from textmover.meta_evaluation import darr_tau, preferences_from_ratings
from textmover.scoring.lexical import lexical_scores

ITEMS = ["item\tsystem\thypothesis\treference\tscore"]
RATED = [("1", "A", 80), ("1", "B", 40), ("1", "C", 60), ("2", "A", 10), ("2", "B", 90), ("2", "C", 88)]
ITEMS += [f"{item}\t{system}\tx{system}{item * 3}\tx{item}\t{score}" for item, system, score in RATED]
NAMED = ("--item-column", "item", "--system-column", "system", "--baselines", "chrf", "--samples", "20")


# --- ways out ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "flag", "left_out"),
    [
        ("9\ty\t\t1", "--missing-references leave-out", "no reference: 1"),
        ("9\ty\tx\t", "--missing-ratings keep", "missing: rating: 1"),
        ("0\ty\tx\t1", "--duplicates keep", "1 row has the group, item and system of an earlier row"),
    ],
)
def test_flags_override_a_description(judged, refused, write, row, flag, left_out):
    rows = ["0\ty\tx\t3", "1\tabc\tab\t5", "2\txy\txyz\t2", "3\ta\tac\t4", row]
    header = "lp\tseg_id\thypothesis\treference\tscore"
    data = write("wmt.tsv", [header, *(f"de-en\t{cells}" for cells in rows)])
    command = ("evaluate", "--set", "wmt-da", "--data", data, "--baselines", "chrf")
    said = refused(*command)
    assert f"`{flag}`." in said
    assert str(data) in said
    (entry,) = judged(*command[1:], *flag.split())
    assert any(left_out in one for one in entry["remarks"])
    mine = write("mine.yaml", ["based_on: wmt-da"])
    key = flag.removeprefix("--").replace("-", "_", 1).replace(" ", ": ").replace("leave-out", "leave out")
    assert f"`{flag}`, or `{key}` in {mine}." in refused(*command[:2], mine, *command[3:])


# --- duplicates -------------------------------------------------------------------------------------------------------


def test_duplicates_are_an_error_once_items_are_known(judged, refused, write):
    data = write("rated.tsv", [*ITEMS, "2\tC\tagain\tx2\t7"])
    said = refused("evaluate", "--data", data, *NAMED)
    assert "Expected one text for item '2', system 'C'" in said
    assert "or allow it with `--duplicates keep`." in said
    (entry,) = judged("--data", data, *NAMED, "--duplicates", "keep")
    assert "Kept: 1 row has the group, item and system of an earlier row (duplicates)." in entry["remarks"]
    (entry,) = judged("--data", data, "--baselines", "chrf")
    assert not any("duplicates" in one for one in entry["remarks"])
    said = refused("evaluate", "--data", data, "--item-column", "item", "--baselines", "chrf")
    assert "name the column of systems with `--system-column`, or allow it with `--duplicates keep`." in said


def test_duplicates_of_a_built_in_set_are_counted(judged, write):
    rows = [{"dataset": "SFHOT", "system": "A", "mr": f"mr{one // 2}", "hypothesis": f"x{one}", "references": ["x1"],
             "informativeness": one, "naturalness": -one, "quality": one % 3} for one in range(6)]  # fmt: skip
    data = write("hotel.jsonl", list(map(json.dumps, rows)))
    entries = judged("--set", "sfhotel", "--data", data, "--baselines", "chrf")
    assert len(entries) == 3
    assert all(any("Kept: 3 rows have the group, item" in one for one in entry["remarks"]) for entry in entries)


# --- preferences ------------------------------------------------------------------------------------------------------


def test_preferences_that_follow_from_ratings(judged, refused, write):
    data = write("rated.tsv", ITEMS)
    command = ("evaluate", "--data", data, *NAMED, "--statistic", "darr", "--preference-gap", "25")
    (entry,) = judged(*command[1:], "--report", "page")
    texts, references = [f"x{one[1]}{one[0] * 3}" for one in RATED], [[f"x{one[0]}"] for one in RATED]
    pairs = preferences_from_ratings([one[2] for one in RATED], [one[0] for one in RATED])
    expected = darr_tau(lexical_scores("chrf", texts, references).scores, pairs)
    assert entry["metrics"][0]["value"] == pytest.approx(expected.tau)
    assert entry["dimension"] == "score"
    assert "Preferences: 3 pairs of outputs for one item whose ratings differ by 25 or more." in entry["remarks"]
    said = refused(*command[:-1], "95")
    assert "rated · score: " in said
    assert "at least 95 apart among 10 to 90: lower --preference-gap; nothing was scored." in said
    assert "Expected `--preference-gap` to be above 0, but got 0.0" in refused(*command[:-1], "0")
    alone = ("--item-column", "hypothesis", "--baselines", "chrf", "--statistic", "darr", "--preference-gap", "25")
    assert "to hold several outputs for an item, but got one for each of 6" in refused(
        "evaluate", "--data", data, *alone
    )
    without = ("evaluate", "--data", data, "--baselines", "chrf", "--preference-gap", "25")
    assert "name their column with --item-column" in refused(*without, "--statistic", "darr")
    assert "Expected `--preference-gap` with --statistic darr, but got pearson" in refused(*without)


def test_ties_on_a_share_of_the_pairs(judged, refused, write, monkeypatch):
    data = write("rated.tsv", ITEMS)
    command = ("evaluate", "--data", data, *NAMED, "--statistic", "acc23", "--level", "pooled")
    (entry,) = judged(*command[1:], "--pair-rate", "0.9")
    assert entry["protocol"]["pair_rate"] == 0.9
    monkeypatch.setattr("textmover.meta_evaluation.statistics.ties.MOST_PAIRS", 10)
    said = refused(*command)
    assert "choose a `--pair-rate` of" in said
    assert "nothing was scored" in said
    assert "Expected `--pair-rate` to be above 0" in refused(*command, "--pair-rate", "0")


# --- sets that are no tables ------------------------------------------------------------------------------------------


@pytest.fixture
def darr(tmp_path):
    """Files of the shape of WMT18."""
    (tmp_path / "wmt" / "references").mkdir(parents=True)
    place = tmp_path / "wmt" / "system-outputs" / "new" / "de-en"
    place.mkdir(parents=True)
    (tmp_path / "wmt" / "references" / "new-deen-ref.en").write_text("a cat\na dog\n")
    for system, lines in {"A": ["a cat", "dogs"], "B": ["the cat", "a dog"], "C": ["it", "a do"]}.items():
        (place / f"new.{system}.de-en").write_text("".join(f"{line}\n" for line in lines))
    pairs = [(1, "A", "B"), (1, "B", "C"), (2, "B", "A"), (2, "C", "A")]
    lines = ["LP DATA SID BETTER WORSE", *(f"de-en new {sid} {better} {worse}" for sid, better, worse in pairs)]
    path = tmp_path / "RR.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return f"preferences={path}", f"texts={tmp_path / 'wmt'}"


def test_relative_rankings(run, judged, refused, darr):
    command = ("evaluate", "--set", "darr", "--data", *darr, "--baselines", "chrf")
    (entry,) = judged(*command[1:])
    assert (entry["set"], entry["dimension"], entry["protocol"]["statistic"]) == ("new", None, "darr")
    assert entry["metrics"][0]["value"] == pytest.approx(1.0)
    assert run(*command, "--report", "page").code == 0
    assert "has preferences: leave it out" in refused(*command, "--preference-gap", "25")
    assert "to have ratings for pearson per-group" in refused(*command, "--statistic", "pearson")
    shape = "Expected --data preferences=FILE texts=FILE"
    assert f"{shape} for each set of --set darr, but got 1 of preferences, 0 of texts" in refused(
        *command[:4], darr[0], "--baselines", "chrf"
    )
    assert f"{shape} for --set darr, but got 'RR.csv'" in refused(*command[:4], "RR.csv", "--baselines", "chrf")
    assert "Expected no --group for --set darr" in refused(*command, "--group", "lp")


def test_summaries_by_topic(judged, write):
    summaries = [{"text": [f"A cat {one}.", "It sat."], "pyr_score": one / 4, "responsiveness": one % 3,
                  "summ_id": str(one)} for one in range(4)]  # fmt: skip
    topics = {topic: {"references": [{"text": ["A cat 2.", "It sat."]}], "annotations": summaries} for topic in "DE"}
    paths = [write(name, [json.dumps(topics)]) for name in ("tac08", "tac09")]
    command = ("--set", "tac", "--baselines", "chrf", "--samples", "20", "--data")
    entries = judged(*command, paths[0], f"path={paths[1]}")
    assert [(one["set"], one["dimension"]) for one in entries] == [
        (name, dimension) for name in ("tac08", "tac09") for dimension in ("pyramid", "responsiveness")
    ]
    assert list(entries[0]["groups"]) == ["D", "E"]


def test_captions_by_system(judged, refused, write, tmp_path):
    for system, captions in {"one": ["a cat", "dogs"], "two": ["the cat", "a dog"], "three": ["it", "a"]}.items():
        (tmp_path / "systems" / system).mkdir(parents=True)
        found = [{"image_id": image, "caption": text} for image, text in enumerate(captions)]
        (tmp_path / "systems" / system / "captions_val2014_x_results.json").write_text(json.dumps(found))
    annotations = [{"image_id": 0, "caption": "a cat"}, {"image_id": 1, "caption": "a dog"}]
    references = write("refs.json", [json.dumps({"annotations": annotations})])
    ratings = write("ratings.csv", ["team,M1,M2,M3", "one,2,1,1", "two,3,1,2", "three,1,2,3"])
    command = ("evaluate", "--set", "coco-captions", "--baselines", "chrf", "--data")
    command += ("captions=systems", f"references={references}", f"ratings={ratings}")
    assert "set `--system-column` to the name" in refused(*command)
    (entry,) = judged(*command[1:], "--system-column", "team", "--dimension", "M3")
    assert (entry["dimension"], entry["protocol"]["level"]) == ("M3", "systems")
    assert np.isfinite(entry["metrics"][0]["value"])
    assert "set `--dimension` to the name" in refused(*command, "--system-column", "team", "--dimension", "M9")
    said = refused(*command, "--system-column", "team", "--level", "per-group")
    assert "Expected `--level` to be systems for coco-captions, since people rated systems" in said


# --- what is said of texts --------------------------------------------------------------------------------------------


def test_unusual_texts_are_told_once_for_each_set(run, write, tiny_encoder):
    rows = ["hypothesis\treference\tscore", "\ta dog\t1", "a cat\ta dog\t2", "dogs\tthe cat\t3", "a\tb\t0"]
    sets = write("one.tsv", rows), write("two.tsv", [*rows, "\ta\t7"])
    ended = run("evaluate", "--data", *sets, "--encoder", tiny_encoder, "--model", "twmd", "--model", "sbert")
    said = "had an empty or unreadable hypothesis or reference, and scored as texts with nothing in common"
    said += ": `score --format tsv` flags each.\n"
    by = "scored with twmd, sbert"
    written = "Written: one.scores.tsv, two.scores.tsv\n"
    assert ended.err == f"one, {by}: 1 segment {said}two, {by}: 2 segments {said}{written}"
