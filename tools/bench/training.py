"""Training throughput of dual encoders of random weights on synthetic 224-pixel images.

Images per second of whole steps (forward, loss, backward, Adam), and the arithmetic these take as a share of the peak
that a matrix product reaches in the same run and type. Batches are decoded from JPEG files and resized by worker
processes as in training; the share of a step that it waits for its batch is printed, without workers and with those of
``--workers``, by default as many as in training, and the same steps with one batch that stays on the device, so that a
slow loader shows. ``--rows`` prints rows of the table of ``tools/gpu.sh``.

Example:
    python tools/bench/training.py --model clip-vit-base-patch32 --batch-size 256
    python tools/bench/training.py --model efficientnet-b4-bert-base --batch-size 128
    python tools/bench/training.py --model tiny --batch-size 8 --steps 3 --device cpu
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, CLIPConfig, CLIPModel, ConvNextConfig, EfficientNetConfig, PreTrainedModel

from cxc_eccv.studies.baselines.dual_encoder.loss import Objective
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderConfig, DualEncoderModel
from cxc_eccv.studies.trainers.trainer import count_cores

SIDE = 224
TOKENS = 32
Batch = dict[str, torch.Tensor]


def efficientnet_and_bert() -> PreTrainedModel:
    """EfficientNet-B4, and BERT-base frozen under three trainable layers."""
    image = EfficientNetConfig(width_coefficient=1.4, depth_coefficient=1.8, hidden_dim=1792, image_size=SIDE)
    return DualEncoderModel(DualEncoderConfig(BertConfig(), image))


def clip() -> PreTrainedModel:
    """CLIP ViT-B/32, whose sizes are CLIPConfig's defaults."""
    return CLIPModel(CLIPConfig())


def tiny() -> PreTrainedModel:
    """A model for trying this script on a processor."""
    text = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    image = ConvNextConfig(num_stages=2, hidden_sizes=[8, 16], depths=[1, 1])
    return DualEncoderModel(DualEncoderConfig(text, image, extra_layers=1, extra_heads=2, extra_feed_forward=32))


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "clip-vit-base-patch32": clip,
    "efficientnet-b4-bert-base": efficientnet_and_bert,
    "tiny": tiny,
}


class SyntheticPairs(Dataset[Batch]):
    """JPEG files of noise, decoded when they are read, each with random tokens."""

    def __init__(self, folder: Path, count: int) -> None:
        random = np.random.default_rng(0)
        self.paths = [folder / f"{number}.jpg" for number in range(count)]
        for path in self.paths:
            small = random.integers(0, 255, (30, 40, 3), dtype=np.uint8)
            Image.fromarray(small).resize((640, 480)).save(path)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Batch:
        with Image.open(self.paths[index]) as image:
            # The decoder halves the size on the way where that is still large enough, as torchvision's users do.
            image.draft("RGB", (SIDE, SIDE))
            pixels = torch.from_numpy(np.array(image.convert("RGB").resize((SIDE, SIDE)))).permute(2, 0, 1)
        tokens = torch.randint(1000, 20_000, (TOKENS,), generator=torch.Generator().manual_seed(index))
        return {"pixel_values": pixels, "input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def on_device(batch: Batch, device: torch.device) -> Batch:
    """The batch where the model is, pixels in [-1, 1]; images travel as bytes."""
    moved = {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
    return {**moved, "pixel_values": moved["pixel_values"].float() / 127.5 - 1}


def loss_of(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    """In-batch softmax of one batch of image-caption pairs, in bf16."""
    device = batch["input_ids"].device
    count = torch.arange(len(batch["input_ids"]))
    with torch.autocast(device.type, torch.bfloat16):
        out = model(**batch)
    scale = torch.tensor(20.0, device=device)
    texts, images = (torch.nn.functional.normalize(part, dim=-1) for part in (out.text_embeds, out.image_embeds))
    return Objective("i2t", "softmax")(texts, images, scale, count.to(device), count.to(device))


def finished(device: torch.device) -> float:
    """The clock, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def timed_steps(
    model: PreTrainedModel, batches: Iterator[Batch], steps: int, device: torch.device
) -> tuple[float, float]:
    """Seconds a step, and those of them that it waited for its batch; the first steps are not counted."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-5)
    warm_up = max(1, steps // 5)
    waited = 0.0
    started = 0.0
    for step in range(steps + warm_up):
        if step == warm_up:
            waited = 0.0
            started = finished(device)
        before = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - before
        loss_of(model, on_device(batch, device)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return (finished(device) - started) / steps, waited / steps


def peak_product(device: torch.device, size: int) -> float:
    """Floating-point operations per second of a bf16 matrix product, the best of 20."""
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(20):
        started = finished(device)
        left @ left
        best = min(best, finished(device) - started)
    return 2 * size**3 / best


def step_operations(model: PreTrainedModel, batch: Batch) -> int:
    """Floating-point operations of forward and backward, as torch counts them: products and convolutions."""
    with FlopCounterMode(display=False) as counter:
        loss_of(model, batch).backward()
    model.zero_grad(set_to_none=True)
    return int(counter.get_total_flops())


def main() -> None:
    """Measure one model and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="clip-vit-base-patch32")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--workers", type=int, default=min(8, count_cores()))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", action="store_true", help="print rows of the table of tools/gpu.sh")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    size = arguments.batch_size
    model = MODELS[arguments.model]()
    torch.nn.Module.to(model, device).train()
    with tempfile.TemporaryDirectory() as folder:
        pairs = SyntheticPairs(Path(folder), 4 * size)
        batch = next(iter(DataLoader(pairs, size)))
        operations = step_operations(model, on_device(batch, device))
        peak = peak_product(device, 8192 if device.type == "cuda" else 512)
        kept, _ = timed_steps(model, repeat(batch), arguments.steps, device)
        print_row = print_table_row if arguments.rows else print_line
        name = f"{arguments.model}, {size} pairs, bf16, {device.type}"
        print_row(f"train {name}, batch kept", size / kept, f"{operations / kept / peak:.1%} of a product's peak")
        for workers in dict.fromkeys((0, arguments.workers)):
            options = {"num_workers": workers, "pin_memory": device.type == "cuda", "drop_last": True}
            loader = DataLoader(pairs, size, persistent_workers=workers > 0, **options)
            loaded, waited = timed_steps(model, chain.from_iterable(repeat(loader)), arguments.steps, device)
            share = f"waits {waited / loaded:.0%} of a step of {loaded * 1e3:.0f} ms for its batch"
            print_row(f"train {name}, {workers} workers", size / loaded, share)
    if not arguments.rows:
        print(f"peak of a matrix product: {peak / 1e12:.1f} TFLOP/s")


def print_line(what: str, images: float, ratio: str) -> None:
    """Images per second, and a ratio."""
    print(f"{what}: {images:,.0f} images/s, {ratio}")


def print_table_row(what: str, images: float, ratio: str) -> None:
    """The same as a row of Markdown."""
    print(f"| {what} | {images:,.0f} images/s | {ratio} |")


if __name__ == "__main__":
    main()
