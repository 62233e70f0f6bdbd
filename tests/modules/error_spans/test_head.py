"""Evidence of errors, worked out by hand; the rule and the head that read it."""

from dataclasses import replace

import pytest
import torch

from textmover.modules import MetricConfig, MetricModel
from textmover.modules.error_spans.evidence import GAP_EVIDENCE, TOKEN_EVIDENCE, evidence, spellings
from textmover.modules.error_spans.head import ErrorHead, error_calibration, plan_rule
from textmover.scoring import load_checkpoint, save_checkpoint
from textmover.types import TokenEmbeddings


def text(*axes: int, size: int = 8, padding: int = 0, dtype: torch.dtype = torch.float32) -> TokenEmbeddings:
    """A text between two special tokens, each of whose tokens is an axis."""
    ids = torch.tensor([[100, *axes, 101] + [0] * padding])
    mask = torch.arange(ids.shape[1])[None] < len(axes) + 2
    special = torch.zeros_like(ids, dtype=torch.int8)
    special[0, 0], special[0, len(axes) + 1] = 1, 2
    vectors = torch.nn.functional.one_hot(ids.clamp(max=size - 1), size).to(dtype) * mask[:, :, None]
    return TokenEmbeddings(vectors, mask, special, ids)


def evidence_of(name: str, *sides: TokenEmbeddings) -> list[float]:
    """Evidence of each ordinary token, or of each gap beside one."""
    found = evidence(*sides, 0.05)
    if name in TOKEN_EVIDENCE:
        return found.tokens[0, found.present[0], TOKEN_EVIDENCE.index(name)].tolist()
    return found.gaps[0, found.between[0], GAP_EVIDENCE.index(name)].tolist()


CASES = {
    "best of equal texts": ("best", (0, 1, 2), (0, 1, 2), [1, 1, 1]),
    "best of a wrong token": ("best", (0, 5, 2), (0, 1, 2), [1, 0, 1]),
    "all comes back": ("returned", (0, 1, 2), (0, 1, 2), [1, 1, 1]),
    "half comes back to a repeated token": ("returned", (0, 0, 1), (0, 1), [0.5, 0.5, 1]),
    "stands in the other text": ("same written", (0, 5), (0, 1), [1, 0]),
    "steps within equal texts": ("step behind", (0, 1, 2), (0, 1, 2), [0, 0, 0]),
    "a token is passed over": ("step behind", (0, 2), (0, 1, 2), [0.25, 0]),
    "the second of two is too much": ("surplus", (0, 1, 1, 2), (0, 1, 2), [0, 0, 1, 0]),
    "order is turned": ("step before", (1, 0), (0, 1), [0.25, -0.5]),
    "nothing between": ("most uncovered between", (0, 1), (0, 1), [0, 0, 0]),
    "lost in the middle": ("most uncovered between", (0, 2), (0, 1, 2), [0, 0.78, 0]),
    "neighbours match the edges": ("most uncovered within", (0, 2), (0, 1, 2), [0, 0.5, 0]),
    "lost at the start": ("most uncovered within", (1, 2), (0, 1, 2), [0.5, 0, 0]),
    "lost at the end": ("most uncovered within", (0, 1), (0, 1, 2), [0, 0, 0.5]),
    "two are passed over": ("jump", (0, 3), (0, 1, 2, 3), [0, 0.5, 0]),
}


@pytest.mark.parametrize(("name", "hypothesis", "other", "wanted"), CASES.values(), ids=CASES)
def test_evidence_of_tokens_and_gaps(name, hypothesis, other, wanted):
    bound = 0.01 if name in TOKEN_EVIDENCE else 0.03
    assert evidence_of(name, text(*hypothesis), text(*other)) == pytest.approx(wanted, abs=bound)


@pytest.mark.parametrize(
    ("hypothesis", "other", "wanted"),
    [
        ((0, 1, 2, 3, 1, 2, 3, 4), (0, 1, 2, 3, 4), (1, 2, 3)),  # a part that stands twice
        ((1, 1, 1), (1,), (0,)),
        ((0, 1, 2, 1), (0, 1, 2, 1), ()),  # twice in both
        ((2, 1, 0), (0, 1, 2), ()),  # exchanged
        ((0, 3, 1, 0, 2), (0, 1, 2), (0,)),
    ],
)
def test_the_first_of_what_stands_twice_is_known(hypothesis, other, wanted):
    first = evidence(text(*hypothesis), text(*other), 0.02).first
    assert tuple(first[0, 1:].nonzero().flatten().tolist()) == wanted


def test_the_rule_marks_what_has_no_partner_and_what_is_missing():
    logits = plan_rule(evidence(text(0, 5, 2), text(0, 1, 2, 3), 0.05))
    wrong, missing = logits.wrong[0].sigmoid(), logits.missing[0].sigmoid()
    assert wrong[1:4].round().tolist() == [0, 1, 0]
    assert missing[1:5].argmax() == 3, "behind the last"


def batch_of(*texts: TokenEmbeddings) -> TokenEmbeddings:
    return TokenEmbeddings(*(torch.cat([getattr(one, name) for one in texts]) for name in NAMES))


NAMES = "vectors", "mask", "special", "input_ids"


@pytest.fixture
def head() -> ErrorHead:
    torch.manual_seed(0)
    return ErrorHead(8).eval()


def test_marks_depend_on_no_padding_and_no_other_text(head):
    alone = head(text(0, 5, 2), text(0, 1, 2))
    hypotheses = batch_of(text(0, 5, 2, padding=3), text(1, 2, 3, 4, 5, 6))
    together = head(hypotheses, batch_of(text(0, 1, 2, padding=2), text(6, 5, 4, 3, 2)))
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one[0], other[0, : one.shape[1]], atol=1e-6, rtol=0)


def test_gradients_reach_vectors_and_temperature(head):
    head = head.double()
    sides = [text(*axes, dtype=torch.float64) for axes in ((0, 5, 2), (0, 1, 2, 3))]

    def values(hypothesis: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        found = head(replace(sides[0], vectors=hypothesis), replace(sides[1], vectors=other))
        return torch.cat([found.wrong[found.present], found.missing[found.between]])

    inputs = [(one.vectors + 0.1 * torch.rand_like(one.vectors)).requires_grad_() for one in sides]
    assert torch.autograd.gradcheck(values, inputs)
    values(*inputs).sum().backward()
    assert head.log_temperature.grad is not None
    assert head.log_temperature.grad != 0


@pytest.mark.parametrize("sides", [((), (0, 1)), ((0, 1), ()), ((), ())], ids=["hypothesis", "reference", "both"])
def test_a_text_without_tokens_has_finite_evidence(sides, head):
    found = head(*(text(*axes) for axes in sides))
    assert all(torch.isfinite(one).all() for one in found)
    assert not (sides[0] == () and found.present.any())


def test_references_and_sources_are_calibrated_apart(head, tiny_encoder):
    head.take_calibration(0, 2.0, -1.0, 0.3)
    head.take_calibration(1, 1.0, 0.5, 0.6, side=1)
    metric = MetricModel.from_config(MetricConfig(encoder=str(tiny_encoder), mark_errors=True))
    metric.error_head = head
    of_references, of_sources = (error_calibration(metric, side) for side in (0, 1))
    assert (of_references.scales, of_sources.scales) == (((2.0, -1.0), (1.0, 0.0)), ((2.0, -1.0), (1.0, 0.5)))
    assert of_references.thresholds == pytest.approx((0.3, 0.5))
    assert of_sources.thresholds == pytest.approx((0.3, 0.6))


class Pieces:
    def __init__(self, vocabulary):
        self.vocabulary = vocabulary


def test_white_space_before_a_token_is_no_part_of_its_spelling():
    pieces = {"<s>": 0, "\u2581the": 1, "the": 2, "\u2581": 3, "\u2581dog": 4, "s": 5}
    assert spellings(Pieces(pieces)).first.tolist() == [0, 1, 1, 3, 4, 5]
    assert spellings(Pieces({"the": 0, "dog": 1})) is None
    letters = {"(": 0, "b": 1, ".": 2, "\u2581b": 3, "c": 4} | SPECIAL
    written = evidence(text(0, 3, 2), text(0, 1, 2), 0.05, spellings(Pieces(letters)))
    assert written.tokens[0, 1:4, TOKEN_EVIDENCE.index("kept")].tolist() == [1, 1, 1]
    assert evidence_of("kept", text(0, 3, 2), text(0, 1, 2)) == [1, 0, 1]
    further = evidence(text(3, 4, 2), text(3, 3, 4, 2), 0.05, spellings(Pieces(letters)))  # one is no further word
    assert further.tokens[0, 1:4, TOKEN_EVIDENCE.index("kept")].tolist() == [1, 1, 1]
    assert further.gaps[0, 1:5, GAP_EVIDENCE.index("lost")].tolist() == [1, 0, 0, 0]


def test_a_head_changes_no_score(tiny_encoder):
    texts = ["the dog went home", "a cat sat there"], ["the dog ran home", "a cat sat on the table"]
    scores = []
    for mark_errors in (False, True):
        metric = MetricModel.from_config(MetricConfig(encoder=str(tiny_encoder), mark_errors=mark_errors)).eval()
        with torch.no_grad():
            scores.append(metric(*map(metric.tokenize, texts)).score.tolist())
    assert scores[0] == scores[1]


@pytest.mark.parametrize("length", [3, 60])
def test_equal_texts_have_no_errors_however_long(head, length):
    axes = [place % 6 for place in range(length)]
    for found in (head(text(*axes), text(*axes)), plan_rule(evidence(text(*axes), text(*axes), 0.05))):
        assert found.wrong.max() < -10
        assert found.missing.max() < -10


SPECIAL = {"[CLS]": 100, "[SEP]": 101}
WORDS = {
    "WordPiece": ("a", "dog", "##s", "car", "b", "the", "##t"),
    "SentencePiece": ("a", "\u2581dog", "s", "\u2581car", "b", "\u2581the", "t"),
    "marks of Devanagari": ("a", "\u2581क", "ि", "\u2581है", "b", "\u2581दो", "ता"),
}


@pytest.mark.parametrize("pieces", WORDS.values(), ids=WORDS)
def test_tokens_have_the_edits_of_their_words(pieces):
    spelling = spellings(Pieces({piece: place for place, piece in enumerate(pieces)} | SPECIAL))
    found = evidence(text(5, 1, 2, 3), text(5, 3, 2, 6, 3), 0.05, spelling)  # the dogs car, the carst car
    for name, wanted in {"kept": [1, 0, 0, 1], "exchanged": [0, 1, 1, 0], "added": [0, 0, 0, 0]}.items():
        assert found.tokens[0, 1:5, TOKEN_EVIDENCE.index(name)].tolist() == wanted, name
    assert not found.gaps[0, :, GAP_EVIDENCE.index("lost")].any(), "a word of more tokens is no further word"
    lost = evidence(text(5, 3), text(5, 1, 2, 3), 0.05, spelling).gaps[0, :, GAP_EVIDENCE.index("lost")]
    assert lost.nonzero().flatten().tolist() == [2]


def test_a_word_ends_at_punctuation_and_begins_behind_it():
    pieces = dict(zip(("\u2581(", "dog", "s", ")", "\u2581dog"), range(5), strict=True)) | SPECIAL
    tokens = text(0, 1, 2, 3, 4)
    keys, (starts, ends) = spellings(Pieces(pieces)).units(tokens, tokens.input_ids, torch.tensor([False]))
    assert starts.tolist() == [[0, 1, 2, 2, 3, 4, 5]]
    assert ends.tolist() == [[1, 2, 3, 3, 4, 5, 6]]
    assert keys.unique().numel() == keys.shape[1] == 6


def test_a_head_from_before_edits_of_words_marks_as_it_did(head):
    old = {name: one for name, one in head.state_dict().items() if name != "words"}
    loaded = ErrorHead(8).eval()
    loaded.load_state_dict(old)
    sides, pieces = ((text(0, 1, 2, 5), text(0, 1, 1, 5)), spellings(Pieces({"the": 1, "##s": 2, "cat": 5} | SPECIAL)))
    torch.testing.assert_close(loaded(*sides, pieces), head(*sides), atol=0, rtol=0)
    assert not torch.equal(head(*sides, pieces).wrong, head(*sides).wrong)


def test_a_new_head_of_a_metric_without_one_reads_words(tiny_encoder, tmp_path):
    metric = MetricModel.from_config(MetricConfig(encoder=str(tiny_encoder)))
    assert load_checkpoint(save_checkpoint(metric, tmp_path / "a", card=""), mark_errors=True).error_head.words == 1
