"""The classifier that a run starts from, with its processor: over new encoders, or one that was trained before."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoTokenizer, BlipForImageTextRetrieval

from cxc_eccv.encoding.adapters import load_backbone
from cxc_eccv.encoding.checkpoints import load_part
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.studies.baselines.entailment_classifier.options import LossOptions, ModelOptions
from cxc_eccv.studies.baselines.entailment_classifier.sample import make_image_encoder, make_text_encoder
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.scoring import load_classifier

BLIP = "blip"
"""``model_type`` of checkpoints that AutoModel loads without their image-grounded encoder."""


def make_model(options: ModelOptions, loss: LossOptions) -> tuple[EntailmentClassifier, EntailmentProcessor]:
    """The classifier and its processor; ModelError if a part cannot be loaded."""
    mask_share = loss.mask_share if loss.masking else 0
    if options.pretrained is not None:
        return _load_pretrained(options.pretrained, loss.mask_ratio, mask_share)
    text: Any = None
    tokenizer: Any = None
    if options.branches != "visual" and not options.shared_text_encoder:
        text, tokenizer = _text_encoder(options.text_model)
    reader: Any = None
    reader_tokenizer = tokenizer
    image: Any = None
    image_processor: Any = None
    if options.branches != "text":
        reader, reader_tokenizer, image, image_processor = _visual_encoders(options)
    model = EntailmentClassifier.from_parts(
        text,
        image_model=image,
        visual_text_model=reader,
        shared_text=options.shared_text_encoder,
        head=options.head,
        head_dropout=options.head_dropout,
        mask_ratio=loss.mask_ratio,
        mask_share=mask_share if reader is not None else 0,
    )
    processor = EntailmentProcessor.for_model(
        model,
        reader_tokenizer if tokenizer is None else tokenizer,
        visual_tokenizer=reader_tokenizer,
        image_processor=image_processor,
    )
    return model, processor


def _load_pretrained(
    source: str, mask_ratio: float, mask_share: float
) -> tuple[EntailmentClassifier, EntailmentProcessor]:
    classifier = load_classifier(source, device="cpu")
    classifier.model.config.mask_ratio = mask_ratio
    classifier.model.config.mask_share = mask_share if classifier.model.image_model is not None else 0
    return classifier.model, classifier.processor


def _text_encoder(source: str) -> tuple[Any, Any]:
    if source == SAMPLE:
        return make_text_encoder()
    return load_backbone(AutoModel, source), load_part(AutoTokenizer, source)


def _visual_encoders(options: ModelOptions) -> tuple[Any, Any, Any, Any]:
    """The text encoder, its tokenizer, the image encoder if it is another model, and the image processor."""
    source = options.visual_text_model
    image = options.image_model
    if (source == SAMPLE) != (image == SAMPLE):
        raise InvalidOption("--visual-text-model sample and --image-model sample go together")
    if source == SAMPLE:
        return *make_text_encoder(), *make_image_encoder()
    is_blip = load_part(AutoConfig, source).model_type == BLIP
    reader = load_backbone(BlipForImageTextRetrieval if is_blip else AutoModel, source)
    tokenizer = load_part(AutoTokenizer, source)
    if image is None:
        return reader, tokenizer, None, load_part(AutoImageProcessor, source)
    return reader, tokenizer, load_backbone(AutoModel, image), load_part(AutoImageProcessor, image)


LOADING = """\
{import_pillow}from transformers import AutoModel, AutoProcessor

model = AutoModel.from_pretrained("FOLDER", trust_remote_code=True)
processor = AutoProcessor.from_pretrained("FOLDER", trust_remote_code=True)
premise = "A dog runs on the beach. A brown dog at the sea."
inputs = processor([premise], {images}, ["An animal is outdoors."])
probability = model.probabilities(model(**inputs).logits)
"""
"""Code that uses a classifier without this package."""
