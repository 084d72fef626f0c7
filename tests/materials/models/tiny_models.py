"""Small random models of every kind, with tokenizers and image processors of their own; nothing is downloaded."""

import numpy as np
import torch
import transformers
from PIL import Image

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,'"
WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "dog", "cat", "man", "woman", "rides", "on", "bus"),
    *("street", "with", "two", "red", "ball", "in", "of", "and"),
]
TEXTS = [
    "a dog",
    "two cat and a man rides the red bus on street",
    "the woman with a ball",
    "a",
    "man on the bus in a street",
]
TEXT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {**TEXT, "image_size": 32, "patch_size": 8}


def seeded(make, seed=0, scale=5):
    """A model in evaluation mode whose random weights are always the same, and far enough from zero to matter."""
    torch.manual_seed(seed)
    model = make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(scale)
    return model


def clip_tokenizer(limit=80):
    pieces = [piece for letter in LETTERS for piece in (letter, f"{letter}</w>")]
    vocabulary = {piece: place for place, piece in enumerate(["<|startoftext|>", "<|endoftext|>", *pieces])}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=limit)


def bert_tokenizer(limit=24):
    return transformers.BertTokenizer(vocab={word: place for place, word in enumerate(WORDS)}, model_max_length=limit)


def gemma_tokenizer():
    """A character tokenizer that knows capitals, as the checkpoints of SigLIP 2 save theirs."""
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *LETTERS, *LETTERS[:26].upper()]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    options = {"add_bos_token": False, "add_eos_token": True, "padding_side": "right"}
    return transformers.GemmaTokenizer(vocab=vocabulary, merges=[], model_input_names=["input_ids"], **options)


def clip_images(size=32):
    return transformers.CLIPImageProcessor(size={"shortest_edge": size}, crop_size={"height": size, "width": size})


def vit_images(size=32):
    return transformers.ViTImageProcessor(size={"height": size, "width": size})


def clip():
    tokenizer = clip_tokenizer()
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 80}
    text |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=8)
    return seeded(lambda: transformers.CLIPModel(config)), tokenizer, clip_images()


def siglip(tokenizer=None, positions=16):
    images = transformers.SiglipImageProcessor(size={"height": 32, "width": 32})
    return siglip_of("Siglip", VISION, images, tokenizer or bert_tokenizer(16), positions)


def siglip2(tokenizer=None, positions=16):
    images = transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    vision = {**TEXT, "num_patches": 16, "patch_size": 8}
    return siglip_of("Siglip2", vision, images, tokenizer or bert_tokenizer(16), positions)


def siglip_of(kind, vision, images, tokenizer, positions):
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": positions, "projection_size": 16}
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=vision)
    return seeded(lambda: getattr(transformers, f"{kind}Model")(config)), tokenizer, images


def efficientnet_sizes():
    return {
        "image_size": 32,
        "hidden_dim": 320,
        "width_coefficient": 0.25,
        "depth_coefficient": 1.0,
        "in_channels": [32, 16],
        "out_channels": [16, 24],
        "kernel_sizes": [3, 3],
        "strides": [1, 2],
        "num_block_repeats": [1, 1],
        "expand_ratios": [1, 2],
        "depthwise_padding": [],
    }


def align():
    tokenizer = bert_tokenizer()
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 24}
    vision = efficientnet_sizes()
    config = transformers.AlignConfig(text_config=text, vision_config=vision, projection_dim=8)
    images = transformers.EfficientNetImageProcessor(size={"height": 32, "width": 32})
    return seeded(lambda: transformers.AlignModel(config)), tokenizer, images


def bert_config():
    return transformers.BertConfig(**TEXT, vocab_size=len(WORDS), max_position_embeddings=24)


def vit_config():
    return transformers.ViTConfig(**VISION)


def dual():
    config = transformers.VisionTextDualEncoderConfig.from_vision_text_configs(
        vit_config(), bert_config(), projection_dim=8
    )
    return seeded(lambda: transformers.VisionTextDualEncoderModel(config)), bert_tokenizer(), vit_images()


def bert():
    return seeded(lambda: transformers.BertModel(bert_config(), add_pooling_layer=False)), bert_tokenizer(), None


def vit():
    return seeded(lambda: transformers.ViTModel(vit_config())), None, vit_images()


def dinov2():
    return seeded(lambda: transformers.Dinov2Model(transformers.Dinov2Config(**VISION))), None, vit_images()


def resnet():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    return seeded(lambda: transformers.ResNetModel(transformers.ResNetConfig(**sizes))), None, vit_images()


def efficientnet():
    config = transformers.EfficientNetConfig(**efficientnet_sizes())
    return seeded(lambda: transformers.EfficientNetModel(config)), None, vit_images()


def vilt():
    config = transformers.ViltConfig(**VISION, vocab_size=len(WORDS), max_position_embeddings=24)
    images = transformers.ViltImageProcessor(size={"shortest_edge": 32}, size_divisor=8)
    return seeded(lambda: transformers.ViltForImageAndTextRetrieval(config)), bert_tokenizer(), images


def blip():
    # Two more than the tokenizer has: the checkpoints embed [DEC] and [ENC] too.
    text = {**TEXT, "vocab_size": len(WORDS) + 2, "max_position_embeddings": 24, "encoder_hidden_size": 16}
    vision = {**VISION, "initializer_range": 0.02}  # else the image hardly moves a score
    config = transformers.BlipConfig(text_config=text, vision_config=vision, image_text_hidden_size=8)
    images = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    model = seeded(lambda: transformers.BlipForImageTextRetrieval(config), scale=15)
    return model, bert_tokenizer(), images


def blip2(image_token=None):
    """BLIP-2 without its language model; ``image_token`` as in configs whose processor puts places before the text."""
    text = {**TEXT, "vocab_size": len(WORDS), "max_position_embeddings": 24, "encoder_hidden_size": 16}
    text |= {"use_qformer_text_input": True, "cross_attention_frequency": 1}
    config = transformers.Blip2Config(
        vision_config={**VISION, "initializer_range": 0.02},
        qformer_config=text,
        num_query_tokens=3,
        image_text_hidden_size=8,
    )
    config.image_token_index = image_token
    images = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    model = seeded(lambda: transformers.Blip2ForImageTextRetrieval(config), scale=15)
    # The published weights have these; a new model begins with zeros.
    torch.nn.init.normal_(model.query_tokens)
    return model, bert_tokenizer(), images


def save(parts, folder):
    """A folder as ``from_pretrained`` takes it."""
    for part in parts:
        if part is not None:
            part.save_pretrained(folder)
    return folder


def picture(seed, size=(40, 32), mode="RGB"):
    """An image of 16 coloured fields of its own."""
    fields = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(fields).resize(size, Image.Resampling.BILINEAR).convert(mode)


def picture_files(folder, count, first=1):
    """(image id, file) of noisy images under COCO's names."""
    pairs = []
    for number in range(first, first + count):
        path = folder / f"COCO_val2014_{number:012d}.jpg"
        picture(number, (32 + 8 * (number % 3), 40)).save(path)
        pairs.append((number, path))
    return pairs
