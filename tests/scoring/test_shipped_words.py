import json
from importlib import resources

import pytest
from safetensors import safe_open

from textmover.checkpoints.shipped import WORDS, fill_idf
from textmover.rome.features.words import WordIdf


class Metric:
    """Stands in for a metric with one table."""

    def __init__(self, table, fits_on_call=False):
        self.statistics, self.fits_on_call = {"idf": table}, fits_on_call


def test_frequent_words_weigh_less_than_rare_ones():
    table = WordIdf()
    assert fill_idf(Metric(table))
    the, house, archipelago, unknown = table(table.ids([["The", "house", "council", "qwertz"]]))[0].tolist()
    assert 0 < the < house < archipelago < unknown
    assert table.informative


def test_tables_that_are_fitted_or_wait_for_a_call_stay_as_they_are():
    table = WordIdf()
    assert not fill_idf(Metric(table, fits_on_call=True))
    table.add_words([["a"], ["b"]])
    before = table.fingerprint
    assert not fill_idf(Metric(table))
    assert table.fingerprint == before
    assert not fill_idf(Metric(None))


def test_the_file_says_what_it_was_counted_on():
    with resources.as_file(resources.files("textmover.checkpoints.shipped").joinpath(WORDS)) as path:
        with safe_open(path, "pt") as file:
            about, words = file.metadata(), bytes(file.get_tensor("words").numpy()).decode().split("\n")
            counts, documents = file.get_tensor("counts"), int(file.get_tensor("documents"))
        assert path.stat().st_size < 300_000
    assert sum(json.loads(about["corpora"]).values()) == documents
    assert len(words) == int(about["words"]) == len(counts) - 1
    assert int(counts[:-1].min()) == int(about["fewest"])
    assert words[int(counts.argmax())] in {".", "the"}


def test_all_words_are_kept_where_one_text_is_enough():
    texts = [["a", "b"], ["a", "c"]]
    whole = WordIdf()
    whole.add_words(texts)
    assert whole.most_frequent(1).fingerprint == whole.fingerprint
    assert whole.most_frequent(3)(whole.most_frequent(3).ids([["a"]])).tolist() == [[pytest.approx(1.0)]]
