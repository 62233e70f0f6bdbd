"""Names of the back-ends, their packages, and how to install them."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from importlib import metadata, util
from typing import Any, Literal, get_args

import torch

from textmover.types import InputError, check_choice

Backend = Literal["auto", "torch", "torch-compile", "openvino", "onnxruntime"]

BACKENDS: tuple[str, ...] = get_args(Backend)

EXPORTED = ("openvino", "onnxruntime")  # back-ends that run an exported graph, on the CPU

MAKING = {
    ("openvino", "exact"): ("openvino",),
    ("openvino", "int8"): ("int8", "nncf"),
    ("onnxruntime", "exact"): ("onnxruntime", "onnx", "onnxscript"),
    ("onnxruntime", "int8"): ("onnxruntime", "onnx", "onnxscript"),
}
"""For each back-end and precision: the extra that brings everything, and the packages that making an artefact needs."""


class BackendError(InputError):
    """A back-end cannot run this encoder; where it was not asked for by name, another one does."""


class UnfitError(BackendError):
    """A back-end is not made for this encoder or not wholly installed: nothing is wrong if another one takes over."""


def installed() -> tuple[str, ...]:
    """The back-ends whose packages are there, fit for ``backend="auto"`` or not."""
    return ("torch", "torch-compile", *(name for name in EXPORTED if util.find_spec(name) is not None))


def check_backend(backend: str, device: torch.device) -> None:
    """Refuse a back-end that is unknown, not installed, or not for this device."""
    check_choice("backend", backend, BACKENDS)
    if backend not in EXPORTED:
        return
    if device.type != "cpu":
        raise InputError(
            f"Expected backend {backend!r} to run on the CPU, but got the device {device}: set device='cpu', or "
            "backend='torch'."
        )
    if backend not in installed():
        raise InputError(
            f"Expected the package {backend} for backend {backend!r}, but it is not installed: "
            f'pip install "textmover[{backend}]".'
        )


def check_packages(backend: str, precision: str) -> None:
    """Refuse to make an artefact without the packages that this needs."""
    extra, *packages = MAKING[backend, precision]
    missing = [name for name in (backend, *packages) if util.find_spec(name) is None]
    if missing:
        raise UnfitError(
            f"Expected the package {missing[0]} to prepare {precision} arithmetic for backend {backend!r}, but it is "
            f'not installed: pip install "textmover[{extra}]".'
        )


def version(backend: str) -> str:
    """Version of the package behind a back-end, as it was released."""
    package = "torch" if backend.startswith("torch") else backend
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        # It may come under another name, as with onnxruntime-gpu.
        sources = metadata.packages_distributions().get(package)
        if not sources:
            raise BackendError(
                f"Expected the package {package} to have a version, but it has no metadata: reinstall it "
                f"(pip install --force-reinstall {package}), or set backend='torch'."
            ) from None
        found = metadata.version(sources[0])
    return found.partition("+")[0]


def package(name: str) -> Any:
    """The package of a back-end, imported."""
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
    """Keep packages imported inside from reporting over the network, unless the caller's program has chosen."""
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
