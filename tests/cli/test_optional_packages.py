"""What an optional package is missing for is said in one sentence with its extra, before any work."""

import sys

import pytest

NEVER = ("--encoder", "never-loaded")

COMMANDS = {
    "analyse-layers": ("matplotlib", "report", ("analyse-layers", "--data", "hyp.txt", *NEVER)),
    "sweep": ("matplotlib", "report", ("sweep", "--data", "rated.csv", "--field", "layer=1,2", *NEVER)),
    "evaluate report": ("jinja2", "report", ("evaluate", "--data", "rated.csv", "--report", "r", *NEVER)),
    "compare page": (
        "jinja2",
        "report",
        ("compare", "--hypotheses", "hyp.txt", "ref.txt", "--references", "ref.txt", "--output", "c.html", *NEVER),
    ),
    "rank page": (
        "jinja2",
        "report",
        ("rank", "--data", "systems.csv", "--system-column", "s", "--output", "r.html", *NEVER),
    ),
    "robustness figure": ("matplotlib", "report", ("robustness", "-i", "hyp.txt", "--output", "r.html", *NEVER)),
    "explain figure": ("matplotlib", "report", ("explain", "-i", "hyp.txt", "ref.txt", "--output", "e.png", *NEVER)),
    "explain page": ("jinja2", "report", ("explain", "-i", "hyp.txt", "ref.txt", "--output", "e.html", *NEVER)),
    "search": ("optuna", "search", ("search", "--config", "r.yaml", "--space", "s.yaml", "--output", "o")),
    "app": ("gradio", "app", ("app",)),
    "packed scores": ("zstandard", "zstd", ("score", "-i", "hyp.txt", "ref.txt", "--output", "s.tsv.zst", *NEVER)),
    "packed texts": ("zstandard", "zstd", ("score", "-i", "hyp.txt.zst", "ref.txt", *NEVER)),
    "lexical": (
        "sacrebleu",
        "lexical",
        ("evaluate", "--data", "rated.csv", "--baselines", "chrf", *NEVER),
    ),
    "openvino": ("openvino", "openvino", ("score", "-i", "hyp.txt", "ref.txt", "--backend", "openvino", *NEVER)),
    "onnxruntime": (
        "onnxruntime",
        "onnxruntime",
        ("score", "-i", "hyp.txt", "ref.txt", "--backend", "onnxruntime", *NEVER),
    ),
    "parser": ("spacy", "rome", ("perturb", "-i", "hyp.txt", "--parser", "en_core_web_sm")),
    "rome": ("spacy", "rome", ("score", "-i", "hyp.txt", "ref.txt", "--model", "rome")),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_missing_package_is_named_with_its_extra_before_any_work(refused, texts, write, monkeypatch, case):
    package, extra, arguments = COMMANDS[case]
    write("rated.csv", ["hypothesis,reference,score", *(f"text {n},a text,{n}" for n in range(9))])
    write("systems.csv", ["hypothesis,reference,s", *(f"text {n},a text {n // 2},{'ab'[n % 2]}" for n in range(40))])
    write("hyp.txt.zst", ["a"])
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert f"textmover[{extra}]" in refused(*arguments)
