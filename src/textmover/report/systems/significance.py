"""Descriptions of the tests of ``compare`` and ``rank`` for a paper, in words and as a signature."""

from __future__ import annotations

import argparse

from textmover.meta_evaluation.systems.paired_tests import comparison_signature


def rank_tests(options: argparse.Namespace) -> str:
    """Settings of the clusters and intervals of ``textmover rank``.

    Example:
        >>> rank_tests(argparse.Namespace(test="randomisation", samples=1000, trials=10000, seed=1, fewest=5))
        'test:paired-randomisation|samples:10000|seed:1|fewest:5|bootstrap:1000'
    """
    draws = options.trials if options.test == "randomisation" else options.samples
    test = comparison_signature(f"paired-{options.test}", draws, options.seed)
    return f"{test}|fewest:{options.fewest}|bootstrap:{options.samples}"


def describe_tests(command: str, options: argparse.Namespace) -> str | None:
    """A paragraph on the tests of a command with these options; ``None`` where it makes none.

    Args:
        command: Name of the command.
        options: Its options, with their defaults.

    Example:
        >>> describe_tests("compare", argparse.Namespace(samples=500, trials=10000, seed=3))[:72]
        'We compare systems by paired bootstrap resampling of the segments (500 s'
    """
    bootstrap = "paired bootstrap resampling of the segments"
    if command == "compare":
        tests = (("paired-bootstrap", options.samples), ("paired-randomisation", options.trials))
        signature = ", ".join(comparison_signature(test, draws, options.seed) for test, draws in tests)
        return (
            f"We compare systems by {bootstrap} ({options.samples:,} samples) and by paired approximate randomisation "
            f"({options.trials:,} trials), seed {options.seed}; intervals are the bootstrap's. Signature: {signature}"
        )
    if command != "rank":
        return None
    test = f"{bootstrap} ({options.samples:,} samples)"
    if options.test == "randomisation":
        test = f"paired approximate randomisation ({options.trials:,} trials)"
    return (
        f"We rank systems by their mean score, in clusters at p < 0.05 of {test}, seed {options.seed}, among systems "
        f"that share at least {options.fewest} segments; intervals are of {options.samples:,} bootstrap samples. "
        f"Signature: {rank_tests(options)}"
    )
