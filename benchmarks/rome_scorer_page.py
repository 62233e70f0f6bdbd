"""Results page of RoMe's trained scorer networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import interval, table, wrapped
from rome_scorer_data import Material

from textmover import __version__

Trial = tuple[str, Mapping[str, Any], float, Mapping[str, Any]]

Table = tuple[list[str], list[list[Any]]]  # headers and rows


def page(
    spec: Mapping[str, Any], material: Material, release: Path, found: Mapping[str, Mapping[str, Any]], more: str
) -> str:
    """Format the results page, Markdown, with a link to its appendix; further tables are in :func:`details`."""
    notes = {name: wrapped(text) for name, text in spec["notes"].items()}
    accuracy = [
        [name, interval(one["accuracy"]), f"{one['limit']:.2f}", interval(one["accuracy at limit"])]
        + [f"{one[figure]:.3f}" for figure in ("area of all", "error")]
        for name, one in found.items()
    ]
    gains = {name: [interval(one, "+.3f") for one in found[name]["gain"].values()] for name in spec["networks"]}
    return _joined(
        "# RoMe's trained scorer networks",
        f"```bash\npython benchmarks/release_rome_scorer.py {release.as_posix()}\n```",
        notes["top"],
        table(["scorer", "accuracy at .5", "c", "accuracy at c", "AUC", "calibration error"], accuracy),
        wrapped(
            f"{len(material.pairs['test'])} test pairs, half of them good; always one class: "
            f"{found['mean']['majority']:.3f}. c is the limit at which most calibration pairs are classified "
            "correctly; AUC is the chance that a good pair scores above a corrupted one. Intervals (95 %) by a "
            "bootstrap over references."
        ),
        notes["recommendation"],
        notes["kinds"],
        notes["accuracy"],
        "## Agreement with people",
        wrapped(
            "Gain in Pearson over the mean of the features, development sets, with 95 % intervals of a paired "
            "bootstrap over references:"
        ),
        table(["gain", *found["mean"]["agreement"]], ([f"{name} − mean", *own] for name, own in gains.items())),
        notes["agreement"],
        f"[Details]({more}): agreement of each scorer, what a score means, the paper's examples, data and their terms.",
    )


def appendix(spec: Mapping[str, Any], material: Material, found: Mapping[str, Any], examples: Any, page: str) -> str:
    notes = {name: wrapped(text) for name, text in spec["notes"].items()}
    sizes = ", ".join(f"{label} (n {len(one.judged.segments)})" for label, one in material.development.items())
    sets = list(found["mean"]["agreement"])
    agreement = [
        [name, *(" / ".join(f"{value:.3f}" for value in one["agreement"][label]) for label in sets)]
        for name, one in found.items()
    ]
    return _joined(
        "# RoMe's trained scorer networks: details",
        f"Accuracy and gains are in [the results]({page}).",
        "## Agreement with people",
        wrapped(f"Development sets: {sizes}. Pearson / Spearman."),
        table(["scorer", *sets], agreement),
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
    )


def _joined(*sections: str) -> str:
    return "\n\n".join(one.strip() for one in sections if one.strip()) + "\n"


def details(
    found: Mapping[str, Mapping[str, Any]], pairs: Sequence[Any], trials: Sequence[Trial], rated: Sequence[Any]
) -> dict[str, Table]:
    """Return additional tables: AUC by kind, reliability of the calibrated scorers, and all recipes."""
    good_kinds = {one.kind for one in pairs if one.good}
    areas = found["mean"]["area"]
    kinds = [
        [kind, "good" if kind in good_kinds else "corrupted", areas[kind][0]]
        + [f"{one['area'][kind][1]:.2f}" for one in found.values()]
        for kind in sorted(areas, key=good_kinds.__contains__)
    ]
    bins = {"rome": found["rome"]["bins"], "rome-ratings": rated}
    rows = [
        [name, f"{scores / count:.3f}", f"{good / count:.3f}", f"{count:.0f}"]
        for name, values in bins.items()
        for count, good, scores in values
    ]
    head = ["network", "layers", "targets", "optimizer", "batch", "epochs", "loss", "accuracy at .5", "AUC", "Pearson"]
    recipes = []
    for name, recipe, loss, one in trials:
        rate = f"{recipe['optimizer']} {recipe['options']['lr']:g}"
        figures = [f"{value:.3f}" for value in (loss, one["accuracy"].estimate, one["area of all"])]
        people = " / ".join(f"{value[0]:.3f}" for value in one["agreement"].values())
        settings = [recipe["layers"], recipe["targets"], rate, str(recipe["batch"]), str(recipe["epochs"])]
        recipes.append([name, *settings, *figures, people])
    return {
        "kinds": (["kind", "pairs", "n", *found], kinds),
        "reliability": (["scorer", "mean score", "share", "n"], rows),
        "recipes": (head, recipes),
    }


def _examples(examples: Mapping[str, Any]) -> str:
    labels = {"table 2": ("paraphrase", "passive", "repetition"), "table 3": ("unrelated", "repetitive and wrong")}
    rows: list[list[str]] = []
    for name, (paper_scores, features, scores) in examples.items():
        for index, label in enumerate(labels[name]):
            parts = " / ".join(f"{value:.2f}" for value in features[index].tolist())
            our_scores = (f"{one[index]:.2f}" for one in scores.values())
            rows.append([f"{name}: {label}", f"{paper_scores[index]:.2f}", parts, *our_scores])
    return table(["example", "paper", "semantic / syntactic / acceptability", *scores], rows) if rows else ""


def _data(spec: Mapping[str, Any], material: Material) -> str:
    purposes = ("train", "calibrate", "test")
    sizes, rated = (
        ", ".join(f"{len(part):,} to {purpose}" for purpose, part in zip(purposes, parts, strict=False))
        for parts in (material.pairs.values(), (human for _, human in material.rated.values()))
    )
    rows = [[one["name"], "rome-paper, rome", one["licence"]] for one in [*spec["plain"], *spec["paraphrases"]]]
    rows.append([spec["ratings"]["name"], "rome-ratings", spec["ratings"]["licence"]])
    return f"Pairs: {sizes}. Ratings: {rated}.\n\n{table(['data', 'for', 'terms'], rows, texts=None)}"
