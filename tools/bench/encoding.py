"""Time that ``encode`` spends outside the model, beside MiniLM's own time in the same run.

Two models that cost nothing, a BERT and a ViT whose forward returns zeros, show what is ours: tokens, batches,
pictures, shards and the file. The bare model is MiniLM's forward over the same captions, tokenized beforehand, in
batches of like length. Captions are those of the raw files that CXC_ECCV_DATA names; pictures are JPEG files of COCO's
size, of which decoding and the model's own processor are measured alone, too: no encoder can do without them.

Example:
    CXC_ECCV_DATA=mirror python tools/bench/encoding.py --model FOLDER_OF_MINILM
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoModel, AutoTokenizer, BertModel, ViTConfig, ViTImageProcessor, ViTModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from cxc_eccv.encoding import encode
from cxc_eccv.sources.library import Library

PICTURES, COCO_SIZE, BATCH, WIDTH = 64, (640, 480), 64, 384


class FreeTexts(BertModel):
    """Costs nothing."""

    def forward(self, input_ids: torch.Tensor, **_: Any) -> BaseModelOutputWithPooling:  # noqa: ANN401
        """Zeros."""
        return BaseModelOutputWithPooling(last_hidden_state=torch.zeros(*input_ids.shape, WIDTH))


class FreeImages(ViTModel):
    """Costs nothing."""

    def forward(self, pixel_values: torch.Tensor, **_: Any) -> BaseModelOutputWithPooling:  # noqa: ANN401
        """Zeros."""
        zeros = torch.zeros(len(pixel_values), 1, WIDTH)
        return BaseModelOutputWithPooling(last_hidden_state=zeros, pooler_output=zeros[:, 0])


def seconds(work: Callable[[], object]) -> float:
    """Wall time of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_model(folder: str, texts: list[str]) -> tuple[float, int]:
    """Seconds of MiniLM's forward alone, and the tokens it read."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    texts = sorted(texts, key=lambda text: -len(tokenizer(text)["input_ids"]))
    parts = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    batches = [tokenizer(part, padding=True, truncation=True, return_tensors="pt") for part in parts]
    with torch.inference_mode():
        model(**batches[0])
        start = time.perf_counter()
        for batch in batches:
            model(**batch)
        took = time.perf_counter() - start
    return took, sum(int(batch["attention_mask"].sum()) for batch in batches)


def draw_pictures(folder: Path) -> list[Path]:
    """Smooth random pictures, which compress about as photographs do."""
    random = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(PICTURES)]
    for path in paths:
        coarse = Image.fromarray(random.integers(0, 256, (48, 64, 3), dtype=np.uint8))
        coarse.resize(COCO_SIZE, Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


def prepare(path: Path, processor: ViTImageProcessor) -> None:
    """What no encoder of images can do without: decode the file, and let the model's processor resize and scale it."""
    with Image.open(path) as image:
        processor(image.convert("RGB"), return_tensors="pt")


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or Hub id of all-MiniLM-L6-v2")
    parser.add_argument("--captions", type=int, default=25_000, help="how many (25,000)")
    parser.add_argument("--images", type=int, default=5_000, help="how many (5,000)")
    options = parser.parse_args()
    captions = Library().captions("test").slice(0, options.captions)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModel.from_pretrained(options.model)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        files = draw_pictures(Path(folder))
        images = [(number, files[number % PICTURES]) for number in range(options.images)]
        bare, tokens = bare_model(options.model, captions["text"].to_pylist())

        def run(model: object, processor: object, name: str, **items: Any) -> float:  # noqa: ANN401 - encode's
            output = Path(folder) / f"{name}.npz"
            return seconds(
                lambda: encode(model, processor=processor, device="cpu", output=output, progress=False, **items)
            )

        free_texts = run(FreeTexts(model.config), tokenizer, "texts", captions=captions)
        whole = run(model, tokenizer, "whole", captions=captions)
        vit = ViTConfig(hidden_size=12, num_hidden_layers=1, num_attention_heads=1, intermediate_size=12)
        processor = ViTImageProcessor()
        free_images = run(FreeImages(vit), processor, "images", images=images)
        needed = seconds(lambda: list(pool.map(partial(prepare, processor=processor), [path for _, path in images])))
    print(f"MiniLM alone     {bare:7.2f} s  {tokens / bare:10,.0f} tokens/s")
    print(f"encode, MiniLM   {whole:7.2f} s  {tokens / whole:10,.0f} tokens/s  {whole / bare - 1:+.1%}")
    print(f"free, captions   {free_texts:7.2f} s  {free_texts / bare:6.1%} of MiniLM alone")
    print(
        f"free, images     {free_images:7.2f} s  {free_images / bare:6.1%} of it; decoding and resizing {needed:.2f} s"
    )


if __name__ == "__main__":
    main()
