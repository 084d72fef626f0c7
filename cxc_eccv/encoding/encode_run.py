"""encode: encodes images, captions, or both as an embeddings run; encode_once: also reuses cached encodings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import hf_hub_download, metadata_load, try_to_load_from_cache

from cxc_eccv.encoding.checkpoints import read_hub
from cxc_eccv.encoding.identity import describe_encoding, model_key
from cxc_eccv.encoding.images import make_image_encoder
from cxc_eccv.encoding.loading import LoadedModel, load_model
from cxc_eccv.encoding.processes import join_processes
from cxc_eccv.encoding.roles import RoleInput, plan_passes
from cxc_eccv.encoding.shards import Notes, Side, encode_side, fingerprint, lock_output, write_output
from cxc_eccv.encoding.sides import CaptionSide, ImageSide, caption_items, image_items
from cxc_eccv.encoding.texts import make_text_encoder
from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.runs import EmbeddingsRun, load_embeddings, save_embeddings
from cxc_eccv.runs.embeddings import FORMATS
from cxc_eccv.runs.run import read_record
from cxc_eccv.sources.download import encodings_folder
from cxc_eccv.types import Embeddings
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.model_options import DEFAULT_ENCODING, Encoding
from cxc_eccv.types.training_data import name_collections
from cxc_eccv.writing import check_output


def encode(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    *,
    images: str | Path | Iterable[tuple[Any, Any]] | None = None,
    captions: Any = None,  # noqa: ANN401 - a table or pairs
    output: str | Path | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
    processor: Any = None,  # noqa: ANN401 - see load_model
    device: str | None = None,
    dtype: str | None = None,
    progress: bool = True,
) -> EmbeddingsRun:
    """Encode images, captions, or both.

    With ``output``, finished shards of 1,024 items are kept in ``<output>.parts`` until the file is complete, so the
    same call resumes after a kill. Under torchrun the processes share the work, the first one writes, and all return
    the whole run, which the others read from the file; ``output`` must be in a folder that all can access.

    The run records the similarity of the model: that of a sentence-transformers model, the dot product for a dual
    encoder that compares raw vectors (``normalize`` is false in its config), else cosine.

    Args:
        model: Hub id or folder, or a loaded ``PreTrainedModel`` or ``SentenceTransformer``.
        images: (image id, file or Pillow image) pairs, or a folder whose files have COCO names.
        captions: a table with ``caption_id`` and ``text``, or (caption id, text) pairs.
        output: ``.npz`` or ``.safetensors`` file to write; items that were cut, converted or skipped are listed beside
            it, in ``.encoding.json``.
        encoding: batch size, pooling, crops, and what to do with bad images.
        processor: a processor, tokenizer, image processor or (tokenizer, image processor); None for what was saved
            with the model.
        device: torch device; None for a GPU if there is one.
        dtype: ``float32``, ``bfloat16`` or ``float16``; the vectors are always float32.
        progress: show progress bars.

    Raises:
        ModelError: the model cannot be loaded, is a cross-encoder, lacks a tower (:class:`TowerMissing`), or compares
            its vectors by a distance.
        InvalidOption: there are neither images nor captions, or an option is out of range.
        SourceMissing, MalformedSource: an image is missing or broken.
        WriteFailed: another process is writing ``output``.

    Example:
        >>> from transformers import BertConfig, BertModel, BertTokenizer
        >>> words = {word: number for number, word in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a dog cat".split())}
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1)
        >>> model = BertModel(BertConfig(vocab_size=len(words), **sizes))
        >>> captions = [(770337, "a dog"), (771687, "a cat and a dog")]
        >>> run = encode(model, captions=captions, processor=BertTokenizer(vocab=words), device="cpu", progress=False)
        >>> run.captions.ids.tolist(), run.captions.vectors.shape
        ([770337, 771687], (2, 8))
    """
    path = None if output is None else check_output(output, FORMATS)
    loaded = load_model(model, processor=processor, device=device, dtype=dtype)
    run = _Work(loaded, images, captions, encoding).run(path, progress)
    if run is not None:
        return run
    assert path is not None  # noqa: S101 - without a file every process has the run
    return replace(load_embeddings(path), path=None, sha256=None)


def encode_to_file(
    model: LoadedModel,
    output: str | Path,
    *,
    images: str | Path | Iterable[tuple[Any, Any]] | None = None,
    captions: Any = None,  # noqa: ANN401 - a table or pairs
    encoding: Encoding = DEFAULT_ENCODING,
) -> EmbeddingsRun | None:
    """Encode as :func:`encode` does, but only the first process gets the run: it may be large, and the file has it."""
    return _Work(model, images, captions, encoding).run(check_output(output, FORMATS), progress=True)


def encode_once(
    model: LoadedModel,
    file: str | Path | None = None,
    *,
    images: Iterable[tuple[Any, Any]] | None = None,
    captions: Any = None,  # noqa: ANN401 - a table or pairs
    encoding: Encoding = DEFAULT_ENCODING,
    progress: bool = True,
) -> tuple[EmbeddingsRun, bool]:
    """Encode, or reuse a cached encoding; returns the run and whether it was cached.

    Encodings are identified by a fingerprint of weights, architecture, processors, settings, versions, texts, and the
    name, size and time of every image file. They are kept in the download cache or in ``file``; raises InvalidOption if
    ``file`` holds something else.
    """
    work = _Work(model, images, captions, encoding)
    path = work.cache_file if file is None else check_output(file, FORMATS)
    if work.is_in(path):  # maybe under another name
        return replace(load_embeddings(path), model=model.title), True
    if file is not None and path.exists():
        raise InvalidOption(
            f"{path} exists, but is not an encoding of these images and captions by {model.name} with these options. "
            "Name another file, or remove it; to score its content, evaluate the file itself."
        )
    run = work.run(path, progress, cache=file is None)
    return load_embeddings(path) if run is None or work.is_in(path) else run, False


def find_cache_file(
    model: LoadedModel,
    *,
    images: Iterable[tuple[Any, Any]] | None = None,
    captions: Any = None,  # noqa: ANN401 - a table or pairs
    encoding: Encoding = DEFAULT_ENCODING,
) -> Path:
    """The file in the cache where :func:`encode_once` keeps this encoding; its name identifies model and items."""
    return _Work(model, images, captions, encoding).cache_file


class _Work:
    def __init__(
        self,
        loaded: LoadedModel,
        images: Any,  # noqa: ANN401 - as of encode
        captions: Any,  # noqa: ANN401 - as of encode
        encoding: Encoding,
    ) -> None:
        _refuse_impossible(loaded, images, captions, encoding)
        self.loaded = loaded
        self._sides = list[Side]()
        self._roles = dict[str, str]()
        if images is not None:
            pictures = image_items(images)
            for name, given in self._plan_passes("images").items():
                encoder = make_image_encoder(loaded, encoding, given)
                self._sides.append(ImageSide(encoder, pictures, encoding.skip_bad_images, name))
        if captions is not None:
            ids, texts = caption_items(captions)
            for name, given in self._plan_passes("captions").items():
                self._sides.append(CaptionSide(make_text_encoder(loaded, encoding, given), ids, texts, name))
        self._similarity = loaded.similarity
        self.sides = [side for side, items in (("images", images), ("captions", captions)) if items is not None]
        self.facts = describe_encoding(loaded, self.sides, encoding)

    def _plan_passes(self, side: str) -> dict[str, RoleInput]:
        passes, roles = plan_passes(side, self.loaded.choose_inputs(side))
        self._roles |= roles
        return passes

    @cached_property
    def key(self) -> str:
        return model_key(self.loaded, self.sides, facts=self.facts)

    @cached_property
    def whole(self) -> str:
        """The fingerprint with the items and the similarity."""
        items = [[side.name, side.ids.tolist(), side.identity(slice(None))] for side in self._sides]
        return fingerprint(self.key, self._similarity, items)

    @property
    def cache_file(self) -> Path:
        """The file in the download cache, named after the model and a part of the fingerprint."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.loaded.name.rstrip("/").rpartition("/")[2])
        return encodings_folder() / f"{name}-{self.whole[:16]}.npz"

    def is_in(self, path: Path) -> bool:
        return (read_record(path) or {}).get("whole") == self.whole

    def _join_roles(self, vectors: Mapping[str, Embeddings | None]) -> dict[str, Embeddings]:
        """The vectors of each role, which this process has."""
        roles: dict[str, Embeddings] = {}
        for role, name in self._roles.items():
            of_role = vectors[name]
            assert of_role is not None  # noqa: S101 - this process has the run
            roles[role] = of_role
        return roles

    def run(self, path: Path | None, progress: bool, *, cache: bool = False) -> EmbeddingsRun | None:
        """Encode on all processes, and write to the path unless it is None or in a read-only ``cache``.

        If a file is written only the first process has the run, as it may fill the memory; others have None.
        """
        vectors: dict[str, Embeddings | None] = {}
        all_notes: dict[str, Notes] = {}
        with join_processes() as processes, lock_output(path, processes, cache=cache) as path:
            key = "" if path is None else self.key
            for side in self._sides:
                # Said with the first side, of all: the run holds them together.
                n_items = sum(each.ids.size for each in self._sides) if side is self._sides[0] else None
                vectors[side.name], all_notes[side.name] = encode_side(
                    side, path, processes, key=key, progress=progress, n_items=n_items
                )
            run = None
            if path is None or not processes.rank:
                run = EmbeddingsRun(
                    vectors.get("images"),
                    vectors.get("captions"),
                    similarity=self._similarity,
                    model=self.loaded.title,
                    roles=self._join_roles(vectors),
                    encoding=self.facts,
                )
            facts: dict[str, Any] = {}
            # An item that several passes encode is noted once; the longest prompt cuts most captions.
            notes = Notes.join([all_notes[side] for side in self.sides])
            notes.truncated = max(each.truncated for each in all_notes.values())
            if path is not None:
                facts = {**self.loaded.facts, "fingerprint": key, "whole": self.whole, "encoding": to_json(self.facts)}
                if trained_on := read_training_data(self.loaded.name, self.loaded.revision):
                    facts["training_data"] = trained_on
            write_output(processes, path, partial(_save, run=run), notes, facts)
        return run


def _save(path: Path, run: EmbeddingsRun | None) -> None:
    assert run is not None  # noqa: S101 - the first process, which writes, has the run
    save_embeddings(path, run)


def _refuse_impossible(loaded: LoadedModel, images: object, captions: object, encoding: Encoding) -> None:
    if images is None and captions is None:
        raise InvalidOption("there are neither images nor captions to encode; give one of them, or both")
    if captions is None and encoding.pooling != "mean":
        raise InvalidOption("pooling is for captions, but there are none; leave it out")
    if images is None and encoding.central_crop is not None:
        raise InvalidOption("central_crop is for images, but there are none; leave it out")
    if loaded.is_cross_encoder:
        raise ModelError(
            f"{loaded.name} scores pairs and has no embeddings; use score_pairs or cxc-eccv encode, or re-rank the top "
            "of a dual encoder with it"
        )


MODEL_CARD_FILE = "README.md"
DATA_CONFIG = "data_config.json"

CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
TRAINED = re.compile(r"\b(pre-?|fine-?)?train", re.IGNORECASE)
OTHER_USE = re.compile(r"evaluat|zero-?shot|\b(not|without|never)\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


def read_training_data(source: str, revision: str | None = None) -> list[str]:
    """The data sets that a folder, or a model loaded from the Hub, says it was trained on; empty if it says nothing.

    From the metadata of the card all; from its text and from ``data_config.json`` COCO and Flickr30k.
    """
    names = []
    passages = ""
    if (card := _find_file(source, MODEL_CARD_FILE, revision)) is not None:
        with suppress(ValueError, yaml.YAMLError):
            listed = (metadata_load(card) or {}).get("datasets") or []
            names = [str(name) for name in ([listed] if isinstance(listed, str) else listed)]
        passages = find_passages(card.read_text(encoding="utf-8", errors="replace"))
    if (config := _find_file(source, DATA_CONFIG, revision)) is not None:
        passages += config.read_text(encoding="utf-8", errors="replace")
    known = name_collections(names)
    return names + [name for name in name_collections([passages]) if name not in known]


def _find_file(source: str, name: str, revision: str | None) -> Path | None:
    if (folder := Path(source)).is_dir():
        return folder / name if (folder / name).is_file() else None
    with suppress(OSError, ValueError, ModelError):  # no such file or model on the Hub, or no answer
        # The name of a model in memory is none of the Hub.
        if isinstance(try_to_load_from_cache(source, "config.json", revision=revision), str):
            with read_hub(source):
                return Path(hf_hub_download(source, name, revision=revision))
    return None


def find_passages(card: str) -> str:
    """What a card says of training: all below headings that name it, and elsewhere the sentences that do.

    Example:
        >>> find_passages("Scores on COCO. It was trained on Flickr30k.")
        'It was trained on Flickr30k.'
    """
    passages: list[str] = []
    elsewhere: list[str] = []
    level = 0  # of the heading that names training, 0 outside of its section
    for line in CODE_BLOCK.sub("", card).splitlines():
        heading = HEADING.match(line)
        if heading and (not level or len(heading[1]) <= level):
            level = len(heading[1]) if TRAINED.search(heading[2]) else 0
        if heading:
            elsewhere.append("\n")
        elif level:
            passages.append(line)
        else:
            elsewhere.append(line)
    sentences = SENTENCE_END.split("\n".join(elsewhere))
    told = [sentence for sentence in sentences if TRAINED.search(sentence) and not OTHER_USE.search(sentence)]
    return "\n".join([*told, *passages])
