"""What is known of the encoder that weights started from: where it is, its hashes, and names of trained weights."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch

from textmover.modules.encoder import encoder_identity
from textmover.modules.encoder.encoder_identity import (
    BaseEncoder,
    base_of,
    identity_of,
    remember_base,
    weights_fingerprint,
)
from textmover.modules.encoder.source import MULTILINGUAL, UNPACKED_SHA256, EncoderSource, file_sha256
from textmover.modules.encoder_parts import untrained
from textmover.types import InputError


@pytest.fixture
def base(tiny_encoder):
    return BaseEncoder(str(tiny_encoder), None, file_sha256(tiny_encoder / "model.safetensors"))


def test_an_encoder_knows_its_base_and_so_do_its_copies(tiny_metric, tiny_encoder, base):
    encoder = tiny_metric().encoder
    for one in (encoder, copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        found = base_of(one)
        assert (found.name, found.sha256, found.folder) == (base.name, base.sha256, tiny_encoder)
        assert found.tokenizer == file_sha256(tiny_encoder / "tokenizer.json")
    assert base_of(None) is None
    assert base_of(torch.nn.Linear(1, 1)) is None


@pytest.mark.parametrize("layer", [1, 3])
def test_the_untrained_encoder_is_cut_and_cast_alike(tiny_metric, layer):
    metric = tiny_metric(layer=layer)
    before = {name: one.clone() for name, one in metric.encoder.state_dict().items()}
    with torch.no_grad():
        for one in metric.encoder.parameters():
            one.zero_()
    found = untrained(metric.encoder)
    assert (found.layers, found.depth, found.training) == ((layer,), 3, False)
    assert found.state_dict().keys() == before.keys()
    assert all(torch.equal(one, before[name]) for name, one in found.state_dict().items())
    metric.cast_encoder(torch.bfloat16)
    assert next(untrained(metric.encoder).parameters()).dtype == torch.bfloat16


def test_an_encoder_without_a_base_has_no_untrained_one(tiny_metric):
    encoder = tiny_metric().encoder
    remember_base(encoder, None)
    with pytest.raises(InputError, match="names its pretrained base"):
        untrained(encoder)


def test_some_digits_of_a_hash_are_enough_to_find_it(base):
    assert BaseEncoder(base.name, None, base.sha256[:8]).find().sha256 == base.sha256
    with pytest.raises(InputError, match="of the hash 00000000, but those in"):
        BaseEncoder(base.name, None, "0" * 8).find()


def test_an_adapter_over_4_bits_takes_them_where_full_weights_are_in_the_cache_too(monkeypatch, tmp_path, caplog):
    full, packed = (
        EncoderSource(tmp_path, origin, sha) for origin, sha in (("cache", "f" * 64), ("4", UNPACKED_SHA256))
    )
    monkeypatch.setattr(encoder_identity, "resolve_encoder", lambda *_: full)
    monkeypatch.setattr(encoder_identity, "from_package", lambda *_: packed)
    assert BaseEncoder(MULTILINGUAL, None, UNPACKED_SHA256).find() is packed
    assert caplog.text == ""
    with pytest.raises(InputError, match="weights of the hash 01234567"):
        BaseEncoder(MULTILINGUAL, None, "01234567").find()


def test_what_an_entry_says(base):
    assert BaseEncoder.from_entry({"identity": "x@y", "base": base.entry()}, "other", None) == base
    assert BaseEncoder.from_entry({"identity": "a@b@01234567"}, "name", "v1") == BaseEncoder("name", "v1", "01234567")
    assert BaseEncoder.from_entry({"identity": "vectors"}, "name", None) is None


def test_prints_hang_on_names_and_values_alone():
    state = {"a": torch.ones(2), "b": torch.zeros(2)}
    found = weights_fingerprint(state)
    assert weights_fingerprint({"b": torch.zeros(2), "a": torch.ones(2), "ids": torch.arange(3)}) == found
    assert weights_fingerprint({"a": torch.zeros(2), "b": torch.ones(2)}) != found
    assert weights_fingerprint({"c": torch.ones(2), "b": torch.zeros(2)}) != found


def test_only_a_print_is_taken_off_a_name(base):
    assert identity_of("c++-encoder@01234567", base, "aaaaaaaa") == "c++-encoder+aaaaaaaa@01234567"
    assert identity_of("c++-encoder+bbbbbbbb@01234567", base, "aaaaaaaa") == "c++-encoder+aaaaaaaa@01234567"


def test_what_is_not_known_of_two_bases_does_not_set_them_apart(base, tmp_path):
    known = replace(base, tokenizer="0a", folder=tmp_path)
    for one, other in ((base, known), (known, base), (known, replace(known, sha256=base.sha256[:8]))):
        assert one.misfit(other) is None
    assert "tokenizer of the hash 0a, but that in" in known.misfit(replace(known, tokenizer=None))
    assert f"those in {base.name} have 89ab" in known.misfit(replace(base, sha256="89ab"))
