"""Build the scorer that command-line options describe."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from textmover.checkpoints.checkpoint_files import CONFIG
from textmover.checkpoints.hub import (
    AUTO,
    DEFAULT_METRIC,
    DEFAULT_PRESET,
    MULTILINGUAL_METRIC,
    default_metric,
    is_metric,
    released_folder,
)
from textmover.checkpoints.loading import checkpoint_folder
from textmover.checkpoints.statistics_files import FIT_COMMANDS, unfitted_statistics
from textmover.modules.encoder.source import MULTILINGUAL
from textmover.modules.tokens.text_flags import is_english
from textmover.readers import column_flags
from textmover.readers.segments import OptionalColumn, read_lines
from textmover.safe_reading import read_json
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.metric_field_options import FIELD, field_flag, given_fields, metric_fields
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_statistics import check_sources
from textmover.types import InputError

logger = logging.getLogger(__name__)

ENOUGH = 100  # minimum number of texts for reliable statistics


def take_default(options: argparse.Namespace) -> None:
    """Set the default metric if the options name none."""
    if options.model is None:
        options.model = default_metric(given_fields(options))


def references_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the reference columns without duplicates."""
    default = _compared_column(options, "reference", "source")
    return tuple(dict.fromkeys(options.reference_column or ([default] if default else [])))


def source_column(options: argparse.Namespace) -> str | None:
    """Return the source column: the one given, or the default if the metric uses sources."""
    return getattr(options, "source_column", None) or _compared_column(options, "source", "reference")


def _compared_column(options: argparse.Namespace, side: str, other: str) -> str | None:
    """Return the default column of a side if a metric uses it; it may be missing if all metrics accept ``other``.

    With ``--model auto`` the column is optional, since the metric is chosen by the columns present.
    """
    model = getattr(options, "model", None)
    optional = []
    for name in model if isinstance(model, list) else [model]:
        if name == AUTO:
            optional.append(True)
            continue
        folder = None if name is None else checkpoint_folder(name, getattr(options, "revision", None))
        metric_config = read_json(folder / CONFIG).get("metric") if folder and is_metric(folder / CONFIG) else None
        for setting in getattr(options, "swept", [{}]):
            fields = (metric_config if isinstance(metric_config, dict) else {}) | given_fields(options) | setting
            fallback = fields.get("fallback", False)
            if fallback or fields.get("mode", "reference") != other:
                optional.append(fallback)
    return (OptionalColumn(side) if all(optional) else side) if optional else None


def take_by_language(
    options: argparse.Namespace,
    hypotheses: Iterable[str],
    references: Iterable[Sequence[str]],
    swept: Collection[str] = (),
) -> None:
    """Resolve ``--model auto``: the default metric if all sides are English and there is no source."""
    if options.model != AUTO:
        return
    if "encoder" in (*given_fields(options), *swept):
        raise InputError("Expected `--model auto` or `--encoder`, but got both: name the metric to choose its encoder.")
    references = list(references)
    sides = {"hypotheses": list(hypotheses), "references": [text for texts in references for text in texts]}
    has_option = getattr(options, "source_column", None) or getattr(options, "sources", None)
    has_sources = has_option or (references and all(not one and getattr(one, "source", None) for one in references))
    foreign = [name for name, texts in sides.items() if not is_english(texts)]
    if not foreign and not has_sources:
        options.model = DEFAULT_METRIC
        return
    if released_folder(MULTILINGUAL_METRIC):
        options.model = choice = MULTILINGUAL_METRIC
    else:
        options.model = DEFAULT_PRESET
        setattr(options, f"{FIELD}encoder", MULTILINGUAL)
        choice = f"{DEFAULT_PRESET} on {MULTILINGUAL}"
    reason = "sources are given" if has_sources else f"the {' and '.join(foreign)} do not look English"
    logger.warning("`--model auto` takes %s, since %s.", choice, reason)


def build_scorer(options: argparse.Namespace, memory: EncoderMemory | None = None, **changes: Any) -> Scorer:
    """Build the scorer that the options describe; its statistics may be unfitted."""
    memory = _memory(options) if memory is None else memory
    presets = {name: f"--model {name}" for name in ("twmd", "rome")}
    names = (*metric_fields(), "backend", "device", "precision")
    with column_flags.errors_with_flag_names({**{name: field_flag(name) for name in names}, **presets}):
        return Scorer.from_pretrained(
            options.model,
            precision=options.precision,
            backend=options.backend,
            device=options.device,
            batch_tokens=options.batch_tokens,
            cache=not options.no_cache,
            progress=not options.quiet,
            revision=options.revision,
            statistics=options.statistics or (),
            memory=memory,
            **{**given_fields(options), **changes},
        )


def load_scorer(
    options: argparse.Namespace, memory: EncoderMemory | None = None, *, one_of_several: bool = False, **changes: Any
) -> Scorer:
    """Build the scorer that the options describe, with fitted statistics."""
    fitting = None if options.fit_on is None else read_lines(options.fit_on)
    scorer = build_scorer(options, memory, **changes)
    if not one_of_several and any(getattr(options, name, None) is not None for name in ("sources", "source_column")):
        check_sources(scorer.metric)
    if fitting is not None and (scorer.metric.statistics or not one_of_several):
        warn_of_few(len(fitting), "the statistics of `--fit-on`")
        return scorer.fit(fitting)
    missing = unfitted_statistics(scorer.metric)
    if missing:
        commands = " and ".join(f"`textmover {one}`" for one in dict.fromkeys(FIT_COMMANDS[name] for name in missing))
        raise InputError(
            f"Expected the corpus statistics ({', '.join(missing)}) of {options.model} to be fitted, but they are not: "
            f"give texts to fit them on with --fit-on FILE (one a line), a file that {commands} wrote with "
            "--statistics FILE, or a trained checkpoint."
        )
    return scorer


def warn_of_few(texts: int, purpose: str) -> None:
    """Warn if statistics are fitted on too few texts."""
    if texts < ENOUGH:
        logger.warning("Fitted on few texts (%d) for %s: give at least %d.", texts, purpose, ENOUGH)


def folder_limit(options: argparse.Namespace) -> int:
    """Return the maximum size in bytes of the folder of ``--cache``."""
    limit: float | None = getattr(options, "cache_limit", None)
    if limit is None:
        return 1 << 33
    if options.cache is None:
        raise InputError("Expected `--cache-limit` together with --cache, but got it alone: name the folder.")
    if not 0 < limit < math.inf:
        raise InputError(f"Expected `--cache-limit` to be a size in GiB above 0, but got {limit:g}.")
    return int(limit * 2**30)


def _memory(options: argparse.Namespace) -> EncoderMemory | None:
    limit = folder_limit(options)
    if getattr(options, "cache", None) is None:
        return None
    if options.no_cache:
        raise InputError("Expected `--cache` or `--no-cache`, but got both: leave one out.")
    return EncoderMemory(folder=options.cache, folder_limit=limit)
