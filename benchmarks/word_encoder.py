"""Encoder with random weights in which each word is a token; it is as fast as a trained one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

ROLES = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "cls": "<s>", "sep": "</s>"}


def write_encoder(folder: Path, words: Sequence[str], sizes: dict[str, float], seed: int = 0) -> str:
    vocabulary = {word: place for place, word in enumerate(dict.fromkeys([*ROLES.values(), *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(token, vocabulary[token]) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    roles = {f"{role}_token": token for role, token in ROLES.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **roles).save_pretrained(folder)
    torch.manual_seed(seed)
    config = RobertaConfig(vocab_size=len(vocabulary), max_position_embeddings=514, type_vocab_size=1, **sizes)
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return str(folder)
