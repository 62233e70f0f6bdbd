"""Translations are compared with references, with their source, or with both."""

import pickle

import numpy as np
import pytest
import torch

from textmover import Scorer, TextMoverScore
from textmover.checkpoints.loading import load_metric
from textmover.modules import MetricModel
from textmover.modules.tokens.text_flags import side_flags
from textmover.scoring import save_checkpoint
from textmover.scoring.error_spans import spans
from textmover.types import InputError, SourcedReferences, compared_texts

HYPOTHESES = ["the small dog ran home", "she sells books", "tea and water", "snow in the garden"]
REFERENCES = [["a little dog ran", "the dog was quick"], ["she sold a book"], ["warm tea"], ["the garden is white"]]
SOURCES = ["hot dog water", "books to buy", "a cup of tea", "rain on the park"]
CASES = [
    {"matching": "twmd"},
    {"matching": "bertscore", "score": "recall"},
    {"matching": "emd", "output": "distance", "normalize": False},
    {"matching": "twmd", "multi_reference": "mean"},
    {"matching": "twmd", "multi_reference": "all"},
]


@pytest.fixture(scope="module")
def scorer_of(tiny_metric, tiny_multilingual):
    """Builds a scorer that compares with sources; its weight and scale are not those of the start."""

    def build(weight=0.3, scale=0.8, offset=0.1, **fields):
        metric = tiny_metric(encoder=str(tiny_multilingual), **fields)
        if metric.combination is not None:
            with torch.no_grad():
                metric.combination.logit.copy_(torch.tensor(weight).logit())
                metric.combination.source.scale.fill_(scale)
                metric.combination.source.offset.fill_(offset)
        return Scorer(metric)

    return build


@pytest.mark.parametrize("fields", CASES, ids=lambda one: "-".join(map(str, one.values())))
def test_both_are_the_weighted_mean_of_either(scorer_of, fields):
    plain = scorer_of(**fields)
    first, second = plain.score(HYPOTHESES, REFERENCES), plain.score(HYPOTHESES, SOURCES)
    assert not np.allclose(first.scores, second.scores)
    source = scorer_of(mode="source", **fields).score(HYPOTHESES, None, SOURCES)
    assert source.scores == pytest.approx(0.8 * second.scores + 0.1, abs=1e-6)
    both = scorer_of(mode="both", **fields).score(HYPOTHESES, REFERENCES, SOURCES)
    assert both.scores == pytest.approx(0.7 * first.scores + 0.3 * (0.8 * second.scores + 0.1), abs=1e-6)
    for name in ("precision", "recall", "f") if first.f is not None else ():  # without the scale
        assert getattr(both, name) == pytest.approx(0.7 * getattr(first, name) + 0.3 * getattr(second, name), abs=1e-6)
    assert "mode:both|source:0.3*(0.8*s+0.1)" in str(both.signature)
    assert "mode" not in plain.signature.entries


def test_the_combination_holds_whatever_the_scale_of_the_scores(scorer_of, tmp_path):
    """Calibration and rescaling map all scores alike, when a checkpoint is loaded with other ones, too."""
    scorer = scorer_of(mode="both", fallback=True, calibrate=True)
    with torch.no_grad():
        scorer.metric.calibration.scale.fill_(3.0)
        scorer.metric.calibration.offset.fill_(-1.0)
    save_checkpoint(scorer.metric, tmp_path / "metric", card="")
    similarities = scorer_of(mode="both", fallback=True)
    rescaled = load_metric(tmp_path / "metric", calibrate=False, rescale=True)
    rescaled.fit([text for one in REFERENCES for text in one] + SOURCES)
    base = rescaled.baseline.values[2].item()
    scales = {"calibrated": (scorer, 3, -1), "rescaled": (Scorer(rescaled), 1 / (1 - base), -base / (1 - base))}
    for references, sources in ((REFERENCES, SOURCES), (None, SOURCES), (REFERENCES, None)):
        found = similarities.score(HYPOTHESES, references, sources).scores
        for name, (other, scale, offset) in scales.items():
            scores = other.score(HYPOTHESES, references, sources).scores
            assert scores == pytest.approx(scale * found + offset, abs=1e-5), name


@pytest.mark.parametrize("blank", [" ", "\ufeff \u200b\n"])  # neither can be seen
@pytest.mark.parametrize("mode", ["reference", "source", "both"])
def test_what_is_there_stands_in_for_what_is_missing(scorer_of, mode, blank):
    scorer = scorer_of(mode=mode, fallback=True)
    references = [REFERENCES[0], None, [blank], REFERENCES[3]]
    sources = [SOURCES[0], SOURCES[1], SOURCES[2], None if blank == " " else blank]
    found = scorer.score(HYPOTHESES, references, sources).scores
    plain = scorer_of()
    first, second = plain.score(HYPOTHESES, REFERENCES).scores, 0.8 * plain.score(HYPOTHESES, SOURCES).scores + 0.1
    at_first = {"reference": first[0], "source": second[0], "both": 0.7 * first[0] + 0.3 * second[0]}[mode]
    assert found == pytest.approx([at_first, second[1], second[2], first[3]], abs=1e-6)
    assert f"mode:{mode}+fallback" in str(scorer.signature)
    assert "compared" not in scorer.signature.entries
    fallen = {"reference": [1, 2], "source": [3], "both": [1, 2, 3]}[mode]
    assert np.flatnonzero(scorer.score(HYPOTHESES, references, sources).flags["fallback"]).tolist() == fallen
    for sides in ((REFERENCES, None), (None, SOURCES)):  # one that none has was not given
        counts = scorer.score(HYPOTHESES, *sides).counts
        assert ("fallback" in counts) == (mode == ("source" if sides[1] is None else "reference"))
    for row, name in ((1, "a batch without references"), (3, "a batch without sources")):  # but listed
        counts = scorer.score([HYPOTHESES[row]], [references[row]], [sources[row]]).counts
        assert ("fallback" in counts) == (row in fallen), name
    kinds = "reference+source", "reference", "source"
    ways = [kinds[side] for side in ((0, 1, 2) if mode == "both" else (1, 2))]
    for given, names in (((REFERENCES, None), kinds[1:2]), ((None, SOURCES), kinds[2:]), ((references, sources), ways)):
        compared = scorer.score(HYPOTHESES, *given).signature.entries["compared"]
        assert compared == "/".join(sorted(names))
    with pytest.raises(InputError, match=r"a reference or a source for each hypothesis, .* but number 2 has none"):
        scorer.score(HYPOTHESES[:2], [["a"], []], ["b", None])


@pytest.mark.parametrize("mode", ["reference", "source", "both"])
def test_the_module_compares_what_its_scorer_compares(scorer_of, mode):
    scorer = scorer_of(mode=mode, fallback=True)
    metric, references = scorer.metric, [texts[0] for texts in REFERENCES]
    sides = [(references, SOURCES), (None, SOURCES), (references, None)]
    for given in sides:
        batches = [None if texts is None else metric.tokenize(texts) for texts in (HYPOTHESES, *given)]
        expected = scorer.score(HYPOTHESES, *given)
        found = metric(*batches)
        assert found.score.tolist() == pytest.approx(expected.scores.tolist(), abs=1e-6)
        assert found.recall.tolist() == pytest.approx(expected.recall.tolist(), abs=1e-6)
    with pytest.raises(InputError, match="compares with references alone"):
        scorer_of().metric(*map(metric.tokenize, (HYPOTHESES, references, SOURCES)))


@pytest.mark.parametrize(
    ("fields", "references", "sources", "message"),
    [
        ({"mode": "source"}, REFERENCES, None, "a source for each hypothesis, since `mode` is 'source', but number 1"),
        ({"mode": "both"}, None, SOURCES, "a reference .* 'both', but number 1 has none: give one, or set `fallback`"),
        ({"mode": "both"}, REFERENCES, [*SOURCES[:2], " ", "a"], "a source for each .* number 3 has none"),
        ({"mode": "source"}, None, SOURCES[:3], "as many sources as hypotheses, but got 3 for 4"),
        ({"mode": "both"}, [*REFERENCES, ["a"]], SOURCES, "as many references as hypotheses, but got 5 for 4"),
        ({"mode": "both"}, REFERENCES[:3], SOURCES, "as many references as hypotheses, but got 3 for 4"),
        ({"mode": "source"}, None, [1, *SOURCES[1:]], "strings, but got int in segment 1"),
        ({}, REFERENCES, SOURCES, "compares with references alone: set `mode` to source or both"),
        ({"mode": "source"}, None, None, "references, but they are missing: .* `sources` for a metric that compares"),
    ],
)
def test_missing_texts_are_refused(scorer_of, fields, references, sources, message):
    with pytest.raises((InputError, TypeError), match=message):
        scorer_of(**fields).score(HYPOTHESES, references, sources)


@pytest.mark.parametrize("fields", [{}, {"mode": "source"}, {"fallback": True}])
def test_an_encoder_of_one_language_refuses_sources(tiny_metric, fields):
    with pytest.raises(InputError, match=r"that reads sources.*take textmover-multilingual"):
        Scorer(tiny_metric(**fields)).score(HYPOTHESES, REFERENCES, SOURCES)


@pytest.mark.parametrize("mode", ["source", "both"])
def test_a_copy_is_not_reported_as_a_missing_side(scorer_of, mode):
    """Its source does not count where there is a reference, but is not missing."""
    found = scorer_of(mode=mode, fallback=True).score(HYPOTHESES, REFERENCES, [HYPOTHESES[0], None, *SOURCES[2:]])
    assert found.flags["copied"].tolist() == [True, False, False, False]
    assert found.flags["fallback"].tolist() == [False, True, False, False]


def test_a_copied_source_is_flagged_and_counted(scorer_of, caplog):
    sources = [SOURCES[0], "she  sells books ", *SOURCES[2:]]
    found = scorer_of(mode="both").score(HYPOTHESES, REFERENCES, sources)
    assert found.counts["copied"] == 1
    assert found.flags["copied"].tolist() == [False, True, False, False]
    assert "1 segment had a hypothesis that is its source, copied, such as 'she sells books'" in caplog.text
    references = scorer_of().score(HYPOTHESES, REFERENCES).scores
    assert found.scores[1] == pytest.approx(references[1], abs=1e-6)  # a copy says nothing beside a reference
    assert abs(found.scores[0] - references[0]) > 1e-3
    alone = scorer_of(mode="source").score(HYPOTHESES, None, sources)
    assert alone.scores[1] == pytest.approx(0.9, abs=1e-6)  # nor alone: it is flagged
    assert alone.counts["copied"] == 1


def test_a_hypothesis_in_the_language_of_its_source_or_another_than_its_reference_is_warned_of(scorer_of, caplog):
    texts, others = ["She is in the hall.", "Er ist nicht da."], ["He was in the hall.", "He is not in the hall."]
    found = scorer_of(mode="source").score(texts, None, others)
    assert found.flags["untranslated"].tolist() == [True, False]
    assert "in the language of its source, such as 'She is in the hall.': such results mean little" in caplog.text
    found = scorer_of().score(texts, [[one] for one in others])  # these are meant to be in its language
    assert "untranslated" not in found.counts
    assert found.flags["off target"].tolist() == [False, True]
    assert "in another language than its reference, such as 'Er ist nicht da.': such results mean little" in caplog.text


@pytest.mark.parametrize(
    ("source", "text", "near"),
    [
        ("他昨天在北京买了三本新的书籍。", "他昨天在北京买了两本新的书籍。", True),
        ("เขาซื้อหนังสือใหม่สามเล่มเมื่อวานนี้", "เขาซื้อหนังสือใหม่สองเล่มเมื่อวานนี้", True),
        ("彼は昨日北京で新しい本を三冊買った。", "他昨天在北京买了三本新的书籍。", False),
        ("Me gusta mucho la música de este país.", "Gosto muito da música deste país.", False),
        ("Paris 2024", "Paris 2025", False),  # too short to tell
    ],
)
def test_near_copies_are_flagged_in_any_language(source, text, near):
    assert side_flags([text], [SourcedReferences((), source)])["untranslated"].tolist() == [near]


GERMAN, ENGLISH, FRENCH = (
    "Der Hund ist nicht hier, er ist im Garten.",
    "The dog is not here, it is in the garden.",
    "Le chien n'est pas ici, il est dans le jardin.",
)


@pytest.mark.parametrize("mode", ["reference", "source", "both"])
def test_a_hypothesis_outside_the_target_language_scores_as_an_empty_one(scorer_of, mode, caplog):
    hypotheses = [ENGLISH, FRENCH, GERMAN, "", "Mark Smith"]
    references = None if mode == "source" else [ENGLISH.replace("garden", "park")] * 5
    sources = None if mode == "reference" else [GERMAN] * 5
    plain = scorer_of(mode=mode, multi_reference="mean").score(hypotheses, references, sources)
    scorer = scorer_of(mode=mode, multi_reference="mean", target_language="en")
    caplog.clear()
    found = scorer.score(hypotheses, references, sources)
    copied = 2 if mode == "both" else 3  # which only the reference judges
    assert found.scores[[0, 4]] == pytest.approx(plain.scores[[0, 4]], abs=1e-6)  # names are of any language
    assert found.scores[1] == pytest.approx(plain.scores[3], abs=1e-6)
    assert found.scores[copied] == pytest.approx(plain.scores[3] if mode != "both" else found.scores[2], abs=1e-6)
    assert found.scores[2] < found.scores[0] < plain.scores[[1, 2]].max() + 1
    assert found.flags["off target"].tolist() == [False, True, True, False, False]
    assert found.flags["empty"].tolist() == [False, False, False, True, False]
    assert "in another language than en, which scores as an empty text, or than its reference" in caplog.text
    assert "unless `target_language` is set" not in caplog.text
    assert found.signature.entries["target"] == "en"
    explained = scorer.explain(
        FRENCH, None if references is None else references[0], None if sources is None else GERMAN
    )
    assert "note: the hypothesis is in another language than en, the target language: it scores as an" in str(explained)
    alone = [scorer.score([text], references and references[:1], sources and sources[:1]) for text in hypotheses]
    assert [one.scores[0] for one in alone] == pytest.approx(found.scores, abs=1e-6)


def test_the_target_language_binds_hypotheses_alone_in_every_room(scorer_of):
    """The same text counts as a source, and does not as a hypothesis, in one call and in torchmetrics."""
    scorer = scorer_of(mode="source", target_language="en")
    texts, sources = [ENGLISH, GERMAN, FRENCH], [GERMAN, ENGLISH, GERMAN]
    scores = scorer.score(texts, sources=sources).scores
    assert scores[1] == scores[2] < scores[0]
    batches = [scorer.metric.tokenize(side) for side in (texts, sources)]
    assert scorer.metric(batches[0], sources=batches[1]).score.tolist() == pytest.approx(scores, abs=1e-5)
    metric = TextMoverScore(scorer.metric, reduction="none")
    metric.update(texts, sources=sources)
    assert metric.compute().tolist() == pytest.approx(scores, abs=1e-6)


def test_the_best_candidate_is_in_the_target_language(scorer_of):
    near = GERMAN.replace("Hund", "Wolf")
    plain, found = (
        scorer_of(mode="source", **fields).mbr([[near, FRENCH, ENGLISH]], sources=[GERMAN])
        for fields in ({}, {"target_language": "en"})
    )
    assert (plain.texts, found.texts) == ([near], [ENGLISH])
    assert plain.counts == {"untranslated": 1}
    assert found.counts == {"untranslated": 1, "off target": 1}  # two candidates, neither of which is empty


def test_every_word_outside_the_target_language_is_wrong(scorer_of, monkeypatch):
    """A copy of the source matches it word by word."""
    monkeypatch.setattr(spans, "MASS", {"minor": np.inf})  # as a head that never saw such texts
    plain, found = (
        scorer_of(mode="source", **fields).errors([GERMAN, "Mark Smith"], sources=[GERMAN, "Mark Smith"])
        for fields in ({}, {"target_language": "en"})
    )
    assert [len(one) for one in (*plain, found[1])] == [0, 0, 0]
    assert [(GERMAN[error.start : error.end], error.severity) for error in found[0]] == [(GERMAN, "critical")]
    assert "off target" in found[0].flags


def test_mbr_does_not_choose_a_copied_source(scorer_of):
    candidates, copies = [[HYPOTHESES[1], HYPOTHESES[2], HYPOTHESES[0]]], [[HYPOTHESES[1]] * 2]
    found = scorer_of(mode="source").mbr(candidates, sources=[HYPOTHESES[1]])
    (chosen,) = found.choices
    assert (chosen.index != 0, found.counts["copied"]) == (True, 1)
    assert np.isnan(chosen.utilities).tolist() == [True, False, False]
    (chosen,) = scorer_of(mode="source").mbr(copies, sources=[HYPOTHESES[1]]).choices
    assert chosen.utilities == pytest.approx([0.9, 0.9], abs=1e-6)
    twice = [[HYPOTHESES[1], HYPOTHESES[1], HYPOTHESES[0]]]  # each the best reference of the other
    assert scorer_of(mode="both").mbr(twice, sources=[HYPOTHESES[1]]).choices[0].index == 2
    (chosen,) = scorer_of(mode="both").mbr(candidates, sources=[HYPOTHESES[1]]).choices
    (among,) = scorer_of().mbr(candidates).choices
    assert np.isnan(chosen.utilities).tolist() == [True, False, False]
    assert abs(chosen.utilities[1] - among.utilities[1]) > 1e-3


def test_scores_do_not_depend_on_batch_mates_and_repeat(scorer_of):
    scorer = scorer_of(mode="both")
    together = scorer.score(HYPOTHESES * 2, REFERENCES * 2, SOURCES * 2).scores
    single = [scorer.score([h], [r], [s]).scores[0] for h, r, s in zip(HYPOTHESES, REFERENCES, SOURCES, strict=True)]
    idf = scorer_of(mode="both", weights="idf", idf_from="references")
    assert idf.score(HYPOTHESES, REFERENCES, SOURCES).scores.shape == (4,)
    assert together == pytest.approx(single * 2, abs=1e-6)


def test_gradients_reach_the_weight_and_the_encoder(scorer_of):
    scorer = scorer_of(mode="both", calibrate=True)
    metric: MetricModel = scorer.metric
    hypotheses, references, sources = map(metric.tokenize, (HYPOTHESES, [one[0] for one in REFERENCES], SOURCES))
    found = metric(hypotheses, references, sources)
    expected = scorer.score(HYPOTHESES, [one[0] for one in REFERENCES], SOURCES)
    assert found.score.tolist() == pytest.approx(expected.scores.tolist(), abs=1e-5)
    found.score.sum().backward()
    trained = dict(metric.head_parameters())
    assert {"logit", "source.scale", "source.offset"} <= set(trained)
    assert all(one.grad is not None and bool(one.grad.isfinite().all()) for one in trained.values())
    missing, against = torch.full((4,), torch.nan), metric.pair_scores(hypotheses, sources).score
    assert metric(hypotheses, sources=sources).score.tolist() == metric.combine(missing, against).tolist()


def test_missing_values_give_finite_gradients(scorer_of):
    metric = scorer_of(mode="both").metric
    values = torch.tensor([0.5, torch.nan, 0.2]), torch.tensor([0.1, 0.4, torch.nan])
    metric.combine(*values).sum().backward()
    assert all(bool(one.grad.isfinite()) for one in metric.combination.parameters())


def test_a_checkpoint_keeps_the_combination_and_can_leave_it_out(scorer_of, tmp_path):
    scorer = scorer_of(mode="both", fallback=True)
    save_checkpoint(scorer.metric, tmp_path / "metric", card="")
    expected = scorer.score(HYPOTHESES, REFERENCES, SOURCES).scores
    again = Scorer.from_pretrained(tmp_path / "metric", backend="torch")
    assert again.score(HYPOTHESES, REFERENCES, SOURCES).scores == pytest.approx(expected, abs=1e-7)
    source = Scorer.from_pretrained(tmp_path / "metric", backend="torch", mode="source", fallback=False)
    assert source.score(HYPOTHESES, None, SOURCES).scores == pytest.approx(
        scorer.score(HYPOTHESES, None, SOURCES).scores, abs=1e-7
    )
    plain = Scorer.from_pretrained(tmp_path / "metric", backend="torch", mode="reference", fallback=False)
    assert plain.score(HYPOTHESES, REFERENCES).scores == pytest.approx(
        scorer_of().score(HYPOTHESES, REFERENCES).scores, abs=1e-7
    )


def test_references_with_a_source_are_pickled_and_read_by_mode():
    one = pickle.loads(pickle.dumps(SourcedReferences(["a", ""], "b")))
    assert (tuple(one), one.source, one.texts) == (("a", ""), "b", ("a", "", "b"))
    (read,) = compared_texts(object(), [one])
    assert (tuple(read), read.source) == (("a", ""), None)


@pytest.mark.parametrize("matching", ["twmd", "emd"])
def test_reranking_by_the_source_and_beside_other_candidates(scorer_of, matching):
    candidates, sources = [HYPOTHESES, ["tea", "she sells books", "tea"]], [SOURCES[0], SOURCES[1]]
    source = scorer_of(mode="source", matching=matching)
    found = source.mbr(candidates, sources=sources)
    for choice, group, one in zip(found.choices, candidates, sources, strict=True):
        expected = source.score(group, None, [one] * len(group)).scores
        assert choice.utilities == pytest.approx(expected, abs=1e-6)
        assert choice.index == expected.argmax()
    assert found.signature.entries["mbr"] == "source"
    both, plain = scorer_of(mode="both", matching=matching), scorer_of(matching=matching)
    among = plain.mbr(candidates).choices
    for choice, other, alone in zip(both.mbr(candidates, sources=sources).choices, among, found.choices, strict=True):
        assert choice.utilities == pytest.approx(0.7 * other.utilities + 0.3 * alone.utilities, abs=1e-6)
    lacking = scorer_of(mode="both", matching=matching, fallback=True).mbr(candidates, sources=[None, sources[1]])
    assert lacking.choices[0].utilities == pytest.approx(among[0].utilities, abs=1e-6)
    assert lacking.counts == {"untranslated": 1, "fallback": 1}  # "she sells books" of "books to buy"
    assert lacking.signature.entries["mbr"] == "others+source"
    assert "fallback" not in scorer_of(mode="both", matching=matching, fallback=True).mbr(candidates).counts
    with pytest.raises(InputError, match=r"Expected a source for each hypothesis, since `mode` is .* or list"):
        source.mbr(candidates)
    with pytest.raises(InputError, match="compares with references alone"):
        plain.mbr(candidates, sources=sources)


def test_mbr_flags_candidates_as_scores_flag_hypotheses(scorer_of):
    english, german = ["She is in the hall.", "She was in the hall."], "Er ist nicht in der Halle."
    sources = [german, german, None, german]
    candidates = [[*english, german], [*english, "Sie ist in der Halle."], [*english, german], english]
    found = scorer_of(mode="both", fallback=True).mbr(candidates, sources=sources)
    assert found.counts == {"copied": 1, "untranslated": 1, "off target": 1, "fallback": 1}
    judged = scorer_of().mbr([[*english, german], [german]], [english[:1], [german]])
    assert judged.counts == {"off target": 1}
    alone = scorer_of(mode="source").mbr([[*english, "Я в зале."]], sources=[german])
    assert "off target" not in alone.counts  # not compared with one another


def test_a_torchmetrics_metric_takes_sources(scorer_of):
    scorer = scorer_of(mode="both")
    metric = TextMoverScore(scorer, reduction="none")
    metric.update(HYPOTHESES[:2], REFERENCES[:2], SOURCES[:2])
    metric.update(HYPOTHESES[2:], REFERENCES[2:], sources=SOURCES[2:])
    with pytest.raises(TypeError, match="strings, but got int"):
        metric.update(HYPOTHESES[:2], REFERENCES[:2], [0, 1])  # positions are given by name
    expected = scorer.score(HYPOTHESES, REFERENCES, SOURCES).scores.tolist()
    assert metric.compute().tolist() == pytest.approx(expected, abs=1e-6)
    alone = TextMoverScore(scorer_of(mode="source"))
    alone.update(HYPOTHESES, sources=SOURCES)
    assert float(alone.compute()) == pytest.approx(scorer_of(mode="source").score(HYPOTHESES, None, SOURCES).mean)


@pytest.mark.parametrize("mode", ["source", "both"])
def test_a_stream_takes_sources(scorer_of, mode):
    scorer = scorer_of(mode=mode, fallback=True)
    references = [REFERENCES[0], None, REFERENCES[2], REFERENCES[3]]
    triples = zip(HYPOTHESES[:3], references[:3], SOURCES[:3], strict=True)
    stream = scorer.score_stream([*triples, (HYPOTHESES[3], references[3])], shard_size=3)
    expected = scorer.score(HYPOTHESES, [one or () for one in references], [*SOURCES[:3], None]).scores
    assert np.concatenate([part.scores for part in stream]) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(InputError, match="compares with references alone: set `mode` to source or both"):
        list(scorer_of().score_stream(zip(HYPOTHESES, REFERENCES, SOURCES, strict=True)))
    with pytest.raises(InputError, match=r"a reference or a source for each hypothesis, .* but number 1 has none"):
        list(scorer.score_stream([("a", None, " "), ("a", "b", "c")]))
    with pytest.raises(TypeError, match="or triples with its source, but got tuple in segment 2"):
        list(scorer.score_stream([("a", "b", "c"), ("a", "b", "c", "d")]))


def test_an_explanation_adds_up_to_the_score_against_the_source(scorer_of):
    for fields in ({"calibrate": True}, {"scale": 1.0, "offset": 0.0}):
        scorer = scorer_of(mode="source", **fields)
        found = scorer.explain(HYPOTHESES[0], source=SOURCES[0])
        assert found.score == pytest.approx(scorer.score(HYPOTHESES[:1], None, SOURCES[:1]).scores[0], abs=1e-6)
        assert found.by_words + sum(step.value for step in found.remainders) == pytest.approx(found.score, abs=1e-4)
        assert any("on the human scale" in one.how for one in found.steps) == ("calibrate" in fields)
        assert "unsaid" not in [step.name for step in found.remainders]
        assert found.to_dict()["compared_with"] == "source"
        assert 'data-side="r">\n<p class="label">Source' in found.to_html()
        assert "Reference" not in found.to_html().partition("<script")[0]


@pytest.mark.parametrize("fields", [{}, {"calibrate": True}, {"matching": "emd"}, {"multi_reference": "mean"}])
def test_an_explanation_of_both_adds_up_and_holds_either(scorer_of, fields):
    scorer = scorer_of(mode="both", **fields)
    found = scorer.explain(HYPOTHESES[0], REFERENCES[0], SOURCES[0])
    chosen = REFERENCES[0][found.chosen]
    whole = scorer.score(HYPOTHESES[:1], REFERENCES[:1], SOURCES[:1]).scores[0]
    one = scorer_of(**fields).score(HYPOTHESES[:1], [chosen]).scores[0]
    other = scorer_of(mode="source", **fields).score(HYPOTHESES[:1], None, SOURCES[:1]).scores[0]
    assert (found.segment_score, found.score) == pytest.approx((whole, 0.7 * one + 0.3 * other), abs=1e-6)
    assert found.source.score == pytest.approx(other, abs=1e-6)
    for part in (found, found.source):
        assert part.by_words + sum(step.value for step in part.remainders) == pytest.approx(part.score, abs=1e-4)
    assert found.steps[-1].how == "0.7 * reference + 0.3 * source"
    assert [part.compared_with for part in (found, found.source)] == ["reference", "source"]
    assert found.to_dict()["source"]["reference"]["words"] == list(found.source.reference.words)


def test_an_explanation_of_both_is_shown_as_two(scorer_of, tmp_path):
    found = scorer_of(mode="both").explain(HYPOTHESES[0], REFERENCES[0], SOURCES[0])
    page = found.to_html()
    assert page.count("<article") == 2
    assert "<h2>Against the source</h2>" in page
    assert len(found.draw(tmp_path / "both.svg").subfigs) == 2
    assert "hot" in (tmp_path / "both.svg").read_text(encoding="utf-8")


def test_an_explanation_of_a_copy_has_the_reference_alone(scorer_of):
    scorer = scorer_of(mode="both")
    found = scorer.explain(SOURCES[0], REFERENCES[0][:1], SOURCES[0])
    assert (found.source, found.flags) == (None, ("copied",))
    assert found.score == pytest.approx(scorer.score(SOURCES[:1], REFERENCES[0][:1], SOURCES[:1]).scores[0], abs=1e-6)
