"""Classifiers of entailment over tiny encoders of every kind, and pairs for them."""

import tiny_models
import torch
import transformers

from cxc_eccv.entailment.classifier import EntailmentClassifier
from cxc_eccv.entailment.processing import EntailmentProcessor

TEXT, VISUAL, MULTIMODAL = range(3)
PREMISES = ["a dog", "two cat and a man rides the red bus", "", "the woman with a ball", "", "a man on the bus"]
HYPOTHESES = ["a cat", "the dog on a street", "a", "a man rides", "the red bus", "two dog"]
LABELS = [0.0, 1.0, 1.0, 0.0, 0.0, 0.7]
OF_KIND = [TEXT, MULTIMODAL, VISUAL, MULTIMODAL, VISUAL, TEXT]


def bridgetower():
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    text = {**sizes, "vocab_size": len(tiny_models.WORDS), "max_position_embeddings": 26}
    vision = {"hidden_size": 16, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8}
    config = transformers.BridgeTowerConfig(**sizes, text_config=text, vision_config=vision)
    images = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    return tiny_models.seeded(lambda: transformers.BridgeTowerModel(config)), tiny_models.bert_tokenizer(), images


def roberta(**options):
    config = transformers.RobertaConfig(**tiny_models.TEXT, vocab_size=30, max_position_embeddings=26, **options)
    return tiny_models.seeded(lambda: transformers.RobertaModel(config, add_pooling_layer=False))


def wide_bert():
    sizes = {**tiny_models.TEXT, "hidden_size": 24}
    config = transformers.BertConfig(**sizes, vocab_size=len(tiny_models.WORDS), max_position_embeddings=24)
    return tiny_models.seeded(lambda: transformers.BertModel(config))


def parts(name):
    """Arguments of ``from_parts``, and an image processor."""
    bert, vit = tiny_models.bert()[0], tiny_models.vit()[0]
    images = tiny_models.vit_images()
    return {
        "bert alone": ({"text_model": bert}, None),
        "bert with blip": ({"text_model": bert, "visual_text_model": tiny_models.blip()[0]}, images),
        "blip alone": ({"visual_text_model": tiny_models.blip()[0]}, images),
        "blip shared": ({"visual_text_model": tiny_models.blip()[0], "shared_text": True}, images),
        "bert over vit": ({"text_model": bert, "image_model": vit, "visual_text_model": bert}, images),
        "bert shared": ({"image_model": vit, "visual_text_model": bert, "shared_text": True}, images),
        "wide bert over vit": ({"text_model": wide_bert(), "image_model": vit, "visual_text_model": bert}, images),
        "wide bert over narrow": ({"text_model": bert, "image_model": vit, "visual_text_model": wide_bert()}, images),
        "roberta over dinov2": (
            {"text_model": roberta(), "image_model": tiny_models.dinov2()[0], "visual_text_model": roberta()},
            images,
        ),
        "bert over clip": (
            {"text_model": bert, "image_model": tiny_models.clip()[0], "visual_text_model": bert},
            tiny_models.clip_images(),
        ),
        "bert over resnet": (
            {"text_model": bert, "image_model": tiny_models.resnet()[0], "visual_text_model": bert, "mask_images": 0},
            images,
        ),
        "vilt": (
            {"text_model": bert, "visual_text_model": tiny_models.vilt()[0], "mask_images": 0},
            tiny_models.vilt()[2],
        ),
        "bridgetower": ({"text_model": bert, "visual_text_model": bridgetower()[0], "mask_images": 0}, images),
    }[name]


WITH_BOTH = (
    *("bert with blip", "blip shared", "bert over vit", "bert shared", "wide bert over vit", "wide bert over narrow"),
    *("roberta over dinov2", "bert over clip", "bert over resnet", "vilt", "bridgetower"),
)


def classifier(name, **options):
    """A model of random weights that matter, with its processor."""
    arguments, images = parts(name)
    torch.manual_seed(1)
    model = EntailmentClassifier.from_parts(**arguments, **options).eval()
    processor = EntailmentProcessor.for_model(model, tiny_models.bert_tokenizer(), image_processor=images)
    return model, processor


def pictures(kinds=OF_KIND):
    return [None if kind == TEXT else tiny_models.picture(place) for place, kind in enumerate(kinds)]


def batch_of(processor, labels=LABELS):
    return processor(PREMISES, pictures(), HYPOTHESES, labels)
