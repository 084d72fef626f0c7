"""Tiny random generative vision-language models with processors of their own; nothing is downloaded."""

from types import SimpleNamespace

import tiny_models
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers.models.smolvlm import processing_smolvlm

WORDS = ["<pad>", "<unk>", "<s>", "</s>", "<image>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
WORDS += ["<|video_pad|>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "<video>"]
WORDS += ["yes", "▁no", "ĠYes", "NO", "YES", "yesterday", "nothing", "User", ":", "Assistant", "?", '"', "Caption"]
WORDS += ["Does", "this", "caption", "describe", "the", "image", "Answer", "with", "or", ".", "a", "dog", "cat", "man"]
SPELLINGS = [13, 15, 17], [14, 16]

TEXT = {**tiny_models.TEXT, "num_key_value_heads": 2, "vocab_size": len(WORDS), "max_position_embeddings": 512}
TEXT |= {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
TEMPLATE = (
    "{% for m in messages %}{{ m['role'].capitalize() }} : {% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "PLACE {% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endfor %} {% if add_generation_prompt %}Assistant :"
    "{% endif %}"
)


def tokenizer(**special):
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        extra_special_tokens=special,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def llava():
    vision = transformers.CLIPVisionConfig(**tiny_models.VISION, projection_dim=16)
    text = transformers.LlamaConfig(**TEXT)
    config = transformers.LlavaConfig(text_config=text, vision_config=vision, image_token_id=4, vision_feature_layer=-1)
    processor = transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessorPil(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer=tokenizer(image_token="<image>"),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE.replace("PLACE", "<image>"),
    )
    return tiny_models.seeded(lambda: transformers.LlavaForConditionalGeneration(config), scale=3), processor


def qwen():
    """Without a video processor, which needs torchvision; so it is put together by hand."""
    rope = {"type": "mrope", "rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10_000.0}
    vision = {"depth": 2, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "mlp_ratio": 2, "patch_size": 8}
    config = transformers.Qwen2VLConfig(
        text_config=TEXT | {"rope_parameters": rope},
        vision_config=vision,
        image_token_id=7,
        video_token_id=8,
        vision_start_token_id=5,
        vision_end_token_id=6,
    )
    processor = transformers.Qwen2VLProcessor.__new__(transformers.Qwen2VLProcessor)
    processor.image_processor = transformers.Qwen2VLImageProcessorPil(patch_size=8, min_pixels=256, max_pixels=1024)
    processor.tokenizer = tokenizer(image_token=WORDS[7], video_token=WORDS[8])
    processor.image_token, processor.video_token, processor.image_token_id, processor.video_token_id = *WORDS[7:9], 7, 8
    processor.chat_template = TEMPLATE.replace("PLACE", "<|vision_start|> <|image_pad|> <|vision_end|>")
    return tiny_models.seeded(lambda: transformers.Qwen2VLForConditionalGeneration(config), scale=3), processor


def smolvlm():
    """Without a video processor, which needs torchvision and num2words; so it is put together by hand."""
    config = transformers.SmolVLMConfig(
        text_config=transformers.LlamaConfig(**TEXT),
        vision_config=tiny_models.VISION,
        scale_factor=2,
        image_token_id=4,
        pad_token_id=0,
    )
    special = {"image_token": "<image>", "fake_image_token": WORDS[9], "global_image_token": WORDS[10]}
    words = tokenizer(**special, end_of_utterance_token=WORDS[11], video_token=WORDS[12])
    sizes = {"size": {"longest_edge": 32}, "max_image_size": {"longest_edge": 32}, "do_image_splitting": False}
    images = transformers.SmolVLMImageProcessorPil(**sizes)
    kind = transformers.SmolVLMProcessor
    processing_smolvlm.num2words = processing_smolvlm.num2words or SimpleNamespace()
    processor = kind.__new__(kind)
    processor.image_processor, processor.tokenizer, processor.video_processor = (
        images,
        words,
        SimpleNamespace(num_frames=1, fps=1, size={}),
    )
    processor.image_token, processor.fake_image_token, processor.global_image_token = "<image>", *WORDS[9:11]
    processor.image_token_id, processor.image_seq_len, processor.video_token = 4, 4, WORDS[12]
    processor.chat_template = TEMPLATE.replace("PLACE", "<image>")
    return tiny_models.seeded(lambda: transformers.SmolVLMForConditionalGeneration(config), scale=3), processor


def paligemma():
    """It has no chat template."""
    vision = transformers.SiglipVisionConfig(**tiny_models.VISION, vision_use_head=False, projection_dim=16)
    text = transformers.GemmaConfig(**TEXT, head_dim=8)
    config = transformers.PaliGemmaConfig(
        text_config=text, vision_config=vision, image_token_index=4, projection_dim=16
    )
    images = transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}, image_seq_length=16)
    images.image_seq_length = 16
    processor = transformers.PaliGemmaProcessor(image_processor=images, tokenizer=tokenizer(image_token="<image>"))
    return tiny_models.seeded(lambda: transformers.PaliGemmaForConditionalGeneration(config), scale=3), processor


def blip2():
    """It has no chat template, and its processor writes the place of the image."""
    towers = {side: {**tiny_models.VISION, "vocab_size": len(WORDS)} for side in ("vision_config", "qformer_config")}
    towers["qformer_config"]["encoder_hidden_size"] = 16
    text = transformers.OPTConfig(**TEXT, word_embed_proj_dim=16, ffn_dim=16)
    config = transformers.Blip2Config(**towers, text_config=text, num_query_tokens=4, image_token_index=4)
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = transformers.Blip2Processor(images, tokenizer(), num_query_tokens=4)
    return tiny_models.seeded(lambda: transformers.Blip2ForConditionalGeneration(config), scale=3), processor
