"""The pictures of docs/explain.md, made anew: terminal, heat map, and page (wide and narrow, light and dark).

    python benchmarks/screenshots_explain.py [--output docs/images]

Needs the extra ``report``, selenium, chromium and chromedriver. The page is shown as wide as a phone by emulation,
since a browser without a head has no window that narrow. Pictures are kept with 256 colours, so that they stay small.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HYPOTHESIS = "The committee postponed its decision on the new budget until Monday, officials said."
REFERENCE = "Officials said that the committee has delayed the vote about the budget to next week."
COLUMNS = 108
PICTURES = ("explain.png", "explain-terminal.png")
ALIGNMENT = "alignment.png"
"""The words of the page alone, for the README."""

SIZES = {"": (1200, 960), "-narrow": (360, 860)}

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; width: max-content; background: #ffffff; }}
pre {{ margin: 0; padding: 18px 22px; font: 14px/1.32 "DejaVu Sans Mono", monospace; color: #1c1e21; }}
.r {{ text-decoration: none; }}
</style><pre>{code}</pre>"""


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    with tempfile.TemporaryDirectory() as kept:
        page, terminal = Path(kept, "page.html"), Path(kept, "terminal.html")
        texts = [HYPOTHESIS, REFERENCE, "--backend", "torch"]
        explain(*texts, "--output", str(folder / PICTURES[0]))
        explain(*texts, "--output", str(page))
        terminal.write_text(TERMINAL.format(code=as_html(in_terminal("explain", *texts, "--quiet"))), encoding="utf-8")
        with browser(1200, 900) as chrome:
            shot(chrome, terminal, folder / PICTURES[1], fit=True)
            shot(chrome, page, folder / ALIGNMENT, height=960)
            (words,) = chrome.find_elements("css selector", ".weave")
            chrome.execute_script("arguments[0].style.cssText = 'padding: 16px; width: max-content'", words)
            words.screenshot(str(folder / ALIGNMENT))
        for place, (width, height) in SIZES.items():
            for theme, word in (("", "postponed"), ("-dark", "delayed")):
                name = f"explain-html{place}{theme}.png"
                with browser(width, height, dark=bool(theme)) as chrome:
                    shot(chrome, page, folder / name, word=word, height=height)
                pages.append(name)
    for name in (*PICTURES, ALIGNMENT, *pages):
        path = folder / name
        keep_small(path)
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


def keep_small(path: Path) -> None:
    """Write a picture again with 256 colours."""
    from PIL import Image

    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def explain(*arguments: str) -> None:
    """Run the command."""
    subprocess.run([sys.executable, "-m", "textmover", "explain", *arguments, "--quiet"], check=True)


def in_terminal(*arguments: str) -> str:
    """What a command writes on a terminal of so many columns."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    ran = subprocess.Popen(
        [sys.executable, "-m", "textmover", *arguments], stdout=slave, stdin=slave, stderr=subprocess.DEVNULL,
        env=environment,
    )  # fmt: skip
    os.close(slave)
    written = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while part := os.read(master, 65536):
            written += part
    os.close(master)
    if ran.wait():
        raise SystemExit(f"Expected the command to end well, but it ended with {ran.returncode}.")
    return written.decode().replace("\r\n", "\n")


def as_html(written: str) -> str:
    """What a terminal shows, as HTML with the prompt and the command above it."""
    from rich.console import Console
    from rich.terminal_theme import DEFAULT_TERMINAL_THEME
    from rich.text import Text

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS + 4, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.assemble(("$ ", "dim"), f'textmover explain "{HYPOTHESIS}" \\'))
        console.print(Text(f'    "{REFERENCE}"\n'))
        console.print(Text.from_ansi(written))
        return console.export_html(theme=DEFAULT_TERMINAL_THEME, inline_styles=True, code_format="{code}")


@contextlib.contextmanager
def browser(width: int, height: int, *, dark: bool = False) -> Iterator[Any]:
    """A browser without a head, of a given size and in a theme."""
    from selenium import webdriver

    profile = tempfile.mkdtemp()
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = shutil.which("chromedriver")
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        resize(chrome, width, height)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
        yield chrome
    finally:
        chrome.quit()
        shutil.rmtree(profile, ignore_errors=True)


def resize(chrome: Any, width: int, height: int) -> None:
    """Make the browser believe in a screen of this size."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def shot(
    chrome: Any, page: Path, path: Path, *, word: str | None = None, height: int | None = None, fit: bool = False
) -> None:
    """Take a picture of a page, one of its words lit up."""
    chrome.get(page.as_uri())
    width = chrome.execute_script("return innerWidth")
    if fit:
        width, height = chrome.execute_script("return [document.body.scrollWidth, document.body.scrollHeight]")
    if height is not None:
        resize(chrome, width, height)
    if word is not None:
        chrome.execute_script(
            "[...document.querySelectorAll('.side .w')]"
            ".find((one) => one.querySelector('b').textContent === arguments[0]).click()",
            word,
        )
    drawn = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300)))"
    chrome.execute_async_script(drawn)  # what came into sight by the new size may not be painted yet
    chrome.save_screenshot(str(path))


if __name__ == "__main__":
    main()
