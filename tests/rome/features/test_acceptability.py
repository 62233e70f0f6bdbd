import numpy as np
import pytest
import torch

from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.rome.features.acceptability import AcceptabilityModel
from textmover.types import InputError

TEXTS = ["the cat sat on a very old house", "a dog", "!", "reading reading reading", "7", "🙂"]
CLASSES = ("unacceptable", "acceptable")


@pytest.fixture
def model(tiny_metric):
    torch.manual_seed(0)
    classifier = TextClassifier.untrained(tiny_metric(), ClassifierConfig(CLASSES, "single", hidden=4))
    return AcceptabilityModel(classifier).eval()


def test_it_is_the_softmax_of_the_logits_of_the_mean_token_vector(model):
    (tokens,) = model.classifier.tokenize(TEXTS)
    vectors, mask = model.classifier.metric.token_vectors(tokens), tokens.mask
    head = {name: one.detach().double().numpy() for name, one in model.classifier.head.state_dict().items()}
    for row, probability in enumerate(model.predict(TEXTS).tolist()):
        u = vectors[row, mask[row]].detach().double().numpy().mean(axis=0)
        hidden = np.tanh(head["between.weight"] @ u + head["between.bias"])
        logits = head["outputs.weight"] @ hidden + head["outputs.bias"]
        assert probability == pytest.approx(np.exp(logits[1]) / np.exp(logits).sum(), abs=1e-6)


def test_the_class_is_found_by_its_name(tiny_metric):
    torch.manual_seed(0)
    turned = TextClassifier.untrained(tiny_metric(), ClassifierConfig(("fine", "odd", "acceptable"), "single")).eval()
    model = AcceptabilityModel(turned)
    assert torch.allclose(model.predict(TEXTS[:2]), turned.predict(TEXTS[:2])[:, 2])
    assert torch.allclose(AcceptabilityModel(turned, "fine").predict(TEXTS[:2]), turned.predict(TEXTS[:2])[:, 0])


def test_a_probability_does_not_depend_on_batch_mates_order_or_repetition(model):
    alone = torch.cat([model.predict([text]) for text in TEXTS])
    assert (model.predict(TEXTS) - alone).abs().max() < 1e-6
    assert (model.predict(TEXTS[::-1] + TEXTS) - torch.cat([alone.flip(0), alone])).abs().max() < 1e-6
    with torch.no_grad():
        assert (model(model.tokenize(TEXTS)) - alone).abs().max() < 1e-6


@pytest.mark.parametrize("text", ["", "  \n ", "\u200b"])
def test_a_text_without_tokens_is_no_sentence(model, text):
    assert model.predict([text, *TEXTS])[0] == 0
    assert (model.predict([text, *TEXTS])[1:] > 0).all()
    found = model(model.tokenize([text, *TEXTS]))
    assert found[0] == 0
    found.sum().backward()
    assert all(torch.isfinite(one.grad).all() for one in model.parameters() if one.grad is not None)


def test_no_texts_give_no_probabilities(model):
    assert model.predict([]).shape == (0,)


def test_each_distinct_text_is_read_once(model, monkeypatch):
    read = []
    tokenize = model.classifier.metric.tokenize
    monkeypatch.setattr(model.classifier.metric, "tokenize", lambda texts: read.append(len(texts)) or tokenize(texts))
    model.predict(["a dog"] * 500)
    assert max(read) == 1


def test_a_very_long_text_is_cut_at_the_limit(model):
    limit = model.classifier.limit
    long = " ".join(["cat"] * 5 * limit)
    assert model.tokenize([long]).mask.shape[1] == limit
    assert model.predict([long, long + " dog"]).diff().abs() < 1e-6


def test_gradients_reach_head_and_encoder(model):
    model(model.tokenize(TEXTS[:2])).sum().backward()
    for part in (model.classifier.head, model.classifier.metric.encoder):
        assert sum(float(one.grad.abs().sum()) for one in part.parameters() if one.grad is not None) > 0


def test_the_mode_stays_as_it_was(model):
    model.train()
    model.predict(TEXTS)
    assert model.classifier.head.dropout.training


def test_the_identity_names_encoder_and_head(model, tiny_metric):
    other = AcceptabilityModel(TextClassifier.untrained(tiny_metric(), ClassifierConfig(CLASSES, "single", hidden=4)))
    assert model.identity.startswith(model.classifier.metric.encoder_identity + "/")
    assert model.identity != other.identity
    other.classifier.head.load_state_dict(model.classifier.head.state_dict())
    assert model.identity == other.identity


def test_classifiers_of_other_classes_or_of_pairs_are_refused(tiny_metric):
    for config, message in (
        (ClassifierConfig(("no", "yes"), "single"), "the class 'acceptable', but got one of no, yes"),
        (ClassifierConfig(CLASSES, "joint"), r"of single texts, but got one of pairs \(joint\)"),
    ):
        classifier = TextClassifier.untrained(tiny_metric(), config)
        with pytest.raises(InputError, match=message):
            AcceptabilityModel(classifier)
