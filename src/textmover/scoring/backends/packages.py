"""Importing the packages behind back-ends: without reports over the network, and with plain words for broken ones."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from textmover.scoring.backends.names import BackendError


def package(name: str) -> Any:
    """The package of a back-end, imported.

    Raises:
        BackendError: If it is installed but cannot be imported.
    """
    try:
        with without_telemetry():
            return importlib.import_module(name)
    except Exception as error:  # a broken package fails in any way: a library is missing, or of another version
        reason = " ".join(str(error).split()).rstrip(".") or "no reason"
        raise BackendError(
            f"Expected the package {name} to be importable, but got {type(error).__name__}: {reason:.300}: reinstall "
            f"it (pip install --force-reinstall {name}) or uninstall it, or set backend='torch'."
        ) from error


@contextlib.contextmanager
def without_telemetry() -> Iterator[None]:
    """Keep packages that are imported inside from reporting their use over the network.

    OpenVINO and NNCF report through a package of their own, and do not without it; ONNX Runtime asks a variable. Where
    the caller's program has made its choice already, that stands.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    name = "openvino_telemetry"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop(name, None)
