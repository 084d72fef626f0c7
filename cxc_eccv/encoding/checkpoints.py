"""Opens all checkpoints, and decides whether the Python code in them may run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from transformers import AutoModel, PreTrainedConfig, dynamic_module_utils

from cxc_eccv.errors import ModelError

MODULES = "modules.json"
"""The file that marks a folder as a sentence-transformers model."""


@dataclass(frozen=True)
class Origin:
    """The revision of a checkpoint on the Hub, and whether the code in it may run."""

    revision: str | None = None
    trusted: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``from_pretrained``."""
        return {"trust_remote_code": self.trusted} | ({} if self.revision is None else {"revision": self.revision})


NAMELESS = Origin()
"""The newest revision, whose code may not run."""


def open_checkpoint(kind: Any, source: str | Path, origin: Origin = NAMELESS, **options: Any) -> Any:  # noqa: ANN401 - a class of transformers or SentenceTransformer, and what it loads
    """Load a class from a folder or Hub id; damaged files raise errors of any kind."""
    load = getattr(kind, "from_pretrained", kind)
    if origin.trusted:
        return load(source, **origin.options, **options)
    with _refuse_code(source):
        return load(source, **origin.options, **options)


def load_part(kind: Any, source: str | Path, origin: Origin = NAMELESS, **options: Any) -> Any:  # noqa: ANN401 - see open_checkpoint
    """Load a class from a folder or Hub id; raises ModelError with the reason."""
    with explain_damage(lambda reason: f"{source}: {kind.__name__} cannot load it ({reason})"):
        return open_checkpoint(kind, source, origin, **options)


@contextmanager
def explain_damage(message: Callable[[str], str]) -> Iterator[None]:
    """Turn errors of the libraries into a ModelError with a message made from the reason."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(message(str(error).strip().partition("\n")[0] or type(error).__name__)) from None


def build_model(config: PreTrainedConfig) -> Any:  # noqa: ANN401 - any model
    """A model with new weights; raises ModelError for a type that is only a part of other models."""
    with _refuse_code(config.name_or_path or config.model_type):
        if type(config) not in AutoModel._model_mapping:  # AutoModel's message would list all types
            raise ModelError(f"AutoModel cannot build a model of type {config.model_type}; give another encoder")
        return AutoModel.from_config(config, trust_remote_code=False)


def load_of_open_clip(open_clip: Any, source: str, name: str, checkpoint: str | None) -> tuple[Any, Any, Any]:  # noqa: ANN401 - a module, and what it loads
    """A model of open_clip with its preprocessing and tokenizer, which may use transformers."""
    with explain_damage(lambda reason: f"{source}: open_clip cannot load it ({reason})"), _refuse_code(source):
        model, preprocess = open_clip.create_model_from_pretrained(name, checkpoint)
        return model, preprocess, open_clip.get_tokenizer(name)


@contextmanager
def _refuse_code(source: str | Path) -> Iterator[None]:
    """Stop transformers from running the code of a checkpoint, or from asking on the terminal.

    ``trust_remote_code=False`` does not reach every part: some processors do not pass it to their tokenizer, and
    open_clip takes options from the checkpoint's config. So loading the file with the code is blocked.
    """
    module: Any = dynamic_module_utils
    usual = module.get_cached_module_file, module.TIME_OUT_REMOTE_CODE
    module.get_cached_module_file, module.TIME_OUT_REMOTE_CODE = _refuse_module, 0
    try:
        yield
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise
        raise ModelError(
            f"{source}: brings Python code of its own, which is not run. If you read that code and trust it, "
            "encode it with --trust-remote-code, best with --revision (from Python load_model(..., "
            "trust_remote_code=True)); no other command runs such code"
        ) from None
    finally:
        module.get_cached_module_file, module.TIME_OUT_REMOTE_CODE = usual


def _refuse_module(*_: object, **options: object) -> NoReturn:
    raise ValueError("the code is not read without trust_remote_code")
