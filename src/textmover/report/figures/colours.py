"""Colours of metrics and heat maps, in light and dark.

They were chosen in OKLCH, where equal steps of lightness look equal (Ottosson 2020). Names of metrics have a contrast
of at least 4.5 (WCAG), numbers on a heat map one of 7. People who see no red or no green can distinguish blue from
orange.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

SEQUENTIAL = 8  # steps of a heat map from low to high
DIVERGING = 4  # steps of a heat map on each side of its middle
INK = {"light": "#1c1e21", "dark": "#eceae6"}
PAPER = {"light": "#ffffff", "dark": "#16181b"}  # text on the page and the page itself, as in style.css
STRONGEST = {"light": "#000000", "dark": "#ffffff"}  # text on the deepest steps, which are starred
SHADES = {
    ("sequential", "light"): "ebf3fc d5e7fb c3dbf7 b0cff2 9dc3ed 8bb7e9 78abe3* 659fde*",
    ("sequential", "dark"): "1d252e 1f2c3b 203449 213b57 224266 224a75 215184* 205994*",
    ("below", "light"): "f6ddcc ecc5ab e2ad8a d79669*",
    ("below", "dark"): "3b281b 4f2f19 633715 783e0d",
    ("above", "light"): "d2e4fa b4d1f3 96beeb 78abe3*",
    ("above", "dark"): "1f2e3e 213955 22456c 215184*",
}
"""Steps of heat maps from the paper's side on: from low to high, and below and above a middle."""

METRICS = """
    0064b5/67affe ae5c01/cf7a31 00581b/8be396 830549/feb1cb a34ca4/bd72bd 707d00/8d9c2a 047270/0ac3bf 633f01/ffbc63
    004e72/9bd3f7 aa2e4a/f38494 6f49b1/b497f6 6c6ea8/8a8dc0 007928/6bc277 a25d66/bc7f86 795f1b/c0a872 542a91/d0bffc
    7e507e/c59ac4 10819e/07a2c7 711973/f9aaf9 a63d02/f28c63 7c2800/feb79c 005547/4ce7c9 4a6cd1/6d8ee5 9c347c/e587c3
    266a90/7cb3d5 b94376/d26c93 c0453d/d96e64 916f00/b68b00 904e47/d79991 454d04/c7d299 805bc5/9b7fdb 3d7144/8bb88f
    5b5c95/a3a5da 906190/ac82ab 5f6b01/a5b647 9c663d/b68663 613561/e6bae5 717b3a/8f9962 4c77a8/7095c0 8a552b/d09f7b
    8c4c64/d397ab 324578/b4cafe 00525b/31e3f7 be4b13/d6734b ac312c/f5877b bf425b/d76b7c 437200/8abc5e 5851ba/9e9ffe
    6863ce/8686e3 8141a4/c790e9 903a92/d88bd7 9353b7/ae78ce a52f64/ee84ac 1276ce/4e96e2 b0478e/c96ea9 3a5abd/86a7fe
    097db1/209dda 7c0f5f/fface0 00764f/47c590 642284/e2b7fd 9f6700/c58215 2f5300/a9dd7e 827608/a3940b 954e02/eb934d
    205429/aad9ae 70303b/f8b6bd 706500/bcad36 875806/df9b3a 6e3700/fdba89 8b712f/a68f5a 606a28/a7b27a 005638/6ce6af
    0a6e88/06bde8 0b7462/74bbaa 514900/dccd5b 8a050d/feb5ac 5b4400/e0c891 03707c/6db9c3 3f3399/c1c5ff 004885/a4cfff
    006b9a/44b6f5 4c6197/95aadc 745388/bb9dce 58386a/dbbdef 86659b/a285b5 9f5d75/b97f93 287353/7eba9c 8f4c55/d6979e
    a35f57/bd8079 8e5138/d59b85 a16249/bb836d 956b33/b08b5d 7f7632/9b945c 3a7ca3/639abb 683255/eeb7d9 506e35/99b583
    355119/b8d6a2 695890/afa1d6 7a69a3/9789bc 3b6695/88aeda 5d72aa/7d91c2 864e72/cd98b8 995f83/b3809f 005064/92d6ee
    6d3048/f5b6cb 005351/8edbd7 835a20/c9a375 6e651e/b4ad74 6f351d/f7bba4 7c5f06/d0a430 6b390a/f2bf9a 28809a/599db4
    880030/fdb4bc 4d3c72/cfc1f7 70322c/f9b8b0 454e00/c4d669 414076/c2c5fc 1e4976/a7cefc 223c9c/b4cafd 005064/6fdbfe
    005638/9ddbbb 633f01/eac393 514900/d4cd93 005351/32e6e1 047270/6ebbb7 0b7462/0bc6a9 5b4400/f1c456 005547/93dbc9
    0a6e88/72b6ce 00525b/8dd9e4 03707c/09c0d3 004e72/90d4ff
"""
"""Colours on light and on dark paper, each as far as can be from all before it."""


class Shade(NamedTuple):
    """A step of a heat map: its colour, and that of the numbers on it."""

    fill: str
    text: str


@functools.cache
def _shades(kind: str, theme: str) -> list[Shade]:
    return [
        Shade(f"#{one.rstrip('*')}", (STRONGEST if one.endswith("*") else INK)[theme])
        for one in SHADES[kind, theme].split()
    ]


def sequential(theme: str) -> list[Shade]:
    """Steps from low to high in the theme ``light`` or ``dark``."""
    return _shades("sequential", theme)


def diverging(theme: str) -> tuple[list[Shade], list[Shade]]:
    """Steps below and above the middle in the theme ``light`` or ``dark``."""
    return _shades("below", theme), _shades("above", theme)


def step_of(value: float, steps: int = SEQUENTIAL) -> int:
    """Step of a value from 0 to 1; values below and above get the first and the last one."""
    return min(steps - 1, int(max(0.0, value) * steps))


def metric_colours(count: int) -> list[tuple[str, str]]:
    """A colour for each metric on light and on dark paper; they repeat where there are more metrics than colours."""
    pairs = [(f"#{one[:6]}", f"#{one[7:]}") for one in METRICS.split()]
    return [pairs[place % len(pairs)] for place in range(count)]
