"""Train RoMe's scorer networks, print the tables of their results page, and write those that it links.

    python benchmarks/release_rome_scorer.py configs/released/rome-scorers.yaml --runs runs/rome_scorers

Pairs and their features are computed once and cached in ``--runs``; training takes less than a minute. Recipes were
chosen on calibration pairs and development sets; test pairs are only used for the final networks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
from harness import ROOT, interval
from numpy.typing import NDArray
from release_acceptability import area
from rome_scorer_data import Material, Pair, features_of, gather, percentiles
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from textmover import Scorer
from textmover.meta_evaluation.agreement.labels import bootstrap_labels
from textmover.meta_evaluation.error_spans.agreement import calibration_error
from textmover.meta_evaluation.significance.bootstrap import Interval, bootstrap_gain
from textmover.rome.scorer.network import SHIPPED, FeatureScorer, build_scorer, write_scorer

MEAN = "mean"
BINS = 10  # number of equal-width reliability bins


def train(scorer: FeatureScorer, features: Tensor, targets: Tensor, recipe: Mapping[str, Any], seed: int) -> float:
    """Fit a network to targets in [0, 1] by cross-entropy; return the mean loss of the last epoch."""
    generator = torch.Generator().manual_seed(seed)
    weights = [one for one in scorer.parameters() if one.requires_grad]
    optimizer = getattr(torch.optim, recipe["optimizer"])(weights, **recipe["options"])
    mean = float("nan")
    for _ in range(recipe["epochs"]):
        total = 0.0
        for rows in torch.randperm(len(features), generator=generator).split(recipe["batch"]):
            optimizer.zero_grad()
            loss = binary_cross_entropy_with_logits(scorer.logits(features[rows]), targets[rows])
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(rows)
        mean = total / len(features)
    return mean


def fit_network(recipe: Mapping[str, Any], material: Material, seed: int) -> tuple[FeatureScorer, float]:
    """Train a network by a recipe, and calibrate it on the calibration part if the recipe requires it."""
    built = build_scorer(recipe["layers"], material.names)
    if built is None:
        raise RuntimeError("Expected a network to train, but got none.")
    scorer = FeatureScorer(built.config, seed=seed)

    def part(name: str, targets: str) -> tuple[Tensor, Tensor]:
        """Return features and targets: ratings, ``labels`` (1: good) or ``severity`` (1 - severity)."""
        if recipe["targets"] == "ratings":
            features, human = material.rated[name]
            return features, torch.from_numpy(human).float()
        values = [float(one.good) if targets == "labels" else 1 - one.severity for one in material.pairs[name]]
        return material.features[name], torch.tensor(values)

    loss = train(scorer, *part("training", recipe["targets"]), recipe, seed)
    if recipe["calibrated"]:
        scorer.calibrate(*part("calibration", "labels"))
    return scorer, loss


def areas(scores: NDArray[np.float64], pairs: Sequence[Pair]) -> dict[str, tuple[int, float]]:
    """Return pair count and AUC by kind: corruptions against all good pairs, good kinds against all corrupted ones."""
    good = np.array([one.good for one in pairs])
    results = {}
    for kind in dict.fromkeys(one.kind for one in pairs):
        of_kind = np.array([one.kind == kind for one in pairs])
        is_good = bool(good[of_kind].all())
        higher, lower = (scores[of_kind], scores[~good]) if is_good else (scores[good], scores[of_kind])
        results[kind] = int(of_kind.sum()), area(higher, lower)
    return results


def threshold(scores: NDArray[np.float64], good: NDArray[np.bool_]) -> float:
    """Return the decision threshold with the highest accuracy, the lowest if several are equal."""
    order = np.unique(scores)
    limits = np.concatenate([[order[0] - 1], (order[1:] + order[:-1]) / 2, [order[-1] + 1]])
    accuracies = [float(((scores > limit) == good).mean()) for limit in limits]
    return float(limits[int(np.argmax(accuracies))])


def reliability(scores: NDArray[np.float64], good: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return count, sum of ``good`` and sum of scores ``[B, 3]`` of the non-empty equal-width bins over [0, 1]."""
    place = np.minimum((scores * BINS).astype(int), BINS - 1)
    sums = np.stack([np.bincount(place, one, BINS) for one in (np.ones(len(place)), good, scores)], axis=1)
    return sums[sums[:, 0] > 0]


# --- judging ----------------------------------------------------------------------------------------------------------

Figures = dict[str, Any]


def scores_of(name: str, networks: Mapping[str, FeatureScorer], names: tuple[str, ...], features: Tensor) -> Tensor:
    """Return scores ``[n]`` of a network, the mean, or a single feature, from features ``[n, F]``."""
    if name in networks:
        with torch.no_grad():
            return networks[name](features)
    return features.mean(dim=1) if name == MEAN else features[:, names.index(name)]


def judge(name: str, networks: Mapping[str, FeatureScorer], material: Material, part: str) -> Figures:
    """Evaluate a scorer: classification of a part's pairs, and human agreement on the development sets."""

    def of(features: Tensor) -> NDArray[np.float64]:
        return scores_of(name, networks, material.names, features).double().numpy()

    pairs, scores = material.pairs[part], of(material.features[part])
    good, calibration_good = (np.array([one.good for one in material.pairs[place]]) for place in (part, "calibration"))
    limit = threshold(of(material.features["calibration"]), calibration_good)
    texts = [one.reference for one in pairs]

    def accuracy(over: float) -> Interval:
        return bootstrap_labels(good.astype(int).tolist(), (scores > over).astype(int).tolist(), 2, texts)["accuracy"]

    bins = reliability(scores, good.astype(np.float64))
    result: Figures = {
        "majority": float(max(good.mean(), 1 - good.mean())),
        "accuracy": accuracy(0.5),
        "limit": limit,
        "accuracy at limit": accuracy(limit),
        "bins": bins,
        "error": float(calibration_error(bins)),
        "area": areas(scores, pairs),
        "area of all": area(scores[good], scores[~good]),
        "agreement": {},
        "gain": {},
    }
    for label, rated in material.development.items():
        best, mean = (rated.best(scores_of(one, networks, material.names, rated.features)) for one in (name, MEAN))
        judged = rated.judged
        result["agreement"][label] = judged.mean(best).pearson, judged.mean(best).spearman
        result["gain"][label] = bootstrap_gain(mean, best, judged.human, judged.groups, clusters=judged.clusters)
    return result


def paper_examples(path: Path) -> dict[str, list[tuple[str, str, float]]]:
    """Read reference, hypothesis and score of the paper's examples in tables 2 and 3."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first = [line.split("\t") for line in lines if line.startswith("R H\t")]
    end = next(row_number for row_number, line in enumerate(lines) if line.startswith("Table 3:"))
    last = [line.split("\t") for line in lines[end - 12 : end] if re.search(r"(\t0\.\d+){4}\s*$", line)]
    rows = [row for row in last if row not in first]
    texts = [max(row, key=len) for row in rows]
    scores = [float([cell for cell in row if cell.strip()][-1]) for row in rows]
    return {
        "table 2": [(*re.split(r"(?<=\.) ", row[1], maxsplit=1), float(row[5])) for row in first],
        "table 3": list(zip(texts[::2], texts[1::2], scores[::2], strict=True)),
    }


def judged_examples(
    spec: Mapping[str, Any], networks: Mapping[str, FeatureScorer], names: tuple[str, ...], runs: Path
) -> Figures:
    """Return by table the paper's scores of its examples, their features, and our scores by scorer."""
    if spec["paper"] is None:
        return {}
    examples = paper_examples(spec["paper"])
    scorer = Scorer.from_pretrained(spec["metric"], scorer=MEAN, backend="torch", device="cpu")
    result = {}
    for table, rows in examples.items():
        features = features_of(scorer, [(hypothesis, reference) for reference, hypothesis, _ in rows], runs)
        scores = {name: scores_of(name, networks, names, features).tolist() for name in (MEAN, *networks)}
        result[table] = [one[2] for one in rows], features, scores
    return result


# --- tables -----------------------------------------------------------------------------------------------------------

Trial = tuple[str, Mapping[str, Any], float, Figures]  # name, recipe, loss and figures
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]  # headers and rows


def shown(found: Mapping[str, Figures], networks: Sequence[str], examples: Figures) -> dict[str, Table]:
    """Return the tables of the results page: accuracy, gains over the mean, agreement, and the paper's examples."""
    sets = list(found[MEAN]["agreement"])
    accuracy = [
        [name, interval(one["accuracy"]), f"{one['limit']:.2f}", interval(one["accuracy at limit"])]
        + [f"{one[figure]:.3f}" for figure in ("area of all", "error")]
        for name, one in found.items()
    ]
    gains = [[name, *(interval(one, "+.3f") for one in found[name]["gain"].values())] for name in networks]
    agreement = [[name, *(_pair(one["agreement"][label]) for label in sets)] for name, one in found.items()]
    told = [
        [table, f"{paper[row]:.2f}", " / ".join(f"{value:.2f}" for value in features[row].tolist())]
        + [f"{one[row]:.2f}" for one in scores.values()]
        for table, (paper, features, scores) in examples.items()
        for row in range(len(paper))
    ]
    return {
        "accuracy": (["scorer", "accuracy at .5", "c", "accuracy at c", "AUC", "calibration error"], accuracy),
        "gain in Pearson over the mean": (["network", *sets], gains),
        "Pearson / Spearman": (["scorer", *sets], agreement),
        "the paper's examples": (["example", "paper", "features", MEAN, *networks], told),
    }


def linked(
    found: Mapping[str, Figures], pairs: Sequence[Pair], trials: Sequence[Trial], rated: NDArray[np.float64]
) -> dict[str, Table]:
    """Return the tables that the page links: AUC by kind, reliability of calibrated scorers, and all recipes."""
    good_kinds = {one.kind for one in pairs if one.good}
    areas = found[MEAN]["area"]
    kinds = [
        [kind, "good" if kind in good_kinds else "corrupted", areas[kind][0]]
        + [f"{one['area'][kind][1]:.2f}" for one in found.values()]
        for kind in sorted(areas, key=good_kinds.__contains__)
    ]
    bins = [
        [name, f"{scores / count:.3f}", f"{good / count:.3f}", f"{count:.0f}"]
        for name, values in {"rome": found["rome"]["bins"], "rome-ratings": rated}.items()
        for count, good, scores in values
    ]
    recipes = []
    for name, recipe, loss, one in trials:
        settings = [recipe["layers"], recipe["targets"], f"{recipe['optimizer']} {recipe['options']['lr']:g}"]
        figures = [f"{value:.3f}" for value in (loss, one["accuracy"].estimate, one["area of all"])]
        people = " / ".join(f"{value[0]:.3f}" for value in one["agreement"].values())
        recipes.append([name, *settings, recipe["batch"], recipe["epochs"], *figures, people])
    settings = ["network", "layers", "targets", "optimizer", "batch", "epochs"]
    return {
        "kinds": (["kind", "pairs", "n", *found], kinds),
        "reliability": (["scorer", "mean score", "share", "n"], bins),
        "recipes": ([*settings, "loss", "accuracy at .5", "AUC", "Pearson"], recipes),
    }


def _pair(values: tuple[float, float]) -> str:
    return " / ".join(f"{value:.3f}" for value in values)


def main() -> None:
    paths = {"runs": Path("runs/rome_scorers"), "output": SHIPPED, "tables": ROOT / "docs/results"}
    options = harness.parser(__doc__, "release", **paths, paper=Path).parse_args()
    torch.set_num_threads(1)
    spec = harness.read_yaml(options.release) | {"paper": options.paper}
    material = gather(spec, options.runs)
    make(spec, material, options.release, options.output, options.tables, options.runs)


def make(spec: dict[str, Any], material: Material, release: Path, output: Path, target: Path, runs: Path) -> None:
    networks: dict[str, FeatureScorer] = {}
    trials: list[Trial] = []
    for trial in spec["trials"]:
        recipe = {**spec["networks"][trial["like"]], **trial}
        network, loss = fit_network(recipe, material, spec["seed"])
        trials.append((trial["name"], recipe, loss, judge("trial", {"trial": network}, material, "calibration")))
        print(trial["name"], recipe["epochs"], f"{loss:.4f}", trials[-1][3]["accuracy"].estimate, flush=True)
    for name, recipe in spec["networks"].items():
        networks[name], loss = fit_network(recipe, material, spec["seed"])
        trials.append((name, recipe, loss, judge(name, networks, material, "calibration")))
    results = {name: judge(name, networks, material, "test") for name in (*material.names, MEAN, *networks)}
    output.mkdir(parents=True, exist_ok=True)
    for name, scorer in networks.items():
        write_scorer(scorer, output / f"{name}.json", about=about(name, spec, material, release, results[name]))
    examples = judged_examples(spec, networks, material.names, runs)
    rated = material.development[spec["rated_bins"]]
    scores = rated.best(scores_of("rome-ratings", networks, material.names, rated.features))
    bins = reliability(scores, percentiles(rated.judged.human))  # targets: rating percentiles
    print(f"{material.signature}; always one class: {results[MEAN]['majority']:.3f}")
    for name, (headers, rows) in shown(results, list(networks), examples).items():
        print(f"\n{name}:\n\n{harness.table(headers, rows)}")
    for name, (headers, rows) in linked(results, material.pairs["test"], trials, bins).items():
        table = [dict(zip(headers, row, strict=True)) for row in rows]
        harness.write_rows(target / f"rome_scorers_{name}.csv", table)


def about(name: str, spec: Mapping[str, Any], material: Material, release: Path, found: Figures) -> dict[str, Any]:
    recipe = spec["networks"][name]
    rated = recipe["targets"] == "ratings"
    entries = [spec["ratings"]] if rated else [*spec["plain"], *spec["paraphrases"]]
    parts = {part: human for part, (_, human) in material.rated.items()} if rated else material.pairs
    return {
        "name": name,
        "what": recipe["about"],
        "score": spec["meaning"]["ratings" if rated else "labels"],
        "data": {one["name"]: one["licence"] for one in entries},
        "sizes": {part: len(items) for part, items in parts.items()},
        "seed": spec["seed"],
        "recipe": {key: recipe[key] for key in ("targets", "calibrated", "optimizer", "options", "batch", "epochs")},
        "accuracy on test pairs": round(found["accuracy"].estimate, 4),
        "expected calibration error on test pairs": round(found["error"], 4),
        "development, Pearson and Spearman": {
            key: [round(value, 4) for value in values] for key, values in found["agreement"].items()
        },
        "features": material.signature,
        "made with": f"python benchmarks/release_rome_scorer.py {release.as_posix()}",
    }


if __name__ == "__main__":
    main()
