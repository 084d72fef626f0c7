"""A checkpoint, from a folder or the Hub, as a model whose every weight it holds."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoTokenizer,
    BaseImageProcessor,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)
from transformers.utils.hub import cached_file

from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError

__all__ = ["Processors", "from_checkpoint", "reason_of"]

MODULES = "modules.json"
"""What makes a folder a sentence-transformers model; a list."""

WEIGHTS = (".safetensors", ".bin")

UNUSED = ("pooler.dense.", "position_ids")
"""Parts of the names of weights that no feature depends on: a learned pooler is never used for pooling."""


def from_checkpoint(source: str, dtype: torch.dtype, own_class: Collection[str]) -> Any:  # noqa: ANN401 - any model
    """The model of a folder or Hub id.

    Args:
        source: folder or Hub id; one with ``modules.json`` is a sentence-transformers model.
        dtype: type of its weights.
        own_class: architectures to load as themselves, not as their bare model.

    Raises:
        ModelError: nothing there, or an unknown type of model.
        CheckpointMismatch: weights are missing or of other shapes than the config says.
        InvalidOption: a sentence-transformers model without that package.
    """
    if _is_sentence_transformer(source):
        return _sentence_transformer(source, dtype)
    config = _config(source)
    try:
        architecture = (config.architectures or [""])[0]
        own = architecture in own_class or architecture.endswith("WithProjection")
        kind = getattr(transformers, architecture) if own else AutoModel
        model, found = kind.from_pretrained(
            source, config=config, dtype=dtype, output_loading_info=True, trust_remote_code=False
        )
    except RuntimeError as error:
        raise CheckpointMismatch(f"{source}: weights and config do not fit ({reason_of(error, source)})") from None
    except Exception as error:  # on damaged files the libraries raise whatever they trip over
        raise ModelError(f"{source}: the checkpoint cannot be loaded ({reason_of(error, source)})") from None
    missing = sorted(key for key in found["missing_keys"] if not any(part in key for part in UNUSED))
    if missing:
        raise CheckpointMismatch(
            f"{source}: the checkpoint lacks {len(missing)} weights of {type(model).__name__}, the first: "
            f"{missing[0]}; they would be random. It does not fit its config, or is of a model with another head."
        )
    return model


def _config(source: str) -> PretrainedConfig:
    try:
        config: PretrainedConfig = AutoConfig.from_pretrained(source, trust_remote_code=False)
        return config
    except Exception as error:  # likewise
        advice = "give a folder with config.json and weights, or a Hub id"
        raise ModelError(f"{source}: no model there ({reason_of(error, source)}); {advice}") from None


def _is_sentence_transformer(source: str) -> bool:
    if Path(source).is_dir():
        return (Path(source) / MODULES).is_file()
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    try:
        return cached_file(source, MODULES, **quiet, _raise_exceptions_for_gated_repo=False) is not None
    except OSError:
        return False


def _sentence_transformer(source: str, dtype: torch.dtype) -> Any:  # noqa: ANN401 - imported here
    if importlib.util.find_spec("sentence_transformers") is None:
        raise InvalidOption(f"{source} is a sentence-transformers model: pip install 'cxc_eccv[st]'")
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(source, device="cpu", model_kwargs={"dtype": dtype}, trust_remote_code=False)
    except Exception as error:  # likewise
        reason = reason_of(error, source)
        raise ModelError(f"{source}: the sentence-transformers model cannot be loaded ({reason})") from None


def reason_of(error: Exception, source: str) -> str:
    """Why a model, or what comes with it, cannot be loaded: the damaged file where one is seen, else the error's word.

    Args:
        error: that a library raised.
        source: folder or Hub id.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "tokenizer.json").write_text("[]")
        >>> reason_of(AttributeError("'list' object has no attribute 'pop'"), str(folder))
        'tokenizer.json is no JSON object'
        >>> reason_of(AttributeError("no such thing"), "org/name")
        'no such thing'
    """
    files = sorted(path for path in Path(source).glob("*") if path.is_file())
    damaged = [fault for path in files if path.suffix == ".json" and (fault := _fault_of(path))]
    damaged += [f"{path.name} is empty" for path in files if path.suffix in WEIGHTS and not path.stat().st_size]
    return " and ".join(damaged) or str(error).strip().partition("\n")[0] or type(error).__name__


def _fault_of(path: Path) -> str:
    """What is wrong with a file of JSON that a library loads; empty where nothing is seen."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if path.name != MODULES:
        return "" if isinstance(content, dict) else f"{path.name} is no JSON object"
    is_list = isinstance(content, list) and content and all(isinstance(module, dict) for module in content)
    return "" if is_list else f"{path.name} is no list of modules"


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
