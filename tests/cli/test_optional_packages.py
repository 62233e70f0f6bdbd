"""What an optional package is missing for is said in one sentence with its extra, before any work."""

import sys

import pytest

CASES = """
matplotlib report analyse-layers --data hyp.txt
matplotlib report sweep --data rated.csv --field layer=1,2
matplotlib report robustness -i hyp.txt --output r
matplotlib report explain -i hyp.txt ref.txt --output e.png
jinja2 report evaluate --data rated.csv --report r
jinja2 report compare --hypotheses hyp.txt ref.txt --references ref.txt --output c.html
jinja2 report rank --data systems.csv --system-column s --output r.html
jinja2 report explain -i hyp.txt ref.txt --output e.html
jinja2 report errors -i hyp.txt ref.txt --output e.html
optuna search search --config r.yaml --space s.yaml --output o
gradio app app
zstandard zstd score -i hyp.txt ref.txt --output s.tsv.zst
zstandard zstd score -i hyp.txt.zst ref.txt
sacrebleu lexical evaluate --data rated.csv --baselines chrf
openvino openvino score -i hyp.txt ref.txt --backend openvino
onnxruntime onnxruntime score -i hyp.txt ref.txt --backend onnxruntime
spacy rome perturb -i hyp.txt --parser en_core_web_sm
spacy rome score -i hyp.txt ref.txt --model rome
"""
"""A package, the extra that brings it, and a command that needs it."""


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_a_missing_package_is_named_with_its_extra_before_any_work(refused, texts, write, monkeypatch, case):
    package, extra, *arguments = case.split()
    if "rome" not in (extra, *arguments) and arguments[0] not in ("search", "app"):
        arguments += ["--encoder", "never-loaded"]
    write("rated.csv", ["hypothesis,reference,score", *(f"text {n},a text,{n}" for n in range(9))])
    write("systems.csv", ["hypothesis,reference,s", *(f"text {n},a text {n // 2},{'ab'[n % 2]}" for n in range(40))])
    write("hyp.txt.zst", ["a"])
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert f"textmover[{extra}]" in refused(*arguments)
