"""Backbones of random weights that fit the embedded sample: few words and small drawings need no more."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import (
    BertConfig,
    BertModel,
    BitConfig,
    BitModel,
    ConvNextImageProcessorPil,
    PreTrainedTokenizerFast,
)

from cxc_eccv.sources.library import Library

__all__ = ["image_backbone", "text_backbone"]

SPECIAL = ("[PAD]", "[UNK]")


def text_backbone(library: Library) -> tuple[BertModel, PreTrainedTokenizerFast]:
    """A BERT of one layer and no dropout, with a tokenizer of the words of the train split.

    Args:
        library: the embedded sample.

    Example:
        >>> model, tokenizer = text_backbone(Library("sample"))
        >>> model.config.vocab_size == len(tokenizer)
        True
    """
    tokenizer = word_tokenizer(library.captions("train")["text"].to_pylist())
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertModel(config), tokenizer


def image_backbone() -> tuple[BitModel, ConvNextImageProcessorPil]:
    """A ResNet of three stages with group normalisation, so that a batch may be split over processes.

    Example:
        >>> model, processor = image_backbone()
        >>> model.config.hidden_sizes, processor.size["shortest_edge"]
        ([96, 192, 256], 64)
    """
    config = BitConfig(embedding_size=32, hidden_sizes=[96, 192, 256], depths=[1, 1, 1], num_groups=8)
    return BitModel(config), ConvNextImageProcessorPil(size={"shortest_edge": 64}, crop_pct=1.0)


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words in lower case, without punctuation.

    Example:
        >>> word_tokenizer(["A red heart."])("a heart")["input_ids"]
        [2, 3]
    """
    normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(".", " ")])
    splitter = pre_tokenizers.Whitespace()
    words = {word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))}
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *sorted(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[1]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=SPECIAL[0], unk_token=SPECIAL[1], model_max_length=64
    )
