"""The tokenizer and the image processor of a model, given or saved along with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import AutoImageProcessor, AutoTokenizer, BaseImageProcessor, PreTrainedTokenizerBase

from cxc_eccv.encoding.checkpoints import reason_of
from cxc_eccv.errors import ModelError

__all__ = ["Processors"]


class Processors:
    """What turns texts and images into a model's inputs.

    Args:
        given: a processor, a tokenizer, an image processor, a tuple of the last two, their folder or Hub id, or None.
        source: folder or Hub id to load from what is not given; empty where there is none.
    """

    def __init__(self, given: Any, source: str) -> None:  # noqa: ANN401 - one of four kinds
        if isinstance(given, str | Path):
            given, source = None, str(given)
        self._source = source
        parts = list(_parts(given))
        self._tokenizer = next((part for part in parts if isinstance(part, PreTrainedTokenizerBase)), None)
        self._image_processor = next((part for part in parts if isinstance(part, BaseImageProcessor)), None)
        if given is not None and self._tokenizer is None and self._image_processor is None:
            raise ModelError(
                f"processor is a {type(given).__name__}; give the model's AutoProcessor, its tokenizer, its image "
                "processor, or (tokenizer, image_processor)"
            )

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer.

        Raises:
            ModelError: there is none, it has no vocabulary, or no token to pad with.
        """
        if self._tokenizer is None:
            self._tokenizer = self._loaded(AutoTokenizer, "tokenizer")
        tokenizer = self._tokenizer
        # Without files, AutoTokenizer makes up a tokenizer that knows the special tokens alone.
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ModelError(f"the tokenizer of {self._source or 'the model'} knows no word; save the tokenizer along")
        if tokenizer.pad_token is None:
            raise ModelError(f"the tokenizer of {self._source or 'the model'} has no padding token; set its pad_token")
        return tokenizer

    def image_processor(self) -> BaseImageProcessor:
        """The image processor.

        Raises:
            ModelError: there is none.
        """
        if self._image_processor is None:
            self._image_processor = self._loaded(AutoImageProcessor, "image processor")
        return self._image_processor

    def _loaded(self, kind: Any, name: str) -> Any:  # noqa: ANN401 - an Auto class and what it loads
        if not self._source:
            raise ModelError(f"the model comes without {name}; give processor=")
        try:
            return kind.from_pretrained(self._source, trust_remote_code=False)
        except Exception as error:  # on damaged files the libraries raise whatever they trip over
            reason, advice = reason_of(error, self._source), "save it along with the model, or give processor="
            raise ModelError(f"no {name} at {self._source} ({reason}); {advice}") from None


def _parts(given: Any) -> Iterable[Any]:  # noqa: ANN401 - whatever the caller has
    if isinstance(given, tuple | list):
        return given
    return [given, getattr(given, "tokenizer", None), getattr(given, "image_processor", None)]
