"""Back-ends: what computes an encoder's hidden states while scoring, in place of torch.

``torch`` is the reference and the only one that trains. ``torch-compile`` compiles the same model; OpenVINO and ONNX
Runtime run a graph that was exported from it, on the CPU. An exported graph is an *artefact*: a folder beside a
checkpoint, or in the user's cache, whose deviation from torch was measured when it was made.
"""

from textmover.scoring.backends.names import BACKENDS, EXPORTED, Backend, BackendError, check_backend, installed
from textmover.scoring.backends.preparation import Prepared, attach, prepare

__all__ = [
    "BACKENDS",
    "EXPORTED",
    "Backend",
    "BackendError",
    "Prepared",
    "attach",
    "check_backend",
    "installed",
    "prepare",
]
