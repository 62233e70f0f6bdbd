import re
from dataclasses import replace

import pytest
import torch
from tests.rome.shared import parsed

from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric


class ChainParser:
    """Stands in for a parser: words and marks, each hanging on the one before it."""

    identity = "chain"

    def __init__(self):
        self.read = []

    def __call__(self, texts):
        self.read += texts
        return [self.parse(text) for text in texts]

    def parse(self, text):
        found = list(re.finditer(r"\w+|[^\w\s]", text))
        words = [one.group() for one in found]
        relations = ["root", *["dep"] * len(words)][: len(words)]
        tags = ["NOUN" if word.isalnum() else "PUNCT" for word in words]
        chain = parsed(words, range(-1, len(words) - 1), relations, tags=tags)
        return replace(chain, spans=tuple(one.span() for one in found))


@pytest.fixture(scope="session")
def classifier(tiny_metric):
    return TextClassifier.untrained(tiny_metric(), ClassifierConfig(("unacceptable", "acceptable"), "single")).eval()


@pytest.fixture
def rome(tiny_encoder, classifier, monkeypatch):
    """Builds RoMe on the tiny encoder with a stand-in for the parser."""
    monkeypatch.setattr("textmover.rome.features.text_features.load_parser", lambda _: ChainParser())

    def build(**fields):
        metric = RomeMetric.from_config(RomeConfig(**{"encoder": str(tiny_encoder), **fields}))
        for part in metric.wanted_classifiers:
            metric.take_part(part, classifier)
        return metric.eval()

    torch.manual_seed(0)
    return build
