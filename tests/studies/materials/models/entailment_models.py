"""Classifiers of entailment over tiny encoders of every kind, and pairs for them."""

import tiny_models
import torch
import transformers

from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor

TEXT, VISUAL, MULTIMODAL = range(3)
PREMISES = ["a dog", "two cat and a man rides the red bus", "", "the woman with a ball", "", "a man on the bus"]
HYPOTHESES = ["a cat", "the dog on a street", "a", "a man rides", "the red bus", "two dog"]
LABELS = [0.0, 1.0, 1.0, 0.0, 0.0, 0.7]
OF_KIND = [TEXT, MULTIMODAL, VISUAL, MULTIMODAL, VISUAL, TEXT]


def bridgetower():
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    text = {**sizes, "vocab_size": len(tiny_models.WORDS), "max_position_embeddings": 26}
    vision = {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8}  # 64 a head
    config = transformers.BridgeTowerConfig(**sizes, text_config=text, vision_config=vision)
    return tiny_models.seeded(lambda: transformers.BridgeTowerModel(config))


def roberta(**options):
    config = transformers.RobertaConfig(**tiny_models.TEXT, vocab_size=30, max_position_embeddings=26, **options)
    return tiny_models.seeded(lambda: transformers.RobertaModel(config, add_pooling_layer=False))


def wide_bert():
    sizes = {**tiny_models.TEXT, "hidden_size": 24}
    config = transformers.BertConfig(**sizes, vocab_size=len(tiny_models.WORDS), max_position_embeddings=24)
    return tiny_models.seeded(lambda: transformers.BertModel(config))


def bert():
    return tiny_models.bert()[0]


def over(tower, **readers):
    """A text encoder that attends to an image encoder."""
    return {"image_model": tower()[0], "visual_text_model": bert(), **readers}


PARTS = {
    "bert alone": lambda: {"text_model": bert()},
    "blip alone": lambda: {"visual_text_model": tiny_models.blip()[0]},
    "bert with blip": lambda: {"text_model": bert(), "visual_text_model": tiny_models.blip()[0]},
    "blip shared": lambda: {"visual_text_model": tiny_models.blip()[0], "shared_text": True},
    "bert over vit": lambda: over(tiny_models.vit, text_model=bert()),
    "bert shared": lambda: over(tiny_models.vit, shared_text=True),
    "wide bert over vit": lambda: over(tiny_models.vit, text_model=wide_bert()),
    "wide bert over narrow": lambda: over(tiny_models.vit, text_model=bert(), visual_text_model=wide_bert()),
    "roberta over dinov2": lambda: over(tiny_models.dinov2, text_model=roberta(), visual_text_model=roberta()),
    "bert over clip": lambda: over(tiny_models.clip, text_model=bert()),
    "bert over resnet": lambda: over(tiny_models.resnet, text_model=bert(), mask_share=0),
    "vilt": lambda: {"text_model": bert(), "visual_text_model": tiny_models.vilt()[0], "mask_share": 0},
    "bridgetower": lambda: {"text_model": bert(), "visual_text_model": bridgetower(), "mask_share": 0},
}
"""Arguments of ``from_parts``, by what the encoders are."""

WITH_BOTH = [name for name in PARTS if not name.endswith("alone")]


def classifier(name, **options):
    """A model of random weights that matter, with its processor."""
    torch.manual_seed(1)
    model = EntailmentClassifier.from_parts(**PARTS[name]() | options).eval()
    images = tiny_models.vilt()[2] if name == "vilt" else tiny_models.vit_images()
    processor = EntailmentProcessor.for_model(model, tiny_models.bert_tokenizer(), image_processor=images)
    return model, processor


def pictures(kinds=OF_KIND):
    return [None if kind == TEXT else tiny_models.picture(place) for place, kind in enumerate(kinds)]


def batch_of(processor, labels=LABELS):
    return processor(PREMISES, pictures(), HYPOTHESES, labels)
