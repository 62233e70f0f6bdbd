"""Regenerate the pictures of docs/explain.md, docs/errors.md, docs/compare.md and docs/app.md.

    python benchmarks/screenshots.py [--only explain errors compare app] [--output docs/images]

Requires the extras ``report``, ``app`` and ``embedded``, selenium, Pillow, chromium and chromedriver. Narrow pages use
device emulation, since a headless browser's window cannot be as narrow as a phone. Pictures are reduced to 256 colours
to keep files small.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import harness

HYPOTHESIS = "The committee postponed its decision on the new budget until Monday, officials said."
REFERENCE = "Officials said that the committee has delayed the vote about the budget to next week."
TRANSLATIONS = (
    ("The train to Geneva leaves at 18:35 from platform 7.", "The train to Geneva leaves at 18:45 from platform 7."),
    ("It rained all day.", "The sun shone all day."),
    ("The museum opens daily.", "The museum opens daily, except on Mondays."),
    (
        "The bridge was finish in 2012 by the engineers of Bern.",
        "The bridge was finished in 2021 by engineers from Bern.",
    ),
    ("A heavy storm closed the mountain road for two days.", "A heavy storm closed the mountain road for two days."),
    ("Who left garage the door open all night?", "Who left the garage door open all night?"),
    (
        "The mayor said on Monday that the new school would be built by the river, next to the old library, and that "
        "the town would sell the meadow.",
        "The mayor said on Monday that the new hospital would be built by the river, next to the old library, and that "
        "the town would keep the meadow.",
    ),
)
"""Example translations with their references."""

COLUMNS = 108
LARGEST = 200_000  # maximum bytes of a picture

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; width: max-content; background: #ffffff; }}
pre {{ margin: 0; padding: 18px 22px; font: 14px/1.32 "DejaVu Sans Mono", monospace; color: #1c1e21; }}
.r {{ text-decoration: none; }}
</style><pre>{code}</pre>"""

SYSTEMS = {"baseline": 1.4, "tuned": 1.9, "large": 2.0}
"""Mean rank, by rating, of the quick start texts that each synthetic system chooses."""

SEGMENTS, SEED = 80, 1

RATINGS = {  # fluency, semantic and grammatical correctness of the first texts, by two annotators
    "Ada": [(3, 2, 3), (2, 3, 1), (3, 3, 3), (3, 1, 3), (3, 3, 3), (2, 3, 1), (3, 1, 3), (3, 3, 3), (2, 3, 2)],
    "Ben": [(3, 2, 3), (1, 3, 1), (3, 3, 3), (3, 2, 3), (3, 3, 3), (2, 3, 2), (3, 1, 3), (3, 3, 3)],
}


# --- the browser ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def browser(width: int, height: int, *, dark: bool = False) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            resize(chrome, width, height)
            theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
            yield chrome
        finally:
            chrome.quit()


def resize(chrome: Any, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def shot(chrome: Any, page: Path, path: Path, *, word: str | None = None, height: int = 0, fit: bool = False) -> None:
    """Take a screenshot of a page, optionally with a fixed height and a clicked word; ``fit`` crops to the content."""
    chrome.get(page.as_uri())
    width, end = chrome.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
    if fit:
        width, end = chrome.execute_script("return [document.body.scrollWidth, document.body.scrollHeight]")
    resize(chrome, width, height or end)
    if word is not None:
        chrome.execute_script(
            "[...document.querySelectorAll('.side .w')]"
            ".find((one) => one.querySelector('b').textContent === arguments[0]).click()",
            word,
        )
    drawn = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300)))"
    chrome.execute_async_script(drawn)  # newly visible content may not be painted yet
    save(chrome, path)


def save(part: Any, path: Path) -> None:
    take = part.save_screenshot if hasattr(part, "save_screenshot") else part.screenshot
    take(str(path))
    keep_small(path)


def keep_small(path: Path) -> None:
    from PIL import Image

    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"Expected {path} to have at most {LARGEST:,} bytes, but it has {path.stat().st_size:,}.")


def textmover(*arguments: str, folder: str | None = None, **options: Any) -> str:
    command = [sys.executable, "-m", "textmover", *arguments, "--quiet"]
    return subprocess.run(command, check=True, cwd=folder, **options).stdout


# --- textmover explain ------------------------------------------------------------------------------------------------


def explain(folder: Path) -> None:
    """Take pictures of terminal output, heat map and page (wide and narrow, light and dark)."""
    texts = [HYPOTHESIS, REFERENCE, "--backend", "torch"]
    with tempfile.TemporaryDirectory() as temporary:
        page, terminal = Path(temporary, "page.html"), Path(temporary, "terminal.html")
        textmover("explain", *texts, "--output", str(folder / "explain.png"))
        keep_small(folder / "explain.png")
        textmover("explain", *texts, "--output", str(page))
        command = f'textmover explain "{HYPOTHESIS}" \\\n    "{REFERENCE}"'
        write_terminal(terminal, command, "explain", *texts)
        with browser(1200, 900) as chrome:
            shot(chrome, terminal, folder / "explain-terminal.png", fit=True)
            shot(chrome, page, folder / "alignment.png", height=960)
            (words,) = chrome.find_elements("css selector", ".weave")
            chrome.execute_script("arguments[0].style.cssText = 'padding: 16px; width: max-content'", words)
            save(words, folder / "alignment.png")
        for suffix, (width, height) in {"": (1200, 960), "-narrow": (360, 860)}.items():
            for theme, word in (("", "postponed"), ("-dark", "delayed")):
                with browser(width, height, dark=bool(theme)) as chrome:
                    shot(chrome, page, folder / f"explain-html{suffix}{theme}.png", word=word, height=height)


def write_terminal(page: Path, shown: str, *arguments: str, folder: str | None = None) -> None:
    """Write a page with the prompt, a command and its terminal output."""
    from rich.console import Console
    from rich.terminal_theme import DEFAULT_TERMINAL_THEME
    from rich.text import Text

    environment = {**os.environ, "FORCE_COLOR": "1", "COLORTERM": "truecolor", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    output = textmover(*arguments, folder=folder, capture_output=True, text=True, env=environment)
    options = {"record": True, "force_terminal": True, "color_system": "truecolor"}
    console = Console(width=COLUMNS + 4, file=io.StringIO(), **options)
    console.print(Text.assemble(("$ ", "dim"), f"{shown}\n"))
    console.print(Text.from_ansi(output))
    code = console.export_html(theme=DEFAULT_TERMINAL_THEME, inline_styles=True, code_format="{code}")
    page.write_text(TERMINAL.format(code=code), encoding="utf-8")


# --- textmover errors -------------------------------------------------------------------------------------------------


def errors(folder: Path) -> None:
    """Take pictures of terminal output and page; print a folder with narrow and dark versions for inspection."""
    with tempfile.TemporaryDirectory() as temporary:
        for name, texts in zip(("hypotheses.txt", "references.txt"), zip(*TRANSLATIONS, strict=True), strict=True):
            write_lines(Path(temporary, name), texts)
        command = ["errors", "-i", "hypotheses.txt", "references.txt"]
        page, terminal = Path(temporary, "errors.html"), Path(temporary, "terminal.html")
        textmover(*command, "--output", str(page), folder=temporary)
        write_terminal(terminal, f"textmover {' '.join(command)}", *command, folder=temporary)
        with browser(1200, 900) as chrome:
            shot(chrome, terminal, folder / "errors-terminal.png", fit=True)
        inspection = Path(tempfile.mkdtemp())
        print(f"{inspection}: the page in each width and theme")
        for width in (1000, 390):
            for theme in ("", "-dark"):
                with browser(width, 760, dark=bool(theme)) as chrome:
                    shot(chrome, page, inspection / f"errors-page-{width}{theme}.png")
        shutil.copy(inspection / "errors-page-1000.png", folder / "errors-page.png")


# --- textmover compare and rank ---------------------------------------------------------------------------------------


def compare(folder: Path) -> None:
    """Take pictures of the pages of three synthetic systems; better systems choose texts with higher ratings."""
    with tempfile.TemporaryDirectory() as temporary:
        write_systems(Path(temporary))
        texts = ["--hypotheses", *(f"{name}.txt" for name in SYSTEMS), "--references", "references.txt"]
        textmover("compare", *texts, "--model", "twmd", "--output", "comparison.html", folder=temporary)
        rows = ["--data", "outputs.tsv", "--system-column", "system", "--group", "kind", "--score-column", "score"]
        textmover("rank", *rows, "--model", "twmd", "--output", "ranks.html", folder=temporary)
        for page, name, size, dark, height in (
            ("comparison", "compare-html", (1100, 900), False, 1500),
            ("comparison", "compare-html-narrow-dark", (360, 760), True, 1500),
            ("ranks", "rank-html", (1100, 900), False, 1000),
        ):
            with browser(*size, dark=dark) as chrome:
                shot(chrome, Path(temporary, f"{page}.html"), folder / f"{name}.png", height=height)


def write_systems(folder: Path) -> None:
    ratings = harness.ROOT / "examples" / "quickstart" / "ratings.tsv"
    by_reference: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in csv.DictReader(ratings.read_text(encoding="utf-8").splitlines(), delimiter="\t"):
        by_reference[row["reference"]].append(row)
    references = list(by_reference)[:SEGMENTS]
    table = ["kind\tsystem\treference\thypothesis\tscore"]
    chance = random.Random(SEED)
    for name, level in SYSTEMS.items():
        texts = []
        for index, reference in enumerate(references):
            ordered = sorted(by_reference[reference], key=lambda row: float(row["score"]))
            row = ordered[min(len(ordered) - 1, max(0, round(chance.gauss(level, 1))))]
            texts.append(row["hypothesis"])
            cells = (("news", "reviews")[index % 2], name, reference, row["hypothesis"], row["score"])
            table.append("\t".join(cells))
        write_lines(folder / f"{name}.txt", texts)
    write_lines(folder / "references.txt", references)
    write_lines(folder / "outputs.tsv", table)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


# --- textmover app ----------------------------------------------------------------------------------------------------


def app(output: Path) -> None:
    """Take pictures of each tab, wide and narrow, light and dark."""
    with tempfile.TemporaryDirectory() as temporary:
        for scale, acts in (("1-3", (annotate, agreement, explore)), ("0-100", (slide,))):
            folder = Path(temporary) / scale / "ratings"
            folder.mkdir(parents=True)
            shutil.copy(harness.ROOT / "examples" / "annotate" / "items.jsonl", folder)
            command = [sys.executable, "-m", "textmover", "app", str(folder), "--port", "0", "--no-browser", "--quiet"]
            with subprocess.Popen([*command, "--scale", scale], stdout=subprocess.PIPE, text=True) as server:
                try:
                    url = server.stdout.readline().strip()
                    for act in acts:
                        app_pictures(output, folder, url, act, rated=scale == "1-3")
                finally:
                    server.send_signal(signal.SIGINT)


def app_pictures(output: Path, folder: Path, url: str, act: Callable[[Any, str], None], *, rated: bool) -> None:
    name = {"slide": "slider"}.get(act.__name__, act.__name__)
    kinds = {"slide": ("", "-narrow"), "agreement": ("",)}.get(act.__name__, ("", "-dark", "-narrow", "-narrow-dark"))
    for kind in kinds:
        shutil.rmtree(folder / "annotations", ignore_errors=True)
        if rated:
            rate(folder)
        width, height = (390, 844) if "narrow" in kind else (1280, 860)
        with browser(width, height, dark="dark" in kind) as chrome:
            act(chrome, url)
            needed = chrome.execute_script("return document.documentElement.scrollHeight")
            resize(chrome, width, min(max(needed, height), 2200))
            time.sleep(1)
            save(chrome, output / f"app-{name}{kind}.png")


def rate(folder: Path) -> None:
    from textmover.annotation import open_project

    project = open_project(folder)
    for name, values in RATINGS.items():
        for item, ratings in zip(project.items, values, strict=False):
            for criterion, value in zip(project.criteria, ratings, strict=True):
                project.rate(name, item.key, criterion.name, value)


def until(chrome: Any, selector: str, text: str = "") -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if any(text in element.text for element in chrome.find_elements("css selector", selector)):
            return
        time.sleep(0.1)
    raise SystemExit(f"Expected {selector} with {text!r} in the page, but it did not come.")


def annotate(chrome: Any, url: str, keys: str = "2", said: str = "Saved") -> None:
    chrome.get(f"{url}?annotator=Ben&items=items.jsonl")
    until(chrome, ".tm-card")
    chrome.find_element("tag name", "body").send_keys(keys)
    until(chrome, "#tm-status", said)


def slide(chrome: Any, url: str) -> None:
    annotate(chrome, url, "85\n", "fluency 8")
    time.sleep(1)


def open_tab(chrome: Any, url: str, number: int, name: str) -> None:
    chrome.get(url)
    until(chrome, "button[role=tab]", name)
    chrome.find_elements("css selector", "button[role=tab]")[number].click()


def agreement(chrome: Any, url: str) -> None:
    open_tab(chrome, url, 1, "Agreement")
    until(chrome, "#tm-agreement", "κ")
    chrome.find_element("id", "tm-export").click()
    until(chrome, "#tm-written", "Written")
    # Replace the temporary folder by a realistic path.
    chrome.execute_script(
        """for (const one of document.querySelectorAll('#tm-written .tm-notice, #tm-written code'))
        one.textContent = one.textContent.replace(/\\S*\\/ratings\\/annotations/g, 'ratings/annotations');"""
    )


def explore(chrome: Any, url: str) -> None:
    open_tab(chrome, url, 2, "Explore")
    until(chrome, "#tm-score")
    chrome.find_element("id", "tm-score").click()
    until(chrome, "#tm-drawing .tm-alignment")
    time.sleep(2)


def main() -> None:
    parts = {"explain": explain, "errors": errors, "compare": compare, "app": app}
    options = harness.parser(__doc__, output=harness.ROOT / "docs" / "images", only=parts).parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        parts[name](options.output)


if __name__ == "__main__":
    main()
