"""The tokenizer: one token per character, no lexical knowledge."""

from __future__ import annotations

import string
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from cxc_eccv.errors import InvalidOption

__all__ = ["PADDING", "UNKNOWN", "character_tokenizer", "coco_text"]

PADDING, UNKNOWN = "<pad>", "<unk>"

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def character_tokenizer(texts: Iterable[str], max_length: int = 512) -> PreTrainedTokenizerFast:
    """A tokenizer of all characters that occur in the texts, capitals and punctuation included.

    Args:
        texts: the training captions.
        max_length: characters beyond it are cut where truncation is asked for.

    Returns:
        One that ``AutoTokenizer.from_pretrained`` loads again.

    Raises:
        InvalidOption: there is no character.

    Example:
        >>> tokenizer = character_tokenizer(["A dog."])
        >>> tokenizer.tokenize("God?"), tokenizer("a dog")["input_ids"][1:]
        (['<unk>', 'o', 'd', '<unk>'], [2, 5, 7, 6])
    """
    known = sorted(set().union(*map(set, texts)))
    if not known:
        raise InvalidOption("character_tokenizer needs at least one text that is not empty")
    vocabulary = {token: place for place, token in enumerate([PADDING, UNKNOWN, *known])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PADDING,
        unk_token=UNKNOWN,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def coco_text(text: str) -> str:
    """A COCO caption as the paper enters it: the tokens of the Karpathy file joined by blanks, and a full stop.

    Those tokens are the words in lower case without ASCII punctuation.

    Example:
        >>> coco_text("A man's dog,  asleep. ")
        'a mans dog asleep.'
    """
    return f"{' '.join(text.lower().translate(WITHOUT_PUNCTUATION).split())}."
