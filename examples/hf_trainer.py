"""The metric in a Hugging Face ``Seq2SeqTrainer``: what the model generates is scored at every evaluation.

A small T5 that is built from a configuration, so that nothing is fetched, learns to repeat sentences of a few words.

    python examples/hf_trainer.py
"""

from __future__ import annotations

import random
import tempfile
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    DataCollatorForSeq2Seq,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
)

from textmover.interfaces.transformers import compute_metrics

WORDS = ["a", "the", "cat", "dog", "child", "sits", "sleeps", "runs", "in", "on", "under", "street", "garden", "table"]


def main(steps: int = 150, model: str = "twmd", **options: Any) -> tuple[float, float]:
    """Train; returns the metric before and after.

    Args:
        steps: Of training.
        model: The metric that judges.
        **options: Its, as for ``Scorer.from_pretrained``.
    """
    torch.manual_seed(0)
    tokenizer = word_tokenizer()
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 5))) for _ in range(1100)]
    rows = [dict(tokenizer(text), labels=tokenizer(text)["input_ids"]) for text in texts]
    size = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1, "num_heads": 4}
    config = T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, dropout_rate=0.0, **size)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Seq2SeqTrainer(
            T5ForConditionalGeneration(config),
            Seq2SeqTrainingArguments(
                folder,
                max_steps=steps,
                per_device_train_batch_size=32,
                learning_rate=1e-2,
                predict_with_generate=True,  # the metric needs texts
                generation_max_length=8,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                dataloader_pin_memory=False,
            ),
            train_dataset=rows[:1000],
            eval_dataset=rows[1000:],
            data_collator=DataCollatorForSeq2Seq(tokenizer),
            processing_class=tokenizer,
            compute_metrics=compute_metrics(tokenizer, model, name="twmd", **options),
        )
        before = trainer.evaluate()["eval_twmd"]
        trainer.train()
        after = trainer.evaluate()["eval_twmd"]
    print(f"twmd of the generated texts: {before:.3f} before training, {after:.3f} after")
    return before, after


def word_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of whole words that ends texts with ``</s>``."""
    vocabulary = {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )


if __name__ == "__main__":
    main()
