import re

import numpy as np

from textmover import Scorer
from textmover.presets import build_metric, preset_config
from textmover.scoring import save_checkpoint
from textmover.types import Segment

WORDS = ("old", "young", "red", "small", "green", "good", "warm", "short")


def test_a_card_tells_what_a_rebuilt_metric_hangs_on(script):
    stages = {"mean": [{"average": "one"}], "one": [{"config": "configs/general.yaml"}, {"untrained": 0.5}]}
    told = script.made_with(stages)
    assert re.search(r"textmover \S+, torch \d\S+, transformers \d\S+, tokenizers \d\S+, .+; recipes", told)
    assert re.search(r"`configs/general.yaml` [0-9a-f]{8}\.$", told)
    assert script.processor()


def test_a_card_tells_each_seed_also_where_nobody_judged_it_before(script, tiny_encoder, tmp_path):
    metric = build_metric(preset_config("twmd", encoder=str(tiny_encoder)))
    save_checkpoint(metric, tmp_path / "metric", card="")
    rng = np.random.default_rng(1)
    segments = [
        Segment(f"the {a} dog", (f"the {b} bird",), score=float(rng.normal()), groups={"lp": "xx-en"})
        for a, b in (rng.choice(WORDS, 2) for _ in range(12))
    ]
    judged = script.Judged(segments, "lp")
    ladder = script.Ladder({"one": [{"metric": str(tmp_path / "metric")}]}, tmp_path / "runs", [1, 2], [])
    told = script._details({"seeds_of": "one", "seeds": [1, 2]}, ladder, "dev", judged, judged.scores(Scorer(metric)))
    of_metric = re.search(r"xx-en (-?\d\.\d{3});", told[0]).group(1)
    assert told[1] == f"As trained, seeds 1, 2: {of_metric}, {of_metric}."
    assert (tmp_path / "runs" / "one" / "seed2" / "agreement.json").is_file()


def test_a_head_is_put_into_a_metric_whose_scores_stay(script, tiny_encoder, tmp_path):
    plain = build_metric(preset_config("twmd", encoder=str(tiny_encoder)))
    save_checkpoint(plain, tmp_path / "released", card="")
    headed = build_metric(preset_config("twmd", encoder=str(tiny_encoder), mark_errors=True))
    headed.error_head.take_calibration(0, 1.0, 0.0, 0.0)  # every word is marked
    save_checkpoint(headed, tmp_path / "trained", card="")
    texts = ["the old dog", "a red bird"], ["the young dog", "a red cat"]
    before = Scorer.from_pretrained(tmp_path / "released").score(*texts).scores.tolist()
    script.put_head(tmp_path / "trained", tmp_path / "released")
    after = Scorer.from_pretrained(tmp_path / "released")
    assert after.score(*texts).scores.tolist() == before
    assert [span.end for one in after.errors(*texts) for span in one if not span.missing] == [11, 10]


def test_a_missing_head_is_trained_on_the_new_metric_and_an_existing_one_is_kept(script, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(script.subprocess, "run", lambda command, **_: calls.append(command))
    spec = {"head": str(tmp_path / "trained"), "head_recipe": "configs/errors.yaml"}
    assert script.trained_head(spec, tmp_path / "new") == tmp_path / "trained"
    metric = ["--model.init_args.metric", str(tmp_path / "new"), "--export", str(tmp_path / "trained")]
    assert [one[1:] for one in calls] == [["train.py", "fit", "--config", "configs/errors.yaml", *metric]]
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "model.safetensors").touch()
    script.trained_head(spec, tmp_path / "new")
    assert len(calls) == 1
