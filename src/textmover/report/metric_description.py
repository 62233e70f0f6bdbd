"""Descriptions of metrics for a paper: the signature as a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

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
"""Names of matchings in a sentence."""

Phrase = Callable[[str], str]

PHRASES: Mapping[str, Phrase] = {
    "encoder": lambda value: f"over {_encoder(value)}",
    "layer": lambda value: f"layer {value}",
    "layers": lambda value: f"layers {value.replace('-', ' to ')}",
    "powers": lambda value: f"power means with exponents {value.replace(',', ', ')}",
    "T": lambda value: f"temperature {value}",
    "epsilon": lambda value: f"entropic regularisation {value}",
    "k": lambda value: _iterations(value),
    "cost": lambda value: f"{value.replace('-', ' ').replace('euclid', 'Euclid')} cost",
    "output": lambda value: {"distance": "reported as a distance", "inverse": "reported as 1/(1 + distance)"}.get(
        value, "reported as 1 minus the distance"
    ),
    "lambda": lambda value: "penalties of {} (hypothesis) and {} (reference)".format(*value.split("/")),
    "alpha": lambda value: f"alpha {value} of F",
    "features": lambda value: f"features {value.replace(',', ', ')}",
    "ngram": lambda value: {"2": "bigrams", "sentence": "whole sentences"}.get(value, f"{value}-grams"),
    "special": lambda value: {
        "keep": "special tokens kept",
        "drop": "special tokens dropped",
        "first": "the first special token kept",
        "targets": "special tokens as targets only",
    }.get(value, f"special tokens {value}"),
    "subwords": lambda value: {"first": "the first piece of each word", "mean": "the mean of each word's pieces"}[
        value
    ],
    "punctuation": lambda value: "no punctuation marks",
    "centering": lambda value: (
        "token vectors not centred"
        if value == "none"
        else f"token vectors centred by their {value.partition('@')[0]} mean"
    ),
    "weights": lambda value: _weights(value),
    "normalized": lambda value: "normalised by the similarity of each text with itself" if value == "yes" else "",
    "score": lambda value: {"f": "", "precision": "precision", "recall": "recall"}[value],
    "rescaled": lambda value: "rescaled by a fitted baseline",
    "calibration": lambda value: "calibrated on human ratings",
    "refs": lambda value: {
        "best": "the best of several references",
        "mean": "the mean over several references",
        "all": "several references joined",
    }[value],
    "long": lambda value: _long(value),
    "precision": lambda value: {"exact": "computed in float32", "bf16": "bfloat16", "fp16": "float16"}.get(
        value, f"{value} arithmetic"
    ),
    "mbr": lambda value: _compared(value),
    "backend": lambda value: f"back-end {value.replace('-', ' ')}",
}
"""Wordings of a signature's entries; others are given as they are."""

LEFT_OUT = frozenset({"textmover", "metric", "measure"})
"""Entries that the sentence says elsewhere or leaves to the signature."""


def describe_metric(name: str, metric: SegmentMetric, signature: Signature) -> str:
    """A paragraph for a paper: what scored, in words, and the full signature.

    Args:
        name: What the metric is called.
        metric: The metric.
        signature: Everything that its scores depend on.
    """
    entries = signature.entries
    if "metric" not in entries:
        raise InputError(
            "Expected a signature that names its metric, but got one that does not: load the metric again."
        )
    matching = MATCHINGS.get(entries["metric"], f"the matching {entries['metric']}")
    said = [_said(key, value) for key, value in entries.items() if key not in LEFT_OUT]
    better = "higher is better" if metric.higher_is_better else "lower is better"
    return (
        f"We score with textmover {entries['textmover']}, metric {name}: {matching} "
        f"{', '.join(one for one in said if one)}; {better}. Signature: {signature}"
    )


def latex_paragraph(paragraph: str) -> str:
    r"""A paragraph as LaTeX, its signature in typewriter type that may break behind each entry.

    Example:
        >>> latex_paragraph("We score with x_y. Signature: metric:twmd|T:0.1")
        'We score with x\\_y. Signature: \\texttt{metric:twmd\\textbar{}\\allowbreak{}T:0.1}'
    """
    from textmover.report.evaluation.latex import latex_text

    words, mark, signature = paragraph.partition("Signature: ")
    # A hyphen in front of a digit is not a minus sign here.
    parts = [re.sub(r"\$-\$", "-", latex_text(one)) for one in signature.split("|")]
    return f"{latex_text(words).rstrip()} {mark}" + "\\texttt{" + r"\textbar{}\allowbreak{}".join(parts) + "}"


def _said(key: str, value: str) -> str:
    phrase = PHRASES.get(key)
    return f"{key} {value}" if phrase is None else phrase(value)


def _encoder(value: str) -> str:
    """``name+weights@sha`` in words."""
    name, _, base = value.partition("@")
    name, _, trained = name.partition("+")
    told = [f"weights {trained}"] if trained else []
    told += [f"{'base ' if trained else ''}sha256 {base}…"] if base else []
    return f"{name} ({', '.join(told)})" if told else name


def _weights(value: str) -> str:
    """``idf-smooth:sides@prints`` in words."""
    kind, _, fitted = value.partition("@")[0].partition(":")
    on = {
        "corpus": "a corpus",
        "references": "the references of each call",
        "sides": "the references and the hypotheses of each call",
    }.get(fitted, fitted)
    return f"{kind} weights" + (f" fitted on {on}" if on else "")


def _compared(value: str) -> str:
    """Describe what candidates are compared with."""
    kind, _, weighted = value.partition("-")
    said = {"others": "the other candidates", "all": "all candidates", "references": "references of their own"}[kind]
    return f"each candidate compared with {said}" + (", which have weights," if weighted else "")


def _iterations(value: str) -> str:
    if value.startswith("to"):
        tolerance, _, most = value.removeprefix("to").partition("max")
        return f"iterated to a tolerance of {tolerance}" + (f" (at most {most} times)" if most else "")
    return f"{value} Sinkhorn iteration{'' if value == '1' else 's'}"


def _long(value: str) -> str:
    policy = value.rstrip("0123456789")
    limit = value.removeprefix(policy)
    said = {
        "truncate": "texts cut behind {} tokens",
        "error": "no texts of more than {} tokens",
        "window": "texts of more than {} tokens read in windows",
    }.get(policy)
    return f"long texts {value}" if said is None or not limit else said.format(limit)
