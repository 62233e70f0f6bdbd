"""The transport family end to end: published numbers, gradients, special cases, statistics."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

from textmover.functional import normalize_by_self, twmd
from textmover.modules import MetricModel
from textmover.modules.config import MetricConfig
from textmover.presets import PRESETS
from textmover.scoring import Scorer
from textmover.types import InputError, TokenBatch, TokenEmbeddings

WRITTEN = json.loads((Path(__file__).parent / "data" / "end_to_end_written.json").read_text(encoding="utf-8"))
SIDES = ("precision", "recall", "f1")

HYPOTHESES = ["the small dog ran to the old house in the evening", "she will buy a book", "tea", "go home"]
REFERENCES = ["a little dog runs home at night", "she will not sell the book today", "a cold drink of water", "go home"]

EVERY_MATCHING = [
    {"matching": "twmd"},
    {"matching": "twmd", "tolerance": 1e-4, "temperature": 0.2},
    {"matching": "trwmd", "value": "objective", "temperature": 0.2},
    {"matching": "bertscore", "hypothesis_special_tokens": "targets", "normalize": False},
    {"matching": "sbert", "centering": "sentence"},
    {"matching": "wordset-cka", "centering": "dimension"},
]


def by_name(fields: dict) -> str:
    return "-".join(map(str, fields.values()))


# --- numbers of others ------------------------------------------------------------------------------------------------


def bertscore_of(metric: MetricModel, pairs: list[dict]) -> dict[str, list[float]]:
    found = Scorer(metric).score([pair["hypothesis"] for pair in pairs], [pair["reference"] for pair in pairs])
    return {"precision": found.precision.tolist(), "recall": found.recall.tolist(), "f1": found.f.tolist()}


def largest_difference(found: dict[str, list[float]], expected: dict[str, list[float]]) -> float:
    return max(abs(a - b) for side in SIDES for a, b in zip(found[side], expected[side], strict=True))


@pytest.mark.parametrize(("layer", "key"), [(6, "bertscore_L6_noidf"), (3, "bertscore_L3_noidf")])
def test_bertscore_of_written_pairs(embedded_metric, layer, key):
    metric = embedded_metric("bertscore-f1") if layer == 6 else embedded_metric("bertscore-f1", layer=layer)
    assert metric.encoder.layers == (layer,)
    difference = largest_difference(bertscore_of(metric, WRITTEN["pairs"]), WRITTEN["values"][key])
    assert difference <= 1e-5, difference


def test_bertscore_of_real_pairs(embedded_metric, shared_folder):
    oracle = json.loads((shared_folder / "oracles" / "end_to_end_minilm.json").read_text(encoding="utf-8"))
    found = bertscore_of(embedded_metric("bertscore-f1"), oracle["pairs"])
    difference = largest_difference(found, oracle["values"]["bertscore_L6_noidf"])
    assert difference <= 1e-5, difference


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

    expected = theirs.score([pair["hypothesis"] for pair in pairs], [pair["reference"] for pair in pairs])
    values = {side: one.tolist() for side, one in zip(SIDES, expected, strict=True)}
    difference = largest_difference(bertscore_of(metric, pairs), values)
    assert difference <= 1e-5, difference


def test_presets_of_bertscore_name_its_three_numbers(embedded_metric):
    pairs = WRITTEN["pairs"][:4]
    for preset, side in (("bertscore-p", "precision"), ("bertscore-r", "recall"), ("bertscore-f1", "f1")):
        scores = Scorer(embedded_metric(preset)).score(
            *([pair[s] for pair in pairs] for s in ("hypothesis", "reference"))
        )
        assert scores.scores.tolist() == pytest.approx(WRITTEN["values"]["bertscore_L6_noidf"][side][:4], abs=1e-5)


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_identical_texts_score_one(embedded_metric, preset):
    metric = embedded_metric(preset)
    texts = list(dict.fromkeys(pair["reference"] for pair in WRITTEN["pairs"]))
    scorer = Scorer(metric)
    if metric.needs_fit:
        scorer.fit(texts)
    scores = scorer.score([*texts, texts[0]], [*texts, f" {texts[0]}\n"])
    assert scores.scores.tolist() == pytest.approx([1.0] * (len(texts) + 1), abs=2e-6)
    assert metric.range[1] == 1.0
    other = scorer.score(texts[1:], texts[:-1]).scores
    assert (other < 1 - 1e-3).all()
    assert (other >= metric.range[0]).all()


@pytest.mark.parametrize("fields", EVERY_MATCHING, ids=by_name)
def test_tokens_and_features_lead_to_the_same_scores(tiny_metric, fields):
    metric = tiny_metric(**fields)
    hypotheses, references = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    with torch.no_grad():
        tokens = metric(hypotheses, references)
        features = metric.pair_scores(metric.text_features(hypotheses), metric.text_features(references))
    for name in ("score", "precision", "recall", "f"):
        one, other = getattr(tokens, name), getattr(features, name)
        assert (one is None) == (other is None) == (not metric.matching.has_sides and name != "score")
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("fields", EVERY_MATCHING, ids=by_name)
def test_kept_features_are_those_of_each_text_alone(tiny_metric, fields):
    metric = tiny_metric(**fields)
    with torch.no_grad():
        kept = metric.text_features(metric.tokenize([*HYPOTHESES, *REFERENCES])).unbind()
        joined = metric.pair_scores(*(TokenEmbeddings.collate(side) for side in (kept[:4], kept[4:])))
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


@pytest.mark.parametrize(("rule", "combine"), [("best", max), ("mean", lambda *values: sum(values) / len(values))])
def test_several_references_are_combined_value_by_value(tiny_metric, rule, combine):
    scorer = Scorer(tiny_metric(multi_reference=rule, normalize=False))
    singles = [scorer.score(HYPOTHESES, [reference] * 4) for reference in REFERENCES]
    joint = scorer.score(HYPOTHESES, [REFERENCES] * 4)
    for name in ("scores", "precision", "recall", "f"):
        expected = [combine(*values) for values in zip(*(getattr(one, name) for one in singles), strict=True)]
        assert getattr(joint, name).tolist() == pytest.approx(expected, abs=1e-6)


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
    metric = tiny_metric(temperature=0.3, learn_temperature=True, calibrate=True).double()
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


# --- special cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", EVERY_MATCHING, ids=by_name)
def test_a_pair_with_an_empty_side_is_0_and_marked(tiny_metric, fields):
    metric = tiny_metric(**fields)
    with torch.no_grad():
        found = metric(metric.tokenize(["", "tea", "", "tea"]), metric.tokenize(["tea", " \n", "", "tea"]))
    assert found.flags["empty"].tolist() == [True, True, True, False]
    assert found.score[:3].tolist() == [0, 0, 0]
    assert found.score[3].item() == pytest.approx(1, abs=1e-6)
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
        found = metric(
            metric.tokenize(["tea", "tea", "the dog", "the dog"]), metric.tokenize(["tea", "a", "tea", "the dog"])
        )
    assert found.flags["undefined"].tolist() == [True, True, True, False]
    assert found.flags["empty"].tolist() == [False] * 4
    assert found.score[:3].tolist() == [0, 0, 0]
    assert found.score[3].item() == pytest.approx(1, abs=1e-6)


def test_weights_that_are_no_numbers_are_not_passed_off_as_0(tiny_metric):
    metric = tiny_metric()
    with torch.no_grad():
        metric.encoder.model.embeddings.word_embeddings.weight.fill_(math.nan)
        found = metric(metric.tokenize(["tea"]), metric.tokenize(["water"]))
    assert found.score.isnan().all()
    assert not found.flags["undefined"].any()


def test_a_solver_that_stops_early_is_marked(tiny_metric):
    metric = tiny_metric(temperature=0.001, tolerance=1e-300)
    with torch.no_grad():
        found = metric(metric.tokenize(["", HYPOTHESES[0]]), metric.tokenize(["tea", REFERENCES[0]]))
    assert found.flags["not converged"].tolist() == [False, True]


def test_one_side_as_tokens_and_one_as_features_is_refused(tiny_metric):
    metric = tiny_metric()
    tokens = metric.tokenize(["tea"])
    features = metric.text_features(tokens)
    for sides in ((tokens, features), (features, tokens)):
        with pytest.raises(TypeError, match="both as token batches or both as token embeddings"):
            metric.pair_scores(*sides)


def test_features_of_another_configuration_are_refused(tiny_metric):
    metric, bare = tiny_metric(), tiny_metric(normalize=False)
    features = bare.text_features(bare.tokenize(["tea"]))
    with pytest.raises(ValueError, match="self-similarities"):
        metric.pair_scores(features, features)


# --- centring ---------------------------------------------------------------------------------------------------------


def test_texts_are_read_together_under_batch_centring(tiny_metric):
    metric = tiny_metric(centering="batch")
    hypotheses, references = metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)
    assert metric.text_features(hypotheses) is None
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


def test_a_corpus_mean_has_to_be_fitted_before_scoring(tiny_metric):
    metric = tiny_metric(centering="corpus")
    assert metric.needs_fit
    with pytest.raises(InputError, match="fit"):
        metric.text_features(metric.tokenize(["tea"]))
    with pytest.raises(InputError, match="fit"):
        metric(metric.tokenize(["tea"]), metric.tokenize(["tea"]))
    metric.fit([metric.tokenize(HYPOTHESES), metric.tokenize(REFERENCES)])
    assert not metric.needs_fit
    metric(metric.tokenize(["tea"]), metric.tokenize(["tea"]))


def test_the_fitted_mean_is_that_of_all_tokens(tiny_metric):
    metric = tiny_metric(centering="corpus")
    metric.fit(metric.tokenize([text]) for text in (*HYPOTHESES, *REFERENCES))
    batch = metric.tokenize([*HYPOTHESES, *REFERENCES])
    with torch.no_grad():
        expected = metric.token_vectors(batch)[batch.mask].double().mean(dim=0)
    torch.testing.assert_close(metric.centering.statistic.mean.double(), expected, rtol=0, atol=1e-6)
    assert f"corpus@{metric.centering.statistic.fingerprint}" in str(metric.signature)


def test_there_is_nothing_to_fit_without_a_corpus_mean(tiny_metric):
    with pytest.raises(InputError, match="centering='corpus' to fit, but got centering='none'"):
        tiny_metric().fit([])


def test_fitting_leaves_modes_as_they_were(tiny_metric):
    metric = tiny_metric(centering="corpus").train()
    metric.encoder.eval()  # as for a frozen encoder
    metric.fit([metric.tokenize(HYPOTHESES)])
    assert metric.training
    assert not any(module.training for module in metric.encoder.modules())


def test_a_failed_fit_leaves_modes_and_mean_as_they_were(tiny_metric):
    metric = tiny_metric(centering="corpus").train()
    metric.fit([metric.tokenize(HYPOTHESES)])
    before = metric.signature

    def broken():
        yield metric.tokenize(REFERENCES)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        metric.fit(broken())
    assert metric.training
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


@pytest.mark.parametrize("fields", EVERY_MATCHING, ids=by_name)
def test_the_protocol_is_kept(tiny_metric, fields):
    from textmover.types import SegmentMetric, TextFeatures

    metric = tiny_metric(**fields)
    assert isinstance(metric, SegmentMetric)
    assert isinstance(metric.text_features(metric.tokenize(["tea"])), TextFeatures)
    assert metric.higher_is_better
    assert metric.multi_reference == "best"
    assert metric.range == (0.0 if fields["matching"] == "wordset-cka" else -1.0, 1.0)


def test_the_signature_follows_what_is_learned(tiny_metric):
    metric = tiny_metric(learn_temperature=True, calibrate=True)
    with torch.no_grad():
        metric.matching.log_temperature.fill_(math.log(0.05))
        metric.calibration.scale.fill_(2.0)
        metric.calibration.offset.fill_(-0.5)
    assert metric.signature.entries["T"] == "0.05"
    assert metric.signature.entries["calibration"] == "2*s-0.5"
    assert metric.range == (-math.inf, math.inf)


def test_the_signature_names_encoder_hash_and_layer(tiny_encoder, tiny_metric):
    from textmover.modules.encoder_source import file_sha256

    entries = tiny_metric(layer=-2).signature.entries
    assert entries["encoder"] == f"tiny@{file_sha256(tiny_encoder / 'model.safetensors')[:8]}"
    assert entries["layer"] == "2"


def test_a_default_configuration_reads_the_embedded_encoder(embedded):
    metric = MetricModel.from_config(MetricConfig())
    assert metric.signature.entries["encoder"] == "all-MiniLM-L6-v2@53aa5117"
    assert metric.signature.entries["layer"] == "6"
