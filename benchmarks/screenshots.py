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
from collections.abc import Iterable, Iterator
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
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars", f"user-data-dir={profile}"):
            options.add_argument(f"--{flag}")
        chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            yield chrome
        finally:
            chrome.quit()


def look(chrome: Any, width: int, height: int, *, dark: bool = False) -> None:
    """Emulate a screen of this size and theme."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})


def save(part: Any, path: Path) -> None:
    """Save a picture of a page or an element with few colours."""
    time.sleep(1)  # newly visible content may not be painted yet
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


def shot(chrome: Any, page: Path, path: Path, width: int, height: int, *, dark: bool = False, word: str = "") -> None:
    """Take a picture of a page, after a click on a word if one is given."""
    look(chrome, width, height, dark=dark)
    chrome.get(page.as_uri())
    if word:
        chrome.execute_script(
            "[...document.querySelectorAll('.side .w')]"
            ".find((one) => one.querySelector('b').textContent === arguments[0]).click()",
            word,
        )
    save(chrome, path)


def textmover(folder: Path, *arguments: str, **options: Any) -> str:
    command = [sys.executable, "-m", "textmover", *arguments, "--quiet"]
    return subprocess.run(command, check=True, cwd=folder, **options).stdout


def terminal(chrome: Any, path: Path, shown: str, folder: Path, *arguments: str) -> None:
    """Take a picture of a prompt, a command and its terminal output, without empty margins."""
    from rich.console import Console
    from rich.terminal_theme import DEFAULT_TERMINAL_THEME
    from rich.text import Text

    environment = {**os.environ, "FORCE_COLOR": "1", "COLORTERM": "truecolor", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    output = textmover(folder, *arguments, capture_output=True, text=True, env=environment)
    options = {"record": True, "force_terminal": True, "color_system": "truecolor"}
    console = Console(width=COLUMNS + 4, file=io.StringIO(), **options)
    console.print(Text.assemble(("$ ", "dim"), f"{shown}\n"))
    console.print(Text.from_ansi(output))
    code = console.export_html(theme=DEFAULT_TERMINAL_THEME, inline_styles=True, code_format="{code}")
    page = folder / "terminal.html"
    page.write_text(TERMINAL.format(code=code), encoding="utf-8")
    chrome.get(page.as_uri())
    look(chrome, *chrome.execute_script("return [document.body.scrollWidth, document.body.scrollHeight]"))
    save(chrome, path)


# --- pictures of commands ---------------------------------------------------------------------------------------------


def explain(chrome: Any, folder: Path, work: Path) -> None:
    """Take pictures of terminal output, heat map and page (wide and narrow, light and dark)."""
    texts, page = [HYPOTHESIS, REFERENCE, "--backend", "torch"], work / "page.html"
    textmover(work, "explain", *texts, "--output", str(folder / "explain.png"))
    keep_small(folder / "explain.png")
    textmover(work, "explain", *texts, "--output", str(page))
    command = f'textmover explain "{HYPOTHESIS}" \\\n    "{REFERENCE}"'
    terminal(chrome, folder / "explain-terminal.png", command, work, "explain", *texts)
    shot(chrome, page, folder / "alignment.png", 1200, 960)
    (words,) = chrome.find_elements("css selector", ".weave")
    chrome.execute_script("arguments[0].style.cssText = 'padding: 16px; width: max-content'", words)
    save(words, folder / "alignment.png")
    for suffix, size in {"": (1200, 960), "-narrow": (360, 860)}.items():
        for theme, word in (("", "postponed"), ("-dark", "delayed")):
            path = folder / f"explain-html{suffix}{theme}.png"
            shot(chrome, page, path, *size, dark=bool(theme), word=word)


def errors(chrome: Any, folder: Path, work: Path) -> None:
    """Take pictures of terminal output and page."""
    for name, texts in zip(("hypotheses.txt", "references.txt"), zip(*TRANSLATIONS, strict=True), strict=True):
        write_lines(work / name, texts)
    command = ["errors", "-i", "hypotheses.txt", "references.txt"]
    textmover(work, *command, "--output", "errors.html")
    terminal(chrome, folder / "errors-terminal.png", f"textmover {' '.join(command)}", work, *command)
    shot(chrome, work / "errors.html", folder / "errors-page.png", 1000, 888)


def compare(chrome: Any, folder: Path, work: Path) -> None:
    """Take pictures of the pages of three synthetic systems; better systems choose texts with higher ratings."""
    write_systems(work)
    texts = ["--hypotheses", *(f"{name}.txt" for name in SYSTEMS), "--references", "references.txt"]
    textmover(work, "compare", *texts, "--model", "twmd", "--output", "comparison.html")
    rows = ["--data", "outputs.tsv", "--system-column", "system", "--group", "kind", "--score-column", "score"]
    textmover(work, "rank", *rows, "--model", "twmd", "--output", "ranks.html")
    shot(chrome, work / "comparison.html", folder / "compare-html.png", 1100, 1500)
    shot(chrome, work / "comparison.html", folder / "compare-html-narrow-dark.png", 360, 1500, dark=True)
    shot(chrome, work / "ranks.html", folder / "rank-html.png", 1100, 1000)


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


def app(chrome: Any, output: Path, work: Path) -> None:
    """Take pictures of each tab, wide and narrow, light and dark."""
    every = ("", "-dark", "-narrow", "-narrow-dark")
    three = {"annotate": (annotate, every), "agreement": (agreement, every[:1]), "explore": (explore, every)}
    for scale, acts in (("1-3", three), ("0-100", {"slider": (slide, ("", "-narrow"))})):
        folder = work / scale / "ratings"
        folder.mkdir(parents=True)
        shutil.copy(harness.ROOT / "examples" / "annotate" / "items.jsonl", folder)
        command = [sys.executable, "-m", "textmover", "app", str(folder), "--port", "0", "--no-browser", "--quiet"]
        with subprocess.Popen([*command, "--scale", scale], stdout=subprocess.PIPE, text=True) as server:
            try:
                url = server.stdout.readline().strip()
                for name, (act, kinds) in acts.items():
                    for kind in kinds:
                        shutil.rmtree(folder / "annotations", ignore_errors=True)
                        if scale == "1-3":
                            rate(folder)
                        width, height = (390, 844) if "narrow" in kind else (1280, 860)
                        look(chrome, width, height, dark="dark" in kind)
                        act(chrome, url)
                        needed = chrome.execute_script("return document.documentElement.scrollHeight")
                        look(chrome, width, min(max(needed, height), 2200), dark="dark" in kind)
                        save(chrome, output / f"app-{name}{kind}.png")
            finally:
                server.send_signal(signal.SIGINT)


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


def main() -> None:
    parts = {"explain": explain, "errors": errors, "compare": compare, "app": app}
    options = harness.parser(__doc__, output=harness.ROOT / "docs" / "images", only=parts).parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        with browser() as chrome, tempfile.TemporaryDirectory() as work:
            parts[name](chrome, options.output.resolve(), Path(work))


if __name__ == "__main__":
    main()
