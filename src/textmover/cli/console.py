"""What all commands share: where they print, how they log, and how they end."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from textmover.types import InputError

__all__ = ["Outcome", "console", "guarded", "set_up_logging"]


@dataclass
class Outcome:
    """How a command ended: 0 well, 2 unusable input, 130 interrupted."""

    code: int = 0


def console(*, stderr: bool = False) -> Console:
    """A console that draws boxes on a terminal and writes plain, unwrapped lines into a file or pipe."""
    stream = Console(stderr=stderr, highlight=False, markup=False)
    if not stream.is_terminal:
        stream = Console(stderr=stderr, highlight=False, markup=False, width=160, color_system=None)
    return stream


def set_up_logging(*, quiet: bool = False) -> None:
    """Log to standard error: messages of this project, and warnings of others."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("textmover").setLevel(logging.WARNING if quiet else logging.INFO)


@contextlib.contextmanager
def guarded() -> Iterator[Outcome]:
    """Turn unusable input into one sentence on standard error and exit code 2; defects keep their traceback."""
    outcome = Outcome()
    try:
        yield outcome
    except InputError as error:
        _complain(str(error), outcome, 2)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has stopped: nothing is wrong, and nobody is left to tell
        outcome.code = 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}", outcome, 2)
    except KeyboardInterrupt:
        _complain("interrupted", outcome, 130)


def _complain(message: str, outcome: Outcome, code: int) -> None:
    sys.stderr.write(f"textmover: {message}\n")
    outcome.code = code
