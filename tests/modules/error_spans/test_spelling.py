"""Texts without spaces, whose pieces depend on their neighbours, are compared by characters."""

import pytest
import torch

from textmover.modules.error_spans.evidence import (
    GAP_EVIDENCE,
    TOKEN_EVIDENCE,
    Evidence,
    compared_units,
    evidence,
    spellings,
)
from textmover.modules.error_spans.head import ErrorHead
from textmover.types import TokenEmbeddings

PIECES = """
    <s> </s> \u2581 \u2581他 他在 他 在 北京 \u2581在北京 在北京 在南京 京 南京 工作 年 2020 2020年
    \u2581the \u2581dog \u2581cat \u2581saw \u2581in ผม ไป ผมไป ไม่ \u2581ผม
""".split()  # noqa: SIM905 - a list that is read as text
VOCABULARY = {piece: place for place, piece in enumerate(PIECES)}


class Pieces:
    vocabulary = VOCABULARY


SPELLING = spellings(Pieces())
assert SPELLING is not None


def batch(*texts: str) -> TokenEmbeddings:
    """Texts of pieces, written with a stroke between them, whose vectors are drawn by piece."""
    rows = [[0, *(VOCABULARY[piece] for piece in one.split("|") if piece), 1] for one in texts]
    size = max(map(len, rows))
    ids = torch.tensor([row + [0] * (size - len(row)) for row in rows])
    mask = torch.tensor([[place < len(row) for place in range(size)] for row in rows])
    special = torch.zeros_like(ids, dtype=torch.int8)
    for place, row in enumerate(rows):
        special[place, 0], special[place, len(row) - 1] = 1, 2
    vectors = torch.randn(len(PIECES), 8, generator=torch.Generator().manual_seed(0))[ids]
    return TokenEmbeddings(vectors * mask[:, :, None], mask, special, ids)


def marks(found: Evidence, row: int = 0) -> dict[str, str]:
    """Evidence of a text by name: a digit for each token, or for each gap."""
    tokens = {name: found.tokens[row, found.present[row], TOKEN_EVIDENCE.index(name)] for name in OF_TOKENS}
    gaps = {"lost": found.gaps[row, found.between[row], GAP_EVIDENCE.index("lost")]}
    return {name: "".join(str(int(one)) for one in values.tolist()) for name, values in {**tokens, **gaps}.items()}


OF_TOKENS = "same written", "kept", "exchanged", "added"
SAME = {
    "other pieces": ("\u2581他|在北京|工作", "他在|北京|工作"),
    "a mark of white space": ("\u2581他|\u2581在北京|\u2581|工作", "他在|北京|工作"),
    "a number in a piece": ("\u2581他|2020年", "他|2020|年"),
    "Thai": ("ผมไป|ไม่", "\u2581ผม|ไป|ไม่"),
}
CHANGED = {
    "one character is another": ("\u2581他|在南京|工作", "他在|北京|工作", "101", "101", "010", "000", "0000"),
    "one is missing": ("\u2581他|在|京|工作", "他在|北京|工作", "1111", "1111", "0000", "0000", "00100"),
    "one is missing within a piece": ("\u2581他|在南京", "他在|年|南京", "10", "10", "01", "00", "000"),
    "one is too many": ("\u2581他|在北京|工作", "他在|京|工作", "101", "101", "000", "010", "0000"),
}


@pytest.mark.parametrize(("hypothesis", "reference"), SAME.values(), ids=SAME)
def test_the_same_characters_in_other_pieces_are_no_errors(hypothesis, reference):
    found = evidence(batch(hypothesis), batch(reference), 0.05, SPELLING)
    assert found.equal.all()
    assert set(marks(found)["kept"]) == set(marks(found)["same written"]) == {"1"}
    torch.manual_seed(0)
    logits = ErrorHead(8).eval()(batch(hypothesis), batch(reference), SPELLING)
    assert max(logits.wrong[found.present].max(), logits.missing[found.between].max()) < -10
    assert not evidence(batch(hypothesis), batch(reference), 0.05).equal.any(), "by pieces alone they differ"


@pytest.mark.parametrize(
    ("hypothesis", "reference", "same", "kept", "exchanged", "added", "lost"), CHANGED.values(), ids=CHANGED
)
def test_pieces_are_edited_where_their_characters_are(hypothesis, reference, same, kept, exchanged, added, lost):
    found = marks(evidence(batch(hypothesis), batch(reference), 0.05, SPELLING))
    assert found == {"same written": same, "kept": kept, "exchanged": exchanged, "added": added, "lost": lost}


def test_texts_with_spaces_keep_their_evidence_to_the_bit_beside_others():
    english = "\u2581the|\u2581dog|\u2581saw|\u2581the|\u2581cat|在", "\u2581the|\u2581cat|\u2581saw|\u2581in|在"
    plain = evidence(*map(batch, english), 0.05)
    others = [("\u2581他|在南京|工作", "他在|北京|工作"), ("\u2581他|在北京", "\u2581the|\u2581dog")]
    mixed = evidence(*(batch(*side) for side in zip(english, *others, strict=True)), 0.05, SPELLING)
    alone = evidence(*map(batch, english), 0.05, SPELLING)
    size = plain.tokens.shape[1]
    for found in (mixed, alone):
        assert torch.equal(found.tokens[0, :size], plain.tokens[0])
        assert torch.equal(found.gaps[0, : size + 1], plain.gaps[0])
    for row, pair in enumerate(others, 1):
        by_itself = evidence(*map(batch, pair), 0.05, SPELLING)
        length = by_itself.tokens.shape[1]
        torch.testing.assert_close(mixed.tokens[row, :length], by_itself.tokens[0], atol=1e-6, rtol=0)
        assert marks(mixed, row) == marks(by_itself)


def test_units_are_characters_where_neither_text_has_spaces_and_words_elsewhere():
    """Each side has its own number of units; special tokens are one, and tokens are alike in either case."""
    hypotheses, others = batch("\u2581他|在南京", "\u2581the|\u2581dog"), batch("他在|北京", "\u2581the|\u2581cat")
    found = compared_units(others, hypotheses, SPELLING)
    assert [one.tolist() for one in found.lengths] == [[6, 4], [6, 4]]
    assert [one.tolist() for one in found.own] == [[[0, 1, 2, 5], [0, 1, 2, 3]], [[1, 2, 5, 6], [1, 2, 3, 4]]]
    assert [one.tolist() for one in found.theirs] == [[[0, 1, 3, 5], [0, 1, 2, 3]], [[1, 3, 5, 6], [1, 2, 3, 4]]]
    by_tokens = compared_units(others, hypotheses, None)
    assert (by_tokens.own, by_tokens.theirs) == (None, None)
    assert [one.tolist() for one in by_tokens.lengths] == [[4, 4], [4, 4]]
    assert torch.equal(by_tokens.same, by_tokens.tokens)
    kept = torch.tensor([[True, True, False, True]] * 2)
    assert found.alike(kept)[0].nonzero().tolist() == [[0, 0], [1, 1], [3, 3]], "a kept character is in either piece"
    assert torch.equal(by_tokens.alike(kept), by_tokens.tokens)
