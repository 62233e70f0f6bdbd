import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from textmover.perturbations.perturbations import PERTURBATIONS, perturb
from textmover.perturbations.sentences import WordPool
from textmover.perturbations.severity import SeverityTable

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


SENTENCES = table(FOLDER / "sentences.tsv")
RATINGS = table(FOLDER / "ratings.tsv")


def test_the_committed_file_is_what_the_script_writes(load_script, tmp_path, monkeypatch):
    script = load_script("examples/quickstart/make_ratings.py")
    monkeypatch.setattr(sys, "argv", ["make_ratings.py", "--output", str(tmp_path / "ratings.tsv")])
    script.main()
    assert (tmp_path / "ratings.tsv").read_bytes() == (FOLDER / "ratings.tsv").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["ratings.tsv"]


def test_the_script_says_what_it_does():
    command = [sys.executable, str(FOLDER / "make_ratings.py"), "--help"]
    assert "--seed" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


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
