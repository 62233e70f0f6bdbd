"""Back-ends compute an encoder's hidden states while scoring.

``torch`` is the reference and the only one that trains. ``torch-compile`` compiles the same model. OpenVINO and ONNX
Runtime run an exported graph on the CPU. An exported graph is an *artefact*: a folder next to a checkpoint or in the
user's cache, whose deviation from torch was measured at export.
"""
