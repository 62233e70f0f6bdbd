"""Statistics that are shipped, made again by anyone."""

import json
from importlib import resources
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from textmover.checkpoints import shipped
from textmover.modules.encoder_parts import EncoderParts
from textmover.rome.features.word_vectors import WordIdf

FILE = Path(str(resources.files(shipped).joinpath(shipped.EMBEDDED_MEANS)))


def test_sentences_are_drawn_by_seed_from_the_distinct_ones_in_file_order(script, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"text {row % 50}\n" for row in range(100)) + " \n")
    assert script.draw(path, "sentence", "all", 0) == [f"text {row}" for row in range(50)]
    drawn = script.draw(path, "sentence", "10", 0)
    assert len(set(drawn)) == 10
    assert drawn == sorted(drawn, key=lambda text: int(text.split()[1]))
    assert drawn == script.draw(path, "sentence", "10", 0) != script.draw(path, "sentence", "10", 1)
    table = tmp_path / "corpus.tsv"
    table.write_text("year\tsentence\n2015\ta cat\n")
    assert script.draw(table, "sentence", "all", 0) == ["a cat"]


def test_the_means_are_those_that_a_metric_would_fit(script, tiny_metric):
    texts = ["the dog ran home", "she will buy a book and read it", "tea"] * 30
    whole = tiny_metric(aggregation="power-means", last_layers=4)
    means = script.fit_means(EncoderParts(whole.encoder, whole.tokenizer, whole.encoder_identity), texts)
    for layer, mean in enumerate(means):
        one = tiny_metric(layer=layer, centering="corpus")
        one.fit(texts)
        torch.testing.assert_close(mean.mean, one.statistics["mean"].mean, rtol=0, atol=1e-5)
        assert int(mean.count) == int(one.statistics["mean"].count)


@pytest.mark.slow
def test_the_script_writes_what_is_read(run, embedded, tmp_path):
    corpus, output = tmp_path / "corpus.txt", tmp_path / "means.safetensors"
    corpus.write_text("A cat sat there.\nThe dog ran home.\n")
    run("means", output, "--corpus", "two sentences", corpus, "all")
    with safe_open(str(output), framework="pt") as content, safe_open(str(FILE), framework="pt") as ours:
        assert set(content.keys()) == set(ours.keys())
        assert set(content.metadata()) == set(ours.metadata())
        assert json.loads(content.metadata()["corpora"]) == {"two sentences": {"sentences": 2, "tokens": 14}}


def test_words_of_few_texts_become_unknown(script):
    texts = [["a", "b"], ["a", "c"], ["a", "b"], ["d"]]
    state = script.count_words(texts, fewest=2)
    table = WordIdf()
    table.load_state_dict({**table.state_dict(), **state})
    whole = WordIdf()
    whole.add_words(texts)
    assert torch.equal(table(table.ids([["a", "b"]])), whole(whole.ids([["a", "b"]])))
    assert table(table.ids([["c"]])) == whole(whole.ids([["z"]]))
    assert int(table.documents) == 4
