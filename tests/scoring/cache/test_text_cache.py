"""What is kept of texts stays within its bound, and the longest unused goes first."""

import copy
import threading

import numpy as np
import torch

from textmover.scoring.cache.text_cache import TextCache
from textmover.types import PackedEmbeddings as Chunk


def chunk(*values: float) -> Chunk:
    """One text of one token for each value; 4 + 1 bytes each."""
    count = len(values)
    tokens = {
        "vectors": torch.tensor(values, dtype=torch.float32)[:, None],
        "special": torch.zeros(count).to(torch.int8),
    }
    return Chunk(np.ones(count, dtype=np.int64), tokens)


def found(cache: TextCache, *texts: str) -> dict[str, float]:
    return {
        name: value
        for names, kept in cache.find(texts)
        for name, value in zip(names, kept.tokens["vectors"][:, 0].tolist(), strict=True)
    }


def test_what_was_kept_is_found_under_its_name():
    cache = TextCache(1000)
    cache.keep(["a", "b", "c"], chunk(1, 2, 3))
    cache.keep(["d"], chunk(4))
    assert found(cache, "c", "x", "a", "d") == {"c": 3, "a": 1, "d": 4}
    assert found(cache, "c", "b", "a") == {"a": 1, "b": 2, "c": 3}
    assert len(cache) == 4
    assert cache.nbytes == 4 * 5
    cache.clear()
    assert found(cache, "a") == {}
    assert len(cache) == cache.nbytes == 0


def test_a_whole_chunk_is_handed_out_as_it_is():
    cache, kept = TextCache(1000), chunk(1, 2)
    cache.keep(["a", "b"], kept)
    assert cache.find(["b", "a"])[0][1] is kept


def test_the_longest_unused_is_forgotten():
    cache = TextCache(3 * 5)
    for number, name in enumerate("abc"):
        cache.keep([name], chunk(number))
    found(cache, "a")
    cache.keep(["d"], chunk(9))
    assert found(cache, *"abcd") == {"a": 0, "c": 2, "d": 9}
    assert cache.nbytes == 3 * 5


def test_what_is_larger_than_the_bound_is_not_kept():
    cache = TextCache(9)
    cache.keep(["a", "b"], chunk(1, 2))
    assert len(cache) == cache.nbytes == 0
    cache.keep(["a"], chunk(1))
    assert found(cache, "a", "b") == {"a": 1}


def test_a_text_that_was_kept_anew_survives_its_older_chunk():
    cache = TextCache(3 * 5)
    cache.keep(["a", "b"], chunk(1, 2))
    cache.keep(["a"], chunk(5))
    cache.keep(["c"], chunk(6))
    assert found(cache, *"abc") == {"a": 5, "c": 6}


def test_copies_start_empty():
    cache = TextCache(100)
    cache.keep(["a"], chunk(1))
    copied = copy.deepcopy(cache)
    assert found(copied, "a") == {}
    assert (len(copied), copied.nbytes, copied.limit) == (0, 0, 100)
    copied.keep(["b"], chunk(2))
    assert found(cache, "a", "b") == {"a": 1}


def test_a_text_that_was_kept_twice_is_forgotten_once():
    cache = TextCache(25)  # two chunks
    cache.keep(["K", "A"], chunk(1, 2))
    cache.keep(["K", "B"], chunk(1, 3))
    assert found(cache, "A") == {"A": 2}
    cache.keep(["X", "Y"], chunk(4, 5))
    assert found(cache, "K", "B") == {}  # the later chunk went first
    cache.keep(["Z", "W"], chunk(6, 7))
    cache.keep(["V", "U"], chunk(8, 9))
    assert found(cache, "K", "A", "B", "V") == {"V": 8}
    assert cache.nbytes <= cache.limit


def test_another_thread_clears_between_two_uses_and_never_amid_one():
    cleared = threading.Event()

    class Slow:
        """Takes its time when texts are looked up."""

        nbytes = 1

        def __len__(self):
            return 2

        def select(self, rows):
            thread.start()
            assert not cleared.wait(0.1)
            return self

    def clear():
        cache.clear()
        cleared.set()

    thread = threading.Thread(target=clear)
    cache = TextCache(9)
    cache.keep(["a", "b"], Slow())
    assert len(cache.find(["a"])) == 1
    thread.join(10)
    assert cleared.is_set()
    assert len(cache) == cache.nbytes == 0
    assert len(copy.deepcopy(cache).find(["a"])) == 0
