"""A figure that notebooks show by itself, without pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

SCREEN, SHARP = 80, 2  # dots to an inch on a screen, and how many the picture has for each of them


class ShownFigure(Figure):
    """A figure of matplotlib that is its own picture as the last value of a notebook's cell."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        with io.BytesIO() as stream:
            self.savefig(stream, format="png", dpi=SCREEN * SHARP)
            width, height = self.get_size_inches() * SCREEN
            return stream.getvalue(), {"width": round(width), "height": round(height)}
