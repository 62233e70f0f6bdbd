"""Make the pictures of `textmover app` for the documents: each tab, wide and narrow, light and dark.

    python benchmarks/screenshots_app.py [--output docs/images]

Needs the extras "app" and "embedded", selenium, Pillow, chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from textmover.annotation import open_project

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"wide": (1280, 860), "narrow": (390, 844)}
LARGEST = 200_000
"""Bytes of a picture."""

RATINGS = {  # fluency, semantic and grammatical correctness of the first texts, as two people saw them
    "Ada": [(3, 2, 3), (2, 3, 1), (3, 3, 3), (3, 1, 3), (3, 3, 3), (2, 3, 1), (3, 1, 3), (3, 3, 3), (2, 3, 2)],
    "Ben": [(3, 2, 3), (1, 3, 1), (3, 3, 3), (3, 2, 3), (3, 3, 3), (2, 3, 2), (3, 1, 3), (3, 3, 3)],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        for scale, shots in (("1-3", PICTURES), ("0-100", SLIDERS)):
            folder = Path(place) / scale / "ratings"
            folder.mkdir(parents=True)
            shutil.copy(ROOT / "examples" / "annotate" / "items.jsonl", folder)
            command = [sys.executable, "-m", "textmover", "app", str(folder), "--port", "0", "--no-browser", "--quiet"]
            command += ["--scale", scale]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                try:
                    url = server.stdout.readline().strip()
                    for name, (size, dark, act) in shots.items():
                        shutil.rmtree(folder / "annotations", ignore_errors=True)
                        if scale == "1-3":
                            rate(folder)
                        picture(options.output / f"app-{name}.png", url, size, act, dark=dark)
                finally:
                    server.send_signal(signal.SIGINT)


def rate(folder: Path) -> None:
    project = open_project(folder)
    for name, values in RATINGS.items():
        for item, given in zip(project.items, values, strict=False):
            for criterion, value in zip(project.criteria, given, strict=True):
                project.rate(name, item.key, criterion.name, value)


def picture(path: Path, url: str, size: str, act: Callable[[webdriver.Chrome, str], None], *, dark: bool) -> None:
    width, height = SIZES[size]
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory() as profile:
        for one in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                    "--disable-quic", "--disable-background-networking", "--disable-component-update",
                    "--disable-sync", f"--user-data-dir={profile}"):  # fmt: skip
            options.add_argument(one)
        window = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            resize(window, width, height)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            act(window, url)
            needed = window.execute_script("return document.documentElement.scrollHeight")
            resize(window, width, min(max(needed, height), 2200))
            time.sleep(1)
            window.save_screenshot(str(path))
        finally:
            window.quit()
    image = Image.open(path).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"Expected {path} to have at most {LARGEST:,} bytes, but it has {path.stat().st_size:,}.")
    print(json.dumps({"picture": path.name, "size": image.size, "bytes": path.stat().st_size}))


def resize(window: webdriver.Chrome, width: int, height: int) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def until(window: webdriver.Chrome, selector: str, text: str = "") -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if any(text in one.text for one in window.find_elements(By.CSS_SELECTOR, selector)):
            return
        time.sleep(0.1)
    raise SystemExit(f"Expected {selector} with {text!r} in the page, but it did not come.")


def annotate(window: webdriver.Chrome, url: str) -> None:
    window.get(f"{url}?annotator=Ben&items=items.jsonl")
    until(window, ".tm-card")
    window.find_element(By.TAG_NAME, "body").send_keys("2")
    until(window, "#tm-status", "Saved")


def slide(window: webdriver.Chrome, url: str) -> None:
    window.get(f"{url}?annotator=Ben&items=items.jsonl")
    until(window, ".tm-card")
    window.find_element(By.TAG_NAME, "body").send_keys("85\n")
    until(window, "#tm-status", "fluency 8")
    time.sleep(1)


def agreement(window: webdriver.Chrome, url: str) -> None:
    window.get(url)
    until(window, "button[role=tab]", "Agreement")
    window.find_elements(By.CSS_SELECTOR, "button[role=tab]")[1].click()
    until(window, "#tm-agreement", "κ")
    window.find_element(By.ID, "tm-export").click()
    until(window, "#tm-written", "Written")
    # The folder is a temporary one: show what it would be to a user.
    window.execute_script(
        """for (const one of document.querySelectorAll('#tm-written .tm-notice, #tm-written code'))
        one.textContent = one.textContent.replace(/\\S*\\/ratings\\/annotations/g, 'ratings/annotations');"""
    )


def explore(window: webdriver.Chrome, url: str) -> None:
    window.get(url)
    until(window, "button[role=tab]", "Explore")
    window.find_elements(By.CSS_SELECTOR, "button[role=tab]")[2].click()
    until(window, "#tm-score")
    window.find_element(By.ID, "tm-score").click()
    until(window, "#tm-drawing iframe")
    time.sleep(2)


PICTURES = {
    "annotate": ("wide", False, annotate),
    "annotate-dark": ("wide", True, annotate),
    "annotate-narrow": ("narrow", False, annotate),
    "annotate-narrow-dark": ("narrow", True, annotate),
    "agreement": ("wide", False, agreement),
    "explore": ("wide", False, explore),
    "explore-dark": ("wide", True, explore),
    "explore-narrow": ("narrow", False, explore),
    "explore-narrow-dark": ("narrow", True, explore),
}
SLIDERS = {"slider": ("wide", False, slide), "slider-narrow": ("narrow", False, slide)}


if __name__ == "__main__":
    main()
