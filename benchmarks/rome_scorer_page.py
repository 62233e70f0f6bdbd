"""The page about RoMe's trained scorer networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import table, wrapped
from rome_scorer_data import Material

from textmover import __version__

Trial = tuple[str, Mapping[str, Any], float, Mapping[str, Any]]

Table = tuple[list[str], list[list[Any]]]
"""Headers and rows."""


def page(
    spec: Mapping[str, Any], material: Material, release: Path, found: Mapping[str, Mapping[str, Any]], more: str
) -> str:
    """The page, Markdown, which links to its appendix; :func:`details` has the tables beside it."""
    notes = {name: wrapped(text) for name, text in spec["notes"].items()}
    test = material.pairs["test"]
    sections = [
        "# RoMe's trained scorer networks",
        f"```bash\npython benchmarks/release_rome_scorer.py {release.as_posix()}\n```",
        notes["top"],
        _accuracy(found),
        wrapped(
            f"{len(test)} test pairs, half of them good; always one class: {found['mean']['majority']:.3f}. c is the "
            "limit at which most calibration pairs are classified correctly; AUC is the chance that a good pair scores "
            "above a corrupted one. Intervals (95 %) by a bootstrap over references."
        ),
        notes["recommendation"],
        notes["kinds"],
        notes["accuracy"],
        "## Agreement with people",
        wrapped(
            "Gain in Pearson over the mean of the features, development sets, with 95 % intervals of a paired "
            "bootstrap over references:"
        ),
        _gains(found, spec["networks"]),
        notes["agreement"],
        f"[Details]({more}): agreement of each scorer, what a score means, the paper's examples, data and their terms.",
    ]
    return _joined(sections)


def appendix(spec: Mapping[str, Any], material: Material, found: Mapping[str, Any], examples: Any, page: str) -> str:
    """The page of details, Markdown, which links to the page."""
    notes = {name: wrapped(text) for name, text in spec["notes"].items()}
    sizes = ", ".join(f"{label} (n {len(one.human)})" for label, one in material.development.items())
    sections = [
        "# RoMe's trained scorer networks: details",
        f"Accuracy and gains are in [the results]({page}).",
        "## Agreement with people",
        wrapped(f"Development sets: {sizes}. Pearson / Spearman."),
        _agreement(found),
        "## What a score means",
        notes["meaning"],
        notes["trials"],
        "## The paper's examples",
        _examples(examples),
        notes["examples"],
        "## Data and their terms",
        _data(spec, material),
        notes["data"],
        f"Features: `{material.signature}` (textmover {__version__}).",
    ]
    return _joined(sections)


def _joined(sections: Sequence[str]) -> str:
    return "\n\n".join(one.strip() for one in sections if one.strip()) + "\n"


def details(
    found: Mapping[str, Mapping[str, Any]], pairs: Sequence[Any], trials: Sequence[Trial], rated: Sequence[Any]
) -> dict[str, Table]:
    """Tables beside the page: AUC of each kind, reliability of the calibrated scorers, and all recipes."""
    bins = {"rome": found["rome"]["bins"], "rome-ratings": rated}
    return {
        "kinds": _kinds(found, pairs),
        "reliability": (
            ["scorer", "mean score", "share", "n"],
            [
                [name, f"{one.score:.3f}", f"{one.good:.3f}", one.count]
                for name, found_bins in bins.items()
                for one in found_bins
            ],
        ),
        "recipes": _trials(trials),
    }


def _accuracy(found: Mapping[str, Mapping[str, Any]]) -> str:
    head = ["scorer", "accuracy at .5", "c", "accuracy at c", "AUC", "calibration error"]
    rows = []
    for name, one in found.items():
        half, best = (
            f"{value.estimate:.3f} ({value.low:.3f} to {value.high:.3f})"
            for value in (one["accuracy"], one["accuracy at limit"])
        )
        rows.append([name, half, f"{one['limit']:.2f}", best, f"{one['area of all']:.3f}", f"{one['error']:.3f}"])
    return table(head, rows)


def _kinds(found: Mapping[str, Mapping[str, Any]], pairs: Sequence[Any]) -> Table:
    good = {one.kind for one in pairs if one.good}
    kinds = found["mean"]["area"]
    order = [*(kind for kind in kinds if kind not in good), *(kind for kind in kinds if kind in good)]
    rows = [
        [kind, "good" if kind in good else "corrupted", kinds[kind][0]]
        + [f"{one['area'][kind][1]:.2f}" for one in found.values()]
        for kind in order
    ]
    return ["kind", "pairs", "n", *found], rows


def _agreement(found: Mapping[str, Mapping[str, Any]]) -> str:
    sets = list(found["mean"]["agreement"])
    rows = [
        [name, *(" / ".join(f"{value:.3f}" for value in one["agreement"][label]) for label in sets)]
        for name, one in found.items()
    ]
    return table(["scorer", *sets], rows)


def _gains(found: Mapping[str, Mapping[str, Any]], networks: Mapping[str, Any]) -> str:
    gains = [[f"{name} − mean"] for name in networks]
    for row, name in zip(gains, networks, strict=True):
        row += [f"{one.estimate:+.3f} ({one.low:+.3f} to {one.high:+.3f})" for one in found[name]["gain"].values()]
    return table(["gain", *found["mean"]["agreement"]], gains)


def _examples(examples: Mapping[str, Any]) -> str:
    labels = {
        "table 2": ("paraphrase", "passive", "repetition"),
        "table 3": ("unrelated", "repetitive and wrong"),
    }
    rows: list[list[str]] = []
    scorers: list[str] = []
    for name, (theirs, features, scores) in examples.items():
        scorers = list(scores)
        for place, label in enumerate(labels[name]):
            parts = " / ".join(f"{value:.2f}" for value in features[place].tolist())
            rows.append(
                [f"{name}: {label}", f"{theirs[place]:.2f}", parts, *(f"{scores[one][place]:.2f}" for one in scorers)]
            )
    return table(["example", "paper", "semantic / syntactic / acceptability", *scorers], rows) if rows else ""


def _trials(trials: Sequence[Trial]) -> Table:
    head = ["network", "layers", "targets", "optimizer", "batch", "epochs", "loss", "accuracy at .5", "AUC", "Pearson"]
    rows = []
    for name, recipe, loss, one in trials:
        rate = f"{recipe['optimizer']} {recipe['options']['lr']:g}"
        people = " / ".join(f"{value[0]:.3f}" for value in one["agreement"].values())
        rows.append(
            [name, recipe["layers"], recipe["targets"], rate, str(recipe["batch"]), str(recipe["epochs"]),
             f"{loss:.3f}", f"{one['accuracy'].estimate:.3f}", f"{one['area of all']:.3f}", people]
        )  # fmt: skip
    return head, rows


def _data(spec: Mapping[str, Any], material: Material) -> str:
    sizes = ", ".join(
        f"{len(part):,} to {name}"
        for name, part in zip(("train", "calibrate", "test"), material.pairs.values(), strict=True)
    )
    rated = ", ".join(
        f"{len(part[1]):,} to {name}"
        for name, part in zip(("train", "calibrate"), material.rated.values(), strict=True)
    )
    rows = [[one["name"], "rome-paper, rome", one["licence"]] for one in [*spec["plain"], *spec["paraphrases"]]]
    rows.append([spec["ratings"]["name"], "rome-ratings", spec["ratings"]["licence"]])
    return f"Pairs: {sizes}. Ratings: {rated}.\n\n{table(['data', 'for', 'terms'], rows, texts=None)}"
