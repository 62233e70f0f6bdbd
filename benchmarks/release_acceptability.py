"""Build the released acceptability classifier: train its stages, store adapter and head, and write the model card.

    python benchmarks/release_acceptability.py configs/released/textmover-acceptability.yaml --runs runs/acceptability

Exported stages are skipped, and an interrupted stage resumes. CoLA's development parts select nothing: the stages use a
held-out part of the training part. The card reports results on the development parts, on sentences corrupted by rules,
and on the examples of RoMe's table 2.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
from harness import ROOT, interval
from ladder import train
from numpy.typing import NDArray
from release import adapter_sentence, model_card, stored_adapter
from scipy.stats import mannwhitneyu

from textmover import __version__
from textmover.checkpoints.adapter import AdapterConfig
from textmover.checkpoints.checkpoint_files import CARD
from textmover.checkpoints.classifier import METRIC_FOLDER, load_classifier, save_classifier
from textmover.data import LabelColumns, LabelsDataModule
from textmover.data.datamodule import HELD_BACK
from textmover.data.generated.acceptability import UNGRAMMATICAL, labelled_versions
from textmover.data.labelled import LabelledText, label_names, read_labelled
from textmover.data.split import sample_by_hash
from textmover.files import atomic_file
from textmover.meta_evaluation.agreement.labels import bootstrap_labels
from textmover.modules.classifier import TextClassifier
from textmover.readers.segments import read_texts
from textmover.rome.features.acceptability import AcceptabilityModel
from textmover.rome.scorer.network import fitted_logistic

SOURCE = "acceptability"  # name of the data source and of the classifier's folder in a stage

DEVELOPMENT = ("in domain", "out of domain", "both")


def make(spec: dict[str, Any], runs: Path, folder: Path) -> float:
    """Run missing stages, and store the last one's classifier, calibrated after compression to an adapter."""
    previous = "twmd"
    for number, stage in enumerate(spec["stages"]):
        target = runs / f"stage{number}" / "metric"
        if not (target / "config.json").is_file():
            start = time.time()
            train(stage, previous, spec["seed"], target)
            print(f"stage {number + 1}: {time.time() - start:.0f} s", flush=True)
        previous = str(target)
    adapter = AdapterConfig(spec["rank"])
    trained = load_classifier(Path(previous).with_name(f"metric-{SOURCE}"))
    first = save_classifier(trained, runs / "stored", card="", adapter=adapter, overwrite=True)
    stored = load_classifier(first)
    calibrate(stored, held_back(spec))
    save_classifier(stored, folder, card="", adapter=adapter, overwrite=True)
    return stored_adapter(first / METRIC_FOLDER).error


def held_back(spec: dict[str, Any]) -> list[LabelledText]:
    """Return the held-out sentences of CoLA's training part."""
    data = LabelsDataModule([spec["held_back"]["file"]], "cola", held_back=spec["held_back"]["share"])
    (source,) = data.read()
    return source.parts[HELD_BACK]


@torch.no_grad()
def calibrate(classifier: TextClassifier, items: Sequence[LabelledText]) -> None:
    r"""Calibrate the head by Platt scaling, :math:`\sigma(a z + b)` of the log odds (Platt 1999)."""
    probabilities = classifier.predict([item.texts[0] for item in items])[:, 1]
    odds = probabilities.double().clamp(1e-7, 1 - 1e-7).logit().numpy()
    scale, offset = fitted_logistic(odds, np.array([item.label for item in items], dtype=np.float64))
    outputs = classifier.head.outputs
    outputs.weight.mul_(scale)
    outputs.bias.mul_(scale)
    outputs.bias[1] += offset
    print(f"calibrated by {scale:.3f} z {offset:+.3f}", flush=True)


def development(model: AcceptabilityModel, spec: dict[str, Any]) -> list[str]:
    """Return the card's lines on CoLA's held-out and development parts."""
    columns, names = LabelColumns(("sentence",), "label"), label_names("cola", None)
    parts = [read_labelled(spec["development"][name], columns, names)[0] for name in DEVELOPMENT[:2]]
    held_out = held_back(spec)
    # This threshold predicts the true number of acceptable sentences, which improves Matthews correlation over .5.
    share = np.mean([item.label for item in held_out])
    threshold = float(np.quantile(model.predict([item.texts[0] for item in held_out]).numpy(), 1 - share))
    rows = []
    for name, items in zip(("held back", *DEVELOPMENT), [held_out, *parts, [*parts[0], *parts[1]]], strict=True):
        texts, labels = [item.texts[0] for item in items], [item.label for item in items]
        probabilities = model.predict(texts).numpy()
        good, bad = (probabilities[[item.label == label for item in items]] for label in (1, 0))
        cells = []
        for limit in (0.5, threshold):
            statistics = bootstrap_labels(labels, (probabilities > limit).astype(int).tolist(), 2, texts)
            cells += [interval(statistics["accuracy"]), interval(statistics["matthews"], mark="**")]
        rows.append([name, len(items), f"{np.mean(labels):.3f}", f"{area(good, bad):.3f}", *cells])
    limits = [f"{name} at {limit}" for limit in (".5", "c") for name in ("accuracy", "Matthews")]
    return [
        harness.table(["CoLA", "n", "always acceptable", "AUC", *limits], rows, texts=None),
        "",
        f"c = {threshold:.3f}, at which as many of the held-back sentences are called acceptable as are so. The "
        "held-back part (a tenth of the training part) chose the epoch and calibrated the probabilities; the "
        "development parts (in domain, out of domain) chose nothing. Intervals (95 %) by a bootstrap over sentences.",
    ]


def damage(model: AcceptabilityModel, spec: dict[str, Any]) -> list[str]:
    sets = {one["name"]: _sentences(one) for one in spec["damaged"]}
    plain = {name: dict(zip(texts, model.predict(texts).tolist(), strict=True)) for name, texts in sets.items()}
    rows = []
    for kind in UNGRAMMATICAL:
        cells = []
        for name, texts in sets.items():
            items = labelled_versions(texts, {kind: 1.0}, spec["seed"])
            pairs = [(one.texts[0], two.texts[0]) for one, two in pairwise(items) if two.label == 0]
            damaged = model.predict([version for _, version in pairs]).numpy()
            intact = np.array([plain[name][text] for text, _ in pairs])
            good = np.array(list(plain[name].values()))
            cells += [f"{area(good, damaged):.3f}", f"{np.mean(intact > damaged):.3f} (n {len(pairs)})"]
        rows.append([kind, *cells])
    headers = [f"{name}: {one}" if one == "AUC" else one for name in sets for one in ("AUC", "pairs in order")]
    means = ", ".join(f"{np.mean(list(one.values())):.2f} ({name}, n {len(one)})" for name, one in plain.items())
    table = harness.table(["damage", *headers], rows, texts=None)
    return [table, "", f"Mean probability of the plain sentences: {means}."]


def area(higher: NDArray[np.float32], lower: NDArray[np.float32]) -> float:
    """Return the area under the ROC curve: the probability that the first value is higher, ties count ½."""
    return float(mannwhitneyu(higher, lower, method="asymptotic").statistic / (len(higher) * len(lower)))


def examples(model: AcceptabilityModel, path: Path | None) -> list[str]:
    """Return the card's line on the examples of RoMe's table 2, without quoting the paper's sentences."""
    if path is None:
        return []
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("R H\t")]
    paper_values = " / ".join(f"{float(row[4]):.2f}" for row in rows)
    probabilities = model.predict([row[1].split(". ", 1)[1] for row in rows])
    values = " / ".join(f"{one:.2f}" for one in probabilities.tolist())
    return [
        "The hypotheses of RoMe's table 2 (paraphrase, other voice, repeated words): "
        f"{values}; the paper's BERT-large: {paper_values}."
    ]


def card(spec: dict[str, Any], folder: Path, path: Path, found: Sequence[str], error: float) -> str:
    size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
    usage = (
        "```python\nfrom textmover.checkpoints.classifier import load_classifier\n\n"
        "# probabilities of unacceptable and acceptable\n"
        f'load_classifier("{spec["name"]}").predict(["A text.", "Text a a."])\n```'
    )
    return model_card(
        spec,
        "text-classification, acceptability",
        usage,
        ("How well it tells", found),
        f"benchmarks/release_acceptability.py {path.as_posix()}",
        f"With seed {spec['seed']} and textmover {__version__}; stages:",
        adapter_sentence(stored_adapter(folder / METRIC_FOLDER), size, error, "Head and adapter"),
    )


def _sentences(entry: dict[str, Any]) -> list[str]:
    """Return plain sentences of files, sampled by hash."""
    texts = dict.fromkeys(text.strip() for name in entry["files"] for text in read_texts(name, entry.get("column")))
    low, high = entry["words"]
    candidates = [text for text in texts if low <= len(text.split()) <= high and text.endswith((".", "!", "?"))]
    return sample_by_hash(candidates, entry["sentences"], lambda text: (text,))


def main() -> None:
    options = harness.parser(
        __doc__, "release", runs=Path("runs/acceptability"), output=ROOT / "checkpoints", paper=Path
    ).parse_args()
    spec = harness.read_yaml(options.release)
    folder = options.output / spec["name"]
    error = make(spec, options.runs.resolve(), folder)
    model = AcceptabilityModel(load_classifier(folder)).eval()
    lines = [*development(model, spec), "", *examples(model, options.paper), "", spec["damage"].strip(), ""]
    lines += damage(model, spec)
    print("\n".join(lines), flush=True)
    with atomic_file(folder / CARD) as stream:
        stream.write(card(spec, folder, options.release, lines, error))


if __name__ == "__main__":
    main()
