import pandas as pd
import pytest
import torch

from textmover.modules.classifier import (
    ClassifierConfig,
    ClassifierHead,
    PairTemplate,
    TextClassifier,
    join_texts,
    kept_tokens,
)
from textmover.types import InputError

FIRST = ["the cat", "", "red " * 100, "a dog sat on the table", "one two three " * 8, "x"]
SECOND = ["a dog sat", "the cat", "blue " * 90, "", "four", "old " * 90]
CUT = {"truncation": "longest_first", "padding": True, "return_tensors": "pt", "return_token_type_ids": True}


def config(encoding="joint", **fields):
    return ClassifierConfig(("no", "maybe", "yes"), encoding, **fields)


@pytest.fixture
def build(tiny_metric):
    def make(encoding="joint", metric=None, **fields):
        torch.manual_seed(0)
        return TextClassifier.untrained(tiny_metric(**(metric or {})), config(encoding, **fields)).eval()

    return make


def huggingface(encoder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(encoder)


@pytest.mark.parametrize("limit", [5, 8, 9, 30, 128])
def test_joined_texts_are_those_of_the_tokenizer(tiny_metric, tiny_encoder, limit):
    metric = tiny_metric()
    template = PairTemplate.of(metric.tokenizer)
    joined = join_texts(metric.tokenize(FIRST), metric.tokenize(SECOND), template, limit)
    expected = huggingface(tiny_encoder)(FIRST, SECOND, max_length=limit, **CUT)
    assert torch.equal(joined.input_ids, expected["input_ids"])
    assert torch.equal(joined.mask, expected["attention_mask"].bool())
    assert torch.equal(joined.types, expected["token_type_ids"])


def test_a_tokenizer_with_two_separators_and_no_types(tiny_metric, tiny_encoder):
    from tokenizers import processors

    metric, theirs = tiny_metric(), huggingface(tiny_encoder)
    ends = [("[CLS]", theirs.cls_token_id), ("[SEP]", theirs.sep_token_id)]
    processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=ends
    )
    for one in (theirs, metric.tokenizer._tokenizer):
        one.backend_tokenizer.post_processor = processor
    template = PairTemplate.of(metric.tokenizer)
    assert template.size == 4
    assert template.types == (0,) * 5
    joined = join_texts(metric.tokenize(FIRST), metric.tokenize(SECOND), template, 20)
    expected = theirs(FIRST, SECOND, max_length=20, **CUT)
    assert torch.equal(joined.input_ids, expected["input_ids"])


def test_a_tokenizer_that_does_not_part_texts_cannot_join_them(tiny_metric):
    from tokenizers import processors

    metric = tiny_metric()
    backend = metric.tokenizer._tokenizer.backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    with pytest.raises(InputError, match="take the encoding `separate`"):
        TextClassifier.untrained(metric, config())


def test_what_is_kept_is_cut_token_by_token_from_the_longer_text():
    for first in range(12):
        for second in range(12):
            for room in range(14):
                a, b = first, second
                while a + b > room:
                    a, b = (a - 1, b) if a > b else (a, b - 1)
                kept = [int(one) for one in kept_tokens(torch.tensor([first]), torch.tensor([second]), room)]
                assert sum(kept) == a + b
                assert sorted(kept) == sorted((a, b)), (first, second, room)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("encoding", ["single", "joint", "separate"])
def test_logits_do_not_depend_on_batch_mates_padding_or_order(build, encoding, pooling):
    classifier = build(encoding, pooling=pooling, hidden=8)
    others = None if encoding == "single" else SECOND

    def logits(rows):
        sides = [[texts[row] for row in rows] for texts in (FIRST, others) if texts is not None]
        with torch.no_grad():
            return classifier(*classifier.tokenize(*sides))

    together = logits(range(6))
    assert together.shape == (6, 3)
    for row in range(6):
        assert (logits([row])[0] - together[row]).abs().max() < 1e-6
    assert (logits([4, 1, 0])[2] - together[0]).abs().max() < 1e-6
    probabilities = classifier.predict(FIRST, others)
    assert (probabilities - together.softmax(dim=1)).abs().max() < 1e-6


@pytest.mark.parametrize("layer", [2, 3])
def test_joint_reading_is_that_of_the_model_with_token_types(build, tiny_encoder, layer):
    from transformers import AutoModel

    classifier = build("joint", {"layer": layer})
    model, tokens = AutoModel.from_pretrained(tiny_encoder).eval(), huggingface(tiny_encoder)
    batch = tokens(FIRST[0], SECOND[0], return_tensors="pt", return_token_type_ids=True)
    with torch.no_grad():
        state = model(**batch, output_hidden_states=True).hidden_states[layer][0].mean(dim=0)
        found = classifier(*classifier.tokenize(FIRST[:1], SECOND[:1]))[0]
        assert (found - classifier.head.outputs(state)).abs().max() < 1e-5
        without_types = model(batch["input_ids"], output_hidden_states=True).hidden_states[layer][0].mean(dim=0)
    assert (state - without_types).abs().max() > 1e-3, "the types make a difference"


def test_tokens_of_a_pair_see_each_other_in_joint_reading_alone(build):
    for encoding, sees in (("joint", True), ("separate", False)):
        classifier = build(encoding)
        width = classifier.metric.encoder.dimension
        with torch.no_grad():
            # Of the separate features, u alone: it must not change with the other text.
            classifier.head.outputs.weight[:, width:] = 0
            found = [classifier(*classifier.tokenize(["the cat"], [other])) for other in ("a dog", "no dog at all")]
        assert bool((found[0] - found[1]).abs().max() > 1e-4) is sees


def test_the_features_of_a_pair_read_separately():
    head = ClassifierHead(config("separate", dropout=0.0), 2).eval()
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]])
    features = torch.tensor([[1.0, -2.0, 3.0, 0.5, 2.0, 2.5, 3.0, -1.0]])
    assert torch.allclose(head(u, v), features @ head.outputs.weight.T + head.outputs.bias)
    single = ClassifierHead(config("single", hidden=4), 2).eval()
    expected = single.outputs(torch.tanh(single.between(u)))
    assert torch.allclose(single(u), expected)


def test_cut_texts_are_told(build):
    def cut(classifier, *sides):
        return classifier.cut(*classifier.tokenize(*sides)).tolist()

    assert cut(build("joint"), FIRST, SECOND) == [False, False, True] + [False] * 3
    pairs = ["the cat is red", "the cat is red"], ["a dog", "a dog is big and old"]
    assert cut(build("joint", {"max_length": 10}), *pairs) == [False, True]
    assert cut(build("single", {"max_length": 5}), ["a b c", "a b c d"]) == [False, True]


def test_pairs_that_do_not_fit_one_sequence_are_refused_where_texts_are_not_to_be_cut(build):
    strict = build("joint", {"max_length": 10, "long_texts": "error"})
    assert strict.predict(["the cat is red"], ["a dog"]).shape == (1, 3)
    with pytest.raises(InputError, match="at most 7 tokens beside the special ones, but got texts of 4 and 6"):
        strict.predict(["the cat", "the cat is red"], ["a dog", "a dog is big and old"])
    separate = build("separate", {"max_length": 10, "long_texts": "error"})
    assert separate.predict(["the cat is red"], ["a dog is big and old"]).shape == (1, 3)


def test_gradients_reach_encoder_and_head(build):
    for encoding in ("joint", "separate"):
        classifier = build(encoding).train()
        classifier(*classifier.tokenize(FIRST, SECOND)).logsumexp(dim=1).sum().backward()
        missing = [name for name, one in classifier.named_parameters() if one.requires_grad and one.grad is None]
        assert not missing


def test_dropout_is_on_in_training_alone(build):
    classifier = build(dropout=0.5)
    tokens = classifier.tokenize(FIRST, SECOND)
    assert torch.equal(classifier(*tokens), classifier(*tokens))
    classifier.head.train()
    assert not torch.equal(classifier(*tokens), classifier(*tokens))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": ("one",)}, "at least two `classes`"),
        ({"classes": ("one", "one")}, "different names"),
        ({"encoding": "crossed"}, "`encoding`"),
        ({"pooling": "max"}, "`pooling`"),
        ({"hidden": -1}, "`hidden`"),
        ({"dropout": 1.0}, "`dropout`"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        ClassifierConfig(**{"classes": ("no", "yes"), **fields})


def test_one_text_and_the_column_of_a_table_are_classified_like_lists(build):
    single = build("single")
    assert torch.equal(single.predict(FIRST[0]), single.predict(FIRST[:1]))
    assert build("joint").predict(FIRST[0], SECOND[0]).shape == (1, 3)
    backwards = pd.Series(FIRST).iloc[::-1]  # its index counts down
    assert torch.equal(single.predict(backwards), single.predict(FIRST[::-1]))
    with pytest.raises(TypeError, match="to be strings, but got float in segment 2"):
        single.predict(["a cat", float("nan")])


def test_texts_that_do_not_fit_the_encoding_are_refused(build):
    with pytest.raises(InputError, match="Expected pairs of texts, but got single texts"):
        build("joint").predict(FIRST)
    with pytest.raises(InputError, match="Expected single texts, but got pairs"):
        build("single").predict(FIRST, SECOND)
    with pytest.raises(InputError, match="as many second texts"):
        build("joint").predict(FIRST, SECOND[:2])
    with pytest.raises(InputError, match="room for two texts"):
        build("joint", {"max_length": 4})
