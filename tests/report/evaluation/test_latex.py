"""LaTeX that every pdflatex reads, whatever evaluations hold."""

from dataclasses import replace

import pytest

from textmover.meta_evaluation import Protocol
from textmover.report import format_evaluations
from textmover.report.table_formats import latex_text

PDFLATEX_KNOWS = set(map(chr, range(32, 127))) | {"\n"}


@pytest.mark.parametrize(
    ("protocol", "header"),
    [
        (Protocol("tau23"), r"$\tau_{23}$"),
        (Protocol("kendall"), r"$\tau_{b}$"),
        (Protocol("kendall-c"), r"$\tau_{c}$"),
        (Protocol("spearman"), r"$\rho$"),
        (Protocol("acc23"), "acc23"),
    ],
    ids=str,
)
def test_latex_is_ascii_whatever_names_and_remarks_hold(section, protocol, header):
    def renamed(judgements, scores):
        groups = tuple(one.replace("group-0", "中文 → čeština × ϕ") for one in judgements.groups)
        return replace(judgements, groups=groups), [replace(scores[0], name="µ–Τ “ε”"), *scores[1:]]

    evaluation = section(change=renamed, protocol=protocol, baseline="µ–Τ “ε”").evaluation
    latex = format_evaluations([evaluation], "latex", further=[["Kept: 1 ≤ λ…"]])
    assert set("\n".join(line for line in latex.splitlines() if not line.startswith("%"))) <= PDFLATEX_KNOWS
    top = latex[latex.index(r"\toprule") : latex.index(r"\midrule")]
    assert f"metric & {header} &" in top
    assert r"\texttt{U+4E2D}\texttt{U+6587} $\rightarrow$ \v{c}e\v{s}tina $\times$ \texttt{U+03D5}" in top
    assert r"$\mu$--$\mathrm{T}$ ``$\epsilon$''" in latex
    assert r"Kept: 1 $\leq$ $\lambda$\ldots{}" in latex
    assert latex.count("{") == latex.count("}")
    assert latex.count("$") % 2 == 0


def test_rows_and_options_mean_to_latex_what_they_mean_to_people():
    r"""A row that starts with a bracket would be an option of the ``\\`` before it, and two hyphens a dash."""
    assert latex_text("[x] --seed -0.5 a-1") == "{[}x{]} -{}-seed $-$0.5 a-1"
    assert latex_text("0.4–0.5") == "0.4--0.5"
