"""Names, labels and texts of others in every format that people look at: they are shown, and do nothing."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from markdown_it import MarkdownIt
from matplotlib.cbook import is_math_text

from textmover.markdown_escaping import (
    figure_label,
    markdown_code,
    markdown_fence,
    markdown_link,
    markdown_text,
    one_line,
)
from textmover.meta_evaluation import MetricScores, evaluate
from textmover.report import draw_panels, format_evaluations
from textmover.report.figures.matplotlib_figures import HeatGroup, Line, Panel, draw_heat_map
from textmover.report.table_formats import Page, block, latex_text, page_text
from textmover.types import Judgements

NAMES = {
    "script": '<script>alert("x")</script>', "image": "<img src=x onerror=alert(1)>", "tag": "</td></table><h1>x</h1>",
    "comment": "<!-- x", "entity": "&lt;b&gt; &amp; &#60;", "quotes": "\"' onmouseover='x' \"", "bar": "a | b || c",
    "stars": "*a* **b** a*b*c", "lines": "_a_ __b__ a_b", "ticks": "`a` ``b``` c", "fence": "```\n<b>x</b>\n```",
    "dollars": "$x$ $$y$$ $", "tex": r"\input{/etc/passwd} \write18{x} %", "carets": "^^4d ~ # & { }", "caret": "^^M x",
    "lines of text": "a\n\n# b\n---\n| c |\r\nd\x0be", "link": "[a](javascript:x) ![b](http://evil.example/x.png)",
    "auto": "<http://evil.example>", "controls": "a\x00b\x1b[31mc\x07\x7fd\x9b", "bidi": "a\u202eb\u202d\u2066c\u2069",
    "half a pair": "a\ud800b", "hash": "# a", "item": "- a", "rule": "---", "tilde": "~~a~~ ~~~",
}  # fmt: skip
"""What each would do where it is not kept from it."""


@pytest.fixture
def rendered(parse):
    """A function that gives the tags, the text and the links of Markdown."""

    def found(markdown: str):
        page = parse(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown))
        links = [value for _, one in page.elements for key, value in one.items() if key in ("href", "src")]
        text = re.sub(r"\s+", " ", "".join(page.words)).strip()
        return SimpleNamespace(tags={tag for tag, _ in page.elements}, text=text, links=links)

    return found


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_markdown_shows_a_name_as_it_is(rendered, name):
    plain = " ".join(one_line(name).split())
    table = rendered(f"| a | {markdown_text(name)} |\n|---|---|\n| {markdown_text(name)} | b |\n")
    assert table.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert table.text == f"a {plain} {plain} b"
    line = rendered(f"## x {markdown_text(name)}\n\n* x: {markdown_text(name)}: {markdown_code(name)}\n")
    assert line.tags == {"h2", "ul", "li", "code"}
    assert line.text == f"x {plain} x: {plain}: {plain}"
    assert not line.links
    assert rendered(markdown_link("x", name.replace("\ud800", ""))).tags == {"p", "a"}
    assert rendered(markdown_fence(name, "bash")).tags == {"pre", "code"}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_pages_of_experiments_and_of_robustness(rendered, name):
    """The file of the figure, the command and the signature are code and an address."""
    file = f"{name}.png".replace("\ud800", "")
    shown = block(name, ("metric", name), [(name, ".5")], (name,), signatures=((name, name),), figure=file)
    page = page_text(Page(name, name, name, f"textmover robustness -i '{name}'", (name,), (shown,)), "markdown")
    found = rendered(page)
    own = {"h1", "h2", "p", "pre", "code", "ul", "li", "img", "table", "thead", "tbody", "tr", "th", "td"}
    assert found.tags == own
    assert len(found.links) == 1
    assert not re.match(r"\w+:|//", found.links[0])


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_evaluations(rendered, name):
    ratings, values = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 4.0, 3.0])
    judged = Judgements(name, ("a", "b", "c", "d"), (("a",),) * 4, {name: ratings}, (name,) * 4)
    scores = [MetricScores(name, values, True, name), MetricScores("y", ratings, True, "s")]
    evaluations = [evaluate(judged, scores, samples=20)] * 2
    found = rendered(format_evaluations(evaluations, "markdown"))
    assert found.tags <= {"h2", "p", "ul", "li", "code", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert not found.links
    written = format_evaluations(evaluations, "latex")
    assert not re.search(r"\\(input|write)|(?<!\\)\$x\$", re.sub(r"(?m)^%.*$", "", written))
    assert all(line.isprintable() for line in written.split("\n"))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_latex_shows_a_name_as_it_is(name):
    written = latex_text(name)
    assert written.isascii()
    assert written.isprintable()
    kept = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}|\{[\[\]]\}|\\texttt\{U\+\w+\}|\$-\$|\{\}", "", written)
    assert not re.search(r"[\\$%#&_^~{}]", kept)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_labels_of_figures_are_one_line_and_no_formula(name):
    label = figure_label(name)
    assert label.isprintable()
    assert not is_math_text(label)


def test_figures(tmp_path):
    """Matplotlib reads two dollars as the ends of a formula, and fails where it is broken."""
    name = f"{NAMES['script']} $x_{{$ {NAMES['controls']} {NAMES['half a pair']} {NAMES['lines of text']}"
    draw_panels([Panel(name, [Line(name, [0.1, 0.2])])], [name, "b"], tmp_path / "a.svg", x_label=name, y_label=name)
    draw_heat_map([HeatGroup(name, [name], [[0.5]])], [name], tmp_path / "b.svg", title=name, low="a", high="b")
    for file in ("a.svg", "b.svg"):
        assert "<script" not in (tmp_path / file).read_text("utf-8")
