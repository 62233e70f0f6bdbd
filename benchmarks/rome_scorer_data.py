"""Training and test material of RoMe's scorer networks: pairs of sentences, ratings, and features kept on disk."""

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
from textmover.data.split import normalise_reference, split_held_back, taken_by_hash
from textmover.files import atomic_file
from textmover.perturbations.clauses import Parses
from textmover.perturbations.kinds import perturb_texts
from textmover.perturbations.severity import shipped_table
from textmover.readers.segments import read_segments
from textmover.rome.parsers.pipelines import load_parser
from textmover.types import InputError, Segment

# --- pairs ------------------------------------------------------------------------------------------------------------

PARTS = ("training", "calibration", "test")

PARAPHRASE, IDENTITY = "paraphrase", "identity"


class Pair(NamedTuple):
    """Two sentences, of which the second keeps the meaning of the first or does not."""

    reference: str
    hypothesis: str
    kind: str
    good: bool
    severity: float


def plain_sentences(entry: Mapping[str, Any], known: Collection[str], seed: int) -> list[str]:
    """Sentences of a file with a length in words that fits, but for those that are ``known``, chosen by ``seed``."""
    texts = read_sentences([entry["file"]], None, "train")
    fitting = [text for text in texts if text not in known and text.endswith((".", "!", "?"))]
    return taken_sentences(fitting, tuple(entry["words"]), entry["sentences"], seed)


def trained_on(recipes: Sequence[str]) -> set[str]:
    """The plain sentences that recipes of classifiers of acceptability train on."""
    found: set[str] = set()
    for name in recipes:
        data = read_yaml(ROOT / name)["data"]["init_args"]
        texts = read_sentences(data["texts"], None, "train")
        found |= set(taken_sentences(texts, tuple(data["words"]), data["sentences"], data["seed"]))
    return found


def human_paraphrases(entry: Mapping[str, Any], without: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """Distinct pairs of a file that people say mean the same, but for those of other files."""
    where, least = entry.get("where", {}), entry.get("least", {})
    (score, limit), *_ = [*least.items(), (None, 0.0)]
    columns = Columns("sentence1", "sentence2", score=score, groups=tuple(where))
    segments = rows_where(read_segments(entry["file"], columns), where, entry["file"])
    others = [PairFile(**one) for one in without]
    wanted = [one for one in segments if score is None or (one.score or 0.0) >= limit]
    (kept,), _ = without_files([wanted], others, segment_pairs)
    distinct = {
        frozenset(texts): one
        for one in kept
        if len(set(texts := [normalise_reference(text) for text in (one.hypothesis, *one.references)])) == 2
    }
    return list(distinct.values())


def split_parts(segments: Sequence[Segment], shares: Mapping[str, float]) -> dict[str, list[Segment]]:
    """Segments by part, such that no text stands in two of them, whatever the order."""
    both = [Segment("", _texts(one)) for one in segments]
    # A larger share holds back all that a smaller one does.
    bounds = (shares["test"] + shares["calibration"], shares["test"])
    apart, test = ({id(one) for one in split_held_back(both, share)[1]} for share in bounds)
    found: dict[str, list[Segment]] = {name: [] for name in PARTS}
    for one, segment in zip(both, segments, strict=True):
        found["test" if id(one) in test else "calibration" if id(one) in apart else "training"].append(segment)
    return found


def build_parts(spec: Mapping[str, Any], parses: Parses) -> dict[str, list[Pair]]:
    """Pairs to train on, to calibrate by and to test with: as many good as damaged ones in each.

    Damaged are both sides of what is good: half of the damaged pairs are a plain sentence and a damaged version of
    it, half a sentence and a damaged version of its paraphrase, so that other words alone do not tell.
    """
    known, seed = trained_on(spec["classifier"]), spec["seed"]
    bases = [Segment(text, (text,)) for entry in spec["plain"] for text in plain_sentences(entry, known, seed)]
    pairs = [one for entry in spec["paraphrases"] for one in human_paraphrases(entry, spec["without"])]
    split = split_parts([*bases, *pairs], spec["shares"])
    found = {}
    for name in PARTS:
        part, count = split[name], spec["parts"][name]
        same = [one for one in part if one.hypothesis == one.references[0]]
        others = [one for one in part if one.hypothesis != one.references[0]]
        good = balanced(list(_good(same, others, parses, seed)), spec["good"], count)
        damaged: list[Pair] = []
        for bases_of, wanted in ((others, count // 2), (same, count)):
            made = list(_damaged(taken_by_hash(bases_of, count, _texts), spec["damaged"], parses, seed))
            damaged += balanced(made, dict.fromkeys(spec["damaged"], 1.0), wanted - len(damaged))
        if min(len(good), len(damaged)) < count:
            raise InputError(
                f"Expected {count} good and {count} damaged pairs in the {name} part, but got {len(good)} and "
                f"{len(damaged)}: name more sentences, or lower `parts`."
            )
        found[name] = [*good, *damaged]
    return found


def balanced(pairs: Sequence[Pair], weights: Mapping[str, float], count: int) -> list[Pair]:
    """So many pairs, chosen by a hash, by kind as the weights say; what a kind lacks the others make up."""
    by_kind = {kind: [one for one in pairs if one.kind == kind] for kind in weights}
    total = sum(weights.values())
    taken: list[Pair] = []
    # Kinds that fall short first, so that those behind them know what is left to fill.
    for kind in sorted(by_kind, key=lambda one: len(by_kind[one]) / weights[one]):
        wanted = round((count - len(taken)) * weights[kind] / total)
        taken += taken_by_hash(by_kind[kind], wanted, lambda one: one[:3])
        total -= weights[kind]
    return taken


def _good(same: Sequence[Segment], others: Sequence[Segment], parses: Parses, seed: int) -> Iterator[Pair]:
    """Pairs that keep the meaning: of people, by a perturbation that does, and a few of the same sentence twice."""
    severity = shipped_table().severity(PARAPHRASE, 1, 0.0)
    for one in others:
        yield Pair(one.references[0], one.hypothesis, PARAPHRASE, True, severity)
    texts, types = [one.hypothesis for one in same], {"synonym": (1, 2), "passive": (1,), "active": (1,)}
    for place, made in perturb_texts(texts, types, seed=seed, parses=parses):
        for one in made:
            yield Pair(texts[place], one.text, one.type, True, one.severity)
    for text in texts:
        yield Pair(text, text, IDENTITY, True, 0.0)


def _damaged(bases: Sequence[Segment], kinds: Sequence[str], parses: Parses, seed: int) -> Iterator[Pair]:
    """A damaged version of each hypothesis beside its reference, for each kind one degree, by turns."""
    table = shipped_table()
    rest = 1 - table.severity(PARAPHRASE, 1, 0.0)
    turns = max(len(table.degrees(kind)) for kind in kinds)
    for turn in range(turns):
        chosen = bases[turn::turns]
        types = {kind: (table.degrees(kind)[turn % len(table.degrees(kind))],) for kind in kinds}
        texts = [one.hypothesis for one in chosen]
        for place, made in perturb_texts(texts, types, seed=seed, parses=parses):
            reference = chosen[place].references[0]
            before = 1.0 if texts[place] == reference else rest
            for one in made:
                yield Pair(reference, one.text, one.type, False, 1 - before * (1 - one.severity))


def _texts(segment: Segment) -> tuple[str, ...]:
    return (segment.hypothesis, *segment.references)


# --- features and ratings ---------------------------------------------------------------------------------------------

CHUNK = 256  # pairs whose features are kept in one file


class Rated(NamedTuple):
    """Judgements of people, with the features of each hypothesis and reference."""

    judged: Judged
    features: Tensor

    def best(self, values: Tensor) -> NDArray[np.float64]:
        """Values of pairs ``[m]`` as one of each segment ``[n]``: that of its best reference, as the preset has it."""
        counts = [len(one.references) for one in self.judged.segments]
        parts = np.split(values.detach().double().numpy(), np.cumsum(counts)[:-1])
        return np.array([part.max() for part in parts])


class Material(NamedTuple):
    """All there is to train on and to judge by."""

    names: tuple[str, ...]
    pairs: dict[str, list[Pair]]
    features: dict[str, Tensor]
    rated: dict[str, tuple[Tensor, NDArray[np.float64]]]
    development: dict[str, Rated]
    signature: str


def features_of(scorer: Scorer, texts: Sequence[tuple[str, str]], folder: Path) -> Tensor:
    """Features ``[n, F]`` of pairs of a hypothesis and a reference; those on disk are not computed again."""
    names = scorer.metric.config.features
    parts = [torch.zeros(0, len(names))]
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        key = hashlib.sha256(json.dumps([str(scorer.signature), chunk]).encode()).hexdigest()[:24]

        def computed(chunk: Sequence[tuple[str, str]] = chunk, done: int = start + len(chunk)) -> NDArray[np.float32]:
            found = scorer.score([one for one, _ in chunk], [other for _, other in chunk]).components
            print(f"features: {done} of {len(texts)}", flush=True)
            return np.stack([np.asarray(found[name], dtype=np.float32) for name in names], axis=1)

        parts.append(torch.from_numpy(cached_array(folder / f"{key}.npy", computed)))
    return torch.cat(parts)


def gather(spec: Mapping[str, Any], runs: Path) -> Material:
    scorer = Scorer.from_pretrained(spec["metric"], scorer="mean", backend="torch", device="cpu")
    pairs = _kept_pairs(spec, runs)
    texts = {name: [(one.hypothesis, one.reference) for one in part] for name, part in pairs.items()}
    features = {name: features_of(scorer, part, runs) for name, part in texts.items()}
    entry = spec["ratings"]
    data = ratings(entry["files"], columns=_columns(entry), held_back=entry["held_back"])
    chosen = taken_by_hash(data.segments, entry["training"] + entry["calibration"], _texts)
    human = percentiles(np.array([one.score for one in chosen]))
    found = features_of(scorer, [(one.hypothesis, one.references[0]) for one in chosen], runs)
    last = taken_by_hash(range(len(chosen)), entry["calibration"], lambda place: chosen[place].references)
    apart = np.isin(np.arange(len(chosen)), list(last))
    masks = {"training": ~apart, "calibration": apart}
    rated = {name: (found[torch.from_numpy(mask)], human[mask]) for name, mask in masks.items()}
    held_back = data.parts[HELD_BACK]
    development = {name: _rated(scorer, name, one, held_back, runs) for name, one in spec["development"].items()}
    return Material(scorer.metric.config.features, pairs, features, rated, development, str(scorer.signature))


def percentiles(human: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the others that are rated lower ``[n]``, ties by half, so that 0 to 1 whatever the scale."""
    return (rankdata(human) - 1) / (len(human) - 1)


def _kept_pairs(spec: Mapping[str, Any], runs: Path) -> dict[str, list[Pair]]:
    fields = ("seed", "plain", "classifier", "paraphrases", "without", "good", "damaged", "parts", "shares")
    key = hashlib.sha256(json.dumps([spec[name] for name in fields]).encode()).hexdigest()[:16]
    path = runs / f"pairs-{key}.json"
    if not path.is_file():
        found = build_parts(spec, Parses(load_parser(), most=100_000))
        runs.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as stream:
            json.dump(found, stream)
    raw = json.loads(path.read_text(encoding="utf-8"))
    return {name: [Pair(*one) for one in raw[name]] for name in PARTS}


def _columns(entry: Mapping[str, Any]) -> Columns:
    return Columns(**{**entry["columns"], "groups": tuple(entry["columns"]["groups"])})


def _rated(scorer: Scorer, name: str, entry: Mapping[str, Any], held_back: Sequence[Segment], runs: Path) -> Rated:
    if "file" in entry:
        found = rows_where(read_segments(entry["file"], _columns(entry)), entry["where"], name)
    else:
        found = list(held_back)
    segments = taken_by_hash(found, entry["most"], _texts)
    texts = [(one.hypothesis, reference) for one in segments for reference in one.references]
    return Rated(Judged(segments, entry.get("group")), features_of(scorer, texts, runs))
