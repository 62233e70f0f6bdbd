"""Computation of an experiment: read sets, score them, and fill tables and figures."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from textmover.experiments.page import Block
from textmover.experiments.papers.config import Experiment
from textmover.experiments.papers.data import absent_files, read_set
from textmover.experiments.papers.layers import analyse, draw_layers
from textmover.experiments.papers.metrics import ExperimentMetrics, Scored
from textmover.experiments.papers.results import Findings, questions, unanswerable
from textmover.experiments.papers.score_cache import KeptScores
from textmover.experiments.papers.table_blocks import draw_figure, figure_block, layer_block, table_blocks
from textmover.types import InputError

logger = logging.getLogger(__name__)

Advance = Callable[[str, int, int], None]
"""Called with what is done, how much of it was finished since the last call, and how much there is in all."""


def figure_path(page: Path, name: str) -> Path:
    """Path of a figure, beside its page.

    Example:
        >>> str(figure_path(Path("pages/twmd.md"), "heat"))
        'pages/twmd_heat.png'
    """
    return page.with_name(f"{page.stem}_{name}.png")


def compute(
    options: argparse.Namespace,
    experiment: Experiment,
    files: Mapping[str, str],
    output: Path | None,
    kept: KeptScores,
    advance: Advance,
) -> tuple[list[Block], list[str]]:
    """All tables and figures, the figures drawn where there is a page for them, and what has no value."""
    analysed: list[Block] = []
    spec = experiment.layers
    if spec is not None:  # first: it keeps nothing, so that nothing is lost where it fails
        layers = analyse(spec, files[spec.file], options, lambda done: advance("reading", done, spec.texts))
        figure = None if output is None else figure_path(output, spec.name)
        if figure is not None:
            draw_layers(layers.analysis, figure, layers.encoder)
        analysed.append(layer_block(layers, figure.name if figure else None))
    if not (experiment.tables or experiment.figures):
        return analysed, []
    blocks: list[Block] = []
    findings = _findings(options, experiment, files, kept, advance)
    for table in experiment.tables:
        blocks += table_blocks(findings.table(table))
    for one in experiment.figures:
        found = findings.figure(one)
        figure = None if output is None or found.empty else figure_path(output, one.name)
        if figure is not None:
            draw_figure(found, str(figure))
        blocks.append(figure_block(found, figure.name if figure else None))
    return [*_signed_once(blocks), *analysed], list(findings.gaps)


def _signed_once(blocks: Sequence[Block]) -> Iterator[Block]:
    seen: set[tuple[str, str]] = set()
    for one in blocks:
        yield replace(one, signatures=tuple(pair for pair in one.signatures if pair not in seen))
        seen.update(one.signatures)


def _findings(
    options: argparse.Namespace, experiment: Experiment, files: Mapping[str, str], kept: KeptScores, advance: Advance
) -> Findings:
    names = experiment.judged_sets
    absent = {name: how for name in names if (how := absent_files(experiment, name, files))}
    sets = {name: read_set(experiment, name, files) for name in names if name not in absent}
    hopeless = unanswerable(experiment, sets, options)
    for asked, reason in hopeless.items():
        logger.warning("%s: %s The rest is computed.", asked, reason)
    worth = {asked.set for asked in questions(experiment, sets) if asked not in hopeless}
    judged = {name: one for name, one in sets.items() if name in worth}
    wanted = {name: experiment.metrics_of_set(name) for name in judged}
    metrics = ExperimentMetrics(options, experiment, {metric for several in wanted.values() for metric in several})
    metrics.load(judged.values())
    total = sum(len(one) * metrics.steps(wanted[name]) for name, one in judged.items())
    scored: dict[str, dict[str, Scored]] = {}
    unscored: dict[str, str] = {}

    def score(name: str) -> None:
        try:
            with kept.keeping(name, judged[name]) as take:
                scored[name] = metrics.scores(
                    judged[name], wanted[name], lambda done: advance("scoring", done, total), take
                )
        except InputError as error:  # told under the tables, and at the end of the command
            unscored[name] = str(error)

    for name in judged:
        score(name)
    if unscored and not scored:
        raise InputError(next(iter(unscored.values())))
    return Findings(options, sets, scored, hopeless, absent, unscored, metrics.failed, metrics.fitted)
