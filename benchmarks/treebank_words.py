"""spaCy's English tokenizer, brought nearer to the words of the English Web Treebank."""

from __future__ import annotations

import re
from typing import Any

import spacy
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

__all__ = ["ABBREVIATIONS", "adapt_tokenizer"]

RUN = r"([!?=*_<>$~#+^-])\1+|[!?]{2,}|[.:]\?"
"""Marks in a row, which the treebank takes for one."""

BOUND = "anti|co|e|ex|inter|mid|multi|non|post|pre|pro|re|semi|sub|un"
"""Parts before a hyphen that are not words."""

WHOLE = rf"(?i:(?:{BOUND})-[a-z]+|\d{{3}}-\d{{4}}|(?:1-)?\d{{3}}-\d{{3}}-\d{{4}}|b/c|w/o|#\w+|{RUN})"
"""What is one word: compounds with a bound part, telephone numbers, tags, marks in a row."""

INFIXES = (r"(?<=[A-Za-z]{2})/(?=[A-Za-z]{2})", r"(?<=\d)(?=(?i:[ap]\.?m\.?$))")
"""Where a word ends within others: at a slash between two words, and between the hour and its half of the day."""

ABBREVIATIONS = ("Capt.", "Ft.", "Lt.", "No.", "etc.", "Reps.", "Attn.", "Wed.", "Fri.", "Mon.")
"""Words with a point of their own, which spaCy's English does not list."""


def adapt_tokenizer(nlp: Any) -> Any:
    """The pipeline, with rules of the treebank before spaCy's own."""
    defaults = nlp.Defaults
    tokenizer = nlp.tokenizer
    tokenizer.prefix_search = compile_prefix_regex([rf"(?:{RUN})", *defaults.prefixes]).search
    tokenizer.suffix_search = compile_suffix_regex([rf"(?:{RUN})", *defaults.suffixes]).search
    tokenizer.infix_finditer = compile_infix_regex([*INFIXES, *defaults.infixes]).finditer
    tokenizer.token_match = re.compile(rf"^{WHOLE}$").match
    tokenizer.add_special_case("and/or", [{"ORTH": "and"}, {"ORTH": "/"}, {"ORTH": "or"}])
    for word in ABBREVIATIONS:
        tokenizer.add_special_case(word, [{"ORTH": word}])
    return nlp


@spacy.registry.callbacks("textmover.treebank_words")
def treebank_words() -> Any:
    """What a configuration names to adapt the tokenizer before training."""
    return adapt_tokenizer
