"""Robustness on the command line: numbers, page, figure, kept scores, and what is refused."""

import csv
import json
import sys

import numpy as np
import pytest

from textmover import Scorer
from textmover.experiments import robustness
from textmover.perturbations.perturbations import perturb
from textmover.readers.judgements import built_in_descriptions
from textmover.readers.segments import Columns, read_segments
from textmover.scoring.lexical import lexical_scores

TEXTS = [
    "We live in a beautiful house by the river with two small children.",
    "The big dog was sleeping in the garden of my old friend Anna.",
    "She will sing a happy song for 20 people in the town of Oslo.",
    "Many people walk on the long road to the market every morning.",
    "",
    "The big dog was sleeping in the garden of my old friend Anna.",
    "They are reading a new book about the cold winter of 1947.",
]
DIFFERENT = 5
SOME = ("--types", "drop,shuffle", "synonym", "antonym", "--samples", 50)


@pytest.fixture
def texts(write):
    return write("texts.txt", TEXTS)


@pytest.fixture
def model(tiny_encoder):
    """Options that name two metrics which cost little."""
    return ("--models", "twmd", "--encoder", tiny_encoder, "--baselines", "chrf")


FEW = ("--baselines", "chrf", "--samples", 20)


def told(out):
    """The records of a page in JSON: of metrics by name, and of kinds by metric, kind and degree."""
    records = [record for table in json.loads(out)["tables"] for record in table["records"]]
    kinds = {(one["metric"], one["kind"], one["degree"]): one for one in records if one["table"] == "kinds"}
    return {one["metric"]: one for one in records if one["table"] == "summary"}, kinds


def cells(out, kind):
    return next(line.split() for line in out.splitlines() if line.startswith(f"{kind} "))


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_drops_are_those_of_the_perturbations_and_the_metric(run, texts, model, tiny_encoder):
    ended = run("robustness", "-i", texts, *SOME, *model, "--format", "json").silent()
    summary, kinds = told(ended.out)
    assert list(summary) == ["twmd", "chrf"]
    assert summary["chrf"]["texts"] == DIFFERENT
    originals = [text for text in dict.fromkeys(TEXTS) if text]
    scorer = Scorer.from_pretrained("twmd", encoder=str(tiny_encoder))
    for degree in (1, 2, 4, 6):
        made = [perturb(text, "drop", degree).text for text in originals]
        whole, less = (scorer.score(several, originals).scores for several in (originals, made))
        assert kinds["twmd", "drop", degree]["drop"] == pytest.approx(float(np.mean(whole - less)), abs=1e-5)
        overlap = lexical_scores("chrf", made, [[one] for one in originals]).scores
        assert kinds["chrf", "drop", degree]["drop"] == pytest.approx(100 - overlap.mean())
    assert kinds["chrf", "drop", "all"]["versions"] == 4 * DIFFERENT
    assert kinds["chrf", "unrelated", "all"]["share"] == pytest.approx(1)
    assert kinds["chrf", "unrelated", "all"]["drop"] == pytest.approx(summary["chrf"]["unit"])
    # The token vectors of the tiny encoder hardly know an order; characters of chrF do.
    assert 0 < kinds["chrf", "shuffle", "all"]["share"] < 1
    assert kinds["chrf", "shuffle", "all"]["meaning"] == "changed"
    assert kinds["chrf", "synonym", "all"]["meaning"] == "kept"


def test_the_same_twice_another_seed_another_choice_and_a_limit(run, texts):
    given = ("robustness", "-i", texts, *SOME, "--baselines", "chrf", "--format", "json")
    first, again, other = run(*given), run(*given), run(*given, "--seed", 3)
    assert first == again
    assert told(first.out)[1]["chrf", "drop", "all"]["drop"] != told(other.out)[1]["chrf", "drop", "all"]["drop"]
    ended = run("robustness", "-i", texts, "--types", "drop", "--limit", 3, *FEW)
    assert ended.out.startswith("Texts: 3 of 5 different texts of texts.txt (chosen by seed 0), scored against them")
    assert cells(ended.out, "drop")[:3] == ["drop", "changed", "12"]
    assert "kind       meaning   n   chrf   95 % interval" in ended.out  # of one metric beside it


def test_references_of_people_take_the_place_of_the_texts(run, write):
    rows = [(text, text.replace("big", "large").replace("happy", "glad")) for text in TEXTS if text]
    path = write("table.tsv", ["text\tperson", *("\t".join(row) for row in rows)])
    given = ("robustness", "-i", path, "--column", "text", "--types", "drop", "--degrees", 1, *FEW, "--format", "json")
    itself, person = run(*given), run(*given, "--reference-column", "person")
    assert "Each text is its own reference" in itself.out
    assert "Each text is its own reference" not in person.out
    distinct = list(dict.fromkeys(rows))
    made = [perturb(text, "drop", 1).text for text, _ in distinct]
    before, after = (
        lexical_scores("chrf", several, [[one] for _, one in distinct]).scores
        for several in ([text for text, _ in distinct], made)
    )
    assert told(person.out)[1]["chrf", "drop", "all"]["drop"] == pytest.approx((before - after).mean())


def test_a_set_brings_references_and_its_ratings_have_no_part(run, write, tmp_path):
    row = {"dataset": "SFHOT", "system": "a", "informativeness": 1, "naturalness": 2, "quality": 3}
    rows = [{**row, "mr": str(place), "hypothesis": text, "references": [text, "a good hotel"]}
            for place, text in enumerate(TEXTS[:4])]  # fmt: skip
    path = write("hotels.jsonl", [json.dumps(one) for one in rows])
    ended = run("robustness", "-i", path, "--set", "sfhotel", "--types", "drop", *FEW).ok()
    assert "scored against their references" in ended.out
    assert "The ratings of the texts (informativeness, naturalness, quality) are not used" in ended.out
    assert "sfhotel" in built_in_descriptions()


def test_a_parser_and_neighbours_make_more_kinds_possible(run, write, tiny_encoder, parser, any_neighbour):
    path = write("more.txt", ["The dog chased the cat.", "the big dog ran home"])
    given = ("robustness", "-i", path, "--baselines", "chrf", "--samples", 20, "--format", "json")
    ended = run(*given, "--types", "substitute", "drop", "--neighbours", tiny_encoder).silent()
    assert told(ended.out)[1]["chrf", "substitute", "all"]["texts"] == 2
    ended = run(*given, "--types", "passive", "drop", "--perturbation-parser", "stand-in").silent()
    _, kinds = told(ended.out)
    assert kinds["chrf", "passive", "all"]["texts"] == 1
    assert kinds["chrf", "passive", "all"]["drop_low"] is None  # of one text: nothing to draw


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_scores_so_far_are_kept_when_a_later_metric_is_interrupted(run, texts, model, tmp_path, monkeypatch, keep):
    def interrupted(*given):
        raise KeyboardInterrupt

    command = ("robustness", "-i", texts, *SOME, *model, *(("--keep", "kept.tsv") if keep else ()))
    with monkeypatch.context() as patch:
        patch.setattr("textmover.experiments.evaluation.metrics.lexical_scores", interrupted)
        where = ": the scores so far are in kept.partial.tsv" if keep else ""
        ended = run(*command)
        assert ended.code == 130
        assert ended.err.endswith(f"textmover: interrupted{where}\n")
    if not keep:
        assert [one.name for one in tmp_path.glob("kept*")] == []
        return
    partial = tmp_path / "kept.partial.tsv"
    lines = partial.read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == ["group", "item", "hypothesis", "reference", "degree", "severity", "twmd"]
    assert "kept.partial.tsv to be new, but it holds the scores of an interrupted run" in run(*command).complaint()
    partial.unlink()
    run(*command).ok()
    whole = (tmp_path / "kept.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.rsplit("\t", 1)[0] for line in whole] == lines
    assert not partial.exists()


def test_page_table_figure_and_scores(run, texts, model, tmp_path):
    run("robustness", "-i", texts, *SOME, *model, "--output", "out/found.md", "--keep", "kept.tsv").ok()
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["found.csv", "found.md", "found.png"]
    page = (tmp_path / "out" / "found.md").read_text(encoding="utf-8")
    assert page.startswith("# Robustness to changes of the text\n")
    assert "![Drop, relative to the drop of an unrelated text](found.png)" in page
    assert "The severity of a change is not rated by people" in page
    assert "Intervals are unreliable: there are only " in page
    assert "textmover robustness -i texts.txt --types drop,shuffle" in page
    assert str(tmp_path) not in page.split("Signatures")[0].replace(str(model[3]), "")
    with (tmp_path / "out" / "found.csv").open(encoding="utf-8", newline="") as stream:
        records = list(csv.DictReader(stream))
    drop = next(one for one in records if (one["metric"], one["kind"], one["degree"]) == ("chrf", "drop", "all"))
    assert float(drop["share_low"]) < float(drop["share"]) < float(drop["share_high"])
    lines = (tmp_path / "kept.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == ["group", "item", "hypothesis", "reference", "degree", "severity", "twmd", "chrf"]
    kept = read_segments(tmp_path / "kept.tsv", Columns(score="chrf", groups=("group",)))
    versions = [one.score for one in kept if one.groups["group"] == "drop"]
    assert float(drop["drop"]) == pytest.approx(100 - np.mean(versions))
    assert sum(one.groups["group"] == "text" for one in kept) == DIFFERENT


def test_an_svg_by_its_suffix_a_folder_and_no_figure(run, texts, tmp_path, monkeypatch):
    given = ("robustness", "-i", texts, "--types", "drop", "--baselines", "chrf", "--samples", 20, "--quiet")
    run(*given, "--output", "found.svg")
    assert (tmp_path / "found.svg").read_bytes().startswith(b"<?xml")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run(*given, "--output", "folder/", "--no-figure").silent()
    assert sorted(one.name for one in (tmp_path / "folder").iterdir()) == ["robustness.csv", "robustness.md"]
    assert "![" not in (tmp_path / "folder" / "robustness.md").read_text(encoding="utf-8")


def test_formats_and_what_is_left_out(run, texts, write):
    for form, start in {"markdown": "# Robustness", "csv": "table,metric,", "json": "{"}.items():
        assert run("robustness", "-i", texts, "--types", "drop", *FEW, "--format", form).out.startswith(start)
    path = write("plain.txt", ["The dog ran home to the garden.", "They walk in the rain every day."])
    ended = run("robustness", "-i", path, "--types", "drop", "number", *FEW[:2], "ter", *FEW[2:]).ok()
    assert "\nnumber " not in ended.out  # which has no versions
    assert "No text allows number." in ended.out
    ended = run("robustness", "-i", texts, "--degrees", 1, *FEW).ok()
    assert "Left out: passive and active (give --perturbation-parser NAME)." in ended.out
    assert "Left out: substitute (give --neighbours ENCODER)." in ended.out
    assert "\nidentity" not in ended.out


def test_the_heat_map_has_no_empty_row(run, write, monkeypatch):
    path, drawn = write("plain.txt", ["The dog ran home to the garden.", "They walk in the rain every day."]), []
    monkeypatch.setattr(robustness, "draw_heat_map", lambda groups, *_, **__: drawn.extend(groups))
    given = ("--types", "drop", "number", "synonym", "--baselines", "chrf", "--samples", 20, "--quiet")
    assert run("robustness", "-i", path, *given, "--output", "found.svg").code == 0
    assert [(one.title, one.names) for one in drawn] == [("changes that harm", ["drop"])]
