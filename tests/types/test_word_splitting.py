"""Words of texts in several scripts."""

import itertools
import random
import unicodedata

import pytest
import regex  # comes with the tokenizers of transformers

from textmover.types.word_splitting import SCRIPTS, UNSPACED, goes_on, text_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  A cat,\nsat… ", ["A", "cat", ",", "sat", "…"]),
        ("don't co-op 1,000.5 a.", ["don't", "co-op", "1,000.5", "a", "."]),
        ("snake_case 'quoted' -", ["snake_case", "'", "quoted", "'", "-"]),
        ("e\u0301te\u0301 हिन्दी", ["e\u0301te\u0301", "हिन्दी"]),
        ("我爱,カナ", ["我", "爱", ",", "カ", "ナ"]),
        ("👩\u200d👧 ok👍🏽", ["👩\u200d👧", "ok", "👍🏽"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("❤\ufe0f!", ["❤\ufe0f", "!"]),
        ("น้ำส้ม ๑๒", ["น้ำ", "ส้", "ม", "๑๒"]),
        ("ເຂົ້າ", ["ເ", "ຂົ້", "າ"]),
        ("ខ្ញុំ", ["ខ្ញុំ"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("👍🏽🇩🇪🇫🇷 👨\u200d👩\u200d👧1️⃣", ["👍🏽", "🇩🇪", "🇫🇷", "👨\u200d👩\u200d👧", "1️⃣"]),
        ("人々〇ｶﾞ", ["人", "々", "〇", "ｶﾞ"]),
    ],
)
def test_words(text, words):
    assert [text[start:stop] for start, stop in text_words(text)] == words


def test_scripts_without_spaces_are_those_of_the_tokenizers():
    """But Tibetan and Bopomofo, whose runs of letters are syllables: marks or spaces part them."""
    letters = "".join(one for one in map(chr, range(0x250, 0x10000)) if one.isalpha())
    for script, ranges in SCRIPTS.items():
        base = [one for one in regex.findall(f"[{ranges}]", letters) if not goes_on("x" + one, 1)][:40]
        apart = [len(text_words(one + other)) == 2 for one, other in itertools.pairwise(base)]
        assert all(apart) if base and UNSPACED.match(base[0]) else not any(apart), script
    assert [len(text_words(one)) for one in ("བོད་ཡིག", "ㄅㄆ")] == [3, 1]


@pytest.mark.parametrize(("first", "last", "size"), [(0xE01, 0xE5B, 60), (0xE81, 0xEDF, 60)], ids=["Thai", "Lao"])
def test_letters_keep_their_marks_as_unicode_has_it(first, last, size):
    """Grapheme clusters (Unicode annex 29) of random letters, vowels above and below, and tones."""
    rng = random.Random(0)
    known = [one for one in map(chr, range(first, last + 1)) if unicodedata.category(one)[0] in "LM"]
    for _ in range(200):
        text = "".join(rng.choices(known, k=rng.randint(1, size)))
        found = [text[start:stop] for start, stop in text_words(text)]
        assert found == regex.findall(r"\X", text)
        assert [place for place in range(1, len(text)) if not goes_on(text, place)] == list(
            itertools.accumulate(map(len, found[:-1]))
        )


def test_an_emoji_goes_on_to_its_end():
    text = "👍🏽a👨\u200d👩🇩🇪"
    assert [place for place in range(1, len(text)) if not goes_on(text, place)] == [2, 3, 6]


def test_letters_of_a_hangul_syllable_go_on():
    text = unicodedata.normalize("NFD", "간다 가")
    assert [place for place in range(1, len(text)) if not goes_on(text, place)] == [3, 5, 6]
    assert text_words(text) == ((0, 5), (6, 8))
