"""A tiny random vision-language model with its processor; nothing is downloaded."""

import tiny_models
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "<image>",
    "yes",
    "▁no",
    "ĠYes",
    "NO",
    "YES",
    "yesterday",
    "nothing",
    "User",
    ":",
    "Assistant",
    "?",
    '"',
    "Caption",
]
WORDS += ["Does", "this", "caption", "describe", "the", "image", "Answer", "with", "or", ".", "a", "dog", "cat", "man"]
SPELLINGS = [5, 7, 9], [6, 8]

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


def llama():
    """A decoder of texts and its tokenizer."""
    config = transformers.LlamaConfig(**TEXT)
    return tiny_models.seeded(lambda: transformers.LlamaModel(config), scale=3), tokenizer()


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
