"""What parsers share: clean text in, spans of the given text out, each text once, and a bounded memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.rome.shared import parsed

from textmover.rome.parsers.pipelines import MAX_LENGTH, CachedParser
from textmover.types import InputError, Parser


class Chain(CachedParser):
    """Words between single spaces, each of which depends on the one before."""

    batch_texts = 3
    batch_characters = 20
    identity = "chain"

    def __init__(self, cached_words=100):
        super().__init__("chain", cached_words)
        self.batches = []
        self.inside = 0

    def _parse(self, texts):
        self.inside += 1
        assert self.inside == 1, "two threads at once"
        self.batches.append(texts)
        for text in texts:
            yield parsed(text.split(" "), range(-1, text.count(" ")))
        self.inside -= 1


def test_is_a_parser():
    assert isinstance(Chain(), Parser)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A b", "A b"),
        ("  A \n\n b\t", "A b"),
        ("A\u00a0b\u2003\u2028c\x85d\x1ce", "A b c d e"),
        ("A\ud800 \udc00b", "A\ufffd \ufffdb"),
        ("\u200bA\u200b", "\u200bA\u200b"),  # can be seen by none, but is no white space
    ],
)
def test_model_reads_clean_text_and_words_are_those_of_the_given_one(text, read):
    parser = Chain()
    (parsed,) = parser([text])
    assert parser.batches == [[read]]
    assert parsed.words == tuple(text.split())
    assert tuple(text[start:end] for start, end in parsed.spans) == parsed.words
    assert parsed.heads == tuple(range(-1, len(parsed) - 1))


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000"])
def test_text_without_words_is_not_given_to_the_model(text):
    parser = Chain()
    assert [len(one) for one in parser([text, "a", text])] == [0, 1, 0]
    assert parser.batches == [["a"]]


def test_each_text_is_parsed_once_with_others_of_its_length():
    parser = Chain()
    texts = ["a b c d e f g h i j k l", "b", "a b", "b", "a c", "a"]
    assert [one.words for one in parser(texts)] == [tuple(text.split()) for text in texts]
    assert parser.batches == [["b", "a", "a b"], ["a c"], ["a b c d e f g h i j k l"]]
    parser(["a", "a b c", "b"])
    assert parser.batches[3:] == [["a b c"]]


def test_keeps_the_latest_used_within_its_number_of_words():
    parser = Chain(cached_words=4)
    parser(["a b", "c d"])
    parser(["a b"])
    parser(["e f"])  # pushes out "c d", which was used before "a b"
    parser.batches.clear()
    parser(["a b", "e f"])
    assert parser.batches == []
    parser(["a b c d e"])  # would not fit by itself, and pushes out nothing
    parser(["a b", "e f"])
    assert parser.batches == [["a b c d e"]]
    assert parser._total_words == 4


def test_keeps_nothing_where_it_may_not():
    parser = Chain(cached_words=0)
    assert [len(one) for one in parser(["a b", "c", "a b"])] == [2, 1, 2]
    parser(["c"])
    assert parser.batches[-1] == ["c"]


def test_threads_share_it():
    parser = Chain(cached_words=10)
    start = threading.Barrier(8)

    def work(number):
        start.wait()
        texts = [f"t{(number + step) % 7} x" for step in range(40)]
        return [one.words for one in parser(texts)] == [tuple(text.split()) for text in texts]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_refuses_what_is_no_list_of_texts():
    with pytest.raises(InputError, match=r"list of texts, but got one text: put it into a list"):
        Chain()("a text")
    with pytest.raises(InputError, match="to be texts, but got NoneType"):
        Chain()(["a", None])
    with pytest.raises(InputError, match="at most 1,000,000 characters to be parsed, but got 1,000,001: split"):
        Chain()(["a" * (MAX_LENGTH + 1)])
    with pytest.raises(InputError, match="`cached_words` to be at least 0, but got -1"):
        Chain(-1)
