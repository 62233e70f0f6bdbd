"""Committed ratings of the examples: what their scripts write, and what recipes and cards say of them."""

import csv
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import yaml

from textmover.data import Columns, RatingsDataModule
from textmover.data.generated.contrasts import UNRELATED, WRONG_FACTS
from textmover.data.generated.events import REWORDING
from textmover.data.split import normalise_reference
from textmover.perturbations.editable_sentences import WordPool
from textmover.perturbations.perturbations import PERTURBATIONS, perturb
from textmover.perturbations.severity import SeverityTable
from textmover.readers.segments import read_segments

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def written(load_script, tmp_path, monkeypatch):
    """A function that runs a script and gives the file that it writes, which is the only one."""

    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", ["make_ratings.py", "--output", str(tmp_path / "out.csv"), *arguments])
        load_script(f"examples/{script}").main()
        assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
        return tmp_path / "out.csv"

    return run


@pytest.mark.parametrize(
    ("folder", "file", "option"), [("quickstart", "ratings.tsv", "--seed"), ("own_ratings", "ratings.csv", "--rest")]
)
def test_the_committed_file_is_what_the_script_writes(written, folder, file, option):
    assert written(f"{folder}/make_ratings.py").read_bytes() == (EXAMPLES / folder / file).read_bytes()
    command = [sys.executable, str(EXAMPLES / folder / "make_ratings.py"), "--help"]
    assert option in subprocess.run(command, capture_output=True, text=True, check=True).stdout


# --- quickstart -------------------------------------------------------------------------------------------------------

SENTENCES = table(EXAMPLES / "quickstart" / "sentences.tsv")
RATINGS = table(EXAMPLES / "quickstart" / "ratings.tsv")


def test_150_sentences_all_different():
    texts = [text for row in SENTENCES for text in (row["sentence"], row["paraphrase"], row["paraphrase2"]) if text]
    assert len(SENTENCES) == len({row["id"] for row in SENTENCES}) == 150
    assert len(texts) == len(set(texts)) >= 370
    openings = Counter(" ".join(row["sentence"].split()[:3]) for row in SENTENCES)
    assert openings.most_common(1)[0][1] == 1
    for text in texts:
        assert text[0].isupper()
        assert text[-1] in ".?!"
        assert "  " not in text
        assert '"' not in text


def test_rows_are_whole_and_not_repeated():
    assert list(RATINGS[0]) == ["reference", "hypothesis", "score", "perturbation", "degree", "sentence_id"]
    assert 1600 <= len(RATINGS) <= 2000
    assert len({(row["reference"], row["hypothesis"]) for row in RATINGS}) == len(RATINGS)
    references = {row["id"]: row["sentence"] for row in SENTENCES}
    assert all(references[row["sentence_id"]] == row["reference"] for row in RATINGS)
    assert all(0 <= float(row["score"]) <= 100 for row in RATINGS)


def test_every_type_has_enough_rows_of_every_degree():
    rows = Counter(row["perturbation"] for row in RATINGS)
    assert set(rows) == {*PERTURBATIONS, "paraphrase"}
    assert min(rows.values()) >= 120
    severities = SeverityTable.load()
    seen = {(row["perturbation"], int(row["degree"])) for row in RATINGS}
    assert seen == {(name, degree) for name in severities.grades for degree in severities.degrees(name)}


@pytest.mark.parametrize("name", SeverityTable.load().grades)
def test_scores_come_from_the_table(name):
    severities = SeverityTable.load()
    everything = WordPool(text for row in SENTENCES for text in list(row.values())[1:] if text)
    paraphrases = {row["id"]: [text for text in (row["paraphrase"], row["paraphrase2"]) if text] for row in SENTENCES}
    for row in (row for row in RATINGS if row["perturbation"] == name):
        degree = int(row["degree"])
        if name == "paraphrase":
            expected = round(100 * (1 - severities.severity(name, degree)), 1)
        else:
            pool = everything.avoiding(paraphrases[row["sentence_id"]])
            expected = perturb(row["reference"], name, degree, seed=1, pool=pool).rating
        assert float(row["score"]) == expected


# --- ratings of one's own ---------------------------------------------------------------------------------------------

RECIPE = yaml.safe_load((EXAMPLES / "own_ratings" / "recipe.yaml").read_text(encoding="utf-8"))
DATA = RECIPE["data"]["init_args"]
SEGMENTS = read_segments(EXAMPLES / "own_ratings" / "ratings.csv", Columns(**DATA["columns"]))


def test_200_different_outputs_with_ratings_from_1_to_5():
    assert len(SEGMENTS) == len({(one.hypothesis, one.references) for one in SEGMENTS}) == 200
    assert all(1 <= one.score <= 5 and abs(3 * one.score - round(3 * one.score)) < 0.02 for one in SEGMENTS)
    assert {len(one.references) for one in SEGMENTS} == {1, 2}
    assert all(one.hypothesis not in one.references for one in SEGMENTS)


def test_the_ratings_follow_the_quickstart_s_but_not_exactly():
    scores = {(row["reference"], row["hypothesis"]): float(row["score"]) for row in RATINGS}
    pairs = [(one.score, 1 + scores[one.references[0], one.hypothesis] / 25) for one in SEGMENTS]
    differences = [given - expected for given, expected in pairs]
    assert 0.2 < sum(abs(one) for one in differences) / len(differences) < 0.6
    assert max(Counter(given for given, _ in pairs).values()) < len(pairs) / 5


def test_the_rest_shares_no_sentence_with_the_ratings(written):
    rest = read_segments(written("own_ratings/make_ratings.py", "--rest"), Columns(**DATA["columns"]))
    assert len(rest) == 100
    assert not {one.references[0] for one in rest} & {one.references[0] for one in SEGMENTS}


def test_another_seed_draws_others(written):
    other = read_segments(written("own_ratings/make_ratings.py", "--seed", "2"), Columns(**DATA["columns"]))
    assert len(other) == 200
    assert {one.hypothesis for one in other} != {one.hypothesis for one in SEGMENTS}


def test_the_recipe_holds_back_what_it_says(monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)
    data = RatingsDataModule(**{**DATA, "columns": Columns(**DATA["columns"])})
    data.setup()
    (held_back,) = data.parts.values()
    said = (EXAMPLES / "own_ratings" / "recipe.yaml").read_text(encoding="utf-8")
    assert f"{len(held_back)} of the 200 ratings here" in said
    assert f"with the {len(data.segments)} ratings to train on" in said
    assert f"of {-(-len(data.segments) // DATA['batch_size'])} steps each" in said
    sides = [
        {normalise_reference(text) for one in part for text in one.references} for part in (held_back, data.segments)
    ]
    assert not sides[0] & sides[1]
    assert DATA["notice"].strip()
    monitored = [one for one in RECIPE["trainer"]["callbacks"] if "monitor" in one["init_args"]]
    assert not monitored, "nothing is chosen on a handful of held-back ratings"


# --- answers of conversations, which rungs of the ladder are trained on ----------------------------------------------

ANSWERS = EXAMPLES / "answers.tsv"


def test_each_conversation_has_seven_different_answers_with_ratings():
    rows = table(ANSWERS)
    assert set(Counter(row["dialogue"] for row in rows).values()) == {7}
    assert len({(row["dialogue"], row["hypothesis"].lower()) for row in rows}) == len(rows)
    assert all(0 <= int(row["score"]) <= 100 for row in rows)
    assert len({(row["dialogue"], row["part"], row["context"], row["reference"]) for row in rows}) == len(rows) / 7


def test_a_third_of_the_conversations_is_kept_from_training():
    data = RatingsDataModule(
        [str(ANSWERS)], columns=Columns(groups=("part",)), where={"part": ["train"]}, held_back=0.1
    )
    data.setup()
    assert len(data.segments) + sum(map(len, data.parts.values())) == 160 * 7


# --- paraphrases and wrong copies written by hand ---------------------------------------------------------------------

WRITTEN = EXAMPLES / "wrong_facts.tsv"
WRONG = ("day", *WRONG_FACTS)


def test_each_text_has_paraphrases_and_wrong_copies_of_its_own():
    by_text = defaultdict(list)
    for row in table(WRITTEN):
        by_text[row["part"], row["reference"]].append(row)
    assert len({reference for _, reference in by_text}) == len(by_text), "a text is in one part"
    for (part, reference), rows in by_text.items():
        kinds = [row["contrast"] for row in rows]
        assert len({row["hypothesis"] for row in rows} | {reference}) == len(rows) + 1, reference
        assert REWORDING in kinds, reference
        assert sum(kind in WRONG for kind in kinds) == (1 if part == "held-out" else 3), reference


def test_a_wrong_copy_is_rated_below_what_leaves_facts_out():
    scores = defaultdict(set)
    for row in table(WRITTEN):
        scores["wrong" if row["contrast"] in WRONG else row["contrast"]].add(int(row["score"]))
    assert scores == {REWORDING: {97, 100}, "partial": {70}, "wrong": {45}, "wrong paraphrase": {40}, UNRELATED: {0}}
