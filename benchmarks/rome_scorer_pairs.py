"""The pairs that RoMe's scorer networks learn from: sentences whose meaning was kept, and damaged ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from harness import ROOT

from textmover.data.generated.datamodule import read_sentences, taken_sentences
from textmover.data.overlap import PairFile, rows_where, segment_pairs, without_files
from textmover.data.split import normalise_reference, split_held_back, taken_by_hash
from textmover.perturbations.clauses import Parses
from textmover.perturbations.kinds import perturb_texts
from textmover.perturbations.severity import shipped_table
from textmover.readers.segments import Columns, read_segments
from textmover.types import InputError, Segment

__all__ = ["Pair", "balanced", "build_parts", "human_paraphrases", "plain_sentences", "split_parts", "trained_on"]

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
    texts = read_sentences([str(ROOT / entry["file"])], None, "train")
    fitting = [text for text in texts if text not in known and text.endswith((".", "!", "?"))]
    return taken_sentences(fitting, tuple(entry["words"]), entry["sentences"], seed)


def trained_on(recipes: Sequence[str]) -> set[str]:
    """The plain sentences that recipes of classifiers of acceptability train on."""
    found: set[str] = set()
    for name in recipes:
        data = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))["data"]["init_args"]
        texts = read_sentences([str(ROOT / one) for one in data["texts"]], None, "train")
        found |= set(taken_sentences(texts, tuple(data["words"]), data["sentences"], data["seed"]))
    return found


def human_paraphrases(entry: Mapping[str, Any], without: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """Distinct pairs of a file that people say mean the same, but for those of other files."""
    where, least = entry.get("where", {}), entry.get("least", {})
    (score, limit), *_ = [*least.items(), (None, 0.0)]
    columns = Columns("sentence1", "sentence2", score=score, groups=tuple(where))
    segments = rows_where(read_segments(str(ROOT / entry["file"]), columns), where, entry["file"])
    others = [PairFile(**{**one, "path": str(ROOT / one["path"])}) for one in without]
    wanted = [one for one in segments if score is None or (one.score or 0.0) >= limit]
    (kept,), _ = without_files([wanted], others, segment_pairs)
    distinct = {
        frozenset(texts): one
        for one in kept
        if len(set(texts := [normalise_reference(text) for text in (one.hypothesis, *one.references)])) == 2
    }
    return list(distinct.values())


def split_parts(
    items: Sequence[Any], texts: Callable[[Any], tuple[str, ...]], shares: Mapping[str, float]
) -> dict[str, list[Any]]:
    """Items by part, such that no text stands in two of them, whatever the order."""
    segments = [Segment("", texts(one)) for one in items]
    place = {id(segment): one for segment, one in zip(segments, items, strict=True)}
    # A larger share holds back all that a smaller one does.
    training, apart = split_held_back(segments, shares["test"] + shares["calibration"])
    test = {id(one) for one in split_held_back(segments, shares["test"])[1]}
    found = {
        "training": training,
        "calibration": [one for one in apart if id(one) not in test],
        "test": [one for one in apart if id(one) in test],
    }
    return {name: [place[id(one)] for one in part] for name, part in found.items()}


def build_parts(spec: Mapping[str, Any], parses: Parses) -> dict[str, list[Pair]]:
    """Pairs to train on, to calibrate by and to test with: as many good as damaged ones in each.

    Damaged are both sides of what is good: half of the damaged pairs are a plain sentence and a damaged version of
    it, half a sentence and a damaged version of its paraphrase, so that other words alone do not tell.
    """
    known, seed = trained_on(spec["classifier"]), spec["seed"]
    bases = [Segment(text, (text,)) for entry in spec["plain"] for text in plain_sentences(entry, known, seed)]
    pairs = [one for entry in spec["paraphrases"] for one in human_paraphrases(entry, spec["without"])]
    split = split_parts([*bases, *pairs], lambda one: (one.hypothesis, one.references[0]), spec["shares"])
    found = {}
    for name in PARTS:
        part, count = split[name], spec["parts"][name]
        same = [one for one in part if one.hypothesis == one.references[0]]
        others = [one for one in part if one.hypothesis != one.references[0]]
        good = balanced(list(_good(same, others, parses, seed)), spec["good"], count)
        half = {PARAPHRASE: taken_by_hash(others, count, _texts), IDENTITY: taken_by_hash(same, count, _texts)}
        damaged: list[Pair] = []
        for place, (_, chosen) in enumerate(half.items()):
            made = list(_damaged(chosen, spec["damaged"], parses, seed))
            wanted = count // 2 if place == 0 else count - len(damaged)
            damaged += balanced(made, dict.fromkeys(spec["damaged"], 1.0), wanted)
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
    table = shipped_table()
    severity = table.severity(PARAPHRASE, 1, 0.0)
    for one in others:
        yield Pair(one.references[0], one.hypothesis, PARAPHRASE, True, severity)
    texts = [one.hypothesis for one in same]
    for place, made in perturb_texts(
        texts, {"synonym": (1, 2), "passive": (1,), "active": (1,)}, seed=seed, parses=parses
    ):
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
