"""``--model auto``: English texts are scored by the default metric, others by the multilingual one, never silently."""

import argparse
import logging

import pytest

from textmover.cli.main import main
from textmover.modules.encoder.source import MULTILINGUAL
from textmover.scoring import Scorer, metric_set, scorer_from_options
from textmover.scoring.metric_field_options import FIELD, given_fields
from textmover.types import InputError, SourcedReferences

ENGLISH = ["The train arrives at eight o'clock and the cat is asleep."] * 5
GERMAN = ["Der Zug kommt um acht Uhr an, und die Katze schläft auf dem Stuhl."] * 5
CHINESE = ["火车八点钟到达。"]


@pytest.mark.parametrize(
    ("sides", "released", "model", "fields"),
    [
        ((ENGLISH, ENGLISH), True, "textmover-general", {}),
        ((ENGLISH, ["Yes."]), True, "textmover-general", {}),
        ((GERMAN, ENGLISH), False, "twmd", {"encoder": MULTILINGUAL}),
        ((ENGLISH, GERMAN), False, "twmd", {"encoder": MULTILINGUAL}),
        ((CHINESE, CHINESE), True, "textmover-multilingual", {}),
    ],
)
def test_the_metric_follows_the_language(monkeypatch, caplog, sides, released, model, fields):
    monkeypatch.setattr(scorer_from_options, "released_folder", lambda name: released)
    options = argparse.Namespace(model="auto")
    with caplog.at_level(logging.WARNING):
        scorer_from_options.take_by_language(options, sides[0], [[text] for text in sides[1]])
    assert (options.model, given_fields(options)) == (model, fields)
    told = [one.message for one in caplog.records]
    taken = model if released else f"twmd on {MULTILINGUAL}"
    names = zip(("hypotheses", "references"), sides, strict=True)
    foreign = " and ".join(name for name, side in names if side in (GERMAN, CHINESE))
    expected = f"`--model auto` takes {taken}, since the {foreign} do not look English."
    assert told == ([] if model == "textmover-general" else [expected])


@pytest.mark.parametrize(("fields", "swept"), [({f"{FIELD}encoder": "x"}, ()), ({}, ("layer", "encoder"))])
def test_an_encoder_beside_it_is_refused(fields, swept):
    options = argparse.Namespace(model="auto", **fields)
    with pytest.raises(InputError, match="Expected `--model auto` or `--encoder`, but got both"):
        scorer_from_options.take_by_language(options, ENGLISH, [], swept)


COMMANDS = {
    "score": "-i h.txt r.txt",
    "score by source": "-i h.txt -s r.txt",
    "compare": "-t h.txt o.txt -r r.txt",
    "rank": "-t h.txt o.txt -r r.txt",
    "rank by source": "-t h.txt o.txt -s r.txt",
    "rank long": "--data t.csv --system-column system",
    "mbr": "-i r.txt --num-candidates 1",
    "explain": "-i h.txt r.txt",
    "score by source alone": "--data s.csv",
    "evaluate": "--data t.csv --samples 20",
    "sweep": "--data t.csv --field temperature=0.1,0.2 --no-figure",
}


@pytest.mark.parametrize("other", [ENGLISH[0], GERMAN[0]])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_read_texts_before_they_take_a_metric(monkeypatch, tmp_path, command, other):
    expected = "textmover-general" if other == ENGLISH[0] and "source" not in command else "twmd"

    class ReachedError(Exception):
        pass

    def build_scorer(options, *_, **__):
        raise ReachedError(options.model)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scorer_from_options, "released_folder", lambda name: None)
    monkeypatch.setattr(metric_set, "check_layers", lambda config: None)  # of an encoder that may not be at hand
    for module in (scorer_from_options, metric_set):
        monkeypatch.setattr(module, "build_scorer", build_scorer)
    for name, text in (("h.txt", ENGLISH[0]), ("o.txt", ENGLISH[0]), ("r.txt", other)):
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    rows = [f'{system},"{ENGLISH[0]}","{other}",{score}' for score, system in enumerate("abc")]
    (tmp_path / "t.csv").write_text("\n".join(["system,hypothesis,reference,score", *rows]), encoding="utf-8")
    (tmp_path / "s.csv").write_text(f'hypothesis,source\n"{ENGLISH[0]}","{other}"\n', encoding="utf-8")
    with pytest.raises(ReachedError, match=expected):
        main([command.split()[0], *COMMANDS[command].split(), "--model", "auto"])


def test_sources_that_nobody_asks_for_do_not_choose_the_metric(monkeypatch):
    options = argparse.Namespace(model="auto")
    scorer_from_options.take_by_language(options, ENGLISH, [SourcedReferences([ENGLISH[0]], GERMAN[0])])
    assert options.model == "textmover-general"


@pytest.fixture(scope="module")
def english(embedded):
    return Scorer.from_pretrained("twmd", backend="torch").metric


@pytest.mark.parametrize(
    "texts", [GERMAN, ["Le train arrive à huit heures et le chat dort."], ["Hoy hace frío en la ciudad."]]
)
def test_other_languages_are_warned_of_once(english, caplog, texts):
    scorer = Scorer(english)
    for _ in range(2):
        assert scorer.score(texts, [ENGLISH[0]] * len(texts)).counts == {"language": len(texts)}
    told = [one.message for one in caplog.records if "does not look English" in one.message]
    assert len(told) == 1
    assert "`--model textmover-multilingual`" in told[0]
    assert scorer.score(ENGLISH, ENGLISH).counts == {}


def test_elsewhere_it_is_refused_with_the_way_out():
    with pytest.raises(
        InputError, match=r"but got 'auto'\. Only commands that read texts before they load a metric take `auto`"
    ):
        Scorer.from_pretrained("auto")
