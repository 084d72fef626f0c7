"""Opens all checkpoints, and decides whether the Python code in them may run."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from huggingface_hub import constants, get_session
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError
from safetensors.torch import load_file
from transformers import AutoModel, PreTrainedConfig, dynamic_module_utils
from transformers.utils.hub import cached_file

from cxc_eccv.errors import ModelError

SECONDS = 10.0
"""How long the Hub may take to answer before its cache alone is read, and how long its answer counts."""

MODULES_FILE = "modules.json"
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
    with read_hub(source):
        if origin.trusted:
            return load(source, **origin.options, **options)
        with _refuse_code(source):
            return load(source, **origin.options, **options)


@contextmanager
def read_hub(source: str | Path) -> Iterator[None]:
    """Read only the cache if the Hub is offline: its client would try each of a model's files six times.

    Raises ModelError if the cache lacks the file.
    """
    reason = "" if Path(source).is_dir() else _ask_hub()
    usual = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = usual or bool(reason)
    try:
        yield
    except OSError as error:
        is_of_disk = isinstance(error, FileNotFoundError) and not isinstance(error, LocalEntryNotFoundError)
        if is_of_disk or not reason:
            raise
        raise ModelError(
            f"{source}: no model found: {reason}, and it is not in the cache ({constants.HF_HUB_CACHE}). Check the "
            "name and the connection (HTTPS_PROXY, HF_ENDPOINT), or name the folder of a saved model."
        ) from None
    finally:
        constants.HF_HUB_OFFLINE = usual


_answer = ("", float("-inf"))
"""Why the Hub cannot be reached, empty if it can, and when it was asked."""


def _ask_hub() -> str:
    """Why the Hub cannot be reached, after one request; empty if it can."""
    global _answer
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if time.monotonic() - _answer[1] > SECONDS:
        failures = ["it did not answer within 10 seconds"]

        def ask() -> None:
            try:
                get_session().head(constants.ENDPOINT, timeout=SECONDS)
                failures[:] = []
            except Exception as error:  # of httpx or httpx2
                failures[:] = [str(error) or type(error).__name__]

        # In a thread, as each address of the server, and each server of names, has a time limit of its own.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(SECONDS)
        _answer = ("".join(f"{constants.ENDPOINT} cannot be reached ({why})" for why in failures), time.monotonic())
    return _answer[0]


def load_part(kind: Any, source: str | Path, origin: Origin = NAMELESS) -> Any:  # noqa: ANN401 - see open_checkpoint
    """Load a class from a folder or Hub id; raises ModelError with the reason."""
    with explain_part(kind, source):
        return open_checkpoint(kind, source, origin)


def explain_part(kind: Any, source: str | Path) -> AbstractContextManager[None]:  # noqa: ANN401 - see open_checkpoint
    """Turn errors of loading a class into a ModelError that names it."""
    return explain_damage(lambda reason: f"{source}: {kind.__name__} cannot load it ({reason})")


MOST_LINES = 5
LONGEST_LINE = 300
"""How much of a library's error a message keeps: lines, and characters of a line."""

LOG_IN_TO_READ = "Log in with hf auth login, or set HF_TOKEN, to an account that has access to it."


@contextmanager
def explain_damage(message: Callable[[str], str]) -> Iterator[None]:
    """Turn errors of the libraries into a ModelError with a message made from the first line, and the next lines."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        first, *others = shorten_error(error)
        raise ModelError("\n  ".join([message(first), *others])) from None


def shorten_error(error: BaseException) -> list[str]:
    """The first lines of a library's error, at least one; the remedy of a gated repository is among them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    is_gated = isinstance(error, GatedRepoError) or isinstance(error.__cause__, GatedRepoError)
    remedies = [LOG_IN_TO_READ] if is_gated else []
    kept = lines[: MOST_LINES - len(remedies)]
    return [f"{line[:LONGEST_LINE]} ..." if len(line) > LONGEST_LINE else line for line in kept] + remedies


def find_file(source: str, name: str, revision: str | None = None) -> Path | None:
    """The path of a model's file, in its folder or from the Hub; None if there is none or it cannot be reached."""
    try:
        with read_hub(source):
            file = cached_file(source, name, revision=revision)
    except (OSError, ModelError):
        return None
    return None if file is None else Path(file)


def build_model(config: PreTrainedConfig) -> Any:  # noqa: ANN401 - any model
    """A model with new weights; raises ModelError for a type that is only a part of other models."""
    if type(config) not in AutoModel._model_mapping:  # AutoModel's message would list all types
        raise ModelError(f"AutoModel cannot build a model of type {config.model_type}; give another encoder")
    return AutoModel.from_config(config, trust_remote_code=False)


def load_of_open_clip(open_clip: Any, source: str, name: str, checkpoint: str | None) -> tuple[Any, Any, Any]:  # noqa: ANN401 - a module, and what it loads
    """A model of open_clip with its preprocessing and tokenizer, which may use transformers."""
    with (
        explain_damage(lambda reason: f"{source}: open_clip cannot load it ({reason})"),
        read_hub(source),
        _refuse_code(source),
    ):
        # A file of training with --siglip has a bias, which no vector depends on; without one in the model it fails.
        bias = {"init_logit_bias": 0.0} if checkpoint is not None and Path(checkpoint).is_file() else {}
        with _without_wrappers(checkpoint) as weights:
            model, preprocess = open_clip.create_model_from_pretrained(name, weights, **bias)
        return model, preprocess, open_clip.get_tokenizer(name)


WRAPPERS = ("module", "_orig_mod", "model")
"""What parallel training, torch.compile and Lightning put before the names of all weights, in any order."""


@contextmanager
def _without_wrappers(checkpoint: str | None) -> Iterator[str | None]:
    """The file of weights, or a copy for open_clip, which knows ``module.`` alone, with the names of the bare model."""
    weights = {} if checkpoint is None else _read_weights(Path(checkpoint))
    bare = _strip_wrappers(weights)
    if checkpoint is None or bare is weights:
        yield checkpoint
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"{Path(checkpoint).stem}.pt"
        torch.save(bare, copy)
        yield str(copy)


def _read_weights(path: Path) -> dict[str, Any]:
    """The named weights in a file; none if it is of another kind or damaged, which open_clip reports."""
    if not path.is_file():
        return {}
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception:  # of many kinds
        return {}
    weights = content.get("state_dict", content) if isinstance(content, dict) else {}
    return weights if isinstance(weights, dict) else {}


def _strip_wrappers(weights: dict[str, Any]) -> dict[str, Any]:
    """The weights by the names that they have without the wrappers that all share; the same object if there is none."""
    firsts = {str(name).partition(".")[0] for name in weights}
    if len(firsts) != 1 or not firsts.issubset(WRAPPERS):
        return weights
    return _strip_wrappers({name.partition(".")[2]: tensor for name, tensor in weights.items()})


@contextmanager
def _refuse_code(source: str | Path) -> Iterator[None]:
    """Stop transformers from running the code of a checkpoint, or from asking on the terminal.

    ``trust_remote_code=False`` does not reach every part: some processors do not pass it to their tokenizer, and
    open_clip takes options from the checkpoint's config. So loading the file with the code is blocked.
    """
    module: Any = dynamic_module_utils
    usual = module.get_cached_module_file, module.TIME_OUT_REMOTE_CODE
    module.get_cached_module_file = _refuse_module
    module.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise
        raise ModelError(
            f"{source}: brings Python code of its own, which is not run. If you have read the code and trust it, add "
            "--trust-remote-code and --revision to cxc-eccv encode (in Python: load_model(..., "
            "trust_remote_code=True)). Only encoding runs such code"
        ) from None
    finally:
        module.get_cached_module_file, module.TIME_OUT_REMOTE_CODE = usual


def _refuse_module(*_: object, **options: object) -> NoReturn:
    raise ValueError("the code is not read without trust_remote_code")
