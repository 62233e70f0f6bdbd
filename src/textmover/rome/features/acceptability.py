"""RoMe's grammatical feature: acceptability of English sentences by a classifier trained on CoLA."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from textmover.modules.classifier import TextClassifier
from textmover.modules.devices import own_arithmetic
from textmover.modules.encoder.encoder_identity import weights_fingerprint
from textmover.modules.tokens.text_arguments import Texts, listed_texts
from textmover.types import InputError, TokenBatch

ACCEPTABLE = "acceptable"  # class whose probability is the feature, named as in CoLA and GLUE


class AcceptabilityModel(nn.Module):
    r"""Probability that a text is acceptable English, 0 to 1, higher is better.

    .. math:: F_g(x) = \operatorname{softmax}(W\,u(x) + c)_{\text{acceptable}}

    with the pooled token vectors :math:`u` of the classifier's encoder. A text is classified as a whole, truncated at
    the encoder's length limit. A text without ordinary tokens has probability 0, without gradients.

    Args:
        classifier: Classifier of single texts with the class ``acceptable``.
        acceptable: Name of the class.

    Raises:
        InputError: If the classifier lacks the class, or classifies pairs.

    Reference: Rony et al. 2022 (RoMe), section 3.3; Warstadt et al. 2019 (CoLA).
    """

    def __init__(self, classifier: TextClassifier, acceptable: str = ACCEPTABLE) -> None:
        super().__init__()
        classes = classifier.config.classes
        if acceptable not in classes:
            raise InputError(
                f"Expected a classifier with the class {acceptable!r}, but got one of {', '.join(classes)}: train one "
                "with configs/stages/cola.yaml, or name its class."
            )
        if classifier.config.encoding != "single":
            raise InputError(
                f"Expected a classifier of single texts, but got one of pairs ({classifier.config.encoding}): train "
                "one with configs/stages/cola.yaml."
            )
        self.classifier, self.class_index = classifier, classes.index(acceptable)

    @property
    def identity(self) -> str:
        """Name and hash of the encoder, and hash of the head, for signatures of metrics."""
        return f"{self.classifier.metric.encoder_identity}/{weights_fingerprint(self.classifier.head.state_dict())}"

    @property
    def device(self) -> torch.device:
        """Device where batches must be."""
        return self.classifier.device

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Return texts as token ids, on the CPU."""
        (tokens,) = self.classifier.tokenize(texts)
        return tokens

    def forward(self, batch: TokenBatch) -> Tensor:
        """Return probabilities ``[B]`` of tokenized texts, float32, with gradients.

        Args:
            batch: ``B`` texts from :meth:`tokenize`, on the classifier's device. Tokens of another metric fit if it
                has the same tokenizer and length limit.
        """
        probabilities = self.classifier(batch).softmax(dim=1)[:, self.class_index]
        return torch.where(batch.ordinary.any(dim=1), probabilities, 0.0)

    @own_arithmetic()
    @torch.no_grad()
    def predict(self, texts: Texts) -> Tensor:
        """Return probabilities ``[n]`` of texts, float32 on the CPU, in evaluation mode; duplicates are computed once.

        Example:
            >>> from textmover.checkpoints.classifier import load_classifier
            >>> model = AcceptabilityModel(load_classifier("textmover-acceptability"))
            >>> good, damaged, empty = model.predict(["The dogs were tired.", "The the dogs tired was were.", ""])
            >>> bool(good > damaged), float(empty)
            (True, 0.0)
        """
        texts = listed_texts(texts, "texts")
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return torch.zeros(0)
        probabilities = self.classifier.predict(distinct)[:, self.class_index]
        probabilities[~self.tokenize(distinct).ordinary.any(dim=1)] = 0.0
        rows = {text: row for row, text in enumerate(distinct)}
        return probabilities[[rows[text] for text in texts]]
