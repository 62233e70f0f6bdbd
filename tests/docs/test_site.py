"""The documentation site builds without a warning, holds every page, asks nobody for anything, and shows formulas."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = [
    path.parent.name
    for path in sorted((ROOT / "src" / "textmover").glob("*/__init__.py"))
    if "__all__" in path.read_text(encoding="utf-8")  # what is used from Python
]
API = {
    **{f"textmover.{name}": name for name in [*PACKAGES, "presets"]},
    **{f"textmover.interfaces.{name}": "interfaces" for name in ("evaluate", "pandas", "transformers")},
}
"""Packages and modules for use from Python, and the pages that tell of them."""


def load(name):
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "overrides" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=300)
    said = [line for line in ran.stderr.splitlines() if not line.startswith("INFO")]
    assert ran.returncode == 0, ran.stderr
    assert said == []
    return target


def pages_of(entries):
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from pages_of(value) if isinstance(value, list) else [value]


APPENDIX = ("developers/", "results/")
"""Folders whose pages may stand outside the navigation: other pages link to them (test_pages.py)."""

SCREEN = 60  # lines of a results page in the navigation at most; details stand in the appendix


def test_every_page_has_its_place():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = list(pages_of(yaml.safe_load(settings)["nav"]))
    found = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "overrides" not in path.parts}
    assert len(named) == len(set(named))
    assert set(named) <= found
    assert [name for name in sorted(found - set(named)) if not name.startswith(APPENDIX)] == []
    sizes = {name: len((DOCS / name).read_text(encoding="utf-8").splitlines()) for name in named}
    assert {name: size for name, size in sizes.items() if name.startswith("results/") and size > SCREEN} == {}


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_says_what_the_packages_offer(site):
    for module, page in API.items():
        shown = (site / "api" / f"{page}.html").read_text(encoding="utf-8")
        for name in importlib.import_module(module).__all__:
            # A function of its module's name stands on the page as the module's.
            assert re.search(rf'id="{re.escape(module)}\.({name}\.)?{name}"', shown), (module, name)
    assert "<math" in (site / "api" / "functional.html").read_text(encoding="utf-8")
    help_page = (site / "cli.html").read_text(encoding="utf-8")
    assert "--batch-tokens" in help_page
    assert (site / "search" / "search_index.js").is_file()  # the search works from a folder
    assert '<script src="../iframe-worker.js">' in (site / "api" / "scoring.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_page_asks_another_place_for_anything_or_shows_a_bare_role(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]+src="(https?:[^"]+)', text)
        loaded += re.findall(r'<link[^>]+rel="(?:stylesheet|preconnect|icon)"[^>]+href="(https?:[^"]+)', text)
        assert loaded == [], page
        assert not re.search(r":(?:func|class|meth|math|mod|attr|data):", text), page
        assert 'class="arithmatex"' not in text, page


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("See :func:`~a.b.c`.", 'See <autoref identifier="a.b.c" optional><code>c</code></autoref>.'),
        ("With :math:`x_i\n    + 1`.", r"With \(x_i + 1\)."),
        (".. math:: a = b\n    + c\n\nThen", "$$a = b + c$$\n\nThen"),
        ("    .. math::\n        a = b\n\n    Then", "    $$a = b$$\n\n    Then"),
        ("Example:\n    >>> 1\n    1", "Examples:\n    >>> 1\n    1"),
        ("No role: `x`, ``y``.", "No role: `x`, ``y``."),
    ],
)
def test_roles_become_markdown(docstring, expected):
    assert load("docstrings").as_markdown(docstring) == expected


def test_links_out_of_the_site_name_the_file():
    page = "See [examples/a.py](../examples/a.py), [its card](../../checkpoints/x/README.md), [here](other.md)."
    expected = "See `examples/a.py`, its card (`checkpoints/x/README.md`), [here](other.md)."
    assert load("hooks").on_page_markdown(page) == expected


def test_formulas_become_mathml():
    content = r'<p><span class="arithmatex">\(a &lt; b\)</span></p><div class="arithmatex">\[\sum_i x_i\]</div>'
    shown = load("hooks").on_page_content(content)
    assert shown.count("<math") == 2
    assert 'display="block"' in shown
    assert "&lt;" in shown or "&#x0003C;" in shown
