"""The scorer that a command's options describe."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from textmover.checkpoints.files import CONFIG
from textmover.checkpoints.hub import AUTO as AUTO
from textmover.checkpoints.hub import (
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
from textmover.modules.tokens.reliability_flags import is_english
from textmover.readers import column_options
from textmover.readers.segments import IfThere, read_lines
from textmover.safe_reading import read_json
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.config_options import FIELD, field_flag, given_fields, metric_fields
from textmover.scoring.scorer import Scorer
from textmover.scoring.scorer_statistics import check_sources
from textmover.types import InputError

logger = logging.getLogger(__name__)

ENOUGH = 100  # texts from which on a statistic can be trusted


def take_default(options: argparse.Namespace) -> None:
    """Name the metric of a command that scores with one, where the options do not."""
    if options.model is None:
        options.model = default_metric(given_fields(options))


def references_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Columns of references, each once."""
    default = _compared_column(options, "reference", "source")
    return tuple(dict.fromkeys(options.reference_column or ([default] if default else [])))


def source_column(options: argparse.Namespace) -> str | None:
    """Column of sources, which metrics that read them have without an option."""
    return getattr(options, "source_column", None) or _compared_column(options, "source", "reference")


def _compared_column(options: argparse.Namespace, side: str, other: str) -> str | None:
    """Default column of a side that metrics compare with; all of them do without it if all fall back on the other.

    ``--model auto`` takes what is there, and then a metric that reads it.
    """
    model = getattr(options, "model", None)
    lenient = []
    for name in model if isinstance(model, list) else [model]:
        if name == AUTO:
            lenient.append(True)
            continue
        folder = None if name is None else checkpoint_folder(name, getattr(options, "revision", None))
        own = read_json(folder / CONFIG).get("metric") if folder and is_metric(folder / CONFIG) else None
        for swept in getattr(options, "swept", [{}]):
            fields = (own if isinstance(own, dict) else {}) | given_fields(options) | swept
            fallback = fields.get("fallback", False)
            if fallback or fields.get("mode", "reference") != other:
                lenient.append(fallback)
    return (IfThere(side) if all(lenient) else side) if lenient else None


def read_before(options: argparse.Namespace) -> int:
    """Segments to read before the metric is loaded: one that may be refused, some to tell the language of all."""
    return 256 if options.model == AUTO else 1


def take_by_language(
    options: argparse.Namespace,
    hypotheses: Iterable[str],
    references: Iterable[Sequence[str]],
    swept: Collection[str] = (),
) -> None:
    """Name the metric of ``--model auto``, if that is asked for: the default one where all sides are English."""
    if options.model != AUTO:
        return
    if "encoder" in (*given_fields(options), *swept):
        raise InputError("Expected `--model auto` or `--encoder`, but got both: name the metric to choose its encoder.")
    references = list(references)
    sides = {"hypotheses": list(hypotheses), "references": [text for one in references for text in one]}
    asked = getattr(options, "source_column", None) or getattr(options, "sources", None)
    sourced = asked or (references and all(not one and getattr(one, "source", None) for one in references))
    foreign = [name for name, texts in sides.items() if not is_english(texts)]
    if not foreign and not sourced:
        options.model = DEFAULT_METRIC
        return
    if released_folder(MULTILINGUAL_METRIC):
        options.model = taken = MULTILINGUAL_METRIC
    else:
        options.model = DEFAULT_PRESET
        setattr(options, f"{FIELD}encoder", MULTILINGUAL)
        taken = f"{DEFAULT_PRESET} on {MULTILINGUAL}"
    why = "sources are given" if sourced else f"the {' and '.join(foreign)} do not look English"
    logger.warning("`--model auto` takes %s, since %s.", taken, why)


def build_scorer(options: argparse.Namespace, memory: EncoderMemory | None = None, **changes: Any) -> Scorer:
    """The scorer that the options describe, whether or not its statistics are there."""
    memory = _memory(options) if memory is None else memory
    presets = {name: f"--model {name}" for name in ("twmd", "rome")}
    names = (*metric_fields(), "backend", "device", "precision")
    with column_options.flags_named({**{name: field_flag(name) for name in names}, **presets}):
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
    """The scorer that the options describe, ready to score."""
    fitting = None if options.fit_on is None else read_lines(options.fit_on)
    scorer = build_scorer(options, memory, **changes)
    if not one_of_several and any(getattr(options, name, None) is not None for name in ("sources", "source_column")):
        check_sources(scorer.metric)
    if fitting is not None and (scorer.metric.statistics or not one_of_several):
        warn_of_few(len(fitting), "the statistics of `--fit-on`")
        return scorer.fit(fitting)
    lacking = unfitted_statistics(scorer.metric)
    if lacking:
        commands = " and ".join(f"`textmover {one}`" for one in dict.fromkeys(FIT_COMMANDS[name] for name in lacking))
        raise InputError(
            f"Expected the corpus statistics ({', '.join(lacking)}) of {options.model} to be fitted, but they are not: "
            f"give texts to fit them on with --fit-on FILE (one a line), a file that {commands} wrote with "
            "--statistics FILE, or a trained checkpoint."
        )
    return scorer


def warn_of_few(texts: int, what: str) -> None:
    """Warn where statistics are fitted on fewer texts than they need."""
    if texts < ENOUGH:
        logger.warning("Fitted on few texts (%d) for %s: give at least %d.", texts, what, ENOUGH)


def folder_limit(options: argparse.Namespace) -> int:
    """Bytes that the folder of ``--cache`` may hold."""
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
