"""Reading encoders: damaged or hostile files end in one sentence, and code in a folder never runs."""

import copy
import json
import math
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.scoring.backends.test_torch_runners import graph_of
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, BertModel

from textmover import Scorer
from textmover.modules import MetricConfig, MetricModel
from textmover.modules.encoder.pretrained import (
    STORED_CLASSES,
    StoredModel,
    load_config,
    load_model,
    model_class,
    models_on_demand,
)
from textmover.scoring import load_metric, save_checkpoint
from textmover.scoring.backends.artefacts import encoder_hash
from textmover.types import InputError

HUGE = 10**12


@pytest.fixture
def edited(tmp_path, tiny_encoder):
    """Copies the tiny encoder with other entries in one of its JSON files."""

    def edited(name, edit):
        folder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
        content = json.loads((folder / name).read_text())
        new = edit(content) if callable(edit) else {**content, **edit}
        (folder / name).write_text(json.dumps(content if new is None else new))
        return folder

    return edited


def load(folder, **fields):
    return MetricModel.from_config(MetricConfig(encoder=str(folder), **fields)).eval()


def same_vectors(one, other):
    with torch.no_grad():
        first, second = (metric.token_vectors(metric.tokenize(["a small cat"])) for metric in (one, other))
    return torch.equal(first, second)


# --- configurations ---------------------------------------------------------------------------------------------------

SIZE = "to be a whole number from"
SHAPES = "to fit the encoder's config.json"
KIND = "to hold an encoder that can be read, but got"


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("hidden_size", ("x", -1, 0, None, 1.5, [1], True, HUGE), SIZE),
        ("hidden_size", (33,), "not a multiple of the number of attention heads"),
        ("hidden_size", (64,), SHAPES),
        ("num_hidden_layers", ("x", -1, 0, None, 2.5, 10**9), SIZE),
        ("num_hidden_layers", (4,), r"layer\.3\..* is missing or has another shape"),
        ("num_attention_heads", ("x", -1, 0, None, HUGE), SIZE),
        ("num_attention_heads", (5,), "not a multiple"),
        ("intermediate_size", ("x", -1, 0, None, HUGE), SIZE),
        ("intermediate_size", (65,), SHAPES),
        ("vocab_size", ("x", -1, 0, None, HUGE), SIZE),
        ("vocab_size", (10,), "tokenizer in .* to fit its encoder of 10 tokens, but it gives ids up to"),
        ("vocab_size", (10**7,), SHAPES),
        ("max_position_embeddings", ("x", -2, None, HUGE), SIZE),
        ("max_position_embeddings", (2,), "to read texts of 3 tokens at least, but its config.json allows 2"),
        ("max_position_embeddings", (64,), SHAPES),
        ("type_vocab_size", (0, 1, HUGE), SHAPES),
        ("type_vocab_size", ("x", -1, None), KIND),
        ("hidden_act", ("nope", 3, None, {}), KIND),
        ("layer_norm_eps", ("x", None), KIND),
        ("pad_token_id", ("x", HUGE), KIND),
        ("hidden_dropout_prob", (5, "x", math.nan), KIND),
        ("initializer_range", ("x",), KIND),
        ("dtype", ("nope",), KIND),
        ("num_labels", (HUGE,), SIZE),
        ("id2label", (5,), KIND),
        ("model_type", ("nope", 3, None), KIND),
        ("model_type", ("vit", "whisper"), "to describe a text encoder, but got one of type"),
        ("model_type", ("gpt2",), SHAPES),
        ("is_encoder_decoder", (True,), "the encoder half of BertModel reads no token ids"),
        ("quantization_config", ({"quant_method": "fp8"},), "quantized weights"),
        ("transformers_weights", ("../other.safetensors",), KIND),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_in_one_sentence(edited, tmp_path, name, values, message):
    for value in values:
        shutil.rmtree(tmp_path / "encoder", ignore_errors=True)
        with pytest.raises(InputError, match=message) as caught:
            load(edited("config.json", {name: value}))
        assert "\n" not in str(caught.value)
        assert str(tmp_path / "encoder") in str(caught.value)


@pytest.mark.parametrize(
    ("family", "entries"),
    [("roberta", {"pad_token_id": None}), ("albert", {"num_hidden_groups": 0}), ("albert", {"num_hidden_groups": -1})],
)
def test_a_configuration_that_fails_on_the_first_text_is_refused(edited, family, entries):
    folder = edited("config.json", {})
    graph_of(family, vocab_size=1_000).model.save_pretrained(folder)
    load(folder, layer=1)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
    with pytest.raises(InputError, match=KIND):
        load(folder, layer=1)


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", "null", "[" * 5000, '"bert"', "{}", '{"a": 1, "a": 2}'])
def test_a_file_that_holds_no_configuration_is_refused(edited, text):
    folder = edited("config.json", {})
    (folder / "config.json").write_text(text)
    with pytest.raises(InputError, match=rf"Expected .*{folder}") as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content"),
    [("model.safetensors", b"short"), ("tokenizer.json", b"{not json"), ("tokenizer.json", None)],
)
def test_a_damaged_file_gives_one_sentence_with_its_folder(edited, file, content):
    folder = edited("config.json", {})
    if content is None:
        (folder / file).unlink()
        (folder / "tokenizer_config.json").unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=str(folder)) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "entries",
    [
        {"chunk_size_feed_forward": 7},
        {"return_dict": False},
        {"torchscript": True},
        {"_attn_implementation": "owner/kernel"},
        {"attn_implementation": "owner/kernel"},
        {"auto_map": {"AutoConfig": "other.Config", "AutoModel": "other.Model"}},
    ],
)
def test_entries_that_change_no_value_change_none(edited, tiny_metric, entries):
    assert same_vectors(load(edited("config.json", entries)), tiny_metric())


def test_an_adapter_in_the_folder_is_refused(edited):
    folder = edited("config.json", {})
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"but got an adapter \(adapter_config.json\)"):
        load(folder)


def test_the_sizes_of_a_checkpoint_are_bounded_by_its_weights(tiny_metric, tmp_path):
    from textmover.modules.encoder.source import file_sha256

    folder = save_checkpoint(tiny_metric(), tmp_path / "metric", card="")
    path = folder / "encoder" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "type_vocab_size": HUGE}))
    entries = json.loads((folder / "config.json").read_text())
    entries["files"]["encoder/config.json"] = file_sha256(path)
    (folder / "config.json").write_text(json.dumps(entries))
    with pytest.raises(InputError, match=SHAPES):
        load_metric(folder)


# --- tokenizers -------------------------------------------------------------------------------------------------------


def vocabulary(**entries):
    return lambda content: content["model"]["vocab"].update(entries)


def special(ids):
    return lambda content: content["post_processor"]["special_tokens"]["[CLS]"].update(ids=ids, tokens=["a"] * len(ids))


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("tokenizer.json", lambda content: content.clear(), KIND),
        ("tokenizer.json", {"model": None}, KIND),
        ("tokenizer.json", {"version": "9.0"}, KIND),
        ("tokenizer.json", {"normalizer": {"type": "Nope"}}, KIND),
        ("tokenizer.json", {"added_tokens": 5}, KIND),
        ("tokenizer.json", lambda content: content["model"].update(type="Nope"), KIND),
        ("tokenizer.json", lambda content: content["model"].update(vocab=[1]), KIND),
        ("tokenizer.json", lambda content: content["model"].update(vocab={}), "its vocabulary is missing"),
        ("tokenizer.json", vocabulary(cat=-1), KIND),
        ("tokenizer.json", vocabulary(cat="x"), KIND),
        ("tokenizer.json", vocabulary(cat=10**9), "to give ids up to 16,777,216, but got 1000000000"),
        ("tokenizer.json", vocabulary(cat=5000), "it gives ids up to 5000"),
        ("tokenizer.json", special([5000]), "it gives ids up to 5000"),
        ("tokenizer.json", special([1] * 1000), "but it adds 1001 special ones"),
        ("tokenizer_config.json", lambda _: [1], KIND),
        ("tokenizer_config.json", {"tokenizer_class": 5}, KIND),
        ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}, KIND),
        ("tokenizer_config.json", {"cls_token": 5}, KIND),
        ("tokenizer_config.json", {"truncation_side": "up"}, KIND),
        ("tokenizer_config.json", {"pad_token": "<new>"}, "it gives ids up to"),
        ("tokenizer_config.json", {"added_tokens_decoder": [1]}, KIND),
    ],
)  # fmt: skip
def test_a_tokenizer_that_cannot_be_used_is_refused_in_one_sentence(edited, name, edit, message):
    with pytest.raises(InputError, match=message) as caught:
        load(edited(name, edit))
    assert "\n" not in str(caught.value)


# --- encoder-decoders -------------------------------------------------------------------------------------------------


def test_the_decoder_takes_no_memory(random_encoder):
    folder = random_encoder("t5", vocab_size=500)
    whole = AutoModel.from_pretrained(folder).bfloat16()
    whole.config.num_decoder_layers = 10**9
    whole.config.save_pretrained(folder)
    halves = {
        name: one for name, one in whole.state_dict().items() if name.startswith(("shared", "encoder.b", "encoder.f"))
    }
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})  # as T5EncoderModel saves it
    metric = load(folder)
    for name, one in metric.encoder.model.named_parameters():
        assert torch.equal(one, whole.encoder.get_parameter(name).float())


@pytest.mark.parametrize(
    "kind", ["t5", "bart", "longt5", "led", *(pytest.param(one, marks=pytest.mark.long) for one in ("mt5", "mbart"))]
)
def test_an_encoder_decoder_gives_the_states_of_its_encoder(random_encoder, tmp_path, kind):
    folder = random_encoder(kind, vocab_size=500)
    whole = AutoModel.from_pretrained(folder).eval()
    metrics = [load(folder, layer=2)]
    metrics.append(load_metric(save_checkpoint(metrics[0], tmp_path / "metric", card="")))
    for metric in metrics:
        batch = metric.tokenize(["the small cat sat", "tea"])
        with torch.no_grad():
            found = metric.token_vectors(batch)
            embedded = metric.token_vectors(replace(batch, embeddings=metric.encoder.embed(batch.input_ids)))
            torch.testing.assert_close(embedded[batch.mask], found[batch.mask], rtol=0, atol=1e-6)
            expected = whole.get_encoder()(
                input_ids=batch.input_ids, attention_mask=batch.mask.long(), output_hidden_states=True
            )
        torch.testing.assert_close(found[batch.mask], expected.hidden_states[2][batch.mask], rtol=0, atol=2e-6)
        assert not any("decoder" in name for name, _ in metric.named_parameters())


# --- surroundings -----------------------------------------------------------------------------------------------------


def test_a_device_without_numbers_is_refused(tiny_encoder):
    with pytest.raises(InputError, match=r"`device` to be one that this machine has, but got 'meta': .*meta tensors"):
        Scorer.from_pretrained("twmd", encoder=str(tiny_encoder), device="meta")


THREADS = """
import sys, threading, traceback
ready, wrong = threading.Barrier(6), []
def load(preset):
    ready.wait()
    try:
        import textmover
        textmover.Scorer.from_pretrained(preset, encoder=sys.argv[1], backend="torch").score("a", "b")
    except BaseException:
        wrong.append(traceback.format_exc())
threads = [threading.Thread(target=load, args=(one,)) for one in ("twmd", "bertscore-f1") * 3]
for one in threads: one.start()
for one in threads: one.join()
sys.exit("".join(wrong) or 0)
"""


@pytest.mark.slow  # imports everything in a process of its own
def test_several_threads_may_load_first(tiny_encoder):
    ran = subprocess.run([sys.executable, "-c", THREADS, tiny_encoder], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


# --- models on demand -------------------------------------------------------------------------------------------------

SMALL_MODEL = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "vocab_size": 30,
    "max_position_embeddings": 20,
}  # fmt: skip


def small_encoder(folder, kind, wrapped=None, **entries):
    """Saves a small model with random weights; ``wrapped`` is an Auto class of models that have it inside."""
    config = AutoConfig.for_model(kind, **SMALL_MODEL, **entries)
    torch.manual_seed(0)
    (wrapped or AutoModel).from_config(config).save_pretrained(folder)
    return folder


def stored(folder, dtype=torch.float32):
    with models_on_demand():
        return StoredModel.find(load_config(folder), folder, dtype)


@pytest.mark.parametrize("wrapped", [None, AutoModelForMaskedLM])
@pytest.mark.parametrize("kind", STORED_CLASSES)
def test_stored_weights_become_the_model_that_transformers_loads(tmp_path, kind, wrapped):
    folder = small_encoder(tmp_path, kind, wrapped)
    whole, found = load_model(load_config(folder), folder, torch.float32), stored(folder)
    state = found.state_dict()
    assert state.keys() == dict(whole.named_parameters()).keys() == whole.state_dict().keys()
    assert all(torch.equal(one, state[name]) for name, one in whole.named_parameters())
    assert model_class(found) == model_class(whole) == type(whole).__name__
    before, generator = dict(found.eval().named_parameters()), torch.get_rng_state()
    model = found.built()
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(one is before[name] for name, one in model.named_parameters())
    assert not any(one.is_meta for one in model.buffers())
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids)[0], whole.eval()(input_ids=ids)[0])


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        ("mpnet", {}),
        ("electra", {}),
        ("bert", {"is_decoder": True, "add_cross_attention": True}),
        ("bert", {"position_embedding_type": "relative_key"}),
    ],
)
def test_models_of_other_kinds_are_built_at_once(tmp_path, kind, entries):
    assert stored(small_encoder(tmp_path, kind, **entries)) is None


@pytest.mark.parametrize("spoil", ["no file", "damaged", "a weight less", "another shape"])
def test_weights_that_do_not_fit_are_left_to_the_loader(tmp_path, spoil):
    folder = small_encoder(tmp_path, "bert")
    path = folder / "model.safetensors"
    weights = load_file(path)
    if spoil == "a weight less":
        del weights["encoder.layer.1.output.dense.bias"]
    if spoil == "another shape":
        weights["embeddings.LayerNorm.bias"] = torch.zeros(9)
    save_file(weights, path, {"format": "pt"})
    if spoil == "damaged":
        path.write_bytes(path.read_bytes()[:100])
    if spoil == "no file":
        path.unlink()
    assert stored(folder) is None


def test_only_scorers_ask_for_models_on_demand(tiny_encoder):
    assert not isinstance(load(tiny_encoder).encoder.weights, StoredModel)
    with models_on_demand():
        metric = load(tiny_encoder, freeze_layers=1)
    encoder, reference = metric.encoder, load(tiny_encoder, freeze_layers=1)
    assert isinstance(encoder.weights, StoredModel)
    assert (metric.signature, encoder_hash(encoder)) == (reference.signature, encoder_hash(reference.encoder))
    frozen = {name for name, one in reference.encoder.named_parameters() if not one.requires_grad}
    assert {name for name, one in encoder.named_parameters() if not one.requires_grad} == frozen
    copied = copy.deepcopy(metric)
    assert isinstance(copied.encoder.weights, StoredModel)
    assert same_vectors(metric, reference)
    assert not isinstance(encoder.weights, StoredModel)
    assert same_vectors(pickle.loads(pickle.dumps(copied)), reference)


def test_training_goes_on_with_the_parameters_of_before(tiny_encoder):
    with models_on_demand():
        metric = load(tiny_encoder)
    optimizer = torch.optim.SGD(metric.parameters(), lr=0.1)
    batch = metric.train().tokenize(["a small cat"])
    name = "model.encoder.layer.0.output.dense.weight"
    before = metric.encoder.get_parameter(name).clone()
    metric.token_vectors(batch).square().sum().backward()
    optimizer.step()
    assert isinstance(metric.encoder.weights, BertModel)
    assert not torch.equal(metric.encoder.get_parameter(name), before)
