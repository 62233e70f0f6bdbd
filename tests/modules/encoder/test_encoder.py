"""Encoders cut after the layer that is read give what the whole encoder gives there."""

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, AutoModel

from textmover.modules.encoder.encoder import Encoder, row_graph
from textmover.modules.encoder.encoder_identity import BaseEncoder, remember_base
from textmover.modules.encoder.known_encoders import (
    FIRST_POSITION,
    FROM_PADDING,
    LAYERS,
    POST_NORM_TYPES,
    default_layer,
    is_multilingual,
    position_limit,
)
from textmover.types import InputError, TokenBatch

ROOT = Path(__file__).resolve().parents[3]
TEXTS = ["the small dog ran to the old house in the evening", "tea", "", "she will buy a book in town today"]

SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "embedding_size": 16,
    "initializer_range": 0.3,
    "pad_token_id": 1,
}
OF_TYPE = {
    "distilbert": {"n_layers": 3, "n_heads": 2, "dim": 16, "hidden_dim": 24},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False},
}
TYPES = [*POST_NORM_TYPES, "roberta-prelayernorm"]


def token_batch(rows: int = 3, length: int = 9) -> TokenBatch:
    """Random tokens; each row is one token shorter than the row before it."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 50, (rows, length), generator=generator)
    mask = torch.arange(length) < torch.arange(length, length - rows, -1)[:, None]
    return TokenBatch(
        ids.where(mask, 1), mask, torch.zeros(rows, length, dtype=torch.int8), ("",) * rows, (False,) * rows
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folders of small random encoders of the known types, made when asked for."""
    made = {}

    def folder(kind: str):
        if kind not in made:
            config = AutoConfig.for_model(kind, **SMALL, **OF_TYPE.get(kind, {}))
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                model = AutoModel.from_config(config)
            made[kind] = tmp_path_factory.mktemp("encoders") / kind
            model.save_pretrained(made[kind])
        return made[kind]

    return folder


def encoder_from(folder, *layers: int, freeze: int | None = None) -> Encoder:
    config = AutoConfig.from_pretrained(folder)
    return Encoder.load(folder, config, layers, dtype=torch.float32, freeze_layers=freeze).eval()


@pytest.mark.parametrize("kind", TYPES)
def test_layers_are_those_of_the_whole_encoder_in_the_order_asked_for(saved, kind):
    folder, batch = saved(kind), token_batch()
    whole = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        hidden = whole(batch.input_ids, attention_mask=batch.mask.long(), output_hidden_states=True).hidden_states
    for layers in ((0,), (2,), (2, 0), (3, 2, 1)):
        encoder = encoder_from(folder, *layers)
        if kind in POST_NORM_TYPES:
            assert encoder.model.config.num_hidden_layers == max(*layers, 1)
        with torch.no_grad():
            found = encoder(batch)
        for layer, states in zip(layers, found, strict=True):
            torch.testing.assert_close(states[batch.mask], hidden[layer][batch.mask], rtol=0, atol=2e-6)


@pytest.mark.parametrize("layer", [-1, -2, -4])
def test_negative_layers_count_from_the_end(tiny_metric, layer):
    counted, named = tiny_metric(layer=layer), tiny_metric(layer=4 + layer)
    batch = counted.tokenize(TEXTS)
    assert counted.encoder.layers == (4 + layer,)
    with torch.no_grad():
        assert torch.equal(counted.token_vectors(batch), named.token_vectors(batch))


@pytest.mark.parametrize(("window", "rows", "layers"), [(None, 3, [2]), (5, 6, [1, 3])])
@pytest.mark.parametrize("kind", TYPES)
def test_padding_does_not_move_a_vector(saved, kind, window, rows, layers):
    """Nine tokens in windows of five, with six and with a text that fits, too: each type finds its positions again."""
    encoder, batch = encoder_from(saved(kind), *layers), token_batch(rows)
    encoder.window = window
    with torch.no_grad():
        together = encoder(batch)
        embedded = encoder(replace(batch, embeddings=encoder.embed(batch.input_ids)))
        for joint, other in zip(together, embedded, strict=True):
            torch.testing.assert_close(other[batch.mask], joint[batch.mask], rtol=0, atol=2e-6)
        for row, length in enumerate(batch.lengths.tolist()):
            for joint, alone in zip(together, encoder(batch.select([row])), strict=True):
                assert alone.shape[1] == length
                torch.testing.assert_close(joint[row, :length], alone[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_texts_side_by_side_have_the_states_that_they_have_alone(saved, kind):
    encoder, batch = encoder_from(saved(kind), 1, 3), token_batch()
    graph = row_graph(encoder.graph())
    assert (graph is not None) == (kind in (*FIRST_POSITION, *FROM_PADDING))
    if graph is None:
        return
    lengths = batch.lengths.tolist()
    ids = torch.ones(2, 20, dtype=torch.long)
    positions, texts = torch.zeros_like(ids), torch.zeros_like(ids)
    places = [(0, 0), (0, lengths[0]), (1, 5)]  # text 0 and 1 in one row, text 2 somewhere in another
    for text, (row, start) in enumerate(places):
        ids[row, start : start + lengths[text]] = batch.input_ids[text, : lengths[text]]
        positions[row, start : start + lengths[text]] = torch.arange(lengths[text])
        texts[row, start : start + lengths[text]] = text + 1
    with torch.no_grad():
        for wanted, found in zip(encoder(batch), graph(ids, positions, texts), strict=True):
            for text, (row, start) in enumerate(places):
                mine = found[row, start : start + lengths[text]]
                torch.testing.assert_close(mine, wanted[text, : lengths[text]], rtol=0, atol=2e-6)


def test_states_that_were_made_beforehand_are_taken(saved):
    encoder, batch = encoder_from(saved("bert"), 2), token_batch()
    with torch.no_grad():
        states = tuple(encoder(batch))
        given = replace(batch, states=tuple(one + 1 for one in states))
        torch.testing.assert_close(encoder(given)[0], states[0] + 1)
        torch.testing.assert_close(encoder(given.select([2, 0]))[0], states[0][[2, 0]] + 1)
        torch.testing.assert_close(encoder(TokenBatch.concatenate([given, given]))[0][:3], states[0])


@pytest.mark.parametrize("kind", TYPES)
def test_frozen_layers_are_the_lowest(saved, kind):
    assert all(parameter.requires_grad for parameter in encoder_from(saved(kind), 3).parameters())
    for count, frozen_layers in ((0, set()), (1, {0}), (2, {0, 1})):
        encoder = encoder_from(saved(kind), 3, freeze=count)
        trained = {name: parameter.requires_grad for name, parameter in encoder.named_parameters()}
        assert any(trained.values())
        assert not any(trains for name, trains in trained.items() if ".embeddings." in name)
        if kind != "albert":
            frozen = [name for name, trains in trained.items() if not trains]
            assert {int(part) for name in frozen for part in name.split(".") if part.isdigit()} == frozen_layers


def test_more_frozen_layers_than_there_are_is_refused(tiny_metric):
    tiny_metric(freeze_layers=3)
    with pytest.raises(InputError, match="at most 3, the layers of the encoder, but got 4"):
        tiny_metric(freeze_layers=4)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_lower_precision_is_of_the_encoder_alone(tiny_metric, name):
    metric = tiny_metric(dtype=name)
    assert {parameter.dtype for parameter in metric.encoder.parameters()} == {getattr(torch, name)}
    batch = metric.tokenize(TEXTS)
    with torch.no_grad():
        low, exact = metric.token_vectors(batch), tiny_metric().token_vectors(batch)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low[batch.mask], exact[batch.mask], rtol=0.1, atol=0.1)


def test_the_pooler_is_left_out(tiny_metric):
    metric = tiny_metric()
    assert [name for name in metric.state_dict() if "pooler" in name] == []
    metric.token_vectors(metric.tokenize(TEXTS)).square().sum().backward()
    # The bias of attention keys moves all scores of a query alike, so that its gradient is 0, but it is there.
    assert [name for name, parameter in metric.encoder.named_parameters() if parameter.grad is None] == []


def test_loading_prints_nothing(tiny_metric, capfd):
    tiny_metric(layer=1)
    assert capfd.readouterr() == ("", "")


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "matching", "depth", "layer"),
    [
        ("sentence-transformers/all-MiniLM-L6-v2", "twmd", 6, 6),
        ("all-MiniLM-L6-v2", "bertscore", 6, 6),
        ("bert-base-uncased", "twmd", 12, 10),
        ("google-bert/bert-base-uncased", "bertscore", 12, 9),
        ("bert-large-uncased", "trwmd", 24, 19),
        ("bert-large-uncased", "bertscore", 24, 18),
        ("FacebookAI/roberta-large", "bertscore", 24, 17),
        ("roberta-large", "wordset-cka", 24, 19),
        ("microsoft/deberta-xlarge-mnli", "bertscore", 48, 40),
        ("models/roberta-base", "twmd", 4, 4),
        ("some/other", "twmd", 7, 7),
    ],
)
def test_default_layers(name, matching, depth, layer):
    assert default_layer(name, matching, depth) == layer


def test_greedy_layers_are_those_of_bert_score():
    from bert_score.utils import model2layers

    ours = {name: layers[1] for name, layers in LAYERS.items() if name in model2layers}
    assert len(ours) >= 12
    assert ours == {name: model2layers[name] for name in ours}


def test_own_choices_are_the_best_of_the_development_sets():
    with (ROOT / "docs" / "results" / "layers.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["set"] == "mean"]
    found = {(row["encoder"], row["preset"]): [float(row.get(str(one)) or 0) for one in range(13)] for row in rows}
    assert len(found) >= 4
    for (name, metric), means in found.items():
        assert LAYERS[name][metric == "bertscore-f1"] == max(range(13), key=means.__getitem__)


@pytest.mark.parametrize(
    ("kind", "positions", "pad", "limit"),
    [
        ("bert", 512, 0, 512),
        ("roberta", 514, 1, 512),
        ("roberta", 514, None, 513),
        ("xlm-roberta", 514, 1, 512),
        ("camembert", 514, 1, 512),
        ("longformer", 4098, 1, 4096),
        ("mpnet", 514, 1, 512),
        ("distilbert", 512, 0, 512),
        ("deberta-v2", 512, 0, 512),
        ("t5", None, 0, 512),
        ("xlnet", -1, 0, 512),
    ],
)
def test_position_limits(kind, positions, pad, limit):
    assert (
        position_limit(SimpleNamespace(model_type=kind, max_position_embeddings=positions, pad_token_id=pad)) == limit
    )


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert"])
def test_a_text_of_the_limit_can_be_read(saved, kind):
    encoder = encoder_from(saved(kind), 1)
    limit = position_limit(encoder.model.config)
    with torch.no_grad():
        (vectors,) = encoder(token_batch(rows=1, length=limit))
    assert vectors.isfinite().all()


@pytest.mark.parametrize(
    ("entries", "name", "expected"),
    [
        ({}, "all-MiniLM-L6-v2", False),
        ({"vocab_size": 250_037}, "somewhere/e5", True),
        ({"vocab_size": 128_100}, "microsoft/deberta-v3-base", False),
        ({"model_type": "xlm-roberta"}, None, True),
        ({}, "bert-base-multilingual-cased", True),
        ({}, "/multilingual/all-MiniLM-L6-v2", False),
        ({"multilingual": True}, "tiny", True),
        ({"multilingual": False, "vocab_size": 250_037}, "multilingual-e5-small", False),
    ],
)
def test_encoders_of_many_languages_are_known(entries, name, expected):
    config = SimpleNamespace(**{"model_type": "bert", "vocab_size": 30_522, **entries})
    encoder = SimpleNamespace(weights=SimpleNamespace(config=config))
    remember_base(encoder, None if name is None else BaseEncoder(name, None, "0"))
    assert is_multilingual(encoder) is expected


def test_an_encoder_declares_it_in_its_configuration(tiny_metric, tiny_multilingual):
    assert not is_multilingual(tiny_metric().encoder)
    assert is_multilingual(tiny_metric(encoder=str(tiny_multilingual)).encoder)
    assert not is_multilingual(object())
