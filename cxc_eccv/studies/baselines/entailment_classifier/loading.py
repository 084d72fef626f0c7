"""Load the starting classifier of a run and its processor; small encoders for the sample."""

from __future__ import annotations

from typing import Any

from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoTokenizer,
    BertModel,
    BlipForImageTextRetrieval,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTImageProcessorPil,
    ViTModel,
)

from cxc_eccv.encoding.checkpoints import load_part
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.loading import SAMPLE, small_bert, word_tokenizer
from cxc_eccv.studies.baselines.entailment_classifier.arguments import ModelArguments, ObjectiveArguments
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.scoring import load_classifier

BLIP = "blip"
"""``model_type`` of checkpoints that AutoModel loads without their image-grounded encoder."""

LONGEST = 128
"""Context for the sample's pairs, which are shorter."""


def starting_model(
    arguments: ModelArguments, objective: ObjectiveArguments
) -> tuple[EntailmentClassifier, EntailmentProcessor]:
    """The classifier and its processor; ModelError if a part cannot be loaded."""
    masked = objective.mask_share if objective.masking else 0
    if arguments.pretrained is not None:
        classifier = load_classifier(arguments.pretrained, device="cpu")
        classifier.model.config.mask_ratio = objective.mask_ratio
        classifier.model.config.mask_share = masked if classifier.model.image_model is not None else 0
        return classifier.model, classifier.processor
    has_text = arguments.branches != "visual" and not arguments.shared_text_encoder
    text: Any = None
    tokenizer: Any = None
    if has_text and arguments.text_model == SAMPLE:
        text, tokenizer = _sample_bert()
    elif has_text:
        text, tokenizer = load_part(AutoModel, arguments.text_model), load_part(AutoTokenizer, arguments.text_model)
    reader, reader_tokenizer, image, image_processor = None, tokenizer, None, None
    if arguments.branches != "text":
        reader, reader_tokenizer, image, image_processor = _visual_encoders(arguments)
    model = EntailmentClassifier.from_parts(
        text,
        image_model=image,
        visual_text_model=reader,
        shared_text=arguments.shared_text_encoder,
        head=arguments.head,
        head_dropout=arguments.head_dropout,
        mask_ratio=objective.mask_ratio,
        mask_share=masked if reader is not None else 0,
    )
    tokenizer = reader_tokenizer if tokenizer is None else tokenizer
    options = {"visual_tokenizer": reader_tokenizer, "image_processor": image_processor}
    return model, EntailmentProcessor.for_model(model, tokenizer, **options)


def _visual_encoders(arguments: ModelArguments) -> tuple[Any, Any, Any, Any]:
    """The text encoder, its tokenizer, the image encoder if it is another model, and the image processor."""
    source, image = arguments.visual_text_model, arguments.image_model
    if (source == SAMPLE) != (image == SAMPLE):
        raise InvalidOption("--visual-text-model sample and --image-model sample go together")
    if source == SAMPLE:
        return *_sample_bert(), *_sample_vit()
    is_blip = load_part(AutoConfig, source).model_type == BLIP
    reader = load_part(BlipForImageTextRetrieval if is_blip else AutoModel, source)
    tokenizer = load_part(AutoTokenizer, source)
    if image is None:
        return reader, tokenizer, None, load_part(AutoImageProcessor, source)
    return reader, tokenizer, load_part(AutoModel, image), load_part(AutoImageProcessor, image)


def _sample_bert() -> tuple[BertModel, PreTrainedTokenizerFast]:
    tokenizer = word_tokenizer(Library(SAMPLE).captions("train")["text"].to_pylist())
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.model_max_length = LONGEST
    return small_bert(tokenizer, hidden_size=64, layers=2), tokenizer


def _sample_vit() -> tuple[ViTModel, ViTImageProcessorPil]:
    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=64,
        patch_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return ViTModel(config), ViTImageProcessorPil(size={"height": 64, "width": 64})
