r"""Document frequencies of English words, which RoMe weighs words by if no other table was fitted.

``words.safetensors`` holds the words that at least three sentences hold, in lower case, with their numbers, and in its
metadata the corpora with their licences, the parser that found the words, and the seed of the draw. Any other word has
the highest weight. Plain text files make it again::

    python -m textmover.checkpoints.shipped.words words.safetensors --column sentence \
        --corpus "UD English EWT, CC BY-SA 4.0" ud_ewt_sentences.txt all \
        --corpus "WikiText-2 validation and test, CC BY-SA 3.0" wikitext2_valid_test_sentences.tsv all \
        --corpus "WMT newstest 2015-2016, English side, free for research" wmt_newstest_english.tsv all \
        --corpus "Tatoeba (LASER's selection), CC BY 2.0 FR" tatoeba_laser_eng.txt 20000
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from importlib import resources

from torch import Tensor

from textmover.checkpoints.shipped.__main__ import write_fitted
from textmover.rome.features.words import WordIdf
from textmover.rome.parsers.names import load_parser
from textmover.types import SegmentMetric

logger = logging.getLogger(__name__)

WORDS = "words.safetensors"
"""File with the words and their numbers."""

FEWEST = 3
"""Sentences that a word has to be in to be listed: names and slips of the pen would make nine tenths of the file."""

BATCH = 512


def fill_idf(metric: SegmentMetric) -> bool:
    """Give a metric whose table of words has not been fitted, and is not to be fitted on each call, the shipped one."""
    table = metric.statistics.get("idf")
    if not isinstance(table, WordIdf) or table.fitted or metric.fits_on_call:
        return False
    from safetensors.torch import load

    found = load(resources.files(__package__).joinpath(WORDS).read_bytes())
    table.load_state_dict({**table.state_dict(), **{name: found[name] for name in ("words", "counts", "documents")}})
    logger.info("Weights of words: shipped, of %d sentences.", int(table.documents))
    return True


def count_words(texts: Sequence[Sequence[str]], fewest: int = FEWEST) -> dict[str, Tensor]:
    """State of a table of those words that at least ``fewest`` of the texts hold, each given by its words."""
    counted = WordIdf()
    counted.add_words(texts)
    frequent = counted.most_frequent(fewest)
    return {name: one for name, one in frequent.state_dict().items() if name in ("words", "counts", "documents")}


def _words(drawn: Mapping[str, list[str]]) -> tuple[Mapping[str, Tensor], Mapping[str, str]]:
    parser = load_parser()
    words: list[tuple[str, ...]] = []
    for texts in drawn.values():
        for start in range(0, len(texts), BATCH):
            words += [one.words for one in parser(texts[start : start + BATCH])]
            logger.info("%d sentences", len(words))
    tensors = count_words(words)
    about = {
        "parser": parser.identity,
        "corpora": json.dumps({name: len(texts) for name, texts in drawn.items()}),
        "words": str(len(tensors["counts"]) - 1),
        "fewest": str(FEWEST),
    }
    return tensors, about


def main(arguments: Sequence[str] | None = None) -> None:
    """Count on the files that the arguments name, and write the words."""
    write_fitted("python -m textmover.checkpoints.shipped.words", __doc__, _words, arguments)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    main()
