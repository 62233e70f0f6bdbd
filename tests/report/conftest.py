"""Made-up judgements, scores and alignments for tables and pages."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from textmover.meta_evaluation import MetricScores, evaluate
from textmover.report import Alignment, Link, ReportSection, largest_disagreements
from textmover.report.explanation.explanations import ExplainedMatch, ExplainedText, Explanation, Step, WordPair
from textmover.types import Judgements, Signature

NAMES = (
    "twmd", "twmd-b", "moverscore-wmd1", "moverscore-wmd2", "bertscore-f1", "bertscore-f1-idf", "yisi-1", "sbert",
    "wordset-cka", "lazy-emd-soft", "hmd-prec", "trwmd", "bleu", "chrf", "rouge-l",
)  # fmt: skip
SENTENCE = "the river runs past a small town where people sell bread and fish to those who come by boat"


def made_judgements(groups: int = 2, size: int = 20, seed: int = 0, name: str = "made-up") -> Judgements:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(SENTENCE.split(), size=rng.integers(3, 30))) for _ in range(2 * groups * size)]
    labels = tuple(f"group-{number}" for number in range(groups) for _ in range(size))
    ratings = {"score": rng.normal(size=groups * size)}
    references = tuple((text,) for text in texts[groups * size :])
    return Judgements(name, tuple(texts[: groups * size]), references, ratings, labels)


def made_scores(judgements: Judgements, metrics: int = 3, seed: int = 1) -> list[MetricScores]:
    rng = np.random.default_rng(seed)
    (ratings,) = judgements.ratings.values()
    found = []
    for number in range(metrics):
        scores = ratings + (0.5 + 0.1 * number) * rng.normal(size=len(ratings))
        falling = number % 15 == 9
        name = NAMES[number] if number < len(NAMES) else f"metric-{number}"
        found.append(MetricScores(name, -scores if falling else scores, not falling, f"metric:{name}|version:1"))
    return found


def word_alignment(hypothesis: str, reference: str) -> Alignment:
    """Each word of the hypothesis with the same word, or with one somewhere, and a weaker link beside it."""
    own, others = tuple(hypothesis.split()), tuple(reference.split())
    links = []
    for place, word in enumerate(own):
        partner = others.index(word) if word in others else place % len(others)
        links.append(Link(place, partner, 0.8, 1.0 if word in others else 0.4))
        links.append(Link(place, (partner + 1) % len(others), 0.2, 0.3))
    return Alignment(own, others, tuple(links))


@pytest.fixture
def section() -> Callable[..., ReportSection]:
    """A function that makes a section of the page; ``change`` may alter judgements and scores first."""

    def made(
        groups=2, size=20, metrics=3, *, seed=0, change=None, baseline=None, protocol=None, name="made-up", **options
    ):
        judgements = made_judgements(groups, size, seed, name)
        scores = made_scores(judgements, metrics, seed + 1)
        if change is not None:
            judgements, scores = change(judgements, scores)
        options = {"samples": 20, "permutations": 20, **options}
        evaluation = evaluate(judgements, scores, protocol, baseline=baseline, **options)
        dimension = evaluation.dimension
        found = [] if dimension is None else largest_disagreements(judgements, scores, dimension=dimension, count=2)
        return ReportSection(evaluation, judgements, scores, found)

    return made


@pytest.fixture
def aligned() -> Callable[[ReportSection], ReportSection]:
    """A function that aligns the words of all disagreements of a section but those of empty texts."""

    def filled(made: ReportSection) -> ReportSection:
        found = [
            replace(one, alignment=word_alignment(one.hypothesis, one.references[0])) if one.hypothesis else one
            for one in made.disagreements
        ]
        return replace(made, disagreements=found)

    return filled


def explained_text(text: str) -> ExplainedText:
    """A text with its words between spaces and special tokens around them, of which the last one takes no part."""
    words, spans, place = ["[start]"], [None], 0
    for word in text.split():
        place = text.index(word, place)
        words.append(word)
        spans.append((place, place + len(word)))
        place += len(word)
    weights = np.r_[np.full(len(words), 1 / len(words)), 0.0]
    return ExplainedText(text, (*words, "[end]"), (*spans, None), weights)


def made_explanation(hypothesis: str, reference: str, *, plans: int = 2, seed: int = 0, **fields) -> Explanation:
    """The same words are alike, others by chance; each word is matched with the words that are like it."""
    rng = np.random.default_rng(seed)
    found, given = explained_text(hypothesis), explained_text(reference)
    alike = np.array(given.words)[:, None] == np.array(found.words)
    similarity = np.ones(alike.shape)
    similarity[~alike] = rng.uniform(-0.2, 0.6, size=(~alike).sum())
    similarity[-1] = similarity[:, -1] = 0  # the end, which is left out, is compared with nothing
    heat = np.exp(similarity / 0.05) * (given.weights > 0)[:, None] * (found.weights > 0)
    recall = heat / np.maximum(heat.sum(axis=1, keepdims=True), 1e-30) * given.weights[:, None]
    precision = heat / np.maximum(heat.sum(axis=0, keepdims=True), 1e-30) * found.weights
    matches = [
        ExplainedMatch(name, plan, similarity, "similarity")
        for name, plan in (("recall", recall), ("precision", precision))
    ]
    contributions = (matches[0].contributions + matches[1].contributions) / 2
    score = float(contributions.sum()) - 0.1
    drawn = (precision * similarity.clip(min=0)).argmax(axis=0)
    pairs = [
        WordPair(int(row), column, *(float(one[row, column]) for one in (similarity, precision, similarity)))
        for column, row in enumerate(drawn)
        if found.weights[column] > 0
    ]
    lonely = tuple(place for place in np.flatnonzero(given.weights > 0).tolist() if place not in set(drawn))
    made = {
        "score": score,
        "components": {},
        "flags": (),
        "signature": Signature({"metric": "made-up"}),
        "hypothesis": found,
        "reference": given,
        "similarity": similarity,
        "matches": tuple(matches[:plans]),
        "pairs": tuple(pairs),
        "unmatched_hypothesis": (),
        "unmatched_reference": lonely,
        "steps": (Step("recall", matches[0].value, "a sum"), Step("score", score, "the mean, less the baseline")),
        "contributions": contributions,
        "remainders": (Step("baseline", -0.1, "taken off"),),
        "reference_scores": (score,),
    }
    return Explanation(**{**made, **fields})


@pytest.fixture
def explained() -> Callable[..., Explanation]:
    """A function that makes an explanation of two texts; fields may be given."""
    return made_explanation


@pytest.fixture
def inside() -> Callable[..., None]:
    """A function that makes sure that no label of a figure sticks out."""

    def check(figure, *, ticks: bool = False) -> None:
        figure.draw_without_rendering()
        box = figure.bbox
        for axes in figure.axes:
            named = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label] if ticks else []
            for label in (*named, *axes.texts):
                extent = label.get_window_extent()
                assert extent.x0 >= box.x0 - 1, label.get_text()
                assert extent.x1 <= box.x1 + 1, label.get_text()
                assert extent.y1 <= box.y1 + 1, label.get_text()
                assert extent.y0 >= box.y0 - 1 or ticks, label.get_text()

    return check


def luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.fixture(scope="session")
def contrast() -> Callable[[str, str], float]:
    """A function that gives the contrast of two colours by WCAG, from 1 to 21."""

    def between(first: str, second: str) -> float:
        brighter, darker = sorted(map(luminance, (first, second)), reverse=True)
        return (brighter + 0.05) / (darker + 0.05)

    assert between("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)
    return between


VOID = {"meta", "link", "br", "hr", "input", "img"}


class Page(HTMLParser):
    """Elements, texts and whether everything that opens is closed in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts, self.words, self.headings = [], [], {}, [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        shown = (part for tag, parts in self.texts.items() if tag not in ("style", "script") for part in parts)
        return " ".join(shown)


@pytest.fixture(scope="session")
def parse() -> type[Page]:
    return Page


@pytest.fixture(scope="session")
def check() -> Callable[[str], Page]:
    """A function that checks what holds for every page."""
    return checked


def checked(text: str) -> Page:
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in page.all("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert all(link.startswith("#") for link in links)
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(page.headings))
    for attributes in page.all("svg"):
        assert attributes["role"] == "img"
        assert attributes["aria-label"]
    # Nothing is fetched: no source, no address in style, and a policy that would forbid it.
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "action", "poster", "onload", "onclick"} & set(attributes), tag
    assert [attributes["href"] for attributes in page.all("link")] == ["data:,"]
    assert not re.search(r"url\(|@import", "".join(page.texts["style"]))
    assert len(page.all("script")) <= 1
    script = "".join(page.texts.get("script", ())).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|fetch|XMLHttp|import ", script)
    policy = next(one for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'")
    numbers = re.findall(r'(?:d|viewBox|x|y|cx|cy)="[^"]*"', text)
    assert not [one for one in numbers if "nan" in one or "inf" in one]
    assert not re.search(r"\bnan\b", page.text)
    return page


@pytest.fixture
def probe(browse, tmp_path) -> Iterator[Callable[..., dict]]:
    """A function that runs a script in a page (its text), as wide as a window or, if narrow, as a phone.

    It gives what the script puts into ``found``. Nothing sticks out, the console stays silent, and the page is light
    or, if asked for, dark.
    """
    window = browse("about:blank")
    window.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})

    def show(page: str, *, narrow: bool = False, dark: bool = False, height: int = 4000):
        size = {"width": 360 if narrow else 1280, "height": height, "deviceScaleFactor": 1, "mobile": False}
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        window.get((tmp_path / "page.html").as_uri())
        window.execute_async_script(LAID_OUT)
        return window

    def run(page: str, script: str = "", **how: bool) -> dict:
        found = show(page, **how).execute_async_script(PROBE % script)
        assert window.get_log("browser") == []
        assert found["needed"] <= found["width"] == (360 if how.get("narrow") else 1280)
        assert found["paper"] == ("rgb(22, 24, 27)" if how.get("dark") else "rgb(255, 255, 255)")
        return found

    run.show = show
    yield run
    window.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


LAID_OUT = """
const end = arguments[0], ready = () => document.readyState === "complete" && document.body.childElementCount > 0;
const look = () => ready() ? requestAnimationFrame(() => requestAnimationFrame(() => end())) : setTimeout(look, 20);
look();
"""
"""Waits until the page is there to be printed: on a busy machine it is still empty when its address is."""

PROBE = """
const end = arguments[0], needed = () => document.documentElement.scrollWidth;
setTimeout(async () => {
  const before = needed(), paper = getComputedStyle(document.body).backgroundColor, found = { width: innerWidth };
  { %s }
  end({ ...found, paper, needed: Math.max(before, needed()) });
}, 100);
"""
