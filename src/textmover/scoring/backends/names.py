"""Names of the back-ends, their packages, and checks that they are installed."""

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
"""Per back-end and precision: the extra to install, and the packages that an export needs."""


class BackendError(InputError):
    """A back-end cannot run this encoder; with ``backend="auto"`` another one is used."""


class UnfitError(BackendError):
    """A back-end does not support this encoder or is not fully installed: another one may be used without a warning."""


def installed() -> tuple[str, ...]:
    """Return the back-ends whose packages are installed, including those that ``backend="auto"`` does not use."""
    return ("torch", "torch-compile", *(name for name in EXPORTED if util.find_spec(name) is not None))


def check_backend(backend: str, device: torch.device) -> None:
    """Raise an error if a back-end is unknown, not installed, or does not support the device."""
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
    """Raise an error if a package is missing that the export of an artefact needs."""
    extra, *packages = MAKING[backend, precision]
    missing = [name for name in (backend, *packages) if util.find_spec(name) is None]
    if missing:
        raise UnfitError(
            f"Expected the package {missing[0]} to prepare {precision} arithmetic for backend {backend!r}, but it is "
            f'not installed: pip install "textmover[{extra}]".'
        )


def version(backend: str) -> str:
    """Return the version of a back-end's package, without its local suffix."""
    package = "torch" if backend.startswith("torch") else backend
    try:
        release = metadata.version(package)
    except metadata.PackageNotFoundError:
        # The distribution may have another name, such as onnxruntime-gpu.
        sources = metadata.packages_distributions().get(package)
        if not sources:
            raise BackendError(
                f"Expected the package {package} to have a version, but it has no metadata: reinstall it "
                f"(pip install --force-reinstall {package}), or set backend='torch'."
            ) from None
        release = metadata.version(sources[0])
    return release.partition("+")[0]


def package(name: str) -> Any:
    """Import the package of a back-end."""
    try:
        with without_telemetry():
            return importlib.import_module(name)
    except Exception as error:  # a broken package may raise anything
        reason = " ".join(str(error).split()).rstrip(".") or "no reason"
        raise BackendError(
            f"Expected the package {name} to be importable, but got {type(error).__name__}: {reason:.300}: reinstall "
            f"it (pip install --force-reinstall {name}) or uninstall it, or set backend='torch'."
        ) from error


@contextlib.contextmanager
def without_telemetry() -> Iterator[None]:
    """Disable telemetry of packages imported inside, unless the program has configured it."""
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
