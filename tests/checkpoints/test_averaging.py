"""Averages of weights: what NumPy gives, what a fit gives, only where the weights mean the same; token tables."""

import copy
import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from textmover.checkpoints.averaging import as_token_table, average_metrics, interpolate, refit
from textmover.cli.main import main
from textmover.modules.encoder.lora import LoraConfig, add_lora, has_lora, merge_lora
from textmover.modules.encoder.static_vectors import POSITIONS, TokenTable
from textmover.modules.score_deviation import probe_scores
from textmover.scoring import Scorer, load_checkpoint, save_checkpoint, save_encoder
from textmover.training import RatingsModule
from textmover.types import InputError, Segment

TEXTS = ["the small dog ran home", "a little dog runs home", "she sold two books", "warm tea"]
RATED = [
    Segment("the small dog ran home", ("a little dog runs home",), 80.0),
    Segment("she sold two books", ("warm tea", "never read"), 10.0),
    Segment("tea", ("warm tea",), 55.0),
]


@pytest.fixture
def trained(tiny_metric):
    """Builds a metric with weights that a seed has moved."""

    def train(seed: int, size: float = 0.05, **fields):
        metric = tiny_metric(**{"calibrate": True, "learn_temperature": True, **fields})
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            for one in metric.parameters():
                one.add_(size * torch.randn_like(one))
        return metric

    return train


def state(metric) -> dict[str, np.ndarray]:
    return {name: one.double().numpy() for name, one in metric.state_dict().items()}


def fit_by_hand(metric) -> tuple[float, float]:
    """Scale and offset by NumPy's least squares, from scores before calibration."""
    bare = copy.deepcopy(metric)
    bare.calibration = None
    scores = Scorer(bare).score([one.hypothesis for one in RATED], [one.references[0] for one in RATED]).scores
    return tuple(np.polyfit(scores, [one.score for one in RATED], 1))


# --- averages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, [1, 1, 1], [0.5, 0.2, 0.3], [2, 0, 6]])
def test_the_mean_of_the_weights(trained, weights):
    metrics = [trained(seed) for seed in range(3)]
    before = [state(one) for one in metrics]
    found = state(average_metrics(metrics, weights))
    for name, values in found.items():
        expected = np.average([one[name] for one in before], axis=0, weights=weights)
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)
    for metric, old in zip(metrics, before, strict=True):  # they stay as they are
        assert all(np.array_equal(state(metric)[name], values) for name, values in old.items())


def test_one_metric_is_its_own_average(trained):
    metric = trained(0)
    found = average_metrics([metric])
    assert torch.equal(probe_scores(found), probe_scores(metric))
    assert found is not metric
    assert average_metrics([metric, trained(1)], [1, 0]).signature == found.signature
    assert not any(module.training for module in average_metrics([metric.train()]).modules())


def test_low_rank_updates_are_merged_first(trained):
    """The mean of the factors gives another product."""
    metrics = [trained(seed) for seed in (0, 1)]
    for seed, metric in enumerate(metrics):
        torch.manual_seed(seed)
        add_lora(metric.encoder, LoraConfig(rank=2))
        for name, one in metric.encoder.named_parameters():
            one.data += 0.5 * torch.randn_like(one) * ("lora" in name)
    merged = [copy.deepcopy(metric) for metric in metrics]
    for metric in merged:
        merge_lora(metric.encoder)
    for found, wanted in (
        (average_metrics(metrics), average_metrics(merged)),
        (interpolate(metrics[0], 0.5), interpolate(merged[0], 0.5)),
    ):
        assert found.state_dict().keys() == wanted.state_dict().keys()
        assert all(torch.equal(one, wanted.state_dict()[name]) for name, one in found.state_dict().items())
    assert all(has_lora(metric.encoder) for metric in metrics)


def test_the_order_of_metrics_does_not_matter(trained):
    one, other = trained(0), trained(1)
    first, second = average_metrics([one, other], [0.3, 0.7]), average_metrics([other, one], [0.7, 0.3])
    assert (probe_scores(first) - probe_scores(second)).abs().max() < 1e-6
    assert first.encoder_identity == second.encoder_identity
    assert first.encoder_identity != one.encoder_identity


def test_temperatures_are_averaged_by_their_logarithms(trained):
    one, other = trained(0), trained(1)
    mean = math.sqrt(one.matching.temperature.value * other.matching.temperature.value)
    assert average_metrics([one, other]).matching.temperature.value == pytest.approx(mean, rel=1e-6)


def test_means_of_a_corpus_are_averaged_or_fitted(trained):
    metrics = [trained(seed, centering="corpus") for seed in range(2)]
    for metric, texts in zip(metrics, (TEXTS, TEXTS[:3]), strict=True):
        metric.fit(texts)
    rough = average_metrics(metrics)
    means = [one.centering.statistic.mean for one in metrics]
    torch.testing.assert_close(rough.centering.statistic.mean, (means[0] + means[1]) / 2)
    assert rough.centering.statistic.count == max(one.centering.statistic.count for one in metrics)
    fitted = average_metrics(metrics, texts=TEXTS)
    again = copy.deepcopy(rough)
    again.fit(TEXTS)
    assert torch.equal(fitted.centering.statistic.mean, again.centering.statistic.mean)
    assert not torch.allclose(fitted.centering.statistic.mean, rough.centering.statistic.mean)


def test_idf_tables_have_to_be_equal_or_fitted_anew(trained):
    metrics = [trained(seed, weights="idf") for seed in range(2)]
    for metric in metrics:
        metric.fit(TEXTS)
    same = average_metrics(metrics)
    assert torch.equal(same.weighting.table("reference").counts, metrics[0].weighting.table("reference").counts)
    metrics[1].fit(TEXTS[:2])
    with pytest.raises(InputError, match="give texts to refit the statistics on"):
        average_metrics(metrics)
    assert average_metrics(metrics, texts=TEXTS).signature.entries["weights"] == same.signature.entries["weights"]


def test_a_mean_that_one_metric_lacks_is_refused(trained):
    metrics = [trained(seed, centering="corpus") for seed in range(2)]
    metrics[0].fit(TEXTS)
    with pytest.raises(InputError, match="to be the same in all metrics, but it differs"):
        average_metrics(metrics)


def test_the_calibration_is_that_of_the_ratings(trained):
    metric = average_metrics([trained(0), trained(1)], rated=RATED)
    scale, offset = fit_by_hand(metric)
    assert metric.calibration.scale.item() == pytest.approx(scale, rel=1e-4)
    assert metric.calibration.offset.item() == pytest.approx(offset, rel=1e-3)
    assert scale > 0  # a falling one would not be fitted
    with pytest.raises(InputError, match="calibrate=True"):
        refit(trained(0, calibrate=False), rated=RATED)


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"layer": 1}, "layer"), ({"matching": "trwmd"}, "matching"), ({"calibrate": False}, "calibrate")],
)
def test_other_configurations_are_refused(trained, fields, name):
    with pytest.raises(InputError, match=f"but `{name}` is .* in number 3: average only runs of one recipe"):
        average_metrics([trained(0), trained(1), trained(2, **fields)])


@pytest.mark.parametrize("flag", ["graded", "fitted", "words"])
def test_heads_that_learned_different_things_are_refused(trained, flag):
    metrics = [trained(seed, mark_errors=True) for seed in (0, 1)]
    average_metrics(metrics)
    getattr(metrics[1].error_head, flag).fill_(1 - getattr(metrics[0].error_head, flag))
    with pytest.raises(InputError, match=f"`error_head.{flag}` is"):
        average_metrics(metrics)


def test_what_does_not_bear_on_the_weights_may_differ(trained, tiny_encoder, tmp_path):
    """Where the base lies, and which layers were trained."""
    other = trained(1, encoder=str(shutil.copytree(tiny_encoder, tmp_path / "copy")), freeze_layers=1)
    average_metrics([trained(0), other])


def test_other_bases_are_refused(trained, tiny_encoder, tmp_path):
    base = shutil.copytree(tiny_encoder, tmp_path / "copy")
    weights = load_file(base / "model.safetensors")
    save_file({name: one + 0.1 for name, one in weights.items()}, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="`encoder` is"):
        average_metrics([trained(0), trained(0, encoder=str(base))])


@pytest.mark.parametrize(
    "call",
    [
        lambda given, folder: average_metrics([given]),
        lambda given, folder: average_metrics([given, given]),
        lambda given, folder: interpolate(given, 0.5),
        lambda given, folder: as_token_table(given),
        lambda given, folder: save_encoder(given, folder),
        lambda given, folder: save_checkpoint(given, folder, card=""),
    ],
)
def test_a_name_or_a_scorer_in_place_of_a_metric_is_told(call, trained, tmp_path):
    with pytest.raises(TypeError, match=r"got the name 'runs/mine': load it with `textmover.scoring.load_metric`"):
        call("runs/mine", tmp_path / "out")
    with pytest.raises(TypeError, match="got Scorer: give its `metric`"):
        call(Scorer(trained(1)), tmp_path / "out")


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        *(
            (lambda one, given=given: average_metrics([one, one], given), InputError, "`weights` to")
            for given in ([1.0], [1.0, -1.0], [0.0, 0.0], [1.0, math.nan])
        ),
        *(
            (lambda one, given=given: interpolate(one, given), InputError, "`share` to be between 0")
            for given in (-0.1, 1.1, math.nan, "half", True)
        ),
        (average_metrics, InputError, "at least one metric, but got MetricModel: give a list"),
        (lambda _: average_metrics([]), InputError, "at least one metric"),
        (lambda one: refit(one, texts="warm tea"), TypeError, "to be a list of texts, but got one text"),
        (lambda one: refit(one, texts=TEXTS), InputError, "a metric with statistics to fit, but got centering='none'"),
        (lambda one: refit(one, rated=[("warm tea", "tea", 1.0)]), TypeError, "`rated` to hold segments"),
        (lambda one: refit(one, rated=RATED[:1]), InputError, "but got 1, 0 of them without"),
        (lambda one: refit(one, rated=[*RATED, Segment("a", ("b",))]), InputError, "but got 4, 1 of them without"),
        (
            lambda one: refit(one, rated=[Segment("a", ("b",), 7.0)] * 2),
            InputError,
            "ratings that differ, to calibrate on, but all 2 are 7",
        ),
    ],
)
def test_arguments_are_checked(trained, call, error, said):
    with pytest.raises(error, match=said):
        call(trained(1))


# --- interpolation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0, 0.25, 1.0])
def test_the_encoder_goes_back_in_a_straight_line(trained, tiny_metric, share):
    metric = trained(0)
    base, new, found = state(tiny_metric().encoder), state(metric), state(interpolate(metric, share))
    for name, values in found.items():
        old = base.get(name.removeprefix("encoder."), new[name])
        np.testing.assert_allclose(values, (1 - share) * new[name] + share * old, rtol=1e-6, atol=1e-7)


def test_the_ends_are_the_trained_and_the_untrained_encoder(trained, tiny_metric):
    metric = trained(0)
    assert torch.equal(probe_scores(interpolate(metric, 0)), probe_scores(metric))
    untrained = interpolate(metric, 1)
    assert untrained.encoder_identity == tiny_metric().encoder_identity
    assert interpolate(metric, 0.5).encoder_identity.count("+") == 1


def test_a_loaded_checkpoint_goes_back_to_its_base(trained, tiny_metric, tmp_path):
    metric = load_checkpoint(save_checkpoint(trained(0), tmp_path / "full", card=""))
    found = interpolate(metric, 1).encoder.state_dict()
    assert all(torch.equal(found[name], one) for name, one in tiny_metric().encoder.state_dict().items())


def test_statistics_stay_unless_they_are_fitted(trained):
    metric = trained(0, centering="corpus")
    metric.fit(TEXTS)
    kept = interpolate(metric, 0.5)
    assert torch.equal(kept.centering.statistic.mean, metric.centering.statistic.mean)
    fitted = interpolate(metric, 0.5, texts=TEXTS, rated=RATED)
    assert not torch.equal(fitted.centering.statistic.mean, metric.centering.statistic.mean)
    scale, offset = fit_by_hand(fitted)
    assert (fitted.calibration.scale.item(), fitted.calibration.offset.item()) == pytest.approx(
        (scale, offset), rel=1e-3
    )


def test_an_encoder_that_training_added_to_is_refused(trained):
    metric = trained(0)
    metric.encoder.model.encoder.layer[0].output.dense = torch.nn.Identity()
    with pytest.raises(InputError, match="merge or remove"):
        interpolate(metric, 0.5)


# --- fitting again ----------------------------------------------------------------------------------------------------


def test_statistics_of_each_call_are_left_to_it(trained):
    metric = trained(0, weights="idf", idf_from="references", centering="corpus")
    refit(metric, texts=TEXTS)
    assert metric.centering.statistic.fitted
    assert not metric.weighting.table("reference").fitted


# --- tables of token vectors ------------------------------------------------------------------------------------------


HYPOTHESES = ["the small dog ran home", "she will buy a book", "tea ✅", ""]
REFERENCES = ["a little dog runs home at night", "a book she will buy", "tea ❌", "tea"]


@pytest.fixture
def embeddings(tiny_metric):
    """A metric on the embeddings of the tiny encoder."""
    return tiny_metric(layer=0, temperature=0.1)


@pytest.fixture
def folder(embeddings, tmp_path):
    return save_checkpoint(as_token_table(embeddings), tmp_path / "table", card="# card")


def test_a_table_has_no_contexts_to_compare(tiny_metric):
    metric = tiny_metric(layer=0, temperature=0.1, same_token_loss=2.0)
    assert (metric.signature.entries["same"], as_token_table(metric).signature.entries.get("same")) == ("2", None)


def test_a_token_has_the_mean_of_its_embeddings_over_places_to_half_a_step(embeddings):
    table = as_token_table(embeddings).encoder
    for token in (0, 5, table.rows.shape[0] - 1):
        states = embeddings.encoder.model(torch.full((1, POSITIONS), token), output_hidden_states=True).hidden_states[0]
        expected = states[0].mean(dim=0).detach()
        found = table.rows[token].float() * table.scales[token]
        assert (found - expected).abs().max() <= table.scales[token] / 2 * 1.001
        assert table.scales[token] == pytest.approx(float(expected.abs().max()) / 127, rel=1e-5)


def test_without_places_scores_are_those_of_the_metric_to_the_rounding_of_vectors(embeddings):
    with torch.no_grad():
        embeddings.encoder.model.embeddings.position_embeddings.weight.zero_()
    found = [Scorer(one).score(HYPOTHESES, REFERENCES).scores for one in (embeddings, as_token_table(embeddings))]
    assert abs(found[0] - found[1]).max() < 0.005


def test_order_is_nothing_and_unknown_tokens_match_their_like(embeddings, folder):
    found = Scorer.from_pretrained(folder).score(HYPOTHESES, REFERENCES)
    assert found.scores[1] == pytest.approx(1, abs=1e-6)  # the same words
    assert found.scores[2] < 0.9  # unknown tokens match their like alone
    assert found.scores[3] == 0
    assert "encoder:tiny-table@" in str(found.signature).replace(str(embeddings.config.encoder), "tiny")
    assert "unknown:" not in str(found.signature)


def test_it_comes_back_and_is_cast_to_no_other_type(embeddings, folder):
    made, again = as_token_table(embeddings), load_checkpoint(folder)
    for name, tensor in made.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    again.encoder.to(torch.bfloat16)
    assert (again.encoder.rows.dtype, again.encoder.scales.dtype) == (torch.int8, torch.float32)
    assert list(again.encoder.parameters()) == []


def test_nothing_of_transformers_is_imported(folder):
    code = (
        "import sys; from textmover import Scorer; "
        f"Scorer.from_pretrained({str(folder)!r}).score(['a dog'], ['the dog']); "
        "assert 'transformers' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_command_makes_one_without_windows(embeddings, tmp_path, capsys):
    metric = save_checkpoint(embeddings, tmp_path / "metric", card="# card")
    assert main(["export", str(metric), str(tmp_path / "table"), "--table"]) == 0
    assert isinstance(load_checkpoint(tmp_path / "table").encoder, TokenTable)
    for option, value, said in (
        ("--long-texts", "window", "'truncate' or 'error' for a table of token vectors"),
        ("--same-token-loss", "2", "1 for static vectors, which are the same in all contexts, but got 2"),
    ):
        assert main(["score", "a dog", "the dog", "--model", str(tmp_path / "table"), option, value]) == 2
        assert f"Expected `{option}` to be {said}" in capsys.readouterr().err
    narrow = ["--table", "--dimensions", "8", "--overwrite"]
    assert main(["export", str(metric), str(tmp_path / "table"), *narrow]) == 0
    assert load_checkpoint(tmp_path / "table").encoder.dimension == 8
    assert main(["export", str(metric), str(tmp_path / "other"), "--dimensions", "8"]) == 2
    assert "Expected `--table` beside `--dimensions`" in capsys.readouterr().err
    for other in (["--adapter", "2"], ["--backend", "openvino"]):
        assert main(["export", str(metric), str(tmp_path / "other"), "--table", *other]) == 2
        assert "Expected `--table` without" in capsys.readouterr().err


def test_a_narrow_table_keeps_the_products_of_vectors_that_lie_in_its_directions(tiny_metric, embeddings, tmp_path):
    """The directions are those of the singular value decomposition, so no others come nearer (Eckart and Young)."""
    whole, narrow = (as_token_table(embeddings, dimension).encoder for dimension in (None, 8))
    wide, less = (one.rows.double() * one.scales.double()[:, None] for one in (whole, narrow))
    left, values, _ = torch.linalg.svd(wide, full_matrices=False)
    expected = (left[:, :8] * values[:8] ** 2) @ left[:, :8].T
    assert (less @ less.T - expected).abs().max() < 0.02 * expected.abs().max()
    folder = save_checkpoint(as_token_table(embeddings, 8), tmp_path / "narrow", card="# card")
    assert load_checkpoint(folder).encoder.rows.shape[1] == 8
    full = [
        Scorer(one).score(HYPOTHESES, REFERENCES).scores for one in map(as_token_table, (embeddings,) * 2, (None, 32))
    ]
    assert abs(full[0] - full[1]).max() < 0.01
    for dimension in (0, 33):
        with pytest.raises(InputError, match="`dimension` to be between 1 and 32"):
            as_token_table(embeddings, dimension)
    centred = tiny_metric(layer=0, centering="corpus", rescale=True)
    centred.fit(REFERENCES)
    with pytest.raises(InputError, match="texts to refit mean and baseline on"):
        as_token_table(centred, 8)
    assert not as_token_table(centred, 8, texts=REFERENCES).needs_fit


def test_what_has_no_table_is_refused_or_told(tiny_metric, folder, caplog):
    with pytest.raises(InputError, match="reads layer 0 of its encoder to make a table of, but got layer 2"):
        as_token_table(tiny_metric(layer=2))
    with pytest.raises(InputError, match="but got layer those of a table"):
        as_token_table(load_checkpoint(folder))
    with pytest.raises(InputError, match="`long_texts` to be 'truncate' or 'error' for a table"):
        load_checkpoint(folder, long_texts="window")
    RatingsModule(str(folder))
    assert "has no encoder to train" in caplog.text


def test_learned_token_weights_go_with_all_directions(tiny_metric):
    metric = tiny_metric(layer=0, weights="learned")
    torch.nn.init.normal_(metric.weighting.importance.weight)
    assert torch.equal(as_token_table(metric).weighting.importance.weight, metric.weighting.importance.weight)
    with pytest.raises(InputError, match="`dimension` to be null where token weights are learned"):
        as_token_table(metric, 8)


def test_a_damaged_table_is_refused_in_one_sentence(folder):
    tokenizer = folder / "encoder/tokenizer.json"
    whole = tokenizer.read_text(encoding="utf-8")
    tokenizer.write_text(whole[:100], encoding="utf-8")
    with pytest.raises(InputError, match="encoder"):
        load_checkpoint(folder)
    tokenizer.write_text(whole, encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for size in ({"size": 3, "dimension": 32}, {"size": 0, "dimension": 32}, {"size": 900}, [9, 9]):
        config["encoder"]["table"] = size
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        with pytest.raises(InputError, match="Expected"):
            load_checkpoint(folder)
