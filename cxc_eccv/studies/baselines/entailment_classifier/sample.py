"""Small encoders for the embedded sample."""

from __future__ import annotations

from tokenizers.processors import TemplateProcessing
from transformers import BertModel, PreTrainedTokenizerFast, ViTConfig, ViTImageProcessorPil, ViTModel

from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.trainers.sample_encoders import small_bert, word_tokenizer

SAMPLE_CONTEXT = 128
"""Context for the sample's pairs, which are shorter."""


def make_text_encoder() -> tuple[BertModel, PreTrainedTokenizerFast]:
    """A BERT of two layers with the words of the sample's train split, and its tokenizer."""
    tokenizer = word_tokenizer(Library(SAMPLE).split("train").captions["text"].to_pylist())
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.model_max_length = SAMPLE_CONTEXT
    return small_bert(tokenizer, hidden_size=64, layers=2), tokenizer


def make_image_encoder() -> tuple[ViTModel, ViTImageProcessorPil]:
    """A ViT of two layers, and its processor."""
    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=64,
        patch_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return ViTModel(config), ViTImageProcessorPil(size={"height": 64, "width": 64})
