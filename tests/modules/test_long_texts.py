"""Texts longer than the encoder, through the whole metric: read in windows they count to their last word."""

import random

import numpy as np
import pytest
import torch

from textmover.scoring import Scorer

WORDS = """
    a all and at bank big blue book boy by child city cold come day dog door drink evening every eye far fast five
    food friend from garden girl go good green hand happy hot house know large last letter little long look man market
    money morning mother music never new night now of old on one open out over park people play quick rain read red
    right river road room run school see ship short sing sit sleep small snow song stand station stop street sun
    table tea the three time town train tree two under walk want warm water way week when white will wind window with
    woman word work year young your
""".split()  # noqa: SIM905 - a list that is read as text
LIMIT = 126
"""Words of one piece that fit the tiny encoder beside its special tokens."""

EXACT = [
    {"matching": "twmd"},
    {"matching": "trwmd"},
    {"matching": "bertscore", "normalize": False},
    {"matching": "emd", "normalize": False},
    {"matching": "sbert"},
]
"""Metrics by which every text is like itself."""


def long_text(words: int, seed: int = 0) -> str:
    generator = random.Random(seed)
    return " ".join(generator.choice(WORDS) for _ in range(words))


def by_name(fields: dict) -> str:
    return "-".join(map(str, fields.values()))


PAIRS = [
    (long_text(400), long_text(300, seed=1)),
    (long_text(300, seed=2), "the old dog sleeps"),
    ("a red book on the table", "a blue book on the table"),
    ("", long_text(200, seed=3)),
    (long_text(LIMIT, seed=4), long_text(LIMIT + 1, seed=4)),
    (long_text(130, seed=5), long_text(131, seed=6)),
]
HYPOTHESES, REFERENCES = (list(side) for side in zip(*PAIRS, strict=True))


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def windowed(tiny_metric):
    def build(**fields):
        return tiny_metric(long_texts="window", **fields)

    return build


@pytest.mark.parametrize("fields", EXACT, ids=by_name)
def test_long_texts_are_like_themselves(windowed, fields):
    texts = [long_text(500), long_text(500, seed=1), long_text(140)]
    scorer = Scorer(windowed(**fields))
    same, other = scorer.score(texts, texts), scorer.score(texts, texts[1:] + texts[:1])
    assert same.scores.tolist() == pytest.approx([1, 1, 1], abs=1e-6)
    assert np.isfinite(other.scores).all()
    assert (other.scores < 1 - 1e-4).all()
    assert same.counts == other.counts == {}


@pytest.mark.parametrize("fields", EXACT[:4], ids=by_name)
def test_no_score_depends_on_batches(windowed, fields):
    metric = windowed(**fields)
    expected = [Scorer(metric).score(*pair).scores[0] for pair in PAIRS]
    for batch_tokens in (1, 300, 1_000_000):
        found = Scorer(metric, batch_tokens=batch_tokens).score(HYPOTHESES, REFERENCES)
        np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)
        assert found.counts == {"empty": 1}


@pytest.mark.parametrize("fields", EXACT, ids=by_name)
def test_texts_that_are_cut_are_counted_and_lose_what_lies_behind(tiny_metric, windowed, fields):
    cut, whole = Scorer(tiny_metric(**fields)), Scorer(windowed(**fields))
    text = long_text(300)
    start = " ".join(text.split()[:LIMIT])
    found = cut.score([text, start, "a dog"], [start, start, "a cat"])
    assert found.counts == {"truncated": 1}
    assert found.scores[:2].tolist() == pytest.approx([1, 1], abs=1e-6)
    windows = whole.score([text, start, "a dog"], [start, start, "a cat"])
    assert windows.counts == {}
    assert windows.scores[0] < 1 - 1e-4
    assert windows.scores[1:].tolist() == pytest.approx(found.scores[1:].tolist(), abs=1e-6)  # in one piece, both
    changed = f"{text.rsplit(maxsplit=1)[0]} piano"
    assert cut.score(text, start).scores == cut.score(changed, start).scores
    assert whole.score(text, start).scores != whole.score(changed, start).scores


def test_windows_are_as_long_as_the_limit_says(windowed):
    scorers = [Scorer(windowed(max_length=limit)) for limit in (None, 128, 64)]
    values = [one.score(HYPOTHESES, REFERENCES).scores for one in scorers]
    assert values[0].tolist() == values[1].tolist()
    assert not np.allclose(values[1], values[2], atol=1e-6)
    np.testing.assert_allclose(values[1], values[2], rtol=0, atol=0.2)
    assert values[1][2] == pytest.approx(values[2][2], abs=1e-6)  # the short one
    assert ["long:window128" in str(one.signature) for one in scorers] == [True, True, False]
    assert "long:window64" in str(scorers[2].signature)


@pytest.mark.parametrize("matching", ["twmd", "bertscore"])
def test_gradients_reach_the_last_word(tiny_metric, matching):
    """A word that stands beyond the limit moves the score by its vector, or not at all where the text is cut."""
    text, reference = f"{long_text(400)} yellow", long_text(300, seed=1)
    for long_texts in ("truncate", "window"):
        metric = tiny_metric(matching=matching, long_texts=long_texts)
        sides = [metric.tokenize([one]) for one in (text, reference)]
        word = metric.tokenize(["yellow"]).input_ids[0, 1]
        metric(*sides).score.sum().backward()
        grads = [one.grad for _, one in metric.encoder_parameters() if one.grad is not None]
        assert all(torch.isfinite(one).all() for one in grads)
        rows = metric.encoder.model.get_input_embeddings().weight.grad
        assert bool(rows[word].abs().max() > 0) == (long_texts == "window")
        assert rows[sides[0].input_ids[0, 1]].abs().max() > 0


def test_gradients_are_the_slope(windowed):
    """Of one entry of the word embeddings, by finite differences in float64."""
    metric = windowed(temperature=0.2).double()
    sides = [metric.tokenize([one]) for one in (long_text(300), long_text(280, seed=1))]
    weight, place = metric.encoder.model.get_input_embeddings().weight, (sides[0].input_ids[0, 200], 3)
    metric(*sides).score.sum().backward()
    with torch.no_grad():
        values = []
        for step in (1e-5, -2e-5):
            weight[place] += step
            values.append(metric(*sides).score.item())
    slope = (values[0] - values[1]) / 2e-5
    assert slope != 0
    assert weight.grad[place].item() == pytest.approx(slope, rel=1e-4, abs=1e-10)


def test_statistics_are_fitted_on_whole_texts(windowed, tiny_metric):
    texts = [long_text(400), long_text(300, seed=1), "a short one"]
    metric = windowed(centering="corpus", weights="idf")
    metric.fit(texts)
    tokens = [metric.tokenize([text]) for text in texts]
    with torch.no_grad():
        vectors = torch.cat([metric.token_vectors(batch)[0] for batch in tokens])
    assert int(metric.statistics["mean"].count) == len(vectors) == 400 + 300 + 3 + 2 * 3
    torch.testing.assert_close(metric.statistics["mean"].mean, vectors.mean(dim=0), atol=1e-5, rtol=0)
    cut = tiny_metric(centering="corpus", weights="idf")
    cut.fit(texts)
    assert int(cut.statistics["mean"].count) == 2 * 128 + 5
    assert cut.statistics["idf"].counts.sum() < metric.statistics["idf"].counts.sum()
