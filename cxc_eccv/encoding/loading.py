"""Loads a model by name, with all weights of its config, on its device, and with its processors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from cxc_eccv.discovery import study_modules
from cxc_eccv.encoding.adapters import (
    NOWHERE,
    apply_adapter,
    describe_adapters,
    find_adapter,
    find_base,
    refuse_adapter,
    unwrap,
)
from cxc_eccv.encoding.checkpoints import MODULES_FILE, NAMELESS, Origin, explain_damage, find_file, open_checkpoint
from cxc_eccv.encoding.families import (
    refuse_architecture,
    refuse_joint_reader,
    refuse_object,
    refuse_sentence_family,
    refuse_sparse_head,
)
from cxc_eccv.encoding.open_clip import (
    FOLDER_PREFIX,
    HUB_PREFIX,
    OPEN_CLIP_CONFIG,
    OPEN_CLIP_PREFIX,
    OpenClip,
    Preprocessing,
    Tokenizer,
    is_open_clip,
    load_open_clip,
    make_title,
)
from cxc_eccv.encoding.processes import local_rank
from cxc_eccv.encoding.roles import (
    SENTENCE_TRANSFORMERS_TASKS,
    RoleInput,
    read_roles,
    reads_task,
    reads_text_with_images,
)
from cxc_eccv.encoding.text_input import NO_PROMPT, Prompt, in_lower_case, never_saw_capitals
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError, refuse_long_name
from cxc_eccv.extras import require
from cxc_eccv.ranking.device import torch_on
from cxc_eccv.runs.run import GALLERY, QUERY, SIMILARITIES, SYMMETRIC, check_name
from cxc_eccv.types.model_options import TORCH_DTYPES, check_dtype, check_source

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CROSS_ENCODERS = (
    "ViltForImageAndTextRetrieval",
    "BlipForImageTextRetrieval",
    "Blip2ForImageTextRetrieval",
    "BridgeTowerForImageAndTextRetrieval",
)

PROJECTED = "WithProjection"
"""Ends the names of the classes of towers with their projection."""

TOKENIZER_FILES = ("tokenizer_config.json", "tokenizer.json")
IMAGE_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
"""Files of which a checkpoint with such a processor has one."""

UNUSED = ("pooler.dense.", "position_ids")
"""Parts of the names of weights that features do not use; a learned pooler is never used for pooling."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to encode: in evaluation mode, on its device, with its processors.

    ``name`` is for messages, ``title`` for runs and reports. ``lowercase`` is None if the model decides. Sides have the
    ``prompts`` of their roles; ``prompts_from`` is ``the model`` if it saved some of them.
    """

    model: PreTrainedModel | SentenceTransformer | OpenClip
    processors: Processors
    name: str
    lowercase: bool | None = None
    title: str | None = None
    revision: str | None = None
    caption_prompt: Prompt = NO_PROMPT
    image_prompt: str = ""
    prompts: Mapping[str, Mapping[str, Prompt]] = field(default_factory=dict)
    prompts_from: str | None = None

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, which lower-cases texts if ``lowercases`` is true."""
        plain = self.processors.tokenizer()
        return in_lower_case(plain) if self.lowercases else plain

    @cached_property
    def lowercases(self) -> bool:
        """Whether texts are lower-cased before the tokenizer's rules."""
        if self.lowercase is not None or not isinstance(self.model, PreTrainedModel):
            return bool(self.lowercase)
        return never_saw_capitals(self.processors.tokenizer(), self.model)

    @property
    def facts(self) -> dict[str, Any]:
        """The names of the model for a record."""
        return {"model": self.name} | ({} if self.title is None else {"name": self.title})

    def choose_inputs(self, side: str) -> dict[str, RoleInput]:
        """Each role of a side with its prompt and task; where queries and gallery are alike, all roles are."""
        plain = Prompt(self.image_prompt) if side == "images" else self.caption_prompt
        prompts = self.prompts.get(side, {})
        tasks = SENTENCE_TRANSFORMERS_TASKS if reads_task(self.model) else {}
        inputs = {role: RoleInput(prompts.get(role, plain), tasks.get(role)) for role in (GALLERY, QUERY, SYMMETRIC)}
        return inputs if inputs[QUERY] != inputs[GALLERY] else dict.fromkeys(inputs, inputs[GALLERY])

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.model.device

    @cached_property
    def dtype(self) -> torch.dtype:
        """The type of its weights."""
        return next(self.model.parameters()).dtype

    @property
    def needs_pooling(self) -> bool:
        """Whether it gives a state per token of a text, of which a pooling makes one vector."""
        if not isinstance(self.model, PreTrainedModel) or self.is_cross_encoder:
            return False
        pools = self.model.config.model_type.startswith("siglip") or type(self.model).__name__.endswith(PROJECTED)
        return not pools and not hasattr(self.model, "get_text_features")

    @property
    def is_cross_encoder(self) -> bool:
        """Whether it scores pairs and has no embeddings."""
        return any(kind.__name__ in CROSS_ENCODERS for kind in type(self.model).__mro__)

    def require_vectors(self, images: object) -> None:
        """Raise InvalidOption if it gives pairs scores, not items vectors, or looks at images and there are none."""
        if self.is_cross_encoder:
            raise InvalidOption(
                f"{self.name} scores pairs, of which the test split has 125 million; re-rank the top of a dual encoder "
                "with it (cxc-eccv encode --rerank EMBEDDINGS --output lists.parquet), and use these rankings"
            )
        if "images" in self.sides and images is None:
            raise InvalidOption(f"{self.name} encodes images; give their folder with images (--images)")
        self.require_plain_captions()

    def require_plain_captions(self) -> None:
        """Raise InvalidOption if it was trained on COCO's captions as tokens, which no command but its own makes."""
        if getattr(getattr(self.model, "config", None), "coco_tokens", False):
            raise InvalidOption(
                f"{self.name} reads COCO's captions as lower-case tokens, but they are plain text here. Score it with "
                "cxc-eccv train char-gru --report-on, or train it with --no-coco-tokens"
            )

    def require_sentences(self) -> None:
        """Raise InvalidOption if it was trained on nothing but COCO's captions as tokens.

        It has never seen a capital letter or a comma, which most sentences that are not COCO's have.
        """
        reads_tokens = getattr(getattr(self.model, "config", None), "coco_tokens", False)
        if reads_tokens and not any(token.isupper() for token in self.tokenizer.get_vocab()):
            raise InvalidOption(
                f"{self.name} was trained on nothing but COCO's captions as lower-case tokens, and knows neither "
                "capital letters nor commas, which most sentences here have. Train it with --no-coco-tokens, or on "
                "Flickr8k's captions too"
            )

    @property
    def similarity(self) -> str:
        """The similarity of its vectors: cosine, unless the model declares the dot product."""
        if isinstance(self.model, PreTrainedModel):
            return "cosine" if getattr(self.model.config, "normalize", True) else "dot"
        name = str(self.model.similarity_fn_name)
        if name not in SIMILARITIES:
            raise ModelError(
                f"{self.name} compares its vectors by {name!r}; set its similarity_fn_name to one of "
                f"{', '.join(SIMILARITIES)} if appropriate"
            )
        return name

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that it encodes, of ``images`` and ``captions``."""
        if not isinstance(self.model, PreTrainedModel):
            kinds = {"images": "image", "captions": "text"}
            return tuple(side for side, kind in kinds.items() if kind in self.model.modalities)
        if self.is_cross_encoder:
            return ()
        towers = {"images": "get_image_features", "captions": "get_text_features"}
        if not getattr(self.model.config, "has_images", True):  # models of this package without an image tower
            del towers["images"]
        sides = tuple(side for side, method in towers.items() if hasattr(self.model, method))
        if sides:
            return sides
        return ("images",) if self.model.main_input_name == "pixel_values" else ("captions",)


@contextmanager
def inference(model: torch.nn.Module) -> Iterator[None]:
    """Run a model without gradients and dropout; afterwards what trained before trains on."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


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
    query_prompt: str | None = None,
    gallery_prompt: str | None = None,
    name: str | None = None,
) -> LoadedModel:
    """Load a model for encoding.

    Args:
        model: Hub id or folder, a model of open_clip (``open_clip:ViT-B-32/laion2b_s34b_b79k``,
            ``open_clip:ViT-B-32=FILE`` or ``hf-hub:ID``), a loaded ``PreTrainedModel`` or ``SentenceTransformer``, also
            inside a ``PeftModel`` or what torch.compile returns, or a LoadedModel.
        processor: a processor, a tokenizer, an image processor, a tuple of the last two, or their folder or Hub id;
            None for what was saved with the model.
        device: torch device; None for a GPU if there is one (under torchrun that of the process), or the device of a
            loaded model.
        dtype: ``float32``, ``bfloat16``, ``float16``; None for float32, or the type of a loaded model.
        lowercase: whether to lower-case texts first; None for the case that the model was trained on, if known (SigLIP
            2 of fixed resolution is lower-cased, other models leave it to their tokenizer).
        revision: commit, tag or branch on the Hub, for model, tokenizer and image processor.
        trust_remote_code: run the Python code in the checkpoint; read it first, and pin its revision.
        caption_prompt: text around every caption, with ``{}`` for the caption, or the name of a saved prompt of a
            sentence-transformers model; None for the default prompt of such a model.
        image_prompt: text that a sentence-transformers model reads with every image, or the name of a saved prompt.
        query_prompt: prompt of the queries, as ``caption_prompt``; where the model reads text with images also theirs.
            None for the prompt of all items or, if neither that nor a default prompt is there, for the prompt that a
            sentence-transformers model saved as ``query``.
        gallery_prompt: prompt of the items that are searched; None as for ``query_prompt``, where the saved prompt is
            ``document``, ``passage`` or ``corpus``.
        name: name in runs and reports; None for the Hub id or the name of the folder.

    Raises:
        ModelError: the model cannot be loaded, has no single vector per item (a sparse encoder, ColBERT, a text
            cross-encoder, a generative model), or is an adapter that cannot be applied.
        CheckpointMismatch: its weights do not fit its config, or an adapter does not fit its base.
        InvalidOption: the device or dtype is unknown; ``lowercase`` is set for a sentence-transformers model; an option
            for the Hub is set for a folder or loaded model; or a prompt is invalid.
    """
    if isinstance(model, LoadedModel):
        return model
    source = str(model) if isinstance(model, str | Path) else ""
    refuse_long_name(Path(source))
    is_clip = is_open_clip(source)
    origin = Origin(revision, trust_remote_code)
    _check_origin(source, origin, processor)
    if is_clip:
        loaded = load_open_clip(source, _torch_dtype(dtype) or torch.float32).to(_torch_device(device))
        processor = loaded.texts, loaded.images
    elif source:
        place = _torch_device(device)
        kind = _torch_dtype(dtype) or torch.float32
        loaded = from_checkpoint(source, kind, CROSS_ENCODERS, origin).to(place)
    else:
        loaded = model = _take_model(model, device, dtype)
        source = str(getattr(getattr(model, "config", None), "_name_or_path", ""))
    prompts = _read_prompts(loaded, caption_prompt, image_prompt)
    plain = {"captions": caption_prompt, "images": image_prompt}
    roles, roles_from = read_roles(loaded, plain, {QUERY: query_prompt, GALLERY: gallery_prompt})
    if not isinstance(loaded, PreTrainedModel | OpenClip) and processor is None:
        processor = loaded.processor if "image" in loaded.modalities else loaded.tokenizer
    if lowercase is not None and not isinstance(loaded, PreTrainedModel):
        kind_of_model = "model of open_clip" if is_clip else "sentence-transformers model"
        raise InvalidOption(f"lowercase: a {kind_of_model} prepares texts itself; leave it out")
    usual = _make_title(source) or type(model).__name__
    if not isinstance(model, str | Path) and describe_adapters(loaded):
        usual = f"{usual} with an adapter"  # the numbers are not those of the base
    title = usual if name is None else name
    check_name("load_model", title, InvalidOption)
    processors = Processors(processor, source, origin)
    name_in_messages = source or type(model).__name__
    result = LoadedModel(
        loaded,
        processors,
        name_in_messages,
        lowercase,
        title,
        revision,
        *prompts,
        prompts=roles,
        prompts_from=roles_from,
    )
    if result.is_cross_encoder and any(roles.values()):
        raise InvalidOption(
            f"{name_in_messages} scores pairs, which have no queries; leave out query_prompt and gallery_prompt"
        )
    return result


def _check_origin(source: str, origin: Origin, processor: object) -> None:
    """Raise an error for a source that is no model, or that does not take these options."""
    if origin.revision is not None and (not source or Path(source).is_dir()):
        raise InvalidOption(f"revision {origin.revision!r}: only models on the Hub have revisions; leave it out")
    if source:
        check_source(source)
    if is_open_clip(source) and (origin, processor) != (NAMELESS, None):
        raise InvalidOption(
            f"{source} is a model of open_clip, which loads the newest revision, its tokenizer and no code; leave out "
            "revision, trust_remote_code and processor"
        )


def _make_title(source: str) -> str:
    if is_open_clip(source):
        return make_title(source)
    return Path(source).resolve().name if source and Path(source).is_dir() else source


def _read_prompts(model: Any, caption: str | None, image: str | None) -> tuple[Prompt, str]:  # noqa: ANN401 - any model
    """The prompts of captions and images; by default those of the model."""
    saved = {} if isinstance(model, PreTrainedModel) else model.prompts
    usual = "" if isinstance(model, PreTrainedModel) else saved.get(model.default_prompt_name) or ""
    reads_both = reads_text_with_images(model)
    if image is not None and not reads_both:
        raise InvalidOption(
            f"image prompt {image!r:.200}: {type(model).__name__} reads no text with an image; leave it out"
        )
    beside = usual if image is None and reads_both else saved.get(image or "", image) or ""
    return Prompt(usual) if caption is None else Prompt.of(caption, saved), beside


def _torch_device(device: str | torch.device | None) -> torch.device:
    """The named device; by default the GPU of this process, else the CPU."""
    if device is None:
        return torch.device("cuda", local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    torch_on(str(device))
    return torch.zeros(0, device=device).device


def _torch_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    name = str(dtype).removeprefix("torch.") if dtype is not None else None
    check_dtype(name)
    return None if name is None else getattr(torch, TORCH_DTYPES[name])


def _take_model(model: Any, device: str | torch.device | None, dtype: str | torch.dtype | None) -> Any:  # noqa: ANN401
    model = unwrap(model)
    refuse_object(model)
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if not kinds & {"PreTrainedModel", "SentenceTransformer"}:
        raise ModelError(
            f"model is a {type(model).__name__}; give a Hub id, a folder, a transformers PreTrainedModel or a "
            "SentenceTransformer"
        )
    if "PreTrainedModel" in kinds:
        refuse_architecture("", type(model).__name__)
        _refuse_class("", type(model), CROSS_ENCODERS)
    kind = _torch_dtype(dtype)
    model = model if device is None else model.to(_torch_device(device))
    return model if kind is None else model.to(kind)


def from_checkpoint(source: str, dtype: torch.dtype, own_class: Collection[str], origin: Origin = NAMELESS) -> Any:  # noqa: ANN401 - any model
    """Load a model from a folder or Hub id; architectures in ``own_class`` with their head, others without.

    An adapter is put into its base. Families without one vector per item are refused.
    """
    base, base_origin = find_base(source, origin)
    if _is_of_package(base, base_origin):
        study_modules("models")  # registers the trained models of the studies with transformers
    elif find_file(source, MODULES_FILE, origin.revision):
        refuse_sentence_family(source, origin)
        return _sentence_transformer(source, dtype, origin)
    if base != source:
        refuse_adapter(base, base_origin)
    has_adapter = find_adapter(source, origin) is not None
    model = _load_base(base, dtype, own_class, base_origin, beside_adapter=has_adapter)
    if has_adapter:
        apply_adapter(model, source, origin)
    return model


def _load_base(
    source: str, dtype: torch.dtype, own_class: Collection[str], origin: Origin, *, beside_adapter: bool
) -> PreTrainedModel:
    """Load a model without the adapter that may lie beside its weights."""
    with explain_damage(lambda reason: f"{source}: no model found ({reason}); {_advice(source, origin)}"):
        config = open_checkpoint(AutoConfig, source, origin)
    with explain_damage(lambda reason: f"{source}: the checkpoint cannot be loaded ({reason})"):
        architecture = str((config.architectures or [""])[0])
        if architecture not in own_class:
            refuse_architecture(source, architecture)
            refuse_sparse_head(source, architecture, origin)
        as_itself = architecture in own_class or architecture.endswith(PROJECTED)
        brings_code = "AutoModel" in (getattr(config, "auto_map", None) or {})
        kind = getattr(transformers, architecture) if as_itself and not brings_code else AutoModel
        usual = AutoModel._model_mapping.get(type(config), None)
        if kind is AutoModel and isinstance(usual, type) and not brings_code:
            _refuse_class(source, usual, own_class)  # before gigabytes of weights are read
        # Weights of other sizes are listed rather than raised: the error of transformers does not name them.
        options = {"config": config, "dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}
        if beside_adapter:
            options["adapter_kwargs"] = {"subfolder": NOWHERE}
        model: PreTrainedModel
        model, loading = open_checkpoint(kind, source, origin, **options)
        _refuse_class(source, type(model), own_class)
    _check_weights(source, model, loading, "" if brings_code else architecture)
    return model


def _refuse_class(source: str, kind: type, own_class: Collection[str]) -> None:
    """Raise ModelError for a class of transformers, or of a user, that encodes neither images nor texts alone."""
    is_own = any(parent.__name__ in own_class for parent in kind.__mro__) or name_package(kind) == "cxc_eccv"
    if not is_own:
        refuse_joint_reader(source, kind)


def _find_used(keys: Iterable[str]) -> list[str]:
    """The names of weights that a model uses, sorted."""
    return sorted(key for key in keys if not _is_unused(key))


def _is_unused(key: str) -> bool:
    return any(part in key for part in UNUSED)


def _check_weights(source: str, model: PreTrainedModel, loading: dict[str, Any], architecture: str) -> None:
    """Raise CheckpointMismatch if weights lack, have other sizes, or belong to a head that transformers lacks."""
    sizes = sorted(str(key) for key, *_ in loading["mismatched_keys"])
    if sizes:
        name, saved, built = next(each for each in loading["mismatched_keys"] if each[0] == sizes[0])
        raise CheckpointMismatch(
            f"{source}: weights and config do not fit: {len(sizes)} weights have other sizes, the first: {name} "
            f"{tuple(saved)}, by the config {tuple(built)}"
        )
    missing = _find_used(loading["missing_keys"])
    if missing:
        raise CheckpointMismatch(
            f"{source}: the checkpoint lacks {len(missing)} weights of {type(model).__name__}, the first: "
            f"{missing[0]}; they would be random. It does not fit its config, or belongs to a model with another head."
        )
    unread = _find_used(loading["unexpected_keys"])
    is_known = not architecture or hasattr(transformers, architecture) or name_package(type(model)) == "cxc_eccv"
    if unread and not is_known:
        raise CheckpointMismatch(
            f"{source}: was saved as {architecture}, which transformers lacks; as {type(model).__name__} it would be "
            f"without {len(unread)} of its weights, the first: {unread[0]}. Load it with its own code, and give the "
            "loaded model, or its vectors as a file"
        )


def name_package(kind: type) -> str:
    """The package that a class comes from."""
    return kind.__module__.partition(".")[0]


def _is_of_package(source: str, origin: Origin) -> bool:
    """Whether a model is of a class of this package, also if it is saved for sentence-transformers as well."""
    path = find_file(source, "config.json", origin.revision)
    return path is not None and b'"model_type": "cxc_eccv_' in path.read_bytes()


def _advice(source: str, origin: Origin) -> str:
    if find_file(source, OPEN_CLIP_CONFIG, origin.revision):
        prefix = OPEN_CLIP_PREFIX + FOLDER_PREFIX if Path(source).is_dir() else HUB_PREFIX
        return f"it is a model of open_clip: name it {prefix}{source}"
    return "give a folder with config.json and weights, or a Hub id"


def _sentence_transformer(source: str, dtype: torch.dtype, origin: Origin) -> Any:  # noqa: ANN401 - imported here
    require("sentence_transformers", "st", f"the model {source} needs")
    from sentence_transformers import SentenceTransformer

    with explain_damage(lambda why: f"{source}: the sentence-transformers model cannot be loaded ({why})"):
        return open_checkpoint(SentenceTransformer, source, origin, device="cpu", model_kwargs={"dtype": dtype})


class Processors:
    """A model's tokenizer and image processor, from ``processor``, in one of four forms, or from the source."""

    def __init__(self, processor: Any, source: str, origin: Origin = NAMELESS) -> None:  # noqa: ANN401 - four kinds
        if isinstance(processor, str | Path):  # the revision belongs to the repository of the model
            source = str(processor)
            origin = Origin(None, origin.trusted)
            processor = None
        self._source = source
        self._origin = origin
        single = [processor, getattr(processor, "tokenizer", None), getattr(processor, "image_processor", None)]
        parts = processor if isinstance(processor, tuple | list) else single
        # Those of open_clip have the methods of transformers that are used here.
        self._tokenizer: Any = next(
            (part for part in parts if isinstance(part, PreTrainedTokenizerBase | Tokenizer)), None
        )
        self._image_processor: Any = next(
            (part for part in parts if isinstance(part, BaseImageProcessor | Preprocessing)), None
        )
        if processor is not None and self._tokenizer is None and self._image_processor is None:
            raise ModelError(
                f"processor is a {type(processor).__name__}; give the model's AutoProcessor, its tokenizer, its image "
                "processor, or (tokenizer, image_processor)"
            )

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, which must have a vocabulary and a padding token."""
        if self._tokenizer is None:
            self._tokenizer = self._load(AutoTokenizer, "tokenizer", TOKENIZER_FILES)
        tokenizer: PreTrainedTokenizerBase = self._tokenizer
        if isinstance(tokenizer, Tokenizer):
            return tokenizer
        # Without files, AutoTokenizer makes a tokenizer that has only special tokens.
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ModelError(
                f"the tokenizer of {self._source or 'the model'} has no words; save the tokenizer with the model"
            )
        if tokenizer.pad_token is None:
            raise ModelError(f"the tokenizer of {self._source or 'the model'} has no padding token; set its pad_token")
        return tokenizer

    def image_processor(self) -> BaseImageProcessor:
        """The image processor."""
        if self._image_processor is None:
            self._image_processor = self._load(AutoImageProcessor, "image processor", IMAGE_PROCESSOR_FILES)
        processor: BaseImageProcessor = self._image_processor
        return processor

    def _load(self, kind: Any, name: str, files: Sequence[str]) -> Any:  # noqa: ANN401 - an Auto class and what it loads
        if not self._source:
            raise ModelError(f"the model has no {name}; pass processor=")
        advice = "save it with the model, or pass processor="
        source = self._source
        origin = self._origin
        if not any(find_file(source, file, origin.revision) for file in files):
            source, origin = find_base(source, origin)  # an adapter is often saved without its base's processors
        with explain_damage(lambda reason: f"no {name} at {source} ({reason}); {advice}"):
            return open_checkpoint(kind, source, origin)
