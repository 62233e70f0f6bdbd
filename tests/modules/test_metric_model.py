"""The transport family end to end: published numbers, gradients, special cases, statistics."""

import json
import math
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from textmover.functional import normalize_by_self, twmd
from textmover.modules import MetricModel
from textmover.modules.config import MetricConfig
from textmover.modules.tokens.unknown_tokens import separate_unknown
from textmover.presets import PRESETS, preset_config
from textmover.scoring import EncoderMemory, Scorer
from textmover.types import InputError, PackedFeatures, SegmentMetric, TextFeatures, TokenBatch

WRITTEN = json.loads((Path(__file__).parent / "data" / "end_to_end_written.json").read_text(encoding="utf-8"))
SIDES = ("precision", "recall", "f1")

TRANSPORT = [name for name, one in PRESETS.items() if one.config.kind == "transport"]
EACH = {PRESETS[name].config.matching: name for name in TRANSPORT}.values()
"""A preset of each matching; all are tried on static vectors."""

HYPOTHESES = ["the small dog ran to the old house in the evening", "she will buy a book", "tea", "go home"]
REFERENCES = ["a little dog runs home at night", "she will not sell the book today", "a cold drink of water", "go home"]

EVERY_MATCHING = [
    {"matching": "twmd"},
    {"matching": "twmd", "tolerance": 1e-4, "temperature": 0.2},
    {"matching": "trwmd", "value": "objective", "temperature": 0.2},
    {"matching": "bertscore", "hypothesis_special_tokens": "targets", "normalize": False},
    {"matching": "sbert", "centering": "dimension"},
    {"matching": "sbert-pooled"},
    {"matching": "emd"},
    {"matching": "emd", "cost": "euclidean", "output": "inverse", "normalize": False, "ngram": 2},
    {"matching": "emd", "aggregation": "power-means", "last_layers": 2, "subwords": "mean"},
    {"matching": "emd", "aggregation": "routing", "last_layers": 3, "ngram": "sentence", "punctuation": "drop"},
    {"matching": "bertscore", "aggregation": "scalar-mix", "last_layers": 3, "subwords": "first", "alpha": 0.7},
    {
        "matching": "lazy-emd",
        "normalize": False,
        "output": "distance",
        "temperature": 0.05,
        "tolerance": 1e-6,
        "hypothesis_penalty": 0.2,
        "reference_penalty": 0.4,
    },
    {"matching": "sinkhorn-divergence", "normalize": False, "temperature": 0.2, "tolerance": 1e-6},
    {"matching": "wordset-cka", "centering": "sentence"},
]


def by_name(fields: dict) -> str:
    return "-".join(map(str, fields.values()))


@pytest.fixture(scope="module", params=EVERY_MATCHING, ids=by_name)
def metric(request, tiny_metric) -> MetricModel:
    """A metric of each matching, which no test changes."""
    return tiny_metric(**request.param)


# --- numbers of others ------------------------------------------------------------------------------------------------


def texts_of(pairs: list[dict]) -> list[list[str]]:
    return [[pair[side] for pair in pairs] for side in ("hypothesis", "reference")]


def assert_bertscore(metric: MetricModel, pairs: list[dict], expected: dict[str, list[float]]) -> None:
    found = Scorer(metric).score(*texts_of(pairs))
    for side, values in zip(SIDES, (found.precision, found.recall, found.f), strict=True):
        assert values.tolist() == pytest.approx(expected[side], rel=0, abs=1e-5), side


@pytest.fixture
def published(request) -> dict:
    """Pairs with the values of others' code: written ones, or real ones of the shared folder."""
    if request.param == "written":
        return WRITTEN
    folder = request.getfixturevalue("shared_folder")
    return json.loads((folder / "oracles" / "end_to_end_minilm.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def remembered(embedded):
    """Builds presets on an embedded encoder of this file, which encodes each text once for all of them."""
    memory, built = EncoderMemory(), {}

    def build(preset: str, **fields) -> MetricModel:
        config = preset_config(preset, encoder=str(embedded), **fields)
        read = config.layer, config.aggregation, config.subwords
        if read not in built:
            built[read] = MetricModel.from_config(config)
            memory.join(built[read], "exact torch")
        return MetricModel(config, built[read].parts).eval()

    return build


@pytest.mark.parametrize("published", ["written", "real"], indirect=True)
def test_bertscore_of_pairs(remembered, published):
    for layer, idf in ((6, ""), (3, ""), (6, "-idf")):
        metric = remembered(f"bertscore-f1{idf}", **({} if layer == 6 else {"layer": layer}))
        assert metric.encoder.layers == (layer,)
        assert_bertscore(metric, published["pairs"], published["values"][f"bertscore_L{layer}_{idf[1:] or 'noidf'}"])


def test_bertscore_is_what_bert_score_computes(embedded, embedded_metric, capfd):
    from bert_score import BERTScorer

    theirs = BERTScorer(model_type=str(embedded), num_layers=6, device="cpu", nthreads=0, batch_size=8)
    # Its calls state the limit of the model, 512, which undoes the 128 of the tokenizer's file.
    assert theirs._tokenizer.model_max_length == 512
    words = re.findall(r"\w+", "the harbour was closed early, as heavy rain had made two old roads unsafe for buses")
    long = [" ".join(words[(index * step) % len(words)] for index in range(298)) for step in (1, 5)]
    metric = embedded_metric("bertscore-f1")
    assert metric.tokenize(long).lengths.tolist() == [300, 300]
    pairs = [*WRITTEN["pairs"], {"hypothesis": long[0], "reference": long[1]}]

    expected = theirs.score(*texts_of(pairs))
    assert_bertscore(metric, pairs, {side: one.tolist() for side, one in zip(SIDES, expected, strict=True)})


def test_unknown_tokens_alike_are_those_of_bert_score(embedded, embedded_metric):
    from bert_score import BERTScorer

    hypotheses = ["Test passed: ✅", "สวัสดีครับ", "𪚥 is a rare character", "The 🦭 sat ✅ there."]
    references = ["Test passed: ❌", "ขอบคุณ", "龘 is a character", "A 🐧 sat there ❌."]
    theirs = BERTScorer(model_type=str(embedded), num_layers=6, device="cpu", nthreads=0).score(hypotheses, references)
    alike = embedded_metric("bertscore-f1", unknown_tokens="alike")
    assert Scorer(alike).score(hypotheses, references).scores.tolist() == pytest.approx(theirs[2].tolist(), abs=1e-5)
    separate_unknown = Scorer(embedded_metric("bertscore-f1")).score(hypotheses, references).scores
    assert (separate_unknown < theirs[2].numpy() - 0.005).all()


def test_presets_of_bertscore_name_its_three_numbers(remembered):
    pairs = WRITTEN["pairs"][:4]
    for preset, side in (("bertscore-p", "precision"), ("bertscore-r", "recall"), ("bertscore-f1", "f1")):
        expected = WRITTEN["values"]["bertscore_L6_noidf"][side][:4]
        assert scores_of(remembered(preset), pairs) == pytest.approx(expected, abs=1e-5)


def moverscore_key(ngram: int, subwords: str, weights: str) -> str:
    return f"moverscore_v1_n{ngram}_{subwords}subword{'s' if subwords == 'all' else ''}_{weights}"


def scores_of(metric: MetricModel, pairs: list[dict]) -> np.ndarray:
    return Scorer(metric).score(*texts_of(pairs)).scores


@pytest.mark.parametrize(
    ("published", "v2_bound"),
    [
        pytest.param("written", 1.2e-4, marks=pytest.mark.slow),
        pytest.param("real", 1e-6, marks=pytest.mark.long),
    ],
    indirect=["published"],
)
def test_moverscore_of_pairs(remembered, published, v2_bound):
    pairs, values = published["pairs"], published["values"]
    for weights in ("idf", "uniform"):
        for subwords in ("first", "all"):
            for ngram in (1, 2):
                metric = remembered("moverscore-wmd1", ngram=ngram, subwords=subwords, weights=weights)
                expected = values[moverscore_key(ngram, subwords, weights)]
                assert abs(scores_of(metric, pairs) - expected).max() < 1e-5
        found = scores_of(remembered("moverscore-v2", weights=weights), pairs)
        differs = [pair["hypothesis"] != pair["reference"] for pair in pairs]
        assert abs(found - values[f"moverscore_v2_{weights}"])[differs].max() < 1e-6
        # Between a text and itself the authors' code takes the root of a rounding error for a distance; ours is 0.
        assert abs(found - values[f"moverscore_v2_{weights}"]).max() < v2_bound
        if weights == "uniform":
            assert found[[not one for one in differs]] == pytest.approx(1.0, abs=1e-6)


def generated_pairs(count: int) -> tuple[list[str], list[list[str]]]:
    """Hypotheses of unlike lengths, with one to three references each."""
    random = Random(7)
    words = " ".join(text for pair in WRITTEN["pairs"] for text in pair.values()).split()

    def text() -> str:
        return " ".join(random.choices(words, k=random.choice([1, 3, 8, 20, 45])))

    hypotheses = [text() for _ in range(count)]
    references = [[text() for _ in range(random.randint(1, 3))] for _ in range(count)]
    for row in range(0, count, 5):  # some that are close
        references[row][0] = " ".join(random.sample(hypotheses[row].split(), len(hypotheses[row].split())))
    return hypotheses, references


@pytest.mark.long
@pytest.mark.parametrize("idf", [False, True])
def test_bert_score_on_200_generated_pairs_with_several_references(embedded, embedded_metric, capfd, idf):
    from bert_score import score as bert_score

    hypotheses, references = generated_pairs(200)
    # In larger batches the package lets padding take part with a cosine of 0, which beats a negative one.
    precision, recall, f1 = bert_score(
        hypotheses, references, model_type=str(embedded), num_layers=6, idf=idf, batch_size=1, device="cpu"
    )
    capfd.readouterr()
    # Some texts have an emoji, which the package lets match any other unknown token.
    metric = embedded_metric("bertscore-f1-idf" if idf else "bertscore-f1", unknown_tokens="alike")
    found = Scorer(metric).score(hypotheses, references)
    # Where one of both is negative, the package's F may lie outside them, and ours is 0.
    f1 = f1.where((precision > 0) & (recall > 0), 0.0)
    for ours, theirs in ((found.precision, precision), (found.recall, recall), (found.f, f1)):
        assert abs(ours - theirs.numpy()).max() < 1e-5


def test_sbert_pooled_is_what_sentence_transformers_computes(embedded, remembered):
    from sentence_transformers import SentenceTransformer

    pairs = WRITTEN["pairs"]
    model = SentenceTransformer(str(embedded), device="cpu")
    x, y = (model.encode([pair[side] for pair in pairs], normalize_embeddings=True) for side in pairs[0])
    assert scores_of(remembered("sbert-pooled"), pairs) == pytest.approx((x * y).sum(axis=1), abs=1e-5)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # of the package
def test_a_rescaled_bertscore_is_that_of_bert_score(embedded, remembered, tmp_path, capfd):
    from bert_score import score as bert_score

    pairs = WRITTEN["pairs"]
    metric = remembered("bertscore-f1", rescale=True)
    Scorer(metric).fit([text for pair in pairs for text in pair.values()])
    recall, precision, f = metric.baseline.values.tolist()
    table = tmp_path / "baseline.csv"
    rows = [f"{layer},{precision},{recall},{f}" for layer in range(7)]
    table.write_text("\n".join(["LAYER,P,R,F", *rows]) + "\n")
    sides = texts_of(pairs)
    expected = bert_score(
        *sides, model_type=str(embedded), num_layers=6, device="cpu", lang="en", rescale_with_baseline=True,
        baseline_path=str(table),
    )  # fmt: skip
    capfd.readouterr()
    found = Scorer(metric).score(*sides)
    for ours, theirs in zip((found.precision, found.recall, found.f), expected, strict=True):
        assert ours == pytest.approx(theirs.numpy(), abs=1e-5)
    low, high = metric.range
    assert high == 1.0
    assert low == pytest.approx((-1 - f) / (1 - f))


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "preset", [name if name in EACH else pytest.param(name, marks=pytest.mark.long) for name in TRANSPORT]
)
def test_identical_texts_score_the_better_end(remembered, preset):
    metric = remembered(preset)
    texts = list(dict.fromkeys(pair["reference"] for pair in WRITTEN["pairs"]))
    scorer = Scorer(metric)
    if metric.needs_fit:
        scorer.fit(texts)
    scores = scorer.score([*texts, texts[0]], [*texts, f" {texts[0]}\n"]).scores
    other = scorer.score(texts[1:], texts[:-1]).scores
    best = metric.range[metric.higher_is_better]
    # Equal, so that rank correlations see ties; Lazy-EMD moves mass a little, by its entropy.
    assert metric.config.matching == "lazy-emd" or set(scores) == {best}
    assert abs(scores - best).max() < 5e-4
    assert best == (1 if metric.higher_is_better else 0)
    assert (abs(other - best) > 1e-3).all()
    assert (other >= metric.range[0]).all()
    assert (other <= metric.range[1]).all()


def test_tokens_and_features_lead_to_the_same_scores(metric):
    sides = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    with torch.no_grad():
        tokens, features = metric(*sides), metric.pair_scores(*map(metric.text_features, sides))
    for name in ("score", "precision", "recall", "f"):
        one, other = getattr(tokens, name), getattr(features, name)
        assert (one is None) == (other is None) == (not metric.matching.has_sides and name != "score")
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_kept_features_are_those_of_each_text_alone(metric):
    with torch.no_grad():
        tokens = metric.tokenize([*HYPOTHESES, *REFERENCES])
        kept = metric.text_features(tokens).pack(tokens.lengths.numpy())
        joined = metric.pair_scores(*(kept.pad([kept], [(0, row) for row in side]) for side in (range(4), range(4, 8))))
        for row, (hypothesis, reference) in enumerate(zip(HYPOTHESES, REFERENCES, strict=True)):
            alone = metric(metric.tokenize([hypothesis]), metric.tokenize([reference]))
            torch.testing.assert_close(joined.score[row], alone.score[0], rtol=0, atol=1e-6)


def test_the_score_is_the_matching_normalised_by_itself(tiny_metric):
    """Put together by hand from the kernel, one pair at a time."""
    metric = tiny_metric(temperature=0.1)

    def units(text):
        batch = metric.tokenize([text])
        vectors = metric.token_vectors(batch)[0, batch.special[0] != 2]  # [CLS] stays, [SEP] goes
        return (vectors / vectors.norm(dim=1, keepdim=True))[None]

    def matched(x, y):
        weights = [torch.full((1, side.shape[1]), 1 / side.shape[1]) for side in (x, y)]
        return twmd(x @ y.transpose(1, 2), *weights, 0.1, iterations=1).f

    with torch.no_grad():
        for hypothesis, reference in zip(HYPOTHESES, REFERENCES, strict=True):
            x, y = units(reference), units(hypothesis)
            expected, _ = normalize_by_self(matched(x, y), matched(x, x), matched(y, y))
            found = metric(metric.tokenize([hypothesis]), metric.tokenize([reference]))
            torch.testing.assert_close(found.score, expected, rtol=0, atol=1e-6)


def test_exchanged_texts_exchange_recall_and_precision(tiny_metric):
    metric = tiny_metric(hypothesis_special_tokens="first", reference_special_tokens="first")
    hypotheses, references = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    with torch.no_grad():
        there, back = metric(hypotheses, references), metric(references, hypotheses)
    torch.testing.assert_close(there.recall, back.precision, rtol=0, atol=1e-6)
    torch.testing.assert_close(there.score, back.score, rtol=0, atol=1e-6)


def test_special_tokens_are_chosen_for_each_side(tiny_metric):
    """Dropping them on one side leaves the weights of the other alone, and a text's own likeness follows its role."""
    metric = tiny_metric(reference_special_tokens="keep", hypothesis_special_tokens="drop", temperature=0.2)
    features = metric.text_features(metric.tokenize(HYPOTHESES))
    own = features.self_similarity
    assert own.shape == (4, 2, 3)
    alike = tiny_metric(reference_special_tokens="keep", hypothesis_special_tokens="keep", temperature=0.2)
    kept = alike.text_features(alike.tokenize(HYPOTHESES)).self_similarity
    dropped = tiny_metric(reference_special_tokens="drop", hypothesis_special_tokens="drop", temperature=0.2)
    without = dropped.text_features(dropped.tokenize(HYPOTHESES)).self_similarity
    torch.testing.assert_close(own[:, 0], kept[:, 0], rtol=0, atol=1e-6)
    torch.testing.assert_close(own[:, 1], without[:, 1], rtol=0, atol=1e-6)
    plan = metric.match(features, features, with_plan=True).plan
    special = features.special > 0
    assert (plan[special[:, None, :].expand_as(plan)] == 0).all()
    assert plan[0, 0].sum() > 0  # the reference's [CLS] is matched


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matching", ["twmd", "trwmd"])
def test_gradients_reach_encoder_temperature_and_calibration(tiny_metric, matching):
    metric = tiny_metric(matching=matching, temperature=0.2, learn_temperature=True, calibrate=True).train()
    scores = metric(metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)).score
    (scores * torch.tensor([1.0, -2.0, 3.0, 1.0])).sum().backward()
    silent = [name for name, one in metric.named_parameters() if one.grad is None or not one.grad.isfinite().all()]
    assert silent == []
    still = [name for name, one in metric.named_parameters() if one.grad.abs().max() == 0]
    # No position beyond the longest text is read, but its table is one parameter: nothing may stand still.
    assert still == []


def test_gradients_are_those_of_finite_differences(tiny_metric):
    metric = tiny_metric(temperature=0.3, learn_temperature=True, weights="learned", calibrate=True).double()
    torch.nn.init.normal_(metric.weighting.importance.weight, std=0.2)
    batches = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    metric(*batches).score.sum().backward()
    generator = torch.Generator().manual_seed(0)
    chosen = [one for name, one in metric.named_parameters() if one.grad is not None and "key.bias" not in name]
    direction = [torch.randn(one.shape, generator=generator, dtype=torch.float64) for one in chosen]
    slope = sum((one.grad * step).sum().item() for one, step in zip(chosen, direction, strict=True))
    ends = []
    with torch.no_grad():
        for sign in (1e-6, -1e-6):
            for one, step in zip(chosen, direction, strict=True):
                one += sign * step
            ends.append(metric(*batches).score.sum().item())
            for one, step in zip(chosen, direction, strict=True):
                one -= sign * step
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_an_empty_text_among_others_leaves_gradients_finite(tiny_metric):
    metric = tiny_metric(learn_temperature=True).train()
    metric(metric.tokenize(["", "tea"]), metric.tokenize(["tea", ""])).score.sum().backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in metric.parameters())


@pytest.mark.parametrize("fields", EVERY_MATCHING, ids=by_name)
def test_a_text_in_another_language_is_as_an_empty_one_to_every_matching(tiny_metric, fields):
    metric = tiny_metric(target_language="en", **fields).train()
    for module in metric.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    references = ["the dog is not at home", "he will buy the book today"]
    scores = {}
    for hypothesis in ("", "der Hund ist heute nicht zu Hause"):
        batches = metric.tokenize([hypothesis, "he will buy a book"]), metric.tokenize(references)
        metric.zero_grad()
        result = metric(*batches)
        result.score.sum().backward()
        assert all(one.grad is None or one.grad.isfinite().all() for one in metric.parameters())
        scores[hypothesis] = result.score[0].item()
    assert len(set(scores.values())) == 1
    assert (result.flags["off target"].tolist(), result.flags["empty"].tolist()) == ([True, False], [False, False])


# --- special cases ----------------------------------------------------------------------------------------------------


def test_a_pair_with_an_empty_side_is_as_good_as_orthogonal_and_marked(metric):
    with torch.no_grad():
        found = metric(metric.tokenize(["", "tea", "", "tea"]), metric.tokenize(["tea", " \n", "", "tea"]))
    assert found.flags["empty"].tolist() == [True, True, True, False]
    assert found.score[:3].tolist() == pytest.approx([metric.matching.nothing] * 3)
    best = metric.range[metric.higher_is_better]
    assert found.score[3].item() == pytest.approx(best, abs=2e-2 if metric.config.matching == "lazy-emd" else 1e-6)
    for name, marked in found.flags.items():
        assert name == "empty" or not marked[:3].any()


def test_an_empty_side_is_0_before_calibration(tiny_metric):
    metric = tiny_metric(calibrate=True)
    with torch.no_grad():
        metric.calibration.offset.fill_(7.0)
        found = metric(metric.tokenize([""]), metric.tokenize(["tea"]))
    assert found.score.item() == 7.0
    assert found.f.item() == 0.0


@pytest.mark.parametrize("matching", ["twmd", "trwmd", "sbert", "wordset-cka"])
def test_a_self_similarity_of_0_gives_0_and_is_marked(tiny_metric, matching):
    """A corpus of one token: what is left of that token after centring is nothing."""
    drop = {"hypothesis_special_tokens": "drop", "reference_special_tokens": "drop"}
    metric = tiny_metric(matching=matching, centering="corpus", layer=0, **drop)
    tea = metric.tokenize(["tea"])
    with torch.no_grad():
        metric.centering.statistic.add(metric.token_vectors(tea), tea.special == 0)
    found = Scorer(metric).score(["tea", "tea", "the dog", "the dog"], ["tea", "a", "tea", "the dog"])
    assert found.flags["undefined"].tolist() == [True, True, True, False]
    assert found.counts == {"undefined": 3}
    assert found.scores.tolist() == [0, 0, 0, pytest.approx(1, abs=1e-6)]


def test_weights_that_are_no_numbers_are_not_passed_off_as_0(tiny_metric):
    metric = tiny_metric()
    with torch.no_grad():
        metric.encoder.model.embeddings.word_embeddings.weight.fill_(math.nan)
        found = metric(metric.tokenize(["tea"]), metric.tokenize(["water"]))
    assert found.score.isnan().all()
    assert not found.flags["undefined"].any()


def test_a_solver_that_stops_early_is_marked(tiny_metric):
    metric = tiny_metric(temperature=0.001, tolerance=1e-300, max_iterations=10)
    with torch.no_grad():
        found = metric(metric.tokenize(["", HYPOTHESES[0]]), metric.tokenize(["tea", REFERENCES[0]]))
    assert found.flags["not converged"].tolist() == [False, True]


def test_features_beside_tokens_or_of_another_configuration_are_refused(tiny_metric):
    metric, bare = tiny_metric(), tiny_metric(normalize=False)
    tokens = metric.tokenize(["tea"])
    features, other = metric.text_features(tokens), bare.text_features(tokens)
    for sides in ((tokens, features), (features, tokens)):
        with pytest.raises(TypeError, match="both as token batches or both as token embeddings"):
            metric.pair_scores(*sides)
    with pytest.raises(ValueError, match="self-similarities"):
        metric.pair_scores(other, other)


# --- centring ---------------------------------------------------------------------------------------------------------


def test_texts_are_read_together_under_batch_centring(tiny_metric):
    metric = tiny_metric(centering="batch")
    hypotheses, references = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    assert metric.text_features(hypotheses) is None
    for call, sides in ((metric, (None, None)), (metric.pair_scores, (None, None)), (metric, (hypotheses, None))):
        with pytest.raises((TypeError, InputError), match=r"with centering='batch' give token|give one of them"):
            call(*sides)
    with torch.no_grad():
        together = metric(hypotheses, references).score
        alone = metric(hypotheses.select([0]), references.select([0])).score
    assert (together[0] - alone[0]).abs() > 1e-4


def test_batch_centring_takes_the_means_of_both_sides_apart(tiny_metric):
    metric = tiny_metric(centering="batch", normalize=False, matching="sbert", **dict.fromkeys(
        ("hypothesis_special_tokens", "reference_special_tokens"), "keep"
    ))  # fmt: skip
    hypotheses, references = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    with torch.no_grad():
        means = []
        for batch in (hypotheses, references):
            vectors = metric.token_vectors(batch)
            centred = vectors - vectors[batch.mask].mean(dim=0)
            units = centred / centred.norm(dim=-1, keepdim=True) * batch.mask[:, :, None]
            means.append(units.sum(dim=1) / batch.lengths[:, None])
        found = metric(hypotheses, references).score
    torch.testing.assert_close(found, (means[0] * means[1]).sum(dim=1), rtol=0, atol=1e-6)


def test_a_fit_leaves_modes_as_they_were_and_one_that_fails_the_mean_too(tiny_metric):
    metric = tiny_metric(centering="corpus").train()
    metric.encoder.eval()  # as for a frozen encoder
    metric.fit(HYPOTHESES)
    before = metric.signature
    with pytest.raises(TypeError, match="strings, but got NoneType"):
        metric.fit([*REFERENCES, None])
    assert metric.training
    assert not any(module.training for module in metric.encoder.modules())
    assert metric.signature == before


def test_training_tracks_the_mean_and_evaluation_does_not(tiny_metric):
    metric = tiny_metric(centering="corpus")
    batches = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    metric.train()
    metric(*batches)
    first = metric.centering.statistic.mean.clone()
    joint = TokenBatch.concatenate(batches)
    assert metric.centering.statistic.count == joint.mask.sum()
    metric(metric.tokenize(["go"]), metric.tokenize(["stop now"]))
    second = metric.centering.statistic.mean.clone()
    assert not torch.equal(first, second)
    metric.eval()
    metric(*batches)
    assert torch.equal(metric.centering.statistic.mean, second)


# --- protocol ---------------------------------------------------------------------------------------------------------


def test_the_protocol_is_kept(metric):
    config = metric.config
    assert isinstance(metric, SegmentMetric)
    features = metric.text_features(metric.tokenize(["tea"]))
    assert isinstance(features, TextFeatures)
    assert isinstance(features.pack(np.array([3])), PackedFeatures)
    assert metric.higher_is_better == (config.output != "distance")
    assert metric.multi_reference == "best"
    assert not metric.fits_on_call
    if config.matching in ("twmd", "trwmd", "bertscore", "sbert", "wordset-cka"):
        assert metric.range == (0.0 if config.matching == "wordset-cka" else -1.0, 1.0)


def test_the_signature_follows_what_is_learned(tiny_metric):
    metric = tiny_metric(learn_temperature=True, calibrate=True)
    with torch.no_grad():
        metric.matching.temperature.log_temperature.fill_(math.log(0.05))
        metric.calibration.scale.fill_(2.0)
        metric.calibration.offset.fill_(-0.5)
    assert metric.signature.entries["T"] == "0.05"
    assert metric.signature.entries["calibration"] == "2*s-0.5"
    assert metric.range == (-math.inf, math.inf)


def test_learned_weights_are_those_of_the_formula(tiny_metric):
    metric, plain = tiny_metric(weights="learned"), tiny_metric()
    assert scores_of(metric, WRITTEN["pairs"][:6]).tolist() == scores_of(plain, WRITTEN["pairs"][:6]).tolist()
    before = metric.signature.entries["weights"]
    with torch.no_grad():
        metric.weighting.importance.weight.normal_(std=0.3)
        metric.weighting.importance.bias.fill_(0.5)
        features = metric.text_features(metric.tokenize(["a cat \u2603 ran home", "tea"]))
        tokens, _ = separate_unknown(features, features)  # with columns for the unknown sign, whose vector is 0
        side = metric.weighting(tokens, "reference")
    assert metric.signature.entries["weights"] != before
    vector, offset = metric.weighting.importance.weight[0].double().numpy(force=True), 0.5
    logits = tokens.vectors[:, :, : vector.size].double().numpy() @ vector * vector.size**0.5 + offset
    weights = np.exp(3 * np.tanh(logits / 3)) * (side.weights > 0).numpy()
    assert (weights > 0).any(axis=1).all()
    np.testing.assert_allclose(side.weights, weights / weights.sum(axis=1, keepdims=True), atol=1e-6)


def test_the_signature_names_encoder_hash_and_layer(tiny_encoder, tiny_metric):
    from textmover.modules.encoder.source import file_sha256

    entries = tiny_metric(layer=-2).signature.entries
    assert entries["encoder"] == f"tiny@{file_sha256(tiny_encoder / 'model.safetensors')[:8]}"
    assert entries["layer"] == "2"


def test_a_default_configuration_reads_the_embedded_encoder(embedded):
    metric = MetricModel.from_config(MetricConfig())
    assert metric.signature.entries["encoder"] == "all-MiniLM-L6-v2@53aa5117"
    assert metric.signature.entries["layer"] == "6"
