"""Time that ``encode`` spends outside the model, beside MiniLM's own time in the same run.

Two models that cost nothing, a BERT and a ViT whose forward returns zeros, show what is ours: tokens, batches,
pictures, shards and the file. The bare model is MiniLM's forward over the same captions, tokenized beforehand, in
batches of like length. Captions are those of the raw files that CXC_ECCV_DATA names; pictures are JPEG files of COCO's
size, generated, and beside them photographs of COCO where CXC_ECCV_DATA has some, again and again. What no encoder can
do without is measured alone, too: reading the tokens once, decoding and resizing in Pillow; and beside it what the
model's own processor takes for the pictures. ``--device`` is where the models run, a GPU if there is one; ``--rows``
prints rows of the table of ``tools/gpu.sh``, in which a BERT of MiniLM's sizes stands in where no ``--model`` is named,
and the sample's captions where ``CXC_ECCV_DATA`` is unset.

Every round does all of it in turn, and the least of the rounds counts, in wall time and in processor time.

Example:
    CXC_ECCV_DATA=mirror python tools/bench/encoding.py --model FOLDER_OF_MINILM
    python tools/bench/encoding.py --rows --captions 500 --images 64
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from transformers import (
    AutoModel,
    AutoTokenizer,
    BaseImageProcessor,
    BatchEncoding,
    BertConfig,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ViTConfig,
    ViTImageProcessor,
    ViTModel,
)
from transformers.modeling_outputs import BaseModelOutputWithPooling

from cxc_eccv.encoding import encode
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.trainers.sample_encoders import word_tokenizer

PICTURES = 64
COCO_SIZE = (640, 480)
BATCH = 64
WIDTH = 384
PHOTOGRAPHS = "coco/images_sample"


class FreeTexts(BertModel):
    """Costs nothing."""

    def forward(self, input_ids: torch.Tensor, **_: Any) -> BaseModelOutputWithPooling:  # noqa: ANN401
        """Zeros."""
        zeros = torch.zeros(1, device=input_ids.device).expand(*input_ids.shape, WIDTH)
        return BaseModelOutputWithPooling(last_hidden_state=zeros)


class FreeImages(ViTModel):
    """Costs nothing."""

    def forward(self, pixel_values: torch.Tensor, **_: Any) -> BaseModelOutputWithPooling:  # noqa: ANN401
        """Zeros."""
        zeros = torch.zeros(1, device=pixel_values.device).expand(len(pixel_values), 1, WIDTH)
        return BaseModelOutputWithPooling(last_hidden_state=zeros, pooler_output=zeros[:, 0])


class Cost(NamedTuple):
    """Seconds of a piece of work: on the clock, and of all processors together."""

    wall: float
    processor: float

    def share(self, whole: Cost) -> str:
        """This as percent of another."""
        return f"{self.wall / whole.wall:7.1%} {self.processor / whole.processor:7.1%}"


def cost(work: Callable[[], object]) -> Cost:
    """That of a call."""
    start = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - start[0], time.process_time() - start[1])


def least(costs: Sequence[Cost]) -> Cost:
    """The least of several rounds."""
    return Cost(min(cost.wall for cost in costs), min(cost.processor for cost in costs))


def sum_of(costs: Iterable[Cost]) -> Cost:
    """One after the other."""
    walls, processors = zip(*costs, strict=True)
    return Cost(sum(walls), sum(processors))


def load_text_model(name: str | None) -> tuple[Any, Any]:
    """The named model, or a BERT of MiniLM's sizes and random weights with the words of the sample."""
    if name is not None:
        return AutoModel.from_pretrained(name).eval(), AutoTokenizer.from_pretrained(name)
    tokenizer = word_tokenizer(Library("sample").split("test").captions["text"].to_pylist())
    config = BertConfig(hidden_size=WIDTH, num_hidden_layers=6, intermediate_size=4 * WIDTH)
    return BertModel(config).eval(), tokenizer


def batch_texts(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[BatchEncoding]:
    """Captions of like length side by side."""
    texts = sorted(texts, key=lambda text: -len(tokenizer(text)["input_ids"]))
    parts = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    return [tokenizer(part, padding=True, truncation=True, return_tensors="pt") for part in parts]


def forward_all(model: PreTrainedModel, batches: list[BatchEncoding]) -> None:
    """The bare model."""
    with torch.inference_mode():
        for batch in batches:
            out = model(**batch.to(model.device))
        out[0].cpu()  # waits for the device


def draw_pictures(folder: Path) -> list[Path]:
    """Smooth random pictures, which compress about as photographs do."""
    random = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(PICTURES)]
    for path in paths:
        coarse = Image.fromarray(random.integers(0, 256, (48, 64, 3), dtype=np.uint8))
        coarse.resize(COCO_SIZE, Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


def find_photographs() -> list[Path]:
    """Those of COCO that are at hand, in the order of their names."""
    return sorted(Path(os.environ.get("CXC_ECCV_DATA", "")).glob(f"{PHOTOGRAPHS}/*.jpg"))


def decode(path: Path) -> Image.Image:
    """A picture's pixels."""
    with Image.open(path) as image:
        image.load()
        return image


def resize(path: Path, processor: Any) -> None:  # noqa: ANN401 - sizes that the base class does not declare
    """What no encoder of images can do without: decode the file, by libjpeg, and resize the picture in Pillow."""
    decode(path).resize((processor.size["width"], processor.size["height"]), processor.resample)


def process(path: Path, processor: BaseImageProcessor) -> None:
    """Decode the file, and let the model's own processor do the rest."""
    processor(images=[decode(path)], return_tensors="pt")


def make_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or Hub id of all-MiniLM-L6-v2 (a BERT of its sizes)")
    parser.add_argument("--captions", type=int, default=25_000, help="how many (25,000)")
    parser.add_argument("--images", type=int, default=5_000, help="how many (5,000)")
    parser.add_argument("--repeat", type=int, default=1, help="rounds, of which the least counts (1)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", action="store_true", help="print rows of the table of tools/gpu.sh")
    return parser


def print_rows(options: argparse.Namespace, kinds: Sequence[str], spent: Mapping[str, Cost]) -> None:
    """Print rows of the table of ``tools/gpu.sh``."""
    name = "BERT of MiniLM's sizes" if options.model is None else Path(options.model).name
    whole = spent["encode, MiniLM"].wall
    figure = f"{options.captions / whole:,.0f} captions/s | {whole / spent['MiniLM alone'].wall:.2f} x its forward"
    print(f"| encode captions, {name} | {figure} |")
    for kind in kinds:
        taken = spent[f"free, {kind}"].wall
        pillow = spent[f"resize {kind}"].wall
        figure = f"{options.images / taken:,.0f} images/s | {taken / pillow:.2f} x decoding and resizing in Pillow"
        print(f"| encode {kind}, a model that costs nothing | {figure} |")


def print_table(options: argparse.Namespace, kinds: Sequence[str], spent: Mapping[str, Cost], tokens: int) -> None:
    """Print what each piece of work costs, and what is ours."""
    bare = spent["MiniLM alone"]
    print(
        f"{options.captions:,} captions, {options.images:,} images, least of {options.repeat}; seconds, share of "
        "MiniLM alone, milliseconds of processor time for one item"
    )
    print(f"{'':20}{'wall':>8}{'proc.':>8}{'wall':>8}{'proc.':>8}{'ms':>8}")
    for name, own in spent.items():
        count = options.images if name.endswith(tuple(kinds)) else options.captions
        speed = f"  {tokens / own.wall:,.0f} tokens/s" if "MiniLM" in name else ""
        print(
            f"{name:20}{own.wall:8.2f}{own.processor:8.2f} {own.share(bare)}{own.processor / count * 1e3:8.2f}{speed}"
        )
    for kind in kinds:
        both = sum_of([spent["free, captions"], spent[f"free, {kind}"]])
        floor = sum_of([spent["tokens"], spent[f"resize {kind}"]])
        print(f"captions and {kind}: {both.share(bare)}, of which tokens, decoding and resizing {floor.share(bare)}")


def main() -> None:
    """Print the shares."""
    options = make_parser().parse_args()
    known = Library(os.environ.get("CXC_ECCV_DATA") or "sample").split("test").captions["text"].to_pylist()
    texts = [known[row % len(known)] for row in range(options.captions)]
    captions = list(enumerate(texts))
    model, tokenizer = load_text_model(options.model)
    torch.nn.Module.to(model, options.device)
    vit = ViTConfig(hidden_size=12, num_hidden_layers=1, num_attention_heads=1, intermediate_size=12)
    free_texts = FreeTexts(model.config)
    free_images = FreeImages(vit)
    processor = ViTImageProcessor()
    batches = batch_texts(tokenizer, texts)
    tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(torch.get_num_threads()) as pool:

        def run(model: PreTrainedModel, processor: object, **items: Any) -> None:  # noqa: ANN401 - encode's
            output = Path(folder) / "vectors.npz"
            encode(model, processor=processor, device=options.device, output=output, progress=False, **items)

        def over_files(work: Callable[[Path], object], files: list[Path]) -> None:
            deque(pool.map(work, files), maxlen=0)

        work: dict[str, Callable[[], object]] = {
            "MiniLM alone": partial(forward_all, model, batches),
            "encode, MiniLM": partial(run, model, tokenizer, captions=captions),
            "free, captions": partial(run, free_texts, tokenizer, captions=captions),
            "tokens": partial(tokenizer, texts, truncation=True),
        }
        drawn = draw_pictures(Path(folder))
        photographs = find_photographs()
        kinds = {"generated": drawn} | ({"photographs": photographs} if photographs else {})
        for kind, found in kinds.items():
            files = [found[number % len(found)] for number in range(options.images)]
            work |= {
                f"free, {kind}": partial(run, free_images, processor, images=list(enumerate(files))),
                f"decode {kind}": partial(over_files, decode, files),
                f"resize {kind}": partial(over_files, partial(resize, processor=processor), files),
                f"process {kind}": partial(over_files, partial(process, processor=processor), files),
            }
        forward_all(model, batches[:1])
        rounds = [{name: cost(each) for name, each in work.items()} for _ in range(options.repeat)]
    spent = {name: least([costs[name] for costs in rounds]) for name in work}
    if options.rows:
        print_rows(options, list(kinds), spent)
    else:
        print_table(options, list(kinds), spent, tokens)


if __name__ == "__main__":
    main()
