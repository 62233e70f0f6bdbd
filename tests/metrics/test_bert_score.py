"""BERTScore behind torchmetrics' interface: its numbers, bert-score's numbers, streaming states, several processes."""

import contextlib
from itertools import product
from random import Random

import pytest
import torch
from tests.sentences import sentences
from torchmetrics.text import BERTScore

from textmover.functional import pairwise_similarity
from textmover.metrics import TextMoverBERTScore
from textmover.scoring import EncoderMemory, Scorer
from textmover.types import InputError

SIDES = ("precision", "recall", "f1")
DROP = dict.fromkeys(("hypothesis_special_tokens", "reference_special_tokens"), "drop")
PREDS = ["the small dog ran home", "she will buy a book", "tea", "go home", "water , cold water !"]
TARGET = [["a little dog runs home", "the dog ran"], ["she sold two books"], ["warm tea", "tea"], ["go home"], ["tea"]]


@pytest.fixture
def build(tiny_encoder):
    def made(**options) -> TextMoverBERTScore:
        return TextMoverBERTScore(str(tiny_encoder), device="cpu", **options)

    return made


@pytest.fixture(params=[False, True], ids=["plain", "idf"])
def idf(request) -> bool:
    return request.param


def scored(metric, sizes=(5,), preds=PREDS, target=TARGET) -> dict[str, torch.Tensor]:
    start = 0
    for size in sizes:
        metric.update(preds[start : start + size], target[start : start + size])
        start += size
    return metric.compute()


def assert_same(found, expected, atol=1e-6) -> None:
    assert set(found) == set(expected)
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=atol)


# --- numbers of others ------------------------------------------------------------------------------------------------


def ascending_pairs(tokenizer, count: int) -> tuple[list[str], list[str]]:
    """Pairs whose sides both grow by a token or more from pair to pair, with unlike texts and close ones.

    torchmetrics (1.9) sorts both sides by length and does not find back from it: its pairs are the ones that were given
    only where sorting changes nothing.
    """
    random = Random(3)
    words = sorted({word for texts in TARGET for text in texts for word in text.split()} | set(" ".join(PREDS).split()))
    sides: tuple[list[str], list[str]] = ([], [])
    lengths = [0, 0]
    for row in range(count):
        for side, texts in enumerate(sides):
            chosen = sides[0][-1].split() if side and row % 3 == 0 else []
            random.shuffle(chosen)
            while len(tokenizer([" ".join(chosen)])["input_ids"][0]) <= max(lengths[side], 2):
                chosen.append(random.choice(words))
            lengths[side] = len(tokenizer([" ".join(chosen)])["input_ids"][0])
            texts.append(" ".join(chosen))
    return sides


def of_torchmetrics(folder, preds, target, **options) -> dict[str, torch.Tensor]:
    theirs = BERTScore(str(folder), truncation=True, **{"max_length": 128, "batch_size": 4, **options})
    theirs.update(preds, target)
    return theirs.compute()


@pytest.mark.parametrize("num_layers", [None, 0, 2, -2])
def test_it_gives_what_torchmetrics_gives(tiny_encoder, build, idf, num_layers, capfd):
    from transformers import AutoTokenizer

    preds, target = ascending_pairs(AutoTokenizer.from_pretrained(tiny_encoder), 25)
    expected = of_torchmetrics(tiny_encoder, preds, target, idf=idf, num_layers=num_layers, return_hash=True)
    found = scored(build(idf=idf, num_layers=num_layers, return_hash=True), (7, 1, 17), preds, target)
    assert found.pop("hash") == expected.pop("hash")
    assert found["f1"].std() > 0.02
    assert_same(found, expected, atol=1e-5)


def test_a_partner_that_is_worse_than_none_is_none(tiny_encoder, tmp_path, capfd):
    """Single words whose cosine is negative: torchmetrics gives 0 there, the plain metric the cosine."""
    import shutil

    from transformers import AutoModel

    folder = tmp_path / "bare"
    shutil.copytree(tiny_encoder, folder)
    model = AutoModel.from_pretrained(folder)
    with torch.no_grad():  # what all words have in common, and brings them together
        model.embeddings.position_embeddings.weight.zero_()
        model.embeddings.token_type_embeddings.weight.zero_()
    model.save_pretrained(folder)

    pairs = list(product(["tea", "dog", "water", "home", "book", "cold"], repeat=2))
    plain = Scorer.from_pretrained("bertscore-f1", encoder=str(folder), layer=0, device="cpu", **DROP)
    found = plain.score(*zip(*pairs, strict=True)).recall
    for row in (int(found.argmin()), int(abs(found - 0.2).argmin())):
        expected = of_torchmetrics(folder, *([text] for text in pairs[row]), num_layers=0)
        assert expected["recall"].item() == pytest.approx(max(found[row], 0), abs=1e-6)
        for idf in (False, True):
            metric = TextMoverBERTScore(folder, num_layers=0, idf=idf, device="cpu")
            assert_same(scored(metric, (1,), *([text] for text in pairs[row])), expected)
    assert found.min() < -0.1
    assert "floor:0" in str(metric.scorer.signature)
    assert "floor" not in str(plain.signature)


def test_no_model_is_the_default_one(monkeypatch, tiny_encoder):
    monkeypatch.setattr("textmover.metrics.bert_score.DEFAULT_ENCODER", str(tiny_encoder))
    assert TextMoverBERTScore(None, device="cpu", return_hash=True).hash.startswith(str(tiny_encoder))


def test_several_references_are_those_of_torchmetrics(tiny_encoder, build, idf, capfd):
    """Each value is the best over the references, and each reference is a document."""
    preds = ["tea", "go home now", "the small dog ran home at night"]
    target = [["tea", "cold"], ["home at last , we say"], ["a dog ran to the city today , we heard", "dog " * 12]]
    expected = of_torchmetrics(tiny_encoder, preds, target, idf=idf)
    assert_same(scored(build(idf=idf), (2, 1), preds, target), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("idf", "special"),
    [
        (False, "drop"),
        (True, "targets"),
        pytest.param(True, "drop", marks=pytest.mark.long),
        pytest.param(False, "targets", marks=pytest.mark.long),
    ],
)
def test_the_embedded_encoder_gives_what_torchmetrics_and_bert_score_give(embedded, idf, special, capfd):
    from bert_score import score
    from transformers import AutoTokenizer

    preds, target = ascending_pairs(AutoTokenizer.from_pretrained(embedded), 20)
    if special == "drop":
        expected = of_torchmetrics(embedded, preds, target, idf=idf)
    else:
        # In larger batches the package lets padding take part with a cosine of 0, which beats a negative one.
        three = score(preds, target, model_type=str(embedded), num_layers=6, idf=idf, batch_size=1, device="cpu")
        expected = dict(zip(SIDES, three, strict=True))
    metric = TextMoverBERTScore(embedded, idf=idf, special_tokens=special, device="cpu")
    assert_same(scored(metric, (9, 11), preds, target), expected, atol=1e-5)


def test_rescaled_values_are_those_of_torchmetrics(tiny_encoder, build, idf, tmp_path, capfd):
    table = tmp_path / "baseline.tsv"
    rows = [f"{layer},0.{layer + 1}1,0.{layer + 1}2,0.{layer + 1}3" for layer in range(4)]
    table.write_text("\n".join(["LAYER,P,R,F", *rows]) + "\n")
    preds, target = ["tea", "go home now"], ["cold tea", "we go home today"]
    for layer in (None, 2):
        options = {"num_layers": layer, "rescale_with_baseline": True, "baseline_path": str(table), "idf": idf}
        expected = of_torchmetrics(tiny_encoder, preds, target, **options)
        metric = build(**options)
        assert_same(scored(metric, (1, 1), preds, target), expected, atol=1e-5)
        base = 0.43 if layer is None else 0.33
        assert metric.plot_upper_bound == pytest.approx(1)
        assert metric.plot_lower_bound == pytest.approx(-base / (1 - base))


@pytest.mark.parametrize("special", ["drop", "targets"])
def test_idf_weighs_as_the_scorer_does(tiny_encoder, build, special):
    """Against the differentiable path, in which a table is fitted on the references of the call."""
    metric = build(idf=True, special_tokens=special)
    fields = {"hypothesis_special_tokens": special, "reference_special_tokens": special, "layer": -1}
    theirs = Scorer.from_pretrained("bertscore-f1-idf", encoder=str(tiny_encoder), device="cpu", **fields)
    theirs.metric.matching = metric.scorer.metric.matching
    preds, target = [*PREDS, "", "tea", "   "], [*TARGET, ["tea", ""], [""], ["go"]]
    expected = theirs.score(preds, target)
    found = scored(metric, (3, 5), preds, target)
    for name, values in zip(SIDES, (expected.precision, expected.recall, expected.f), strict=True):
        torch.testing.assert_close(found[name].double(), torch.from_numpy(values), rtol=0, atol=1e-6)


def test_means_over_references_and_other_f_scores_are_taken_over(tiny_metric):
    fields = {"matching": "bertscore", "normalize": False, "multi_reference": "mean", "alpha": 0.8, **DROP}
    expected = Scorer(tiny_metric(**fields, weights="idf", idf_from="references")).score(PREDS, TARGET)
    found = scored(TextMoverBERTScore(tiny_metric(**fields), idf=True))
    assert found["f1"].tolist() == pytest.approx(expected.f.tolist(), abs=1e-6)
    assert found["recall"].tolist() == pytest.approx(expected.recall.tolist(), abs=1e-6)


# --- updates and outputs ----------------------------------------------------------------------------------------------


def test_outputs_have_the_form_of_torchmetrics(build, idf):
    metric = build(idf=idf)
    several = scored(metric)
    assert list(several) == list(SIDES)
    assert {(one.dtype, tuple(one.shape)) for one in several.values()} == {(torch.float32, (5,))}
    metric.reset()
    metric.update("go home", "go home")
    assert {tuple(one.shape) for one in metric.compute().values()} == {()}
    assert metric.compute()["f1"].item() == pytest.approx(1, abs=1e-6)
    assert not metric.is_differentiable
    assert metric.higher_is_better
    assert (metric.plot_lower_bound, metric.plot_upper_bound) == (0.0, 1.0)


def test_the_same_texts_in_all_shapes(build, idf):
    expected = scored(build(idf=idf), (2,), ["tea", "go home"], [["cold tea"], ["home"]])
    for target in (["cold tea", "home"], ("cold tea", "home"), [("cold tea",), "home"]):
        assert_same(scored(build(idf=idf), (2,), ("tea", "go home"), target), expected)


def test_results_come_in_the_order_of_positions_each_once(build, idf):
    metric = build(idf=idf)
    for rows in ([3, 0, 4], [0, 3], [2, 1, 2]):  # some of them again, as samplers repeat them
        metric.update([PREDS[row] for row in rows], [TARGET[row] for row in rows], positions=rows)
    assert_same(metric.compute(), scored(build(idf=idf)))


def test_what_is_kept_is_short_and_flat(build):
    plain, weighted = build(), build(idf=True)
    scored(plain, (3, 2))
    scored(weighted, (3, 2))
    assert {one.numel() for name in SIDES for one in getattr(plain, name)} == {3, 2}
    tokens = sum(len(one) for one in weighted.tokens)
    assert tokens == sum(len(one) for one in weighted.similarities) == int(torch.cat(weighted.lengths).sum())
    assert {one.dim() for name in weighted._defaults for one in getattr(weighted, name)} == {1, 0}
    assert (weighted.tokens[0].dtype, weighted.similarities[0].dtype) == (torch.int32, torch.float32)
    assert torch.cat(weighted.references).tolist() == [2, 1, 2, 1, 1]


class Reading:
    """What an encoder reads: texts, and the tokens of its batches, padding included; no memory for larger ones."""

    def __init__(self, metric: TextMoverBERTScore, limit: int = 1 << 30) -> None:
        self.encoder, self.limit = metric.scorer.metric.encoder, limit
        self.texts: list[str] = []
        self.sizes: list[int] = []
        self._encode, self.encoder.encode = self.encoder.encode, self

    def __call__(self, batch):
        if batch.mask.numel() > self.limit:
            raise torch.OutOfMemoryError("no room")
        self.texts += batch.texts
        self.sizes.append(batch.mask.numel())
        return self._encode(batch)


def test_each_text_is_read_once_in_batches_of_so_many_tokens(build, idf):
    preds = sentences(20, 0) * 3
    target = [[one, "home"] for one in preds[::-1]]
    metric = build(idf=idf, batch_tokens=40)
    reading = Reading(metric)
    found = scored(metric, (50, len(preds) - 50), preds, target)
    assert sorted(reading.texts) == sorted({*preds, *(text for texts in target for text in texts)})
    assert max(reading.sizes) <= 40
    assert_same(found, scored(build(idf=idf), (len(preds),), preds, target))


def test_batches_are_halved_where_memory_ends(build, idf, caplog):
    metric = build(idf=idf)
    reading = Reading(metric, limit=12)
    found = scored(metric)
    assert max(reading.sizes) <= 12
    assert metric.scorer._engine.batch_tokens <= 12  # for the updates that come
    assert "Out of memory on cpu: going on with batches of" in caplog.text
    assert_same(found, scored(build(idf=idf)))


def test_matches_are_halved_where_memory_ends(build, monkeypatch, caplog):
    from textmover.metrics import bert_score_matches

    def tight(reference, hypothesis):
        if len(reference) > 2:
            raise torch.OutOfMemoryError("no room")
        return pairwise_similarity(reference, hypothesis)

    monkeypatch.setattr(bert_score_matches, "pairwise_similarity", tight)
    metric = build(idf=True)
    found = scored(metric)
    assert metric.scorer._engine._block < Scorer(metric.scorer.metric)._engine._block
    assert "going on with fewer pairs at a time" in caplog.text
    assert_same(found, scored(build(idf=True)))


def test_states_of_a_memory_serve_idf_too(tiny_encoder, build):
    memory = EncoderMemory()
    metrics = [build(idf=idf, memory=memory) for idf in (False, True)]
    first, second = (Reading(metric) for metric in metrics)
    expected = scored(build(idf=True))
    scored(metrics[0])
    assert_same(scored(metrics[1]), expected)
    assert first.texts
    assert second.texts == []


def test_idf_shows_progress_as_scoring_does(build, monkeypatch):
    shown = []

    @contextlib.contextmanager
    def bar(self, total, name="scoring"):
        yield lambda done: shown.append((done, total))

    monkeypatch.setattr(Scorer, "_progress_bar", bar)
    scored(build(idf=True))
    assert sum(done for done, _ in shown) == 5
    assert {total for _, total in shown} == {5}


# --- special cases ----------------------------------------------------------------------------------------------------


def test_texts_without_tokens_have_0(build, idf, caplog):
    metric = build(idf=idf)
    found = scored(metric, (1, 3), ["", "tea", "go", ""], ["", "", "go home", "tea"])
    for values in found.values():
        assert values[[0, 1, 3]].tolist() == [0, 0, 0]
        assert values[2] > 0.3
    assert len([one for one in caplog.records if "scored as texts with nothing in common" in one.message]) == 1


def test_texts_without_any_token_at_all_have_0(tmp_path, idf):
    """As with static vectors, which know no special tokens."""
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {1 / (row + 1)} {row}\n" for row, word in enumerate(["tea", "dog", "home", "go"])))
    scorer = Scorer.from_pretrained("bertscore-f1", encoder=str(path), device="cpu", **DROP)
    found = scored(TextMoverBERTScore(scorer, idf=idf), (1, 1, 1), ["", "tea", "go home"], ["", "", "dog home"])
    for values in found.values():
        assert values[:2].tolist() == [0, 0]
        assert values[2] > 0


def test_a_text_of_which_every_reference_holds_all_has_uniform_weights(build, caplog):
    preds, target = ["tea", "water cold"], ["tea tea", "tea water"]
    found, plain = (scored(build(idf=idf), (2,), preds, target) for idf in (True, False))
    assert found["recall"][0].item() == pytest.approx(plain["recall"][0].item(), abs=1e-6)
    assert next(one for one in caplog.messages if "uniform weights" in one).startswith("1 segment had")
    single = scored(build(idf=True), (1,), preds[1:], target[1:])
    assert_same(single, scored(build(), (1,), preds[1:], target[1:]))


def test_long_texts_are_refused_unless_they_may_be_cut(build, idf, caplog):
    long = "water " * 40
    with pytest.raises(InputError, match="at most 12 tokens"):
        build(idf=idf, max_length=12).update(["tea", long], ["tea", "cold tea"])
    found = scored(build(idf=idf, max_length=12, truncation=True), (2,), ["tea", long], ["tea", "cold tea"])
    assert_same(found, scored(build(idf=idf), (2,), ["tea", "water " * 10], ["tea", "cold tea"]))
    assert "1 segment had a text that is longer than" in caplog.text
    windows = scored(build(idf=idf, max_length=12, long_texts="window"), (2,), ["tea", long], ["tea", "cold tea"])
    assert abs(windows["precision"][1] - found["precision"][1]) > 1e-4


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"all_layers": True}, "`all_layers` to be left out, but got True: make one metric per layer"),
        ({"user_tokenizer": str}, "`user_tokenizer` to be left out"),
        ({"user_forward_fn": len}, "`user_forward_fn` to be left out"),
        ({"baseline_url": "https://example.org"}, "fetch the file and give it as `baseline_path`"),
        ({"model": torch.nn.Identity()}, "give a metric or a Scorer as `model_name_or_path`"),
    ],
)
def test_what_makes_no_sense_here_is_refused(build, options, message):
    with pytest.raises(TypeError, match=message):
        build(**options)


def test_what_changes_no_score_is_accepted(build):
    options = {"verbose": True, "batch_size": 1, "num_threads": 4, "lang": "de", "sync_on_compute": False}
    assert_same(scored(build(**options)), scored(build()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"idf": "yes"}, "`idf` to be True or False"),
        ({"num_layers": 9}, "`layer` to be between 0 and 3"),
        ({"special_tokens": "keep"}, "`special_tokens` to be one of 'drop', 'targets'"),
        ({"baseline_path": "x.tsv"}, "rescale_with_baseline=True with `baseline_path`"),
        ({"rescale_with_baseline": True, "baseline_path": "nowhere.tsv"}, "a table of baselines .* FileNotFoundError"),
        ({"rescale_with_baseline": True, "baseline_path": "nowhere"}, "there is no such file"),
        ({"matching": "sbert"}, "matching='bertscore', but got sbert: TextMoverScore takes any metric"),
        ({"weights": "idf"}, "`weights` to be 'uniform' with idf=True"),
        ({"error_norm": 8.0}, "`error_norm` to be 1.0 with idf=True"),
        ({"weights": "idf", "idf_from": "sides", "idf": False}, "idf_from='sides' and no table"),
        ({"multi_reference": "all"}, "`multi_reference` to be 'best' or 'mean' with idf=True"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(build, options, message):
    with pytest.raises(InputError, match=message):
        build(**{"idf": True, **options})


@pytest.mark.parametrize(
    "text", ["LAYER,P,R,F\n0,.1,.1,.1\n", "LAYER,P,R,F\n3,a,.1,.1\n", "LAYER,P,R,F\n3,.1,.1\n", ""], ids=repr
)
def test_a_table_without_the_layer_is_refused(build, tmp_path, text):
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(InputError, match=r"table\.csv to (have one row|be a table)"):
        build(rescale_with_baseline=True, baseline_path=tmp_path / "table.csv")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bertscore-f1", "preset 'bertscore-f1', which is a metric: this class is BERTScore already, so leave it"),
        ("twmd", r"preset 'twmd', which is a metric: TextMoverScore\('twmd'\) takes any metric\."),
        ("textmover-general", "released metric 'textmover-general', which is a metric: TextMoverScore"),
    ],
)
def test_a_metric_in_place_of_its_encoder_is_told_from_one(name, said):
    message = f"Expected `model_name_or_path` to be an encoder by name or folder, but got the {said}"
    with pytest.raises(InputError, match=message):
        TextMoverBERTScore(name)


def test_objects_leave_nothing_to_choose(tiny_metric, build):
    greedy = tiny_metric(matching="bertscore", normalize=False)
    with pytest.raises(TypeError, match="loaded by name, but got num_layers, device with an object"):
        TextMoverBERTScore(greedy, num_layers=2, device="cpu")
    with pytest.raises(InputError, match="but got twmd: TextMoverScore takes any metric"):
        TextMoverBERTScore(tiny_metric())
    with pytest.raises(TypeError, match="a name, a Scorer or a metric, but got int: give one of these, such as Scorer"):
        TextMoverBERTScore(3)
    with pytest.raises(InputError, match="`hypothesis_special_tokens` to be 'drop' or 'targets' with idf=True"):
        TextMoverBERTScore(greedy, idf=True)
    assert "hash" not in TextMoverBERTScore(greedy)("tea", "tea")
    named = TextMoverBERTScore(greedy, return_hash=True)("tea", "tea")["hash"]
    assert named.startswith("tiny@")
    assert named.endswith("_L3_no-idf")


def test_a_baseline_is_fitted_saved_and_loaded(build, tmp_path, idf):
    metric = build(rescale_with_baseline=True, idf=idf)
    with pytest.raises(InputError, match=r"\(baseline\) to be fitted"):
        metric.update(PREDS, TARGET)
    metric.scorer.fit([text for texts in TARGET for text in texts])
    expected = scored(metric)
    path = metric.scorer.save_statistics(tmp_path / "baseline.safetensors")
    found = scored(build(rescale_with_baseline=True, baseline_path=path, idf=idf))
    assert_same(found, expected)
    assert not torch.allclose(found["f1"], scored(build(idf=idf))["f1"])
    with pytest.raises(InputError, match="special:drop instead of special:targets"):
        build(rescale_with_baseline=True, baseline_path=path, special_tokens="targets")


# --- two processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idf", "repeats"),
    [
        pytest.param(True, False, marks=pytest.mark.slow, id="idf, uneven shares"),
        pytest.param(False, True, marks=pytest.mark.slow, id="filled up with repeats"),
        pytest.param(False, False, marks=pytest.mark.long, id="uneven shares"),
        pytest.param(True, True, marks=pytest.mark.long, id="idf, filled up with repeats"),
    ],
)
def test_two_processes_give_the_values_of_one_in_order(tiny_encoder, in_two_processes, build, idf, repeats):
    pairs = list(zip(sentences(1001, 0), sentences(1001, 1), strict=True))
    expected = scored(build(idf=idf), (1001,), [one for one, _ in pairs], [other for _, other in pairs])
    assert expected["f1"].unique().numel() > 900
    for result in in_two_processes("gathered_bert_scores", str(tiny_encoder), pairs, idf, repeats):
        assert_same(result, expected)


@pytest.mark.long
def test_a_process_without_segments_hinders_no_other(tiny_encoder, in_two_processes, build, idf):
    pairs = [("tea", "cold tea")]
    expected = scored(build(idf=idf), (1,), *([text] for text in pairs[0]))
    for result in in_two_processes("gathered_bert_scores", str(tiny_encoder), pairs, idf, False):
        assert_same(result, expected)
