"""Tables of token vectors in the place of an encoder: the same values, without transformers, and what is refused."""

import json
import subprocess
import sys

import pytest
import torch

from textmover.checkpoints.averaging import as_token_table
from textmover.checkpoints.loading import load_checkpoint
from textmover.checkpoints.saving import save_checkpoint
from textmover.cli.main import main
from textmover.modules.encoder.static_vectors import POSITIONS, TokenTable
from textmover.scoring import Scorer
from textmover.training import RatingsModule
from textmover.types import InputError

HYPOTHESES = ["the small dog ran home", "she will buy a book", "tea ✅", ""]
REFERENCES = ["a little dog runs home at night", "a book she will buy", "tea ❌", "tea"]


@pytest.fixture
def embeddings(tiny_metric):
    """A metric on the embeddings of the tiny encoder."""
    return tiny_metric(layer=0, temperature=0.1)


@pytest.fixture
def folder(embeddings, tmp_path):
    return save_checkpoint(as_token_table(embeddings), tmp_path / "table", card="# card")


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


def test_the_command_makes_one(embeddings, tmp_path, capsys):
    metric = save_checkpoint(embeddings, tmp_path / "metric", card="# card")
    assert main(["export", str(metric), str(tmp_path / "table"), "--table"]) == 0
    assert isinstance(load_checkpoint(tmp_path / "table").encoder, TokenTable)
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
    with pytest.raises(InputError, match="texts to fit mean and baseline again on"):
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


def test_commands_refuse_windows_over_a_table(folder, capsys):
    assert main(["score", "a dog", "the dog", "--model", str(folder), "--long-texts", "window"]) == 2
    assert "Expected `--long-texts` to be 'truncate' or 'error' for a table of token vectors" in capsys.readouterr().err


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
