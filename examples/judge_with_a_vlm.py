"""Ask a vision-language model about pairs without a label: its probability of "yes" as the next word.

    cxc-eccv entailment pairs clip.npz --output pairs.parquet
    python examples/judge_with_a_vlm.py pairs.parquet --model HuggingFaceTB/SmolVLM-Instruct --images val2014
    cxc-eccv evaluate clip.npz --tasks entailment --judge judge.jsonl

Each line of judge.jsonl has image_id, caption_id and probability, P(yes) / (P(yes) + P(no)). If you run the command
again, it asks only about pairs that are not in the file.
"""

import argparse
import json
from pathlib import Path

import pyarrow.parquet as pq
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

QUESTION = 'Does this caption describe the image? Caption: "{caption}" Answer with yes or no.'


class Judge:
    """A chat model that sees images; it continues a prompt by one token."""

    def __init__(self, name: str, device: str) -> None:
        self.processor = AutoProcessor.from_pretrained(name)
        self.model = AutoModelForImageTextToText.from_pretrained(name, dtype="auto").eval().to(device)
        self.processor.tokenizer.padding_side = "left"  # so that the next token follows the prompt's last
        self.yes, self.no = self.spellings("yes"), self.spellings("no")

    def spellings(self, word: str) -> list[int]:
        """The tokens that spell a word in any case, with or without a space before it."""
        vocabulary = self.processor.tokenizer.get_vocab().items()
        tokens = sorted(number for token, number in vocabulary if token.lstrip(" ▁Ġ").lower() == word)
        if not tokens:
            raise SystemExit(f"the tokenizer has no token for {word!r}, so its probability cannot be read")
        return tokens

    @torch.inference_mode()
    def probabilities(self, images: list[Image.Image], captions: list[str]) -> list[float]:
        """P(yes) of each caption, among yes and no."""
        questions = [{"type": "text", "text": QUESTION.replace("{caption}", caption)} for caption in captions]
        chats = [
            [{"role": "user", "content": [{"type": "image", "image": image}, question]}]
            for image, question in zip(images, questions, strict=True)
        ]
        inputs = self.processor.apply_chat_template(
            chats, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt", padding=True
        ).to(self.model.device, self.model.dtype)
        # generate() counts positions from the first token that is no padding, and gives the logits unchanged.
        options = {"max_new_tokens": 1, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
        logits = self.model.generate(**inputs, **options).logits[0].double()
        yes, no = (logits[:, tokens].logsumexp(-1) for tokens in (self.yes, self.no))
        return (yes - no).sigmoid().tolist()


def main(arguments: list[str] | None = None) -> None:
    """Ask about the pairs of a table that have no answer yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="table of entailment pairs (.parquet)")
    parser.add_argument("--model", required=True, help="Hub id or folder")
    parser.add_argument("--images", type=Path, required=True, help="folder with the images, at any depth")
    parser.add_argument("--output", type=Path, default=Path("judge.jsonl"))
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args(arguments)

    lines = given.output.read_text().splitlines() if given.output.exists() else []
    answered = {(row["image_id"], row["caption_id"]) for row in map(json.loads, lines)}
    rows = pq.read_table(given.pairs).to_pylist()
    rows = [row for row in rows if (row["image_id"], row["caption_id"]) not in answered]
    files = {path.name: path for path in given.images.rglob("*.*")}
    judge = Judge(given.model, given.device)
    with given.output.open("a") as file:
        for start in range(0, len(rows), given.batch_size):
            batch = rows[start : start + given.batch_size]
            opened = {name: Image.open(files[name]).convert("RGB") for name in {row["file_name"] for row in batch}}
            images, captions = [opened[row["file_name"]] for row in batch], [row["caption"] for row in batch]
            for row, probability in zip(batch, judge.probabilities(images, captions), strict=True):
                answer = {"image_id": row["image_id"], "caption_id": row["caption_id"], "probability": probability}
                file.write(json.dumps(answer) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
