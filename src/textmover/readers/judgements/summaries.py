"""Summaries of TAC-2008 and TAC-2009 with their pyramid and responsiveness scores."""

from __future__ import annotations

import math
from pathlib import Path

from textmover.readers.judgements.json_documents import part, read_document
from textmover.readers.judgements.rows import JudgedText, assembled, check_unique
from textmover.readers.segments import FINITE, as_number
from textmover.types import InputError, Judgements

RATINGS = {"pyramid": "pyr_score", "responsiveness": "responsiveness"}
"""The key of each dimension in an annotation."""


def read_tac(path: str | Path, *, minimum_sentences: int = 2, name: str | None = None) -> Judgements:
    """Read the summaries of TAC-2008 or TAC-2009 in the JSON that MoverScore's authors used.

    The file is one object of topics. A topic has ``references``, each with its sentences as ``text``, and
    ``annotations``, each with the sentences of a system's summary as ``text``, its ``pyr_score``, its
    ``responsiveness`` and the number of the system as ``summ_id``. Sentences are joined by spaces.

    Args:
        path: The file, such as ``tac.08.mds.gen.resp-pyr``.
        minimum_sentences: Summaries of fewer sentences are left out and counted; MoverScore's script asks for 2.
        name: What tables call the set; else the name of the file.

    Returns:
        One row per summary, grouped by topic, since agreement is computed for each topic and averaged.

    Raises:
        InputError: If the file is not of this shape, a summary is without references, or no summary is left.

    Example:
        >>> path = getfixture("tmp_path") / "tac.json"
        >>> summary = '{"text": ["A cat.", "It sat."], "pyr_score": 0.5, "responsiveness": 3, "summ_id": "7"}'
        >>> topics = '{"D1": {"references": [{"text": ["The cat sat."]}], "annotations": [%s]}}' % summary
        >>> _ = path.write_text(topics)
        >>> judgements = read_tac(path)
        >>> judgements.hypotheses, judgements.systems
        (('A cat. It sat.',), ('7',))

    Reference:
        Zhao et al. 2019, MoverScore, section 4.2 and tables 2 and 8; the file is in the authors' repository.
    """
    topics = part(read_document(path), None, dict, str(path))
    texts: list[JudgedText] = []
    short = 0
    for topic, content in topics.items():
        place = f"topic {topic} of {path}"
        references = tuple(
            " ".join(_sentences(entry, f"reference {place_number} of {place}"))
            for place_number, entry in enumerate(part(content, "references", list, place), start=1)
        )
        if not any(references):
            raise InputError(f"Expected a reference in {place}, but got none: add one or remove the topic.")
        for place_number, entry in enumerate(part(content, "annotations", list, place), start=1):
            where = f"annotation {place_number} of {place}"
            sentences = _sentences(entry, where)
            if len(sentences) < minimum_sentences:
                short += 1
                continue
            texts.append(
                JudgedText(
                    place=where,
                    hypothesis=" ".join(sentences),
                    references=tuple(text for text in references if text),
                    ratings=tuple(_rating(entry, key, where) for key in RATINGS.values()),
                    group=topic,
                    item=topic,
                    system=str(entry.get("summ_id", "")),
                )
            )
    if not texts:
        raise InputError(
            f"Expected {path} to hold a summary of at least {minimum_sentences} sentences, but got none among {short}: "
            "lower `minimum_sentences` or give another file."
        )
    check_unique(texts, "give them `summ_id`s of their own")
    left_out = {f"fewer than {minimum_sentences} sentences": short} if short else {}
    return assembled(name or Path(path).name, texts, list(RATINGS), left_out=left_out)


def _sentences(entry: object, place: str) -> list[str]:
    """The sentences of a summary."""
    sentences = part(entry, "text", list, place)
    return [part(sentence, None, str, f"sentence {number} of {place}") for number, sentence in enumerate(sentences, 1)]


def _rating(entry: object, key: str, place: str) -> float:
    """A finite rating of a summary."""
    value = part(entry, None, dict, place).get(key)
    number = math.nan if isinstance(value, str) else as_number(value)
    if not math.isfinite(number):
        raise InputError(
            f"Expected `{key}` of {place} to be {FINITE}, but got {value!r}: correct it or remove the summary."
        )
    return number
