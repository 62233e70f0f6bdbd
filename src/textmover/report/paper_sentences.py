"""Descriptions of metrics and significance tests for papers, generated from signatures."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping

from textmover.meta_evaluation.systems.paired_tests import comparison_signature
from textmover.report.table_formats import latex_text
from textmover.types import InputError, SegmentMetric, Signature

MATCHINGS: Mapping[str, str] = {
    "twmd": "tempered word mover similarity (TWMD)",
    "trwmd": "tempered relaxed word mover similarity (TRWMD)",
    "bertscore": "greedy matching of tokens (BERTScore)",
    "emd": "exact optimal transport (earth mover's distance)",
    "lazy-emd": "unbalanced optimal transport (Lazy-EMD)",
    "sinkhorn-divergence": "Sinkhorn divergence",
    "sbert": "mean cosine of all pairs of tokens",
    "sbert-pooled": "cosine of mean token vectors",
    "wordset-cka": "centred kernel alignment of the two sets of tokens",
    "rome": "RoMe",
}
"""Names of matchings, as used in a sentence."""


def _compared(value: str) -> str:
    kind, _, weighted = value.partition("-")
    group = {"others": "the other candidates", "all": "all candidates", "references": "references of their own"}[kind]
    return f"each candidate compared with {group}" + (", which have weights," if weighted else "")


PHRASES: Mapping[str, str | Mapping[str, str] | list[tuple[str, str]] | Callable[[str], str]] = {
    "encoder": [
        (r"([^+@]*)\+([^@]*)@(.+)", "over {} (weights {}, base sha256 {}…)"),
        (r"([^+@]*)\+([^@]*)", "over {} (weights {})"),
        (r"([^@]*)@(.+)", "over {} (sha256 {}…)"),
        (r"(.*)", "over {}"),
    ],
    "layer": "layer {}",
    "layers": lambda value: f"layers {value.replace('-', ' to ')}",
    "powers": lambda value: f"power means with exponents {value.replace(',', ', ')}",
    "T": "temperature {}",
    "epsilon": "entropic regularisation {}",
    "k": [
        (r"to(.+?)max(.+)", "iterated to a tolerance of {} (at most {} times)"),
        (r"to(.+)", "iterated to a tolerance of {}"),
        (r"(1)", "{} Sinkhorn iteration"),
        (r"(.*)", "{} Sinkhorn iterations"),
    ],
    "cost": lambda value: f"{value.replace('-', ' ').replace('euclid', 'Euclid')} cost",
    "output": {
        "distance": "reported as a distance",
        "inverse": "reported as 1/(1 + distance)",
        "": "reported as 1 minus the distance",
    },
    "lambda": lambda value: "penalties of {} (hypothesis) and {} (reference)".format(*value.split("/")),
    "alpha": "alpha {} of F",
    "norm": "the {}-norm of the losses of hypothesis tokens in precision",
    "same": "losses between the same tokens times {}",
    "features": lambda value: f"features {value.replace(',', ', ')}",
    "ngram": {"2": "bigrams", "sentence": "whole sentences", "": "{}-grams"},
    "special": {
        "keep": "special tokens kept",
        "drop": "special tokens dropped",
        "first": "the first special token kept",
        "targets": "special tokens as targets only",
        "": "special tokens {}",
    },
    "subwords": {"first": "the first piece of each word", "mean": "the mean of each word's pieces"},
    "punctuation": "no punctuation marks",
    "centering": {"none": "token vectors not centred", "": "token vectors centred by their {} mean"},
    "weights": [  # such as ``idf-smooth:sides@HASHES``
        (r"([^:@]*):corpus(?:@.*)?", "{} weights fitted on a corpus"),
        (r"([^:@]*):references(?:@.*)?", "{} weights fitted on the references of each call"),
        (r"([^:@]*):sides(?:@.*)?", "{} weights fitted on the references and the hypotheses of each call"),
        (r"([^:@]*):([^@]+).*", "{} weights fitted on {}"),
        (r"([^:@]*).*", "{} weights"),
    ],
    "normalized": {"yes": "normalised by the similarity of each text with itself", "": ""},
    "score": {"f": "", "precision": "precision", "recall": "recall"},
    "rescaled": "rescaled by a fitted baseline",
    "calibration": "calibrated on human ratings",
    "refs": {
        "best": "the best of several references",
        "mean": "the mean over several references",
        "all": "several references joined",
    },
    "long": [
        (r"truncate(\d+)", "texts cut after {} tokens"),
        (r"error(\d+)", "no texts of more than {} tokens"),
        (r"window(\d+)", "texts of more than {} tokens read in windows"),
        (r"(.*)", "long texts {}"),
    ],
    "precision": {"exact": "computed in float32", "bf16": "bfloat16", "fp16": "float16", "": "{} arithmetic"},
    "mbr": _compared,
    "backend": lambda value: f"back-end {value.replace('-', ' ')}",
}
"""Phrases for signature entries: a template, templates by value (``""`` for other values) or pattern, or a function."""

OMITTED_ENTRIES = {"textmover", "metric", "measure"}  # stated elsewhere in the paragraph or only in the signature


def describe_metric(name: str, metric: SegmentMetric, signature: Signature) -> str:
    """Return a paragraph for a paper that describes the metric and contains the full signature."""
    entries = signature.entries
    if "metric" not in entries:
        raise InputError(
            "Expected a signature that names its metric, but got one that does not: load the metric again."
        )
    matching = MATCHINGS.get(entries["metric"], f"the matching {entries['metric']}")
    phrases = [_phrase(key, value) for key, value in entries.items() if key not in OMITTED_ENTRIES]
    better = "higher is better" if metric.higher_is_better else "lower is better"
    return (
        f"We score with textmover {entries['textmover']}, metric {name}: {matching} "
        f"{', '.join(filter(None, phrases))}; {better}. Signature: {signature}"
    )


def _phrase(key: str, value: str) -> str:
    phrase = PHRASES.get(key, f"{key} {{}}")
    if isinstance(phrase, Mapping):
        value = value.partition("@")[0]  # drop the hash of fitted values
        phrase = phrase[value if value in phrase else ""]
    if isinstance(phrase, list):
        matches = ((re.fullmatch(pattern, value), template) for pattern, template in phrase)
        return next(template.format(*match.groups()) for match, template in matches if match is not None)
    return phrase.format(value) if isinstance(phrase, str) else phrase(value)


def latex_paragraph(paragraph: str) -> str:
    r"""Convert a paragraph to LaTeX; its signature is in typewriter type and may break after each entry.

    Example:
        >>> latex_paragraph("We score with x_y. Signature: metric:twmd|T:0.1")
        'We score with x\\_y. Signature: \\texttt{metric:twmd\\textbar{}\\allowbreak{}T:0.1}'
    """
    words, mark, signature = paragraph.partition("Signature: ")
    # In a signature, a hyphen before a digit is not a minus sign.
    parts = [re.sub(r"\$-\$", "-", latex_text(one)) for one in signature.split("|")]
    return f"{latex_text(words).rstrip()} {mark}" + "\\texttt{" + r"\textbar{}\allowbreak{}".join(parts) + "}"


# --- tests of systems -------------------------------------------------------------------------------------------------


def rank_tests(options: argparse.Namespace) -> str:
    """Return the signature of the tests and intervals of ``textmover rank``."""
    draws = options.trials if options.test == "randomisation" else options.samples
    test = comparison_signature(f"paired-{options.test}", draws, options.seed)
    return f"{test}|fewest:{options.fewest}|bootstrap:{options.samples}"


def describe_tests(command: str, options: argparse.Namespace) -> str | None:
    """Return a paragraph that describes a command's significance tests; ``None`` if it runs none."""
    if command not in ("compare", "rank"):
        return None
    bootstrap = f"paired bootstrap resampling of the segments ({options.samples:,} samples)"
    randomisation = f"paired approximate randomisation ({options.trials:,} trials)"
    if command == "compare":
        tests = (("paired-bootstrap", options.samples), ("paired-randomisation", options.trials))
        signature = ", ".join(comparison_signature(test, draws, options.seed) for test, draws in tests)
        return (
            f"We compare systems by {bootstrap} and by {randomisation}, seed {options.seed}; intervals are the "
            f"bootstrap's. Signature: {signature}"
        )
    test = randomisation if options.test == "randomisation" else bootstrap
    return (
        f"We rank systems by their mean score, in clusters at p < 0.05 of {test}, seed {options.seed}, among systems "
        f"that share at least {options.fewest} segments; intervals are of {options.samples:,} bootstrap samples. "
        f"Signature: {rank_tests(options)}"
    )
