"""Every preset over an encoder of many languages reads Chinese, Japanese, Thai, Arabic and Hindi."""

import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

from textmover import Scorer
from textmover.presets import PRESETS

TEXTS = {
    "Chinese": ("火车八点钟到达。", "火车晚上八点到达。", "我昨天买了新书。"),
    "Japanese": ("電車は八時に着きます。", "電車は夜八時に着く。", "昨日本を買った。"),
    "Thai": ("รถไฟมาถึงตอนแปดโมง", "รถไฟจะถึงแปดโมง", "เมื่อวานฉันซื้อหนังสือ"),
    "Arabic": ("يصل القطار في الساعة الثامنة.", "القطار يصل الساعة الثامنة.", "اشتريت كتابا جديدا أمس."),
    "Hindi": ("ट्रेन आठ बजे आती है।", "ट्रेन आज आठ बजे आती है।", "मैंने कल किताब खरीदी।"),
}
"""A text, one that says the same, and another one."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A tiny encoder with the name, pieces and special tokens of the real one."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    characters = sorted({one for texts in TEXTS.values() for one in "".join(texts)} - {" "} | {"▁", "。", "."})
    words = ["火车", "電車", "รถไฟ", "▁القطار", "▁ट्रेन"]
    pieces = [*((one, 0) for one in special), *((one, -2) for one in words), *((one, -5) for one in characters)]
    tokenizer = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    folder = tmp_path_factory.mktemp("encoder") / "multilingual-e5-small"
    sizes = {"hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = XLMRobertaModel(XLMRobertaConfig(vocab_size=len(pieces), max_position_embeddings=66, **sizes))
    for table in (model.embeddings.position_embeddings, model.embeddings.token_type_embeddings):
        torch.nn.init.zeros_(table.weight)  # so that a token is like itself at another place
    model.save_pretrained(folder)
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, unk_token="<unk>", **names)
    fast.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("preset", [name for name, one in PRESETS.items() if one.config.kind == "transport"])
def test_a_preset_finds_the_text_that_says_the_same(encoder, preset):
    scorer = Scorer.from_pretrained(preset, encoder=str(encoder), backend="torch")
    assert len(scorer.metric.languages) > 90
    texts, alike, others = (list(side) for side in zip(*TEXTS.values(), strict=True))
    if scorer.metric.needs_fit and not scorer.metric.fits_on_call:
        scorer.fit([*texts, *alike, *others])
    found = scorer.score(texts * 3, [*texts, *alike, *others])
    assert not {"empty", "unknown", "script", "language"} & set(found.counts)
    scores = (found.scores if scorer.metric.higher_is_better else -found.scores).reshape(3, -1)
    for language, itself, same, other in zip(TEXTS, *scores, strict=True):
        assert itself >= same > other, language
    assert scores[0, 2] > scores[1, 2] + 1e-3  # each piece is a word of Thai, also where words are their first pieces
