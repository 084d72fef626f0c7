"""Families of models without one vector per item: refused, with the way to score each."""

from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path
from typing import Any

from huggingface_hub import metadata_load

from cxc_eccv.encoding.checkpoints import MODULES_FILE, Origin, find_file
from cxc_eccv.errors import ModelError

SPARSE = (
    "is a sparse encoder (SPLADE), whose vectors only its own head gives. Encode the captions with "
    "SparseEncoder.encode(texts, convert_to_sparse_tensor=False), save caption_ids and caption_embeddings as .npz, and "
    "score the file with cxc-eccv evaluate FILE --similarity dot"
)
LATE_INTERACTION = (
    "is a late-interaction model (ColBERT, ColPali), which has many vectors per item. Score its rankings, or the "
    "matrix of its scores of images and captions, with cxc-eccv evaluate FILE"
)
CROSS_ENCODER = (
    "is a cross-encoder or a classifier, which scores texts or pairs of texts and has no vectors. Rank with it the top "
    "captions of an encoder, and score the rankings with cxc-eccv evaluate FILE --direction t2t. To score its body as "
    "an encoder, save the body alone: AutoModel.from_pretrained(MODEL).save_pretrained(FOLDER)"
)
JOINT = (
    "reads images and texts together and is not a dual encoder; embedding models of this kind work in "
    "sentence-transformers' form, a folder with modules.json"
)

SENTENCE_FAMILIES = {
    "SparseEncoder": SPARSE,
    "CrossEncoder": CROSS_ENCODER,
    "MultiVectorEncoder": LATE_INTERACTION,
    "ColBERT": LATE_INTERACTION,  # of PyLate
}
"""Classes of sentence-transformers, as ``model_type`` in its config and as the class of an object, to the advice."""

SENTENCE_MODULES = {"sparse_encoder": SPARSE, "pylate": LATE_INTERACTION, "multi_vector_encoder": LATE_INTERACTION}
"""Packages of the modules in ``modules.json``, also of folders without ``model_type``."""

DENSE = "SentenceTransformer"


def refuse_sentence_family(source: str, origin: Origin) -> None:
    """Raise ModelError for a saved model of sentence-transformers that is no SentenceTransformer."""
    config = _read_json(source, "config_sentence_transformers.json", origin)
    family = str(config.get("model_type") or DENSE) if isinstance(config, dict) else DENSE
    if family != DENSE:
        other = (
            f"is a {family} of sentence-transformers, not a {DENSE}: its vectors or scores are not one vector per item"
        )
        raise ModelError(f"{source} {SENTENCE_FAMILIES.get(family, other)}.")
    modules = _read_json(source, MODULES_FILE, origin)
    for module in modules if isinstance(modules, list) else ():
        packages = str(module.get("type")).split(".")
        for package, advice in SENTENCE_MODULES.items():
            if package in packages:
                raise ModelError(f"{source} {advice}.")


def _read_json(source: str, name: str, origin: Origin) -> Any:  # noqa: ANN401 - the content of any JSON file
    """The content of a model's file; None if there is none, or if it is damaged, which loading reports."""
    path = find_file(source, name, origin.revision)
    try:
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None


def refuse_architecture(source: str, architecture: str) -> None:
    """Raise ModelError for the class of a model without one vector per item."""
    if architecture.endswith("ForSequenceClassification"):
        raise ModelError(f"{_name(source, architecture)} {CROSS_ENCODER}.")
    if "colbert" in architecture.casefold() or architecture.endswith("ForRetrieval"):
        raise ModelError(f"{_name(source, architecture)} {LATE_INTERACTION}.")


def _name(source: str, architecture: str) -> str:
    """What messages call a model: its source, if it has one, and its class."""
    return f"{source} ({architecture})" if source else architecture


def refuse_sparse_head(source: str, architecture: str, origin: Origin) -> None:
    """Refuse a SPLADE model in the form of a masked language model; warn of the head of others.

    The weights of a SPLADE model are like those of BERT before any fine-tuning: only its name and its card differ.
    """
    if not architecture.endswith("ForMaskedLM"):
        return
    card = find_file(source, "README.md", origin.revision)
    try:
        tags = [] if card is None else (metadata_load(card) or {}).get("tags") or []
    except ValueError:
        tags = []
    words = [Path(source).name if Path(source).is_dir() else source, *map(str, tags)]
    if any("splade" in word.casefold() or word.casefold() == "sparse-encoder" for word in words):
        raise ModelError(f"{source} ({architecture}) {SPARSE}.")
    warnings.warn(
        f"{source} is a masked language model ({architecture}): its head is left out, and its states are pooled. The "
        "vectors of a sparse encoder (SPLADE) are others",
        stacklevel=2,
    )


def refuse_joint_reader(source: str, kind: type) -> None:
    """Raise ModelError for a class that reads images and texts at once, such as a generative vision-language model."""
    takes = inspect.signature(kind.forward).parameters  # type: ignore[attr-defined] # of torch modules
    reads_both = {"pixel_values", "input_ids"} <= takes.keys()
    # BLIP-2's methods of these names give states of its language model.
    is_dual = hasattr(kind, "get_text_features") and not kind.__name__.startswith("Blip2")
    if reads_both and not is_dual:
        raise ModelError(f"{_name(source, kind.__name__)} {JOINT}.")


def refuse_object(model: Any) -> None:  # noqa: ANN401 - any object
    """Raise ModelError for a loaded model of sentence-transformers or PyLate that is no dense one."""
    for kind in type(model).__mro__:
        if kind.__name__ in SENTENCE_FAMILIES:
            raise ModelError(f"{type(model).__name__} {SENTENCE_FAMILIES[kind.__name__]}.")
