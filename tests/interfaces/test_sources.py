"""Every interface hands sources to a metric that reads them, and refuses them where none does."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from textmover import Scorer
from textmover.interfaces import evaluate, transformers
from textmover.interfaces.pandas import score_frame
from textmover.scoring.ray import RayScorer
from textmover.types import InputError

HYPOTHESES = ["the small dog ran home", "she sells books", "tea and water"]
REFERENCES = ["a little dog ran", "she sold a book", "warm tea"]
SOURCES = ["hot dog water", "books to buy", "a cup of tea"]
WORDS = ["", *sorted({word for text in (*HYPOTHESES, *REFERENCES, *SOURCES) for word in text.split()})]


def ids(texts):
    rows = [[WORDS.index(word) for word in text.split()] for text in texts]
    return np.array([row + [-100] * (5 - len(row)) for row in rows])


def by_module(model, references, sources, **options):
    module = evaluate.load(model, **options)
    module.add(prediction=HYPOTHESES[0], source=sources[0], reference=references and references[0])
    rest = None if references is None else references[1:]
    return module.compute(predictions=HYPOTHESES[1:], references=rest, sources=sources[1:])["scores"]


def by_frame(model, references, sources, **options):
    frame = pd.DataFrame({"hypothesis": HYPOTHESES, "src": sources})
    columns = [] if references is None else ["gold"]
    frame = frame if references is None else frame.assign(gold=references)
    return frame.textmover.score(reference=columns, source="src", model=model, **options).tolist()


def by_ray(model, references, sources, **options):
    batch = {"hypothesis": HYPOTHESES, "src": sources, "gold": references or HYPOTHESES}
    columns = () if references is None else ("gold",)
    return RayScorer(model, references=columns, source="src", **options)(batch)["score"].tolist()


def by_trainer(model, references, sources, *, listed=False, **options):
    decode = lambda rows, **_: [" ".join(WORDS[one] for one in row) for row in rows]  # noqa: E731
    tokenizer = SimpleNamespace(pad_token_id=0, batch_decode=decode)
    metrics = transformers.compute_metrics(tokenizer, model, sources=sources if listed else None, **options)
    labels, inputs = ids(references or HYPOTHESES), None if listed else ids(sources)
    found = []
    for row in range(3):
        one = SimpleNamespace(predictions=ids(HYPOTHESES)[[row]], label_ids=labels[[row]], inputs=inputs)
        one.inputs = inputs if listed else inputs[[row]]
        found = metrics(one, compute_result=row == 2)
    return found["textmover"]


@pytest.mark.parametrize("by", [by_module, by_frame, by_ray])
@pytest.mark.parametrize("mode", ["source", "both"])
def test_the_scores_are_those_of_the_scorer(tiny_multilingual, by, mode):
    options = {"encoder": str(tiny_multilingual), "mode": mode, "backend": "torch"}
    references = None if mode == "source" else REFERENCES
    expected = Scorer.from_pretrained("twmd", **options).score(HYPOTHESES, references, SOURCES).scores
    assert by("twmd", references, SOURCES, **options) == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_trainer_reads_an_iterator_of_sources_once(tiny_multilingual):
    options = {"encoder": str(tiny_multilingual), "mode": "both", "backend": "torch"}
    decode = lambda rows, **_: [" ".join(WORDS[one] for one in row) for row in rows]  # noqa: E731
    tokenizer = SimpleNamespace(pad_token_id=0, batch_decode=decode)
    metrics = transformers.compute_metrics(tokenizer, "twmd", sources=iter(SOURCES), **options)
    evaluation = SimpleNamespace(predictions=ids(HYPOTHESES), label_ids=ids(REFERENCES))
    assert metrics(evaluation) == metrics(evaluation)
    with pytest.raises(TypeError, match="Expected sources to be a text or a list of texts, but got DataFrame"):
        transformers.compute_metrics(tokenizer, "twmd", sources=pd.DataFrame({"src": SOURCES}))


@pytest.mark.parametrize("listed", [False, True])
def test_the_trainer_s_inputs_or_a_list_are_the_sources(tiny_multilingual, listed):
    options = {"encoder": str(tiny_multilingual), "mode": "both", "backend": "torch"}
    expected = Scorer.from_pretrained("twmd", **options).score(HYPOTHESES, REFERENCES, SOURCES).mean
    assert by_trainer("twmd", REFERENCES, SOURCES, listed=listed, **options) == pytest.approx(expected, abs=1e-6)


def test_inputs_that_no_metric_reads_are_left_alone(tiny_scorer):
    expected = tiny_scorer.score(HYPOTHESES, REFERENCES).mean
    assert by_trainer(tiny_scorer, REFERENCES, SOURCES) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("by", [by_module, by_frame])
def test_sources_that_the_metric_does_not_read_are_refused(tiny_scorer, by):
    with pytest.raises(InputError, match="Expected a metric that reads sources, but got one with the encoder"):
        by(tiny_scorer, REFERENCES, SOURCES)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA], ids=str)
@pytest.mark.parametrize("batch", [lambda columns: {**columns}, pd.DataFrame], ids=["arrays", "pandas"])
def test_ray_takes_the_side_that_is_there(tiny_multilingual, batch, missing):
    options = {"encoder": str(tiny_multilingual), "mode": "both", "backend": "torch", "fallback": True}
    texts = {"hypothesis": HYPOTHESES, "gold": [missing, *REFERENCES[1:]], "src": [*SOURCES[:2], missing]}
    columns = {name: np.array(cells, dtype=object) for name, cells in texts.items()}
    found = RayScorer("twmd", references="gold", source="src", **options)(batch(columns))["score"]
    scorer = Scorer.from_pretrained("twmd", **options)
    expected = scorer.score(HYPOTHESES, [None, *REFERENCES[1:]], [*SOURCES[:2], None]).scores
    assert list(found) == pytest.approx(expected.tolist(), abs=1e-6)
    columns["src"][0] = missing
    with pytest.raises(InputError, match=r"Expected a reference or a source for each .*, but number 1 has none"):
        RayScorer("twmd", references="gold", source="src", **options)(batch(columns))


def test_a_frame_names_the_row_that_lacks_a_source(tiny_multilingual):
    options = {"encoder": str(tiny_multilingual), "mode": "both", "backend": "torch"}
    frame = pd.DataFrame({"hypothesis": HYPOTHESES, "reference": REFERENCES, "src": [*SOURCES[:2], None]}, list("xyz"))
    with pytest.raises(InputError, match=r"Expected a source in column 'src' of row 'z', since `mode` is 'both'"):
        score_frame(frame, model="twmd", source="src", **options)
    found = score_frame(frame, model="twmd", source="src", fallback=True, **options)
    alone = Scorer.from_pretrained("twmd", **{**options, "mode": "reference"}).score(HYPOTHESES[2:], REFERENCES[2:])
    assert found["z"] == pytest.approx(alone.mean, abs=1e-6)
