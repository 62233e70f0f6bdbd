import csv
import random
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from textmover.data.training_sources import RatedSource
from textmover.functional.losses import combined_loss
from textmover.modules import MetricModel
from textmover.presets import preset_config
from textmover.training.optimization import build_optimizer
from textmover.types import InputError, TokenEmbeddings

HYPOTHESES = ["the cat", "a dog sat on the table", "", "red " * 30, "one two three four five", "x", ""]
REFERENCES = ["a cat sat on the street", "the dog", "the town", "blue sky " * 5, "", "old boy", ""]


@pytest.fixture(autouse=True)
def indeterminate_again():
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def build(script, tiny_encoder):
    """A metric of each way over the tiny encoder, in evaluation mode."""

    def make(way, encoder=tiny_encoder, **fields):
        torch.manual_seed(0)
        metric = MetricModel.from_config(preset_config("twmd", encoder=str(encoder), temperature=0.1, **fields))
        if way == "joint":
            metric = script.JointMetric(metric.config, metric.parts)
        elif way == "regression":
            metric = script.RegressionMetric(metric.config, metric.parts)
        return metric.eval()

    return make


def ratings(path: Path, n: int = 60) -> Path:
    """Sentences with some words exchanged, of three language pairs; each exchange costs a point."""
    rng = random.Random(0)
    exchange = {"old": "young", "red": "green", "big": "small", "cat": "dog", "sat": "ran", "on": "under"}
    lines = ["year\tlp\treference\thypothesis\tscore"]
    for number in range(n):
        words = rng.sample(list(exchange), k=rng.randint(3, 6))
        changed = [exchange[word] if rng.random() < 0.5 else word for word in words]
        score = -sum(one != other for one, other in zip(words, changed, strict=True))
        lines.append(f"2015\tl{number % 3}-en\t{' '.join(words)}\t{' '.join(changed)}\t{score}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tokens(metric, hypotheses=HYPOTHESES, references=REFERENCES):
    return metric.tokenize(hypotheses), metric.tokenize(references)


@torch.no_grad()
def read_by_huggingface(encoder, hypotheses, references, limit=128):
    """Ids, mask, vectors and owner of each token (0 reference, 1 hypothesis, None special), by Hugging Face alone."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder).eval()
    found = tokenizer(
        references, hypotheses, truncation="longest_first", max_length=limit, padding=True, return_tensors="pt",
        return_token_type_ids=True,
    )  # fmt: skip
    owners = [found.sequence_ids(row) for row in range(len(references))]
    return found["input_ids"], found["attention_mask"].bool(), model(**found).last_hidden_state, owners


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [16, 24, 128])
def test_each_text_has_the_vectors_of_its_stretch_of_the_joint_sequence(build, tiny_encoder, limit):
    metric = build("joint", max_length=limit)
    with torch.no_grad():
        sides = metric.pair_features(*tokens(metric))
    ids, _, vectors, owners = read_by_huggingface(tiny_encoder, HYPOTHESES, REFERENCES, limit)
    for owner, side in ((1, sides[0]), (0, sides[1])):
        for row, kinds in enumerate(owners):
            places = [place for place, kind in enumerate(kinds) if kind == owner]
            assert side.mask[row].sum() == len(places)
            assert side.mask[row, : len(places)].all()
            assert torch.equal(side.input_ids[row, : len(places)], ids[row, places])
            expected = normalize(vectors[row, places], dim=1)
            assert (side.vectors[row, : len(places)] - expected).abs().max() < 1e-5 if places else True
            assert not side.vectors[row, len(places) :].any()


def test_the_score_is_the_similarity_relative_to_those_of_the_same_vectors_with_themselves(build, tiny_encoder):
    metric, plain = build("joint"), build("separate")
    _, _, vectors, owners = read_by_huggingface(tiny_encoder, HYPOTHESES[:2], REFERENCES[:2])
    with torch.no_grad():
        scores = metric(*tokens(metric, HYPOTHESES[:2], REFERENCES[:2]))
    for row, kinds in enumerate(owners):
        sides = []
        for owner in (1, 0):
            own = normalize(vectors[row, [place for place, kind in enumerate(kinds) if kind == owner]], dim=1)[None]
            mask = torch.ones(own.shape[:2], dtype=torch.bool)
            sides.append(TokenEmbeddings(own, mask, *(torch.zeros_like(mask, dtype=torch.long),) * 2))
        one, other = sides
        matched = (plain.match(*pair) for pair in ((one, other), (one, one), (other, other)))
        ours = [side[row] for side in (scores.recall, scores.precision, scores.f)]
        for score, cross, hypothesis, reference in zip(ours, *matched, strict=False):
            assert (score - cross / (hypothesis * reference).sqrt()).abs() < 1e-5


@pytest.mark.parametrize("way", ["joint", "regression"])
def test_a_score_does_not_depend_on_batch_mates_padding_or_order(build, way):
    metric = build(way)

    def scores(rows):
        with torch.no_grad():
            return metric(*tokens(metric, [HYPOTHESES[row] for row in rows], [REFERENCES[row] for row in rows])).score

    together = scores(range(7))
    assert torch.isfinite(together).all()
    for row in range(7):
        assert (scores([row])[0] - together[row]).abs() < 1e-6
    assert (scores([3, 1, 0])[2] - together[0]).abs() < 1e-6


def test_empty_texts_match_nothing_also_where_an_encoder_has_no_token_types(build, tiny_encoder, random_encoder):
    for encoder in (tiny_encoder, random_encoder("bert", type_vocab_size=1, initializer_range=0.2)):
        metric = build("joint", encoder)
        with torch.no_grad():
            found = metric(*tokens(metric))
        assert torch.isfinite(found.score).all()
        empty = found.flags["empty"]
        assert empty.tolist() == ["" in pair for pair in zip(HYPOTHESES, REFERENCES, strict=True)]
        assert (found.score[empty] == 0).all()
        assert (found.score[~empty] != 0).all()


def test_the_mean_is_that_of_all_tokens_of_joint_sequences(build, tiny_encoder):
    metric = build("joint", centering="corpus")
    _, mask, vectors, _ = read_by_huggingface(tiny_encoder, HYPOTHESES, REFERENCES)
    metric.fit_pairs([tokens(metric, HYPOTHESES[:3], REFERENCES[:3]), tokens(metric, HYPOTHESES[3:], REFERENCES[3:])])
    mean = metric.centering.statistic
    assert (mean.mean - vectors[mask].mean(dim=0)).abs().max() < 1e-5
    assert mean.count == mask.sum()
    before = mean.mean.clone()
    with torch.no_grad():
        metric(*tokens(metric))
        assert torch.equal(mean.mean, before)
        metric.train()(*tokens(metric, HYPOTHESES[:2], REFERENCES[:2]))
    assert not torch.equal(mean.mean, before)


def test_the_regression_is_linear_in_the_pair_s_vector_on_the_scale_of_the_ratings(build, tiny_encoder):
    metric = build("regression")
    metric.fit_calibration([], torch.tensor([50.0, 60.0, 70.0]))
    _, _, vectors, _ = read_by_huggingface(tiny_encoder, HYPOTHESES, REFERENCES)
    with torch.no_grad():
        expected = 60 + 10 * (vectors[:, 0] @ metric.output.weight[0] + metric.output.bias)
        assert (metric(*tokens(metric)).score - expected).abs().max() < 1e-4
    with pytest.raises(TypeError, match="Expected token batches, but got str"):
        metric("a", "b")


def test_static_vectors_read_no_pairs(script, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("the 1 0\ncat 0 1\n", encoding="utf-8")
    metric = MetricModel.from_config(preset_config("twmd", encoder=str(path)))
    with pytest.raises(InputError, match="Expected a pretrained encoder to read pairs with"):
        script.JointMetric(metric.config, metric.parts)


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way",
    [pytest.param("separate", marks=pytest.mark.long), pytest.param("joint", marks=pytest.mark.slow), "regression"],
)
def test_every_way_learns_and_a_seed_decides_on_everything(script, tiny_encoder, tmp_path, way):
    common = {"data": (str(ratings(tmp_path / "ratings.tsv", 120)),), "encoder": str(tiny_encoder)}
    _, losses = script.train(way, script.Setting(**common, learning_rate=2e-3, epochs=4), 1)
    count = len(losses) // 4
    assert sum(losses[-count:]) < 0.8 * sum(losses[:count]), losses
    few = {**common, "data": (str(ratings(tmp_path / "few.tsv", 40)),)}
    short = script.Setting(**few, learning_rate=2e-3, epochs=1)
    (first, losses), (again, same), (_, other) = (script.train(way, short, seed) for seed in (1, 1, 2))
    assert losses == same != other
    assert {**first, "seconds": ""} == {**again, "seconds": ""}


def test_all_ways_have_the_recipe_s_data_losses_and_optimiser(script, tiny_encoder, tmp_path):
    common = script.Setting((str(ratings(tmp_path / "ratings.tsv")),), str(tiny_encoder), learning_rate=3e-3)
    for way in script.WAYS:
        module = script.build_module(way, common)
        assert (module.losses, module.gradient_clip) == ({"mse": 1.0, "pearson": 1.0}, 1.0)
        config = module.optimizer_config
        assert (config.head_learning_rate, config.weight_decay, config.warmup) == (1e-3, 0.01, 0.1)
        optimizer = build_optimizer(module.metric.encoder_parameters(), module.metric.head_parameters(), config)
        groups = {group["name"]: group for group in optimizer.param_groups}
        assert groups["encoder"]["lr"] == 3e-3
        assert not module.metric.encoder.model.embeddings.word_embeddings.weight.requires_grad
        trained = {id(one) for group in groups.values() for one in group["params"]}
        assert trained == {id(one) for one in module.metric.parameters() if one.requires_grad}
        assert module.metric.config.temperature == 0.1
        assert module.metric.config.centering == ("none" if way == "regression" else "corpus")
    (source,) = script.read_data(common, 5).sources.values()
    assert isinstance(source, RatedSource)
    assert (source.group, source.batch_size) == ("lp", 16)


@pytest.mark.parametrize("way", ["joint", "regression"])
def test_gradients_reach_every_trained_weight(script, tiny_encoder, way):
    metric = script.build_module(way, script.Setting(encoder=str(tiny_encoder))).metric
    metric.fit_pairs([tokens(metric)])
    ratings_of = torch.linspace(-1, 1, len(HYPOTHESES))
    combined_loss(metric(*tokens(metric)).score, ratings_of, {"mse": 1.0, "pearson": 1.0}).backward()
    # The keys' bias has no effect on attention: its gradient is nothing but rounding.
    still = [
        name
        for name, one in metric.named_parameters()
        if one.requires_grad and (one.grad is None or not one.grad.any()) and not name.endswith("key.bias")
    ]
    assert not still


def test_a_run_is_a_row_and_is_not_run_again(script, run, tiny_encoder, tmp_path, capsys, monkeypatch):
    table, path = tmp_path / "new" / "table.csv", ratings(tmp_path / "ratings.tsv")
    arguments = ["--data", path, "--encoder", tiny_encoder, "--epochs", 1, "--output", table]

    def rows():
        return list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))

    run(*arguments, "--seeds", "1")
    first = rows()
    assert [(row["way"], row["seed"]) for row in first] == [(way, "1") for way in script.WAYS]
    assert all(-1 <= float(row[name]) <= 1 for row in first for name in ("pearson", "spearman", "kendall"))
    printed = capsys.readouterr().out
    assert all(f"| {row['way']} | 1 | {row['pearson']} ± 0.0000 |" in printed for row in first)

    trained = []

    def train(way, setting, seed):
        trained.append((way, seed, setting.learning_rate))
        if way == "regression":
            raise InputError("Expected no regression, but got one: stop.")
        return {"pearson": "0.5", "spearman": "0.25", "kendall": "0.125", "seconds": "9"}, [1.0]

    monkeypatch.setattr(script, "train", train)
    run(*arguments, "--seeds", "1", "--ways", "separate", "joint")
    assert not trained
    with pytest.raises(InputError, match="stop"):  # what was done before the error stays
        run(*arguments, "--seeds", "1", "2")
    assert trained == [("separate", 2, 1e-4), ("joint", 2, 1e-4), ("regression", 2, 1e-4)]
    assert [row["seed"] for row in rows()] == ["1", "1", "1", "2", "2"]
    trained.clear()
    run(*arguments, "--seeds", "1", "2", "--learning-rate", "5e-5", "--ways", "joint")
    assert trained == [("joint", 1, 5e-5), ("joint", 2, 5e-5)]
    assert "0.5000 ± 0.0000" in capsys.readouterr().out
