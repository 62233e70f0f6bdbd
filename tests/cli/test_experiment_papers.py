"""The experiments of ``configs/papers``: each runs on data of the right shape, with the published lines."""

import csv
import functools
import itertools
import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from textmover import Scorer
from textmover.cli.commands import paper_experiment
from textmover.experiments.papers.experiment import Experiment
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.modules.config import MetricConfig
from textmover.modules.metric_model import MetricModel
from textmover.presets import PRESETS
from textmover.readers.judgements import read_darr, read_tac
from textmover.types import ParsedText

ROOT = Path(__file__).parents[2]
PAPERS = sorted((ROOT / "configs" / "papers").glob("*.yaml"))
WORDS = "a the cat dog house child eats sees finds small big old red good book in on under and table tree"
load_experiment = functools.cache(paper_experiment.load_experiment)
TO_ENGLISH = ("cs", "de", "fi", "lv", "ru", "tr", "zh")


@pytest.fixture(scope="module")
def encoder(random_encoder):
    """An encoder with six layers, as experiments read the last five."""
    return random_encoder("bert", seed=1, num_hidden_layers=6, max_position_embeddings=128, initializer_range=0.2)


# --- stand-ins for what RoMe loads ------------------------------------------------------------------------------------


class FlatParser:
    """Stands in for the parser: every word hangs on the first one."""

    identity = "flat"

    def __call__(self, texts):
        return [self.parse(text) for text in texts]

    def parse(self, text):
        spans = tuple(one.span() for one in re.finditer(r"\w+", text))
        words = tuple(text[start:end] for start, end in spans)
        same = tuple((one,) * len(words) for one in ("NOUN", ""))
        heads, relations = (
            (first, *(rest,) * (len(words) - 1))[: len(words)] for first, rest in ((-1, 0), ("root", "dep"))
        )
        return ParsedText(words, words, *same, heads, relations, spans)


@pytest.fixture(scope="module")
def classifier(tiny_encoder):
    metric = MetricModel.from_config(MetricConfig(encoder=str(tiny_encoder)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return TextClassifier.untrained(metric, ClassifierConfig(("unacceptable", "acceptable"), "single")).eval()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch, classifier):
    """RoMe's parser and classifier, of which an experiment loads many, are small."""
    monkeypatch.setattr("textmover.rome.features.text_features.load_parser", lambda name: FlatParser())
    monkeypatch.setattr("textmover.checkpoints.loading.load_classifier", lambda name: classifier)


# --- data of the right shape ------------------------------------------------------------------------------------------


class Texts:
    """Sentences and ratings by chance."""

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def sentence(self):
        return " ".join(self.rng.choice(WORDS.split(), size=self.rng.integers(3, 7)))

    def rating(self, low=0.0, high=5.0):
        return round(float(self.rng.uniform(low, high)), 4)


def made(path, size, known, texts, ratings, low, high, **further):
    """A table, or JSON Lines, with ``size`` rows for each of the known cells."""
    new, rows = Texts(), []
    for cells, row in itertools.product(known, range(size)):
        further_cells = {name: cell(new, row) for name, cell in further.items()}
        rated = {name: new.rating(low, high) for name in ratings.split()}
        rows.append({**cells, **{name: new.sentence() for name in texts.split()}, **further_cells, **rated})
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    else:
        lines = ["\t".join(rows[0]), *("\t".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def each(**several):
    return [dict(zip(several, one, strict=True)) for one in itertools.product(*several.values())]


def references(count):
    return lambda new, row: [new.sentence() for _ in range(count or 1 + row % 3)]


def wmt(path, sources=TO_ENGLISH):
    numbered = {"seg_id": lambda _, row: row, "system": lambda _, row: f"S{row}"}
    return made(path, 5, each(lp=[f"{one}-en" for one in sources]), "reference hypothesis", "score", -1, 1, **numbered)


def sts(path):
    known = each(year=range(2012, 2017), task=["task"], split=["test"])
    return made(path, 4, known, "sentence1 sentence2", "score", 0, 5)


def data_to_text(path):
    known, ratings = each(dataset=("BAGEL", "SFHOT"), system="AB"), "informativeness naturalness quality"
    return made(path, 4, known, "mr hypothesis", ratings, 1, 6, references=references(None))


def webnlg(path):
    systems = ["adapt", "baseline", "melbourne", "pkuwriter", *(f"tilburg-{one}" for one in ("nmt", "pipe", "smt"))]
    known, ratings = each(system=[*systems, "upf-forge", "vietnam"], triples=["a | b | c"]), "fluency grammar semantics"
    return made(path, 4, known, "hypothesis", ratings, 1, 3, references=references(2), sample=lambda _, row: row)


def dialogue(path):
    known = each(dataset=("in-car", "soccer"), system=("Mem2Seq", "GLMP", "DialoGPT"))
    return made(path, 4, known, "query reference response", "score", 1, 5, query_id=lambda _, row: row)


def tac(path):
    new = Texts()

    def summary():
        return [new.sentence(), new.sentence()]

    def annotation(number):
        ratings = {"pyr_score": new.rating(0, 1), "responsiveness": new.rating(1, 5)}
        return {"text": summary(), "summ_id": str(number), **ratings}

    topics = {
        f"D{topic}": {
            "references": [{"text": summary(), "id": number} for number in range(4)],
            "annotations": [*(annotation(number) for number in range(5)), {**annotation(5), "text": [new.sentence()]}],
        }
        for topic in range(3)
    }
    path.write_text(json.dumps(topics), encoding="utf-8")
    return path


def darr(folder, year, pairs):
    """Preferences and the folder of outputs; systems of the same pair differ in every sentence."""
    new, test_set = Texts(), f"newstest20{year}"
    lines = ["LP DATA SID BETTER WORSE"]
    for pair in pairs:
        source, target = pair.split("-")
        outputs = folder / "texts" / "system-outputs" / test_set / pair
        references = folder / "texts" / "references"
        for one in (outputs, references):
            one.mkdir(parents=True, exist_ok=True)
        name = references / f"{test_set}-{source}{target}-ref.{target}"
        name.write_text("".join(f"{new.sentence()}\n" for _ in range(4)))
        for system in "ABC":
            text = "".join(f"{new.sentence()}\n" for _ in range(4))
            (outputs / f"{test_set}.{system}.{pair}").write_text(text)
        for sentence, (better, worse) in itertools.product(range(1, 5), ("AB", "CA")):
            lines.append(f"{pair} {test_set} {sentence} {better} {worse}")
    preferences = folder / "RR-seglevel.csv"
    preferences.write_text("\n".join(lines) + "\n")
    return [f"preferences={preferences}", f"texts={folder / 'texts'}"]


def captions(folder):
    new, images = Texts(), range(4)
    rated = []
    for system in ("A", "B", "C", "D"):
        place = folder / "captions" / system
        place.mkdir(parents=True)
        (place / f"captions_val2014_{system}_results.json").write_text(
            json.dumps([{"image_id": image, "caption": new.sentence()} for image in images])
        )
        rated.append((system, new.rating(0, 1), new.rating(0, 1)))
    annotations = [{"image_id": image, "caption": new.sentence()} for image in images for _ in range(3)]
    (folder / "references.json").write_text(json.dumps({"annotations": annotations}))
    leaderboard = folder / "leaderboard.csv"
    leaderboard.write_text("system,M1,M2\n" + "".join(f"{','.join(map(str, row))}\n" for row in rated))
    return [f"captions={folder / 'captions'}", f"references={folder / 'references.json'}", f"ratings={leaderboard}"]


def sentences(path):
    new = Texts()
    path.write_text("".join(f"{new.sentence()}\n" for _ in range(60)))
    return path


DATA = {
    "lazy_emd_wmt18": lambda folder, one: darr(folder, 18, one.tables[0].groups),
    "lazy_emd_wmt19": lambda folder, one: darr(folder, 19, one.tables[0].groups),
    "moverscore_captions": lambda folder, _: captions(folder),
    "moverscore_data_to_text": lambda folder, _: [data_to_text(folder / "d2t.jsonl")],
    "moverscore_tac": lambda folder, _: [f"tac08={tac(folder / 'a.json')}", f"tac09={tac(folder / 'b.json')}"],
    "moverscore_wmt17": lambda folder, _: [wmt(folder / "wmt.tsv")],
    "rome_ablation": lambda folder, _: [
        f"webnlg={webnlg(folder / 'webnlg.jsonl')}",
        f"ratings={data_to_text(folder / 'd2t.jsonl')}",
        f"dialogue={dialogue(folder / 'dialogue.tsv')}",
    ],
    "rome_data_to_text": lambda folder, _: [data_to_text(folder / "d2t.jsonl")],
    "rome_dialogue": lambda folder, _: [dialogue(folder / "dialogue.tsv")],
    "rome_webnlg": lambda folder, _: [webnlg(folder / "webnlg.jsonl")],
    "twmd_centering": lambda folder, _: [sentences(folder / "sentences.txt")],
    "twmd_figures": lambda folder, _: [wmt(folder / "wmt.tsv")],
    "twmd_finetuned": lambda folder, _: [f"wmt17={wmt(folder / '17.tsv')}", f"wmt18={wmt(folder / '18.tsv')}"],
    "twmd_sts": lambda folder, _: [sts(folder / "sts.tsv")],
    "twmd_wmt17": lambda folder, _: [wmt(folder / "wmt.tsv")],
    "twmd_wmt18": lambda folder, _: [wmt(folder / "wmt.tsv", sources=("cs", "de", "et", "fi", "ru", "tr", "zh"))],
}
"""What --data is given for each experiment."""


class Found(NamedTuple):
    """What an experiment gave, and the folder of its data and its page."""

    experiment: Experiment
    json: dict
    folder: Path


@pytest.fixture(scope="module")
def known():
    """What was found so far: each experiment runs once."""
    return {}


@pytest.fixture
def told(run, encoder, known, tmp_path_factory):
    def told(name):
        if name not in known:
            path = ROOT / "configs" / "papers" / f"{name}.yaml"
            experiment, folder = load_experiment(path), tmp_path_factory.mktemp(name)
            data = DATA[name](folder, experiment)
            command = ("evaluate", "--experiment", path, "--data", *data, "--encoder", encoder, "--samples", 20)
            ended = run(*command, "--format", "json", "--output", folder / "page.md")
            if name == "twmd_finetuned":  # its checkpoint has to be trained first
                assert ended.code == 2
                assert "but got none for TWMD-b, fine-tuned" in ended.err
            else:  # RoMe's scorer was not trained over the tiny encoder and the stand-ins
                noted = [
                    line for line in ended.err.splitlines() if not line.startswith(("The scorer rome", "Written: "))
                ]
                assert (ended.code, noted) == (0, []), ended.err
            known[name] = Found(experiment, json.loads(ended.out), folder)
        return known[name]

    return told


# --- all experiments --------------------------------------------------------------------------------------------------


def test_every_experiment_has_data_here():
    assert [path.stem for path in PAPERS] == sorted(DATA)


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_every_metric_is_a_preset_and_is_shown(path):
    experiment = load_experiment(path)
    shown = {row.metric for table in experiment.tables for row in table.rows}
    assert shown - {None} == {*experiment.metrics, *experiment.baselines}
    for name, metric in experiment.metrics.items():
        assert metric.model in PRESETS or (path.stem, name) == ("twmd_finetuned", "trained")
    comment = path.read_text(encoding="utf-8").split("\ntitle:")[0]
    assert f"python evaluate.py --experiment configs/papers/{path.name} --data " in comment


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one == "twmd_figures" else one for one in sorted(DATA)]
)
def test_it_runs_and_the_published_line_stands_beside_ours(told, name):
    experiment, found, folder = told(name)
    tables = [table for table in found["tables"] if table["records"] and "row" in table["records"][0]]
    records = [one for table in tables for one in table["records"]]
    for spec in experiment.tables:
        own = [one for one in records if one["table"] == spec.title or one["table"].startswith(f"{spec.title}: ")]
        for row in spec.rows:
            here = [one for one in own if (one["row"], one["from"]) == (row.name, "here")]
            paper = [one for one in own if (one["row"], one["from"]) == (row.name, "paper")]
            assert len(paper) == len(row.published) * len(spec.columns)
            if row.metric is not None and row.metric != "trained":
                assert len(here) == len(spec.columns)
                assert all(one["value"] is not None and -1 <= one["value"] <= 1 for one in here), row
                assert all(one["n"] > 0 and one["signature"] for one in here)
    remarks = [one for table in found["tables"] for one in table["remarks"]]
    failed = [one for one in remarks if one.startswith(("Not computed", "Not in the data", "Left out"))]
    assert len(failed) == (name == "twmd_finetuned"), failed  # its checkpoint has to be trained first
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {experiment.title}\n")
    signed = [line for line in page.splitlines() if line.startswith("* ") and line.endswith("`")]
    assert len(signed) == len(set(signed))  # each under its first table
    assert signed or not tables
    for table in found["tables"]:
        if table["figure"]:
            assert (folder / table["figure"]).stat().st_size > 1000
            assert f"]({table['figure']})" in page


# --- what each paper asks for -----------------------------------------------------------------------------------------


def ours(found, metric, **where):
    return [
        one["value"]
        for table in found["tables"]
        for one in table["records"]
        if one.get("metric") == metric and all(one[key] == value for key, value in where.items())
    ]


def test_penalties_follow_the_target_language(told, encoder):
    _, found, folder = told("lazy_emd_wmt19")
    for pair, preset in (("de-en", "en"), ("en-zh", "zh"), ("en-cs", "other"), ("kk-en", "en"), ("en-kk", "other")):
        one = read_darr(folder / "RR-seglevel.csv", folder / "texts", language_pairs={pair})
        scorer = Scorer.from_pretrained(f"lazy-emd-{preset}", encoder=str(encoder))
        distances = scorer.score(one.hypotheses, one.references).scores
        agreed = [np.sign(distances[worse] - distances[better]) for better, worse in one.preferences]
        tau = sum(1 if sign > 0 else -1 for sign in agreed) / len(agreed)
        assert ours(found, "lazy-emd", group=pair) == [pytest.approx(tau, abs=1e-12)], pair
        assert ours(found, f"penalties-{preset}", group=pair) == [pytest.approx(tau, abs=1e-12)]
    assert {one["n"] for one in found["tables"][0]["records"] if one["from"] == "here"} == {8}  # preferences


def test_summaries_take_the_mean_of_the_references_and_agree_within_topics(told, encoder):
    _, found, folder = told("moverscore_tac")
    one = read_tac(folder / "a.json")
    scorer = Scorer.from_pretrained("bertscore-f1", encoder=str(encoder), multi_reference="mean")
    scores = scorer.score(one.hypotheses, one.references).scores
    topics = [[row for row, group in enumerate(one.groups) if group == topic] for topic in dict.fromkeys(one.groups)]
    for dimension in ("pyramid", "responsiveness"):
        human = one.ratings[dimension]
        for statistic, function in (("pearson", pearsonr), ("spearman", spearmanr)):
            expected = np.mean([function(scores[rows], human[rows]).statistic for rows in topics])
            where = {"set": "TAC-2008", "dimension": dimension, "statistic": statistic}
            assert ours(found, "bertscore-f1", **where) == [pytest.approx(expected, abs=1e-6)]
    assert any("fewer than 2 sentences: 3" in remark for remark in found["tables"][0]["remarks"])


def test_captions_are_judged_by_system(told, encoder):
    _, found, folder = told("moverscore_captions")
    scorer = Scorer.from_pretrained("bertscore-r", encoder=str(encoder))
    own: dict[int, list[str]] = {}
    for entry in json.loads((folder / "references.json").read_text())["annotations"]:
        own.setdefault(entry["image_id"], []).append(entry["caption"])
    lines = [line.split(",") for line in (folder / "leaderboard.csv").read_text().splitlines()[1:]]
    means = []
    for system, *_ in lines:
        path = folder / "captions" / system / f"captions_val2014_{system}_results.json"
        entries = json.loads(path.read_text())
        texts = [one["caption"] for one in entries], [own[one["image_id"]] for one in entries]
        means.append(scorer.score(*texts).scores.mean())
    expected = pearsonr(means, [float(line[1]) for line in lines]).statistic
    assert ours(found, "bertscore-recall", dimension="M1") == [pytest.approx(expected, abs=1e-5)]


def test_single_layers_are_counted_from_the_end(told):
    found = told("moverscore_wmt17").json
    encoders = {one["metric"]: one["encoder"] for table in found["tables"] for one in table["records"]}
    assert [encoders[f"layer-{layer}"] for layer in range(5, 0, -1)] == [
        f"tiny-bert, layer {one}" for one in range(2, 7)
    ]
    assert encoders["wmd1"] == "tiny-bert, layers 2-6"


def test_the_reference_of_rome_is_the_meaning_representation(told, encoder):
    _, found, folder = told("rome_data_to_text")
    rows = [json.loads(line) for line in (folder / "d2t.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["dataset"] == "SFHOT"]
    scorer = Scorer.from_pretrained("bertscore-f1", encoder=str(encoder))
    for name, given in (
        ("SFHOTEL, mr", [[row["mr"]] for row in rows]),
        ("SFHOTEL", [row["references"] for row in rows]),
    ):
        scores = scorer.score([row["hypothesis"] for row in rows], given).scores
        expected = spearmanr(scores, [row["quality"] for row in rows]).statistic
        assert ours(found, "bertscore-f1", set=name, dimension="quality") == [pytest.approx(expected, abs=1e-6)]


def kept_scores(folder, name):
    """Rows of the scores that were written beside the page."""
    with (folder / "page.scores" / f"{name}.tsv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def rome_scores(encoder, rows, **fields):
    """What RoMe gives to kept rows."""
    hypotheses = [row["hypothesis"] for row in rows]
    given = [[text for key, text in row.items() if key.startswith("reference") and text] for row in rows]
    return Scorer.from_pretrained("rome", encoder=str(encoder), **fields).score(hypotheses, given)


def test_rome_is_scored_with_the_fields_of_its_rows(told, encoder):
    rows = kept_scores(told("rome_data_to_text").folder, "BAGEL")
    for metric, fields in {
        "rome": {},
        "rome-mean": {"scorer": "mean"},
        "rome-printed": {"scorer": "mean", "variant": "paper", "change": 1.0, "ramp": 0.0},
        "rome-code": {"scorer": "mean", "variant": "code"},
    }.items():
        found, expected = [float(row[metric]) for row in rows], rome_scores(encoder, rows, **fields).scores.tolist()
        assert found == pytest.approx(expected, abs=1e-5), metric


def test_the_steps_of_the_ablation_take_one_part_more_each(told, encoder):
    rows = kept_scores(told("rome_ablation").folder, "dialogue")
    whole = rome_scores(encoder, rows).components
    semantic, syntactic, acceptability = (whole[name] for name in ("semantic", "syntactic", "acceptability"))
    for metric, expected in {
        "emd": rome_scores(encoder, rows, variant="emd").components["semantic"],
        "emd-align": rome_scores(encoder, rows, variant="align").components["semantic"],
        "emd-soft": semantic,
        "with-trees": (semantic + syntactic) / 2,
        "rome-mean": (semantic + syntactic + acceptability) / 3,
        "rome": rome_scores(encoder, rows).scores,
    }.items():
        assert [float(row[metric]) for row in rows] == pytest.approx(expected.tolist(), abs=1e-5), metric


def test_the_centring_analysis_shows_every_layer_and_centring(told):
    found = told("twmd_centering").json
    records = found["tables"][0]["records"]
    assert len(records) == 4 * 7 * 3
    for one in records:
        if (one["centering"], one["similarity"]) == ("sentence", "intra_similarity"):
            assert one["value"] < 0.1  # what the words of a text share is gone
    assert any(remark.startswith("corpus: random words at most") for remark in found["tables"][0]["remarks"])


# --- the published numbers --------------------------------------------------------------------------------------------


def published(name, table, row, encoder):
    spec = load_experiment(ROOT / "configs" / "papers" / f"{name}.yaml").tables[table]
    one = next(one for one in spec.rows if one.name == row)
    return spec, list(next(found.values for found in one.published if found.encoder == encoder))


PRINTED = """
moverscore_wmt17 | 0 | WMD-1, power means | BERT-base, MNLI | .670 .708 .835 .746 .738 .762 .744 .743
moverscore_wmt17 | 0 | WMD-2, power means | BERT-base, MNLI | .679 .710 .832 .745 .736 .763 .740 .743
moverscore_wmt17 | 0 | SMD, power means | BERT-base, MNLI | .616 .643 .785 .660 .664 .668 .633 .667
moverscore_wmt17 | 1 | HMD-F1 | BERT-base, layer 9 | .655 .681 .821 .712
moverscore_wmt17 | 2 | WMD-1, layer 5 from the end | BERT-base, layer 8 | .6361 .6755 .8134 .7033 .7273 .7233 .7175
moverscore_tac | 0 | WMD-1, power means | BERT-base, MNLI | .736 .604 .760 .672 .754 .594 .831 .701
moverscore_data_to_text | 0 | WMD-1, power means | BERT-base | .298 .212 .163 .203 .261 .182
moverscore_captions | 0 | WMD-1, power means | BERT-base, MNLI | .813 .810
twmd_sts | 0 | SBERT-batch | roberta-large, layer 19 | 67.1 66.3
rome_data_to_text | 0 | RoMe | ALBERT-large | .170 .274 .241 .244 .320 .327
rome_dialogue | 0 | RoMe | ALBERT-large | None .52 .78 .11 .14 .43
rome_ablation | 0 | + Grammar | ALBERT-large | 70.1
rome_webnlg | 0 | RoMe | ALBERT-large | \
.72 .70 .51 .53 .53 .37 .44 .50 .35 .58 .56 .39 .64 .68 .50 .38 .42 .27 .50 .51 .36 .42 .42 .30 .84 .89 .83
rome_dialogue | 0 | BERTScore | not named | .40 .32 .62 .08 .03 .31
lazy_emd_wmt18 | 0 | Lazy-EMD | of BERTScore 0.2.2 | \
.403 .555 .544 .730 .395 .591 .301 .562 .350 .424 .281 .404 .264 .372
lazy_emd_wmt19 | 0 | EMD | of BERTScore 0.2.2 | \
.479 .159 .338 .342 .523 .318 .561 .432 .539 .377 .455 .215 .566 .430 .343
lazy_emd_wmt19 | 1 | Lazy-EMD (.009, .95) | of BERTScore 0.2.2 | \
.498 .172 .356 .343 .526 .292 .570 .413 .541 .369 .466 .213 .582 .427 .351
""".replace("\\\n", "")
"""Experiment, table, row, encoder, and the values as they were read from the papers by eye."""


@pytest.mark.parametrize("line", PRINTED.strip().splitlines())
def test_published_rows(line):
    name, table, row, encoder, values = line.split(" | ")
    assert published(name, int(table), row, encoder)[1] == [
        None if one == "None" else float(one) for one in values.split()
    ]


PAPER_FILES = {
    "moverscore": "moverscore_2019.txt",
    "twmd": "twmd_batch_centering_2020.json.txt",
    "rome_data": "rome_2022.txt",
    "rome_ablation": "rome_2022.txt",
}


@pytest.mark.parametrize(
    "path", [one for one in PAPERS if one.stem.startswith(tuple(PAPER_FILES))], ids=lambda path: path.stem
)
def test_published_rows_stand_in_the_paper(path, shared_folder):
    """Every row is a run of numbers that the text of the paper has."""
    text = shared_folder / "papers" / next(PAPER_FILES[one] for one in PAPER_FILES if path.stem.startswith(one))
    numbers = " ".join(str(float(one)) for one in re.findall(r"\d*\.\d+", text.read_text(encoding="utf-8")))
    for table in load_experiment(path).tables:
        for row in table.rows:
            for one in row.published:
                assert " ".join(map(str, one.values)) in numbers, (row.name, one.encoder)


@pytest.mark.parametrize("name", ["moverscore_wmt17", "twmd_wmt17"])
def test_published_means_are_those_of_the_published_columns(name):
    """A wrong digit would show: the papers' own averages, to what rounding leaves open."""
    spec = load_experiment(ROOT / "configs" / "papers" / f"{name}.yaml").tables[0]
    checked = 0
    for row, statistic in itertools.product(spec.rows, spec.statistics):
        for one in row.published:
            found = {
                column.group: value
                for column, value in zip(spec.columns, one.values, strict=True)
                if column.asked.statistic == statistic
            }
            mean = found.pop("mean")
            step = 0.05 if spec.scale == 100 else 0.0005
            assert mean == pytest.approx(np.mean(list(found.values())), abs=2.2 * step), (row.name, one.encoder)
            checked += 1
    assert checked == (18 if name == "moverscore_wmt17" else 48)


def test_systems_of_webnlg_stand_in_the_order_of_their_columns():
    spec, values = published("rome_webnlg", 0, "MoverScore", "not named")
    columns = zip(spec.columns, values, strict=True)
    by_column = {(column.group, column.asked.statistic): value for column, value in columns}
    assert by_column["adapt", "spearman"] == 0.68
    assert by_column["adapt", "pearson"] == 0.73
    assert by_column["adapt", "kendall"] == 0.49
    assert by_column["vietnam", "pearson"] == 0.78
    assert by_column["tilburg-smt", "kendall"] == 0.27
