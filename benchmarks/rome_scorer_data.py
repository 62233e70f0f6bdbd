"""Training and test data of RoMe's scorer networks: sentence pairs, ratings, and cached features."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from harness import ROOT, cached_array, ratings, read_yaml
from ladder import Judged
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from textmover import Scorer
from textmover.data import Columns
from textmover.data.datamodule import HELD_BACK
from textmover.data.generated.datamodule import read_sentences, taken_sentences
from textmover.data.leakage import PairFile, rows_where, segment_pairs, without_files
from textmover.data.split import normalise_reference, sample_by_hash, split_held_back
from textmover.files import atomic_file
from textmover.perturbations.parsed_clauses import Parses
from textmover.perturbations.registry import perturb_texts
from textmover.perturbations.severity import shipped_table
from textmover.readers.segments import read_segments
from textmover.rome.parsers.pipelines import load_parser
from textmover.types import InputError, Segment

# --- pairs ------------------------------------------------------------------------------------------------------------

PARTS = ("training", "calibration", "test")

PARAPHRASE, IDENTITY = "paraphrase", "identity"


class Pair(NamedTuple):
    """A sentence and a second one that preserves its meaning (``good``) or does not."""

    reference: str
    hypothesis: str
    kind: str
    good: bool
    severity: float


def plain_sentences(entry: Mapping[str, Any], known: Collection[str], seed: int) -> list[str]:
    """Sample sentences of a file with a suitable length, except ``known`` ones."""
    texts = read_sentences([entry["file"]], None, "train")
    candidates = [text for text in texts if text not in known and text.endswith((".", "!", "?"))]
    return taken_sentences(candidates, tuple(entry["words"]), entry["sentences"], seed)


def trained_on(recipes: Sequence[str]) -> set[str]:
    """Return the plain sentences that recipes of acceptability classifiers train on."""
    sentences: set[str] = set()
    for name in recipes:
        data = read_yaml(ROOT / name)["data"]["init_args"]
        texts = read_sentences(data["texts"], None, "train")
        sentences |= set(taken_sentences(texts, tuple(data["words"]), data["sentences"], data["seed"]))
    return sentences


def human_paraphrases(entry: Mapping[str, Any], without: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """Return distinct paraphrase pairs of a file according to human labels, except those in other files."""
    where, least = entry.get("where", {}), entry.get("least", {})
    (score, limit), *_ = [*least.items(), (None, 0.0)]
    columns = Columns("sentence1", "sentence2", score=score, groups=tuple(where))
    segments = rows_where(read_segments(entry["file"], columns), where, entry["file"])
    others = [PairFile(**fields) for fields in without]
    paraphrases = [segment for segment in segments if score is None or (segment.score or 0.0) >= limit]
    (remaining,), _ = without_files([paraphrases], others, segment_pairs)
    distinct = {
        frozenset(texts): segment
        for segment in remaining
        if len(set(texts := [normalise_reference(text) for text in (segment.hypothesis, *segment.references)])) == 2
    }
    return list(distinct.values())


def split_parts(segments: Sequence[Segment], shares: Mapping[str, float]) -> dict[str, list[Segment]]:
    """Split segments into parts that share no text, independently of their order."""
    keys = [Segment("", _texts(one)) for one in segments]
    # The held-out set of a larger share contains that of a smaller one.
    bounds = (shares["test"] + shares["calibration"], shares["test"])
    held_out, test = ({id(one) for one in split_held_back(keys, share)[1]} for share in bounds)
    parts: dict[str, list[Segment]] = {name: [] for name in PARTS}
    for key, segment in zip(keys, segments, strict=True):
        parts["test" if id(key) in test else "calibration" if id(key) in held_out else "training"].append(segment)
    return parts


def build_parts(spec: Mapping[str, Any], parses: Parses) -> dict[str, list[Pair]]:
    """Build training, calibration and test pairs, each with equal numbers of good and corrupted pairs.

    Half of the corrupted pairs are a plain sentence and its corrupted version, half a sentence and a corrupted version
    of its paraphrase. Different wording alone therefore does not identify corruption.
    """
    trained, seed = trained_on(spec["classifier"]), spec["seed"]
    bases = [Segment(text, (text,)) for entry in spec["plain"] for text in plain_sentences(entry, trained, seed)]
    pairs = [segment for entry in spec["paraphrases"] for segment in human_paraphrases(entry, spec["without"])]
    split = split_parts([*bases, *pairs], spec["shares"])
    results = {}
    for name in PARTS:
        part, count = split[name], spec["parts"][name]
        same = [segment for segment in part if segment.hypothesis == segment.references[0]]
        others = [segment for segment in part if segment.hypothesis != segment.references[0]]
        good = balanced(list(_good(same, others, parses, seed)), spec["good"], count)
        damaged: list[Pair] = []
        for bases_of, target in ((others, count // 2), (same, count)):
            corrupted = list(_corrupted(sample_by_hash(bases_of, count, _texts), spec["damaged"], parses, seed))
            damaged += balanced(corrupted, dict.fromkeys(spec["damaged"], 1.0), target - len(damaged))
        if min(len(good), len(damaged)) < count:
            raise InputError(
                f"Expected {count} good and {count} damaged pairs in the {name} part, but got {len(good)} and "
                f"{len(damaged)}: name more sentences, or lower `parts`."
            )
        results[name] = [*good, *damaged]
    return results


def balanced(pairs: Sequence[Pair], weights: Mapping[str, float], count: int) -> list[Pair]:
    """Sample ``count`` pairs by hash, with kinds in proportion to weights; other kinds fill shortages."""
    by_kind = {kind: [one for one in pairs if one.kind == kind] for kind in weights}
    total = sum(weights.values())
    selected: list[Pair] = []
    # Start with the scarcest kinds, so that later kinds can fill the shortage.
    for kind in sorted(by_kind, key=lambda one: len(by_kind[one]) / weights[one]):
        target = round((count - len(selected)) * weights[kind] / total)
        selected += sample_by_hash(by_kind[kind], target, lambda one: one[:3])
        total -= weights[kind]
    return selected


def _good(same: Sequence[Segment], others: Sequence[Segment], parses: Parses, seed: int) -> Iterator[Pair]:
    """Yield good pairs: human paraphrases, meaning-preserving perturbations, and identical sentences."""
    severity = shipped_table().severity(PARAPHRASE, 1, 0.0)
    for one in others:
        yield Pair(one.references[0], one.hypothesis, PARAPHRASE, True, severity)
    texts, types = [one.hypothesis for one in same], {"synonym": (1, 2), "passive": (1,), "active": (1,)}
    for row, versions in perturb_texts(texts, types, seed=seed, parses=parses):
        for one in versions:
            yield Pair(texts[row], one.text, one.type, True, one.severity)
    for text in texts:
        yield Pair(text, text, IDENTITY, True, 0.0)


def _corrupted(bases: Sequence[Segment], kinds: Sequence[str], parses: Parses, seed: int) -> Iterator[Pair]:
    """Yield each reference with a corrupted hypothesis for each kind; degrees alternate between segments."""
    table = shipped_table()
    rest = 1 - table.severity(PARAPHRASE, 1, 0.0)
    turns = max(len(table.degrees(kind)) for kind in kinds)
    for turn in range(turns):
        segments = bases[turn::turns]
        types = {kind: (table.degrees(kind)[turn % len(table.degrees(kind))],) for kind in kinds}
        texts = [one.hypothesis for one in segments]
        for row, versions in perturb_texts(texts, types, seed=seed, parses=parses):
            reference = segments[row].references[0]
            before = 1.0 if texts[row] == reference else rest
            for one in versions:
                yield Pair(reference, one.text, one.type, False, 1 - before * (1 - one.severity))


def _texts(segment: Segment) -> tuple[str, ...]:
    return (segment.hypothesis, *segment.references)


# --- features and ratings ---------------------------------------------------------------------------------------------

CHUNK = 256  # pairs per feature file


class Rated(NamedTuple):
    """Human judgements, with the features of each hypothesis-reference pair."""

    judged: Judged
    features: Tensor

    def best(self, values: Tensor) -> NDArray[np.float64]:
        """Reduce values of pairs ``[m]`` to segments ``[n]`` by the best reference, as in the preset."""
        counts = [len(one.references) for one in self.judged.segments]
        parts = np.split(values.detach().double().numpy(), np.cumsum(counts)[:-1])
        return np.array([part.max() for part in parts])


class Material(NamedTuple):
    """All training and evaluation data."""

    names: tuple[str, ...]
    pairs: dict[str, list[Pair]]
    features: dict[str, Tensor]
    rated: dict[str, tuple[Tensor, NDArray[np.float64]]]
    development: dict[str, Rated]
    signature: str


def features_of(scorer: Scorer, texts: Sequence[tuple[str, str]], folder: Path) -> Tensor:
    """Return features ``[n, F]`` of hypothesis-reference pairs, cached on disk."""
    names = scorer.metric.config.features
    parts = [torch.zeros(0, len(names))]
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        key = hashlib.sha256(json.dumps([str(scorer.signature), chunk]).encode()).hexdigest()[:24]

        def computed(chunk: Sequence[tuple[str, str]] = chunk, done: int = start + len(chunk)) -> NDArray[np.float32]:
            components = scorer.score([one for one, _ in chunk], [other for _, other in chunk]).components
            print(f"features: {done} of {len(texts)}", flush=True)
            return np.stack([np.asarray(components[name], dtype=np.float32) for name in names], axis=1)

        parts.append(torch.from_numpy(cached_array(folder / f"{key}.npy", computed)))
    return torch.cat(parts)


def gather(spec: Mapping[str, Any], runs: Path) -> Material:
    scorer = Scorer.from_pretrained(spec["metric"], scorer="mean", backend="torch", device="cpu")
    pairs = _cached_pairs(spec, runs)
    texts = {name: [(one.hypothesis, one.reference) for one in part] for name, part in pairs.items()}
    features = {name: features_of(scorer, part, runs) for name, part in texts.items()}
    entry = spec["ratings"]
    data = ratings(entry["files"], columns=_columns(entry), held_back=entry["held_back"])
    sample = sample_by_hash(data.segments, entry["training"] + entry["calibration"], _texts)
    human = percentiles(np.array([one.score for one in sample]))
    vectors = features_of(scorer, [(one.hypothesis, one.references[0]) for one in sample], runs)
    rows = sample_by_hash(range(len(sample)), entry["calibration"], lambda place: sample[place].references)
    is_calibration = np.isin(np.arange(len(sample)), list(rows))
    masks = {"training": ~is_calibration, "calibration": is_calibration}
    rated = {name: (vectors[torch.from_numpy(mask)], human[mask]) for name, mask in masks.items()}
    held_back = data.parts[HELD_BACK]
    development = {name: _rated(scorer, name, one, held_back, runs) for name, one in spec["development"].items()}
    return Material(scorer.metric.config.features, pairs, features, rated, development, str(scorer.signature))


def percentiles(human: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the fraction of other ratings that are lower ``[n]``, ties count ½; in [0, 1] for any scale."""
    return (rankdata(human) - 1) / (len(human) - 1)


def _cached_pairs(spec: Mapping[str, Any], runs: Path) -> dict[str, list[Pair]]:
    fields = ("seed", "plain", "classifier", "paraphrases", "without", "good", "damaged", "parts", "shares")
    key = hashlib.sha256(json.dumps([spec[name] for name in fields]).encode()).hexdigest()[:16]
    path = runs / f"pairs-{key}.json"
    if not path.is_file():
        parts = build_parts(spec, Parses(load_parser(), most=100_000))
        runs.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as stream:
            json.dump(parts, stream)
    raw = json.loads(path.read_text(encoding="utf-8"))
    return {name: [Pair(*one) for one in raw[name]] for name in PARTS}


def _columns(entry: Mapping[str, Any]) -> Columns:
    return Columns(**{**entry["columns"], "groups": tuple(entry["columns"]["groups"])})


def _rated(scorer: Scorer, name: str, entry: Mapping[str, Any], held_back: Sequence[Segment], runs: Path) -> Rated:
    if "file" in entry:
        candidates = rows_where(read_segments(entry["file"], _columns(entry)), entry["where"], name)
    else:
        candidates = list(held_back)
    segments = sample_by_hash(candidates, entry["most"], _texts)
    texts = [(one.hypothesis, reference) for one in segments for reference in one.references]
    return Rated(Judged(segments, entry.get("group")), features_of(scorer, texts, runs))
