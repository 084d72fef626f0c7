"""The only place that opens a checkpoint, and so decides whether the Python code in it may run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from transformers import AutoModel, PreTrainedConfig, dynamic_module_utils

from cxc_eccv.errors import ModelError

MODULES = "modules.json"
"""What makes a folder a sentence-transformers model; a list."""

WEIGHTS = (".safetensors", ".bin")


@dataclass(frozen=True)
class Origin:
    """Which commit of the Hub's repository a checkpoint is of, and whether the code in it may run."""

    revision: str | None = None
    trusted: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """As the libraries take them."""
        return {"trust_remote_code": self.trusted} | ({} if self.revision is None else {"revision": self.revision})


NAMELESS = Origin()
"""The newest commit, whose code does not run."""


def open_checkpoint(kind: Any, source: str | Path, origin: Origin = NAMELESS, **options: Any) -> Any:  # noqa: ANN401 - a class of transformers or SentenceTransformer, and what it loads
    """What a class loads of a folder or Hub id; libraries raise whatever they trip over on damaged files."""
    load = getattr(kind, "from_pretrained", kind)
    if origin.trusted:
        return load(source, **origin.options, **options)
    with _refuse_code(source):
        return load(source, **origin.options, **options)


def load_part(kind: Any, source: str | Path, origin: Origin = NAMELESS, **options: Any) -> Any:  # noqa: ANN401 - see open_checkpoint
    """What a class loads of a folder or Hub id, or a ModelError with the reason."""
    with explain_damage(source, lambda reason: f"{source}: {kind.__name__} cannot load it ({reason})"):
        return open_checkpoint(kind, source, origin, **options)


@contextmanager
def explain_damage(source: str | Path, message: Callable[[str], str]) -> Iterator[None]:
    """Turn whatever the libraries raise on damaged files into a ModelError, whose message takes the reason."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(message(reason_of(error, str(source)))) from None


def build_model(config: PreTrainedConfig) -> Any:  # noqa: ANN401 - any model
    """A model of new weights; transformers has none for a part that is only built within another model."""
    with _refuse_code(config.name_or_path or config.model_type):
        if type(config) not in AutoModel._model_mapping:  # AutoModel's own message lists all that there are
            raise ModelError(f"AutoModel builds no model of type {config.model_type} alone; give another encoder")
        return AutoModel.from_config(config, trust_remote_code=False)


def load_of_open_clip(open_clip: Any, source: str, name: str, checkpoint: str | None) -> tuple[Any, Any, Any]:  # noqa: ANN401 - a module, and what it loads
    """A model of open_clip, its preprocessing and its tokenizer, whose parts may be of transformers."""
    with explain_damage(source, lambda reason: f"{source}: open_clip cannot load it ({reason})"), _refuse_code(source):
        model, preprocess = open_clip.create_model_from_pretrained(name, checkpoint)
        return model, preprocess, open_clip.get_tokenizer(name)


@contextmanager
def _refuse_code(source: str | Path) -> Iterator[None]:
    """Let transformers neither run the code of a checkpoint nor ask on the terminal whether to.

    ``trust_remote_code=False`` does not reach every part: some processors do not hand it on to their tokenizer, and
    open_clip takes its own options from the checkpoint's config. Without the file of the code there is nothing to run,
    whoever asks for it.
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


def reason_of(error: Exception, source: str) -> str:
    """Why a model, or what comes with it, cannot be loaded: the damaged file where one is seen, else the error."""
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
