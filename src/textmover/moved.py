"""Old import paths, which stay valid: each loads the module that now holds its names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "textmover."

MOVED = {
    "cli.train": "cli.training.train",
    "data.acceptable": "data.generated.acceptability",
    "data.generated.record_files": "data.generated.records_datamodule",
    "data.generated.record_ratings": "data.generated.records_datamodule",
    "data.mixture_sources": "data.training_sources",
    "data.parses": "perturbations.parsed_clauses",
    "data.perturbation_kinds": "perturbations.registry",
    "data.perturbations": "perturbations.perturbations",
    "data.record_files": "data.generated.records_datamodule",
    "data.sources": "data.training_sources",
    "data.told_records": "data.generated.records_datamodule",
    "functional.edits": "functional.edit_scripts",
    "functional.ngrams": "functional.token_pooling",
    "functional.score_normalization": "functional.score_combination",
    "meta_evaluation.annotator_agreement": "meta_evaluation.agreement.annotators",
    "metrics.bert_score_model": "metrics.bert_score",
    "metrics.ordered": "metrics.ordered_states",
    "modules.configured_metric": "modules.base_metric",
    "modules.encoder.base_encoder": "modules.encoder.encoder_identity",
    "modules.encoder.low_rank": "modules.encoder.lora",
    "modules.errors": "modules.error_spans",
    "modules.errors.head": "modules.error_spans.head",
    "modules.layer_similarity": "experiments.anisotropy",
    "modules.probes": "modules.score_deviation",
    "perturbations.clauses": "perturbations.parsed_clauses",
    "perturbations.kinds": "perturbations.registry",
    "perturbations.sentence_edits": "perturbations.editable_sentences",
    "perturbations.sentences": "perturbations.editable_sentences",
    "scoring.adapter": "checkpoints.adapter",
    "scoring.averaging": "checkpoints.averaging",
    "scoring.backends.int8": "scoring.backends.onnxruntime",
    "scoring.citations": "checkpoints.citations",
    "scoring.classifier_checkpoint": "checkpoints.classifier",
    "scoring.encoder_weights": "checkpoints.encoder_state",
    "scoring.hub": "checkpoints.hub",
    "scoring.probes": "modules.score_deviation",
    "training.averaging": "training.callbacks",
    "training.curves": "training.reports.learning_curves",
    "training.joint": "training.sharding",
}
"""New module path by old one, both relative to the package."""


class _OldPaths(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.removeprefix(PACKAGE) in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(PACKAGE + MOVED[spec.name.removeprefix(PACKAGE)])
        spec.loader_state = module.__spec__  # importlib overwrites __spec__ next
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def keep_old_paths() -> None:
    """Install the finder for old import paths; it goes first, ahead of the search in folders."""
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldPaths())
