"""Acceptability of English sentences, RoMe's grammatical feature: a classifier trained on CoLA."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from textmover.modules.classifier import TextClassifier
from textmover.modules.devices import own_arithmetic
from textmover.modules.encoder.encoder_identity import weights_print
from textmover.types import InputError, TokenBatch

ACCEPTABLE = "acceptable"  # the class whose probability is the feature, as CoLA and GLUE name it


class AcceptabilityModel(nn.Module):
    r"""Probability that a text is acceptable English, 0 to 1, higher is better.

    .. math:: F_g(x) = \operatorname{softmax}(W\,u(x) + c)_{\text{acceptable}}

    with the pooled token vectors :math:`u` of the classifier's encoder. A text is judged as a whole, up to the
    encoder's length limit. A text without any token is not a sentence: 0, without a gradient.

    Args:
        classifier: A classifier of single texts that has the class.
        acceptable: Name of the class.

    Raises:
        InputError: If the classifier has no such class, or is one of pairs.

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
        self.classifier, self.place = classifier, classes.index(acceptable)

    @property
    def identity(self) -> str:
        """Name and hash of the encoder, and the print of the head, for the signature of a metric that uses it."""
        return f"{self.classifier.metric.encoder_identity}/{weights_print(self.classifier.head.state_dict())}"

    @property
    def device(self) -> torch.device:
        """Device on which batches must be."""
        return self.classifier.device

    def tokenize(self, texts: Sequence[str]) -> TokenBatch:
        """Texts as token ids, on the CPU."""
        (tokens,) = self.classifier.tokenize(texts)
        return tokens

    def forward(self, batch: TokenBatch) -> Tensor:
        """Probabilities ``[B]`` of tokenised texts, float32, with gradients.

        Args:
            batch: ``B`` texts as :meth:`tokenize` makes them, on the classifier's device. Tokens of another metric fit
                where its tokenizer and length limit are the same.
        """
        probabilities = self.classifier(batch).softmax(dim=1)[:, self.place]
        return torch.where(batch.ordinary.any(dim=1), probabilities, 0.0)

    @own_arithmetic()
    @torch.no_grad()
    def predict(self, texts: Sequence[str]) -> Tensor:
        """Probabilities ``[n]`` of texts, float32 on the CPU, in evaluation mode; each distinct text is read once.

        Example:
            >>> from textmover.checkpoints.classifier import load_classifier
            >>> model = AcceptabilityModel(load_classifier("textmover-acceptability"))
            >>> good, damaged, empty = model.predict(["The dogs were tired.", "The the dogs tired was were.", ""])
            >>> bool(good > damaged), float(empty)
            (True, 0.0)
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return torch.zeros(0)
        found = self.classifier.predict(distinct)[:, self.place]
        found[~self.tokenize(distinct).ordinary.any(dim=1)] = 0.0
        places = {text: place for place, text in enumerate(distinct)}
        return found[[places[text] for text in texts]]
