"""Small encoders of text for the embedded sample."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]")


def small_bert(tokenizer: PreTrainedTokenizerFast, *, hidden_size: int, layers: int) -> BertModel:
    """A BERT without dropout, with new weights."""
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * hidden_size,
        max_position_embeddings=tokenizer.model_max_length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertModel(config)


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
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=SPECIAL[0], unk_token=SPECIAL[1], model_max_length=64
    )
