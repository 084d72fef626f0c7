"""A model by name or as it is, with every weight that its config names, on its device, and with its processors."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoTokenizer,
    BaseImageProcessor,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.hub import cached_file

from cxc_eccv.encoding.checkpoints import MODULES, NAMELESS, Origin, explain_damage, open_checkpoint, reason_of
from cxc_eccv.encoding.distributed.processes import local_rank
from cxc_eccv.encoding.distributed.shards import fingerprint
from cxc_eccv.encoding.open_clip import (
    ADDRESS,
    CONFIG,
    FOLDER,
    HUB,
    PREFIX,
    OpenClip,
    Preprocessing,
    Tokenizer,
    is_open_clip,
    load_open_clip,
    title_of,
)
from cxc_eccv.encoding.text_input import NO_PROMPT, Prompt, in_lower_case, never_saw_capitals
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError
from cxc_eccv.ranking.device import torch_on
from cxc_eccv.runs.checks import check_name
from cxc_eccv.runs.embeddings import SIMILARITIES
from cxc_eccv.types.encoding_options import DTYPES, check_dtype, check_source

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CROSS_ENCODERS = (
    "ViltForImageAndTextRetrieval",
    "BlipForImageTextRetrieval",
    "Blip2ForImageTextRetrieval",
    "BridgeTowerForImageAndTextRetrieval",
)

IDENTITY = ("revision", "caption_prompt", "image_prompt")
"""Facts that make a model another one: its code may differ where its weights do not."""

UNTOLD = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Entries of a config that say where a model is from, and not what it does."""

VERSIONED = ("torch", "transformers", "sentence_transformers", "open_clip", "timm", "cxc_eccv")
"""Packages whose code is told by their version."""

UNUSED = ("pooler.dense.", "position_ids")
"""Parts of the names of weights that no feature depends on: a learned pooler is never used for pooling."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to encode: in evaluation mode, on its device, with its processors.

    ``name`` is for messages, ``title`` for runs and reports. ``lowercase`` is None where the model itself decides.
    """

    model: PreTrainedModel | SentenceTransformer | OpenClip
    processors: Processors
    name: str
    lowercase: bool | None = None
    title: str | None = None
    revision: str | None = None
    caption_prompt: Prompt = NO_PROMPT
    image_prompt: str = ""

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Its tokenizer, with the case that it is to have."""
        kept = self.processors.tokenizer()
        return in_lower_case(kept) if self.lowercases else kept

    @cached_property
    def lowercases(self) -> bool:
        """Whether texts are put in lower case before the tokenizer's own rules."""
        if self.lowercase is not None or not isinstance(self.model, PreTrainedModel):
            return bool(self.lowercase)
        return never_saw_capitals(self.processors.tokenizer(), self.model)

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of it beside its weights; what was not asked for is not there."""
        facts = {"name": self.title, "revision": self.revision, "image_prompt": self.image_prompt or None}
        facts["caption_prompt"] = None if self.caption_prompt == NO_PROMPT else str(self.caption_prompt)
        return {"model": self.name, **{name: value for name, value in facts.items() if value is not None}}

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.model.device

    @cached_property
    def dtype(self) -> torch.dtype:
        """Type of its weights."""
        return next(self.model.parameters()).dtype

    @property
    def is_cross_encoder(self) -> bool:
        """Whether it scores pairs and has no embeddings."""
        return any(kind.__name__ in CROSS_ENCODERS for kind in type(self.model).__mro__)

    @property
    def similarity(self) -> str:
        """What its vectors are compared by: cosine, unless the model says dot product."""
        if isinstance(self.model, PreTrainedModel):
            return "cosine" if getattr(self.model.config, "normalize", True) else "dot"
        name = str(self.model.similarity_fn_name)
        if name not in SIMILARITIES:
            raise ModelError(
                f"{self.name} compares its vectors by {name!r}; set its similarity_fn_name to one of "
                f"{', '.join(SIMILARITIES)} if these suit it"
            )
        return name

    @property
    def sides(self) -> tuple[str, ...]:
        """Which of ``images`` and ``captions`` it encodes."""
        if not isinstance(self.model, PreTrainedModel):
            kinds = {"images": "image", "captions": "text"}
            return tuple(side for side, kind in kinds.items() if kind in self.model.modalities)
        if self.is_cross_encoder:
            return ()
        towers = {"images": "get_image_features", "captions": "get_text_features"}
        sides = tuple(side for side, method in towers.items() if hasattr(self.model, method))
        if sides:
            return sides
        return ("images",) if self.model.main_input_name == "pixel_values" else ("captions",)


def load_model(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    *,
    processor: Any = None,  # noqa: ANN401 - see Processors
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    lowercase: bool | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    caption_prompt: str | None = None,
    image_prompt: str | None = None,
    name: str | None = None,
) -> LoadedModel:
    """A model ready to encode.

    Args:
        model: Hub id or folder, a model of open_clip (``open_clip:ViT-B-32/laion2b_s34b_b79k``,
            ``open_clip:ViT-B-32=FILE`` or ``hf-hub:ID``), a loaded ``PreTrainedModel`` or ``SentenceTransformer``, or
            what this function gave.
        processor: a processor, a tokenizer, an image processor, a tuple of the last two, or their folder or Hub id; by
            default what was saved with the model.
        device: torch's name of it; None for a GPU where there is one (under torchrun that of the process), and for
            where a loaded model is.
        dtype: ``float32``, ``bfloat16``, ``float16``; None for float32, and for what a loaded model has.
        lowercase: put texts in lower case first, or leave their capitals; None for what the model was trained on, as
            far as its files tell (SigLIP 2 of fixed resolution has it done, any other is left to its tokenizer).
        revision: commit, tag or branch of the Hub's repository, for model, tokenizer and image processor alike.
        trust_remote_code: run the Python code that a checkpoint brings along; read it first, and name its revision.
        caption_prompt: what stands around every caption, with ``{}`` in its place, or the name of a prompt that a
            sentence-transformers model has saved; None for that which such a model applies by itself.
        image_prompt: what a sentence-transformers model is told beside every image, or the name of a saved prompt.
        name: what its runs and reports are called; None for the Hub id or the folder's name.

    Raises:
        ModelError: it cannot be loaded, or its checkpoint does not fit its config.
        InvalidOption: no such device or dtype; ``lowercase`` for a sentence-transformers model; an option of a Hub's
            repository for a folder or a loaded model; a prompt that is none.
    """
    if isinstance(model, LoadedModel):
        return model
    source = str(model) if isinstance(model, str | Path) else ""
    if revision is not None and (not source or Path(source).is_dir()):
        raise InvalidOption(f"revision {revision!r}: only a repository of the Hub has revisions; leave it out")
    is_clip = is_open_clip(source)
    if source:
        check_source(source)
    origin = Origin(revision, trust_remote_code)
    if is_clip and (revision, trust_remote_code, processor) != (None, False, None):
        raise InvalidOption(
            f"{source} is a model of open_clip, which loads its newest revision and own tokenizer, and no code; leave "
            "out revision, trust_remote_code and processor"
        )
    if is_clip:
        loaded = load_open_clip(source, _torch_dtype(dtype) or torch.float32).to(_torch_device(device))
        processor = loaded.texts, loaded.images
    elif source:
        place, kind = _torch_device(device), _torch_dtype(dtype) or torch.float32
        loaded = from_checkpoint(source, kind, CROSS_ENCODERS, origin).to(place)
    else:
        loaded = _take_model(model, device, dtype)
        source = str(getattr(getattr(model, "config", None), "_name_or_path", ""))
    prompts = _read_prompts(loaded, caption_prompt, image_prompt)
    if not isinstance(loaded, PreTrainedModel | OpenClip) and processor is None:
        processor = loaded.processor if "image" in loaded.modalities else loaded.tokenizer
    if lowercase is not None and not isinstance(loaded, PreTrainedModel):
        whose = "model of open_clip" if is_clip else "sentence-transformers model"
        raise InvalidOption(f"lowercase: a {whose} has rules of its own for texts; leave it out")
    usual = _title_of(source) or type(model).__name__
    title = usual if name is None else name
    check_name("load_model", title, InvalidOption)
    processors = Processors(processor, source, origin)
    return LoadedModel(loaded.eval(), processors, source or type(model).__name__, lowercase, title, revision, *prompts)


def _title_of(source: str) -> str:
    if is_open_clip(source):
        return title_of(source)
    return Path(source).resolve().name if source and Path(source).is_dir() else source


def _read_prompts(model: Any, caption: str | None, image: str | None) -> tuple[Prompt, str]:  # noqa: ANN401 - any model
    """What stands around a caption, and what is told beside an image; by default what the model applies by itself."""
    saved = {} if isinstance(model, PreTrainedModel) else model.prompts
    usual = "" if isinstance(model, PreTrainedModel) else saved.get(model.default_prompt_name) or ""
    reads_both = not isinstance(model, PreTrainedModel) and model.supports(("image", "text"))
    if image is not None and not reads_both:
        raise InvalidOption(
            f"image prompt {image!r:.200}: {type(model).__name__} reads no text beside an image; leave it out"
        )
    beside = usual if image is None and reads_both else saved.get(image or "", image) or ""
    return Prompt(usual) if caption is None else Prompt.of(caption, saved), beside


def _torch_device(device: str | torch.device | None) -> torch.device:
    """The device of that name, which must be there; by default the GPU of this process, else the processor."""
    if device is None:
        return torch.device("cuda", local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    torch_on(str(device))
    return torch.zeros(0, device=device).device


def _torch_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    name = str(dtype).removeprefix("torch.") if dtype is not None else None
    check_dtype(name)
    return None if name is None else getattr(torch, DTYPES[name])


def _take_model(model: Any, device: str | torch.device | None, dtype: str | torch.dtype | None) -> Any:  # noqa: ANN401
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if not kinds & {"PreTrainedModel", "SentenceTransformer"}:
        raise ModelError(
            f"model is a {type(model).__name__}; give a Hub id, a folder, a transformers PreTrainedModel or a "
            "SentenceTransformer"
        )
    kind = _torch_dtype(dtype)
    model = model if device is None else model.to(_torch_device(device))
    return model if kind is None else model.to(kind)


def from_checkpoint(source: str, dtype: torch.dtype, own_class: Collection[str], origin: Origin = NAMELESS) -> Any:  # noqa: ANN401 - any model
    """The model of a folder or Hub id; architectures of ``own_class`` as themselves, others as their bare model."""
    if find_file(source, MODULES, origin.revision):
        return _sentence_transformer(source, dtype, origin)
    with explain_damage(source, lambda reason: f"{source}: no model there ({reason}); {_advice(source, origin)}"):
        config = open_checkpoint(AutoConfig, source, origin)
    with explain_damage(source, lambda reason: f"{source}: the checkpoint cannot be loaded ({reason})"):
        architecture = (config.architectures or [""])[0]
        as_itself = architecture in own_class or architecture.endswith("WithProjection")
        brings_code = "AutoModel" in (getattr(config, "auto_map", None) or {})
        kind = getattr(transformers, architecture) if as_itself and not brings_code else AutoModel
        options = {"config": config, "dtype": dtype, "output_loading_info": True}
        try:
            model, loading = open_checkpoint(kind, source, origin, **options)
        except RuntimeError as error:
            raise CheckpointMismatch(f"{source}: weights and config do not fit ({reason_of(error, source)})") from None
    missing = sorted(key for key in loading["missing_keys"] if not any(part in key for part in UNUSED))
    if missing:
        raise CheckpointMismatch(
            f"{source}: the checkpoint lacks {len(missing)} weights of {type(model).__name__}, the first: "
            f"{missing[0]}; they would be random. It does not fit its config, or is of a model with another head."
        )
    return model


def _advice(source: str, origin: Origin) -> str:
    if find_file(source, CONFIG, origin.revision):
        return f"it is a model of open_clip: name it {PREFIX + FOLDER if Path(source).is_dir() else HUB}{source}"
    return "give a folder with config.json and weights, or a Hub id"


def find_file(source: str, name: str, revision: str | None = None) -> Path | None:
    """A file of a model, in its folder or from the Hub; None where there is none, or no way to it."""
    if Path(source).is_dir():
        return Path(source) / name if (Path(source) / name).is_file() else None
    quiet: dict[str, Any] = {
        "_raise_exceptions_for_missing_entries": False,
        "_raise_exceptions_for_connection_errors": False,
    }
    try:
        file = cached_file(source, name, revision=revision, **quiet, _raise_exceptions_for_gated_repo=False)
    except OSError:
        return None
    return None if file is None else Path(file)


def _sentence_transformer(source: str, dtype: torch.dtype, origin: Origin) -> Any:  # noqa: ANN401 - imported here
    if importlib.util.find_spec("sentence_transformers") is None:
        raise InvalidOption(f"{source} is a sentence-transformers model: pip install 'cxc_eccv[st]'")
    from sentence_transformers import SentenceTransformer

    with explain_damage(source, lambda why: f"{source}: the sentence-transformers model cannot be loaded ({why})"):
        return open_checkpoint(SentenceTransformer, source, origin, device="cpu", model_kwargs={"dtype": dtype})


class Processors:
    """A model's tokenizer and image processor: those ``given``, in one of four forms, or what the source holds."""

    def __init__(self, given: Any, source: str, origin: Origin = NAMELESS) -> None:  # noqa: ANN401 - one of four kinds
        if isinstance(given, str | Path):  # the revision is of the model's repository
            given, source, origin = None, str(given), Origin(None, origin.trusted)
        self._source, self._origin = source, origin
        single = [given, getattr(given, "tokenizer", None), getattr(given, "image_processor", None)]
        parts = given if isinstance(given, tuple | list) else single
        # Of open_clip they have the calls that matter of those of transformers.
        self._tokenizer: Any = next(
            (part for part in parts if isinstance(part, PreTrainedTokenizerBase | Tokenizer)), None
        )
        self._image_processor: Any = next(
            (part for part in parts if isinstance(part, BaseImageProcessor | Preprocessing)), None
        )
        if given is not None and self._tokenizer is None and self._image_processor is None:
            raise ModelError(
                f"processor is a {type(given).__name__}; give the model's AutoProcessor, its tokenizer, its image "
                "processor, or (tokenizer, image_processor)"
            )

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, which must have a vocabulary and a token to pad with."""
        if self._tokenizer is None:
            self._tokenizer = self._load(AutoTokenizer, "tokenizer")
        tokenizer: PreTrainedTokenizerBase = self._tokenizer
        if isinstance(tokenizer, Tokenizer):
            return tokenizer
        # Without files, AutoTokenizer makes up a tokenizer that knows the special tokens alone.
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ModelError(f"the tokenizer of {self._source or 'the model'} knows no word; save the tokenizer along")
        if tokenizer.pad_token is None:
            raise ModelError(f"the tokenizer of {self._source or 'the model'} has no padding token; set its pad_token")
        return tokenizer

    def image_processor(self) -> BaseImageProcessor:
        """The image processor."""
        if self._image_processor is None:
            self._image_processor = self._load(AutoImageProcessor, "image processor")
        processor: BaseImageProcessor = self._image_processor
        return processor

    def _load(self, kind: Any, name: str) -> Any:  # noqa: ANN401 - an Auto class and what it loads
        if not self._source:
            raise ModelError(f"the model comes without {name}; give processor=")
        advice = "save it along with the model, or give processor="
        with explain_damage(self._source, lambda reason: f"no {name} at {self._source} ({reason}); {advice}"):
            return open_checkpoint(kind, self._source, self._origin)


def model_key(loaded: LoadedModel, sides: Collection[str], *settings: str) -> str:
    """Hex sha256 over weights, their type, the processors of these sides, and whatever else changes the result."""
    used = [loaded.processors.image_processor()] if "images" in sides else []
    states = [processor_state(each) for each in [*used, *([loaded.tokenizer] if "captions" in sides else [])]]
    digest = hashlib.sha256()
    for name, tensor in sorted(loaded.model.state_dict().items()):
        if not loaded.is_cross_encoder and any(part in name for part in UNUSED):
            continue  # where a checkpoint lacks them, they are others whenever it is loaded
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    facts = {name: value for name, value in loaded.facts.items() if name in IDENTITY}
    built = _architecture_of(loaded.model)
    return fingerprint(digest.hexdigest(), str(loaded.dtype), states, settings, *([facts] if facts else []), built)


def _architecture_of(model: torch.nn.Module) -> list[Any]:
    """What a model does with its weights: its modules, their configs, the code of those that no library brings."""
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    plain = [_plain_config(config) for config in configs.values() if isinstance(config, PreTrainedConfig)]
    kinds = sorted({type(module) for module in model.modules()}, key=lambda kind: (kind.__module__, kind.__qualname__))
    code = [_code_of(kind) for kind in kinds if _package_of(kind) not in VERSIONED]
    packages = {"cxc_eccv", "transformers", *map(_package_of, kinds)}.intersection(VERSIONED)
    versions = {name: sys.modules[name].__version__ for name in packages}
    return [ADDRESS.sub("", repr(model)), plain, code, versions]


def _package_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _plain_config(config: PreTrainedConfig) -> Any:  # noqa: ANN401 - whatever the config holds
    """A config and those within it, without what is in :data:`UNTOLD`."""
    text = config.to_json_string(use_diff=False)
    return json.loads(text, object_hook=lambda part: {name: part[name] for name in part if name not in UNTOLD})


def _code_of(kind: type) -> str:
    """Of the file that has a class; where a notebook or a prompt has it, of the class alone, as far as that is told."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is not None:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def processor_state(processor: Any) -> str:  # noqa: ANN401 - a tokenizer or an image processor
    """What a tokenizer or an image processor is set to, as text."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        # How the last call padded and cut is part of its state, and says nothing of the next one.
        content = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        around = [processor.padding_side, processor.model_max_length, processor.model_input_names]
        return json.dumps([content, *around], sort_keys=True)
    if hasattr(processor, "get_vocab"):
        return json.dumps([type(processor).__name__, processor.get_vocab()], sort_keys=True)
    return str(processor.to_json_string())
