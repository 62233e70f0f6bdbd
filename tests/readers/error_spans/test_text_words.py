"""Words of texts in several scripts."""

import pytest

from textmover.readers.error_spans.text_words import text_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  A cat,\nsat… ", ["A", "cat", ",", "sat", "…"]),
        ("don't co-op 1,000.5 a.", ["don't", "co-op", "1,000.5", "a", "."]),
        ("snake_case 'quoted' -", ["snake_case", "'", "quoted", "'", "-"]),
        ("e\u0301te\u0301 हिन्दी", ["e\u0301te\u0301", "हिन्दी"]),
        ("我爱,カナ", ["我", "爱", ",", "カ", "ナ"]),
        ("👩\u200d👧 ok👍🏽", ["👩\u200d👧", "ok", "👍", "🏽"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("❤\ufe0f!", ["❤\ufe0f", "!"]),
    ],
)
def test_words(text, words):
    assert [text[start:stop] for start, stop in text_words(text)] == words
