"""Opens, converts, crops and encodes images, with the image tower of any kind of model."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from transformers import PreTrainedModel

from cxc_eccv.encoding.loading import LoadedModel, inference
from cxc_eccv.encoding.open_clip import OpenClip
from cxc_eccv.encoding.roles import RoleInput
from cxc_eccv.encoding.text_input import Prompt
from cxc_eccv.encoding.texts import image_features
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, ModelError, SourceMissing, TowerMissing
from cxc_eccv.types.model_options import Encoding, TenCrops

CONVERTED = ("1", "L", "LA", "La", "P", "PA", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")
"""Modes with 8 bits per channel; for others Pillow would clip values instead of scaling them."""

ImageItem = tuple[int, Path | Image.Image]

Inputs = dict[str, torch.Tensor]
"""Name to tensor, whose first dimension is that of the images."""

Prepared = tuple[Inputs | None, str]
"""A model's inputs and the mode of their image, or None and the fault of the image."""


class Picture(NamedTuple):
    """An RGB image, and its original mode."""

    image: Image.Image
    mode: str


def open_picture(source: str | Path | Image.Image) -> Picture:
    """Read an image and convert it to RGB without transparency, as the pipelines of the models do."""
    if isinstance(source, Image.Image):
        return Picture(_to_rgb(source, "the image given"), source.mode)
    path = Path(source)
    with _open(path) as image:
        image.load()
        return Picture(_to_rgb(image, path), image.mode)


def picture_mode(path: Path) -> str:
    """The mode of an image file, from its header; raises as :func:`open_picture`."""
    with _open(path) as image:
        _refuse_deep(image.mode, path)
        return image.mode


@contextmanager
def _open(path: Path) -> Iterator[Image.Image]:
    if not path.is_file():
        raise SourceMissing(f"no image {path}; add the file")
    try:
        with Image.open(path) as image:
            yield image
    except MalformedSource:
        raise
    except Exception as error:  # Pillow's decoders raise errors of many unrelated kinds.
        raise MalformedSource(path, "", error, "a complete image; fetch it again") from None


def _to_rgb(image: Image.Image, where: str | Path) -> Image.Image:
    if image.mode == "RGB":
        return image
    _refuse_deep(image.mode, where)
    # A palette with a table of transparencies must be converted through RGBA.
    return (image.convert("RGBA") if isinstance(image.info.get("transparency"), bytes) else image).convert("RGB")


def _refuse_deep(mode: str, where: str | Path) -> None:
    if mode != "RGB" and mode not in CONVERTED:
        raise MalformedSource(where, "", f"mode {mode}", "8 bits a channel; scale it to 8 bits and save it as RGB")


def prepare_image(item: ImageItem, prepare: Callable[[Image.Image], Inputs], skip_bad: bool) -> Prepared:
    """Open and prepare an image; an unreadable one raises, or with ``skip_bad`` gives None and the reason."""
    number, source = item
    try:
        picture = open_picture(source)
    except DataError as error:
        if skip_bad:
            return None, str(error)
        error.add_note(f"image id {number}")
        error.args = (f"{error}; cxc-eccv encode --skip-bad-images leaves it out",)
        raise
    return prepare(picture.image), picture.mode


def crop_ten(image: Image.Image, crops: TenCrops) -> list[Image.Image]:
    """The crops top left, top right, bottom left, bottom right and centre, then those of the mirror image."""
    shortest = min(image.size)
    wanted = [crops.shorter_side * side // shortest for side in image.size]
    scaled = image.resize((wanted[0], wanted[1]), Image.Resampling.BILINEAR)
    right, bottom = (side - crops.size for side in scaled.size)
    corners = [(0, 0), (right, 0), (0, bottom), (right, bottom), (round(right / 2), round(bottom / 2))]
    boxes = [(left, top, left + crops.size, top + crops.size) for left, top in corners]
    mirrored = ImageOps.mirror(scaled)
    return [scaled.crop(box) for box in boxes] + [mirrored.crop(box) for box in boxes]


def image_input(loaded: LoadedModel, encoding: Encoding) -> Callable[[Image.Image], Inputs]:
    """The function from an RGB image to the tensors of the image or of its ten crops."""
    processor = loaded.processors.image_processor()

    def prepare(image: Image.Image) -> Inputs:
        if encoding.ten_crops is not None:
            plain: dict[str, Any] = {"do_resize": False, "do_center_crop": False}
            return dict(processor(images=crop_ten(image, encoding.ten_crops), return_tensors="pt", **plain))
        whole = image if encoding.central_crop is None else crop_centre(image, encoding.central_crop)
        return dict(processor(images=[whole], return_tensors="pt"))

    return prepare


def crop_centre(image: Image.Image, share: float) -> Image.Image:
    """The centre of an image, with the same proportions and this share of its area.

    Example:
        >>> crop_centre(Image.new("RGB", (640, 480)), 0.875).size
        (599, 449)
    """
    width, height = (max(1, round(side * math.sqrt(share))) for side in image.size)
    left = (image.width - width) // 2
    top = (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


class ImageEncoder(ABC):
    """Encodes prepared images as (N, D) float32 vectors."""

    def __init__(self, loaded: LoadedModel, batch_size: int, prepare: Callable[[Image.Image], Inputs]) -> None:
        self._loaded = loaded
        self.batch_size = batch_size
        self.prepare = prepare

    @abstractmethod
    def __call__(self, batch: Sequence[Inputs]) -> NDArray[np.float32]:
        """(N, D) vectors of prepared images."""


class _Transformer(ImageEncoder):
    """An image tower of transformers; averages the vectors of crops."""

    def __init__(self, loaded: LoadedModel, model: PreTrainedModel | OpenClip, encoding: Encoding) -> None:
        self._features = image_features(model)
        super().__init__(loaded, encoding.batch_size, image_input(loaded, encoding))

    def __call__(self, batch: Sequence[Inputs]) -> NDArray[np.float32]:
        """(N, D) vectors; images with different tensor shapes are run separately."""
        groups = group_by_shape(batch)
        parts = []
        with inference(self._loaded.model):
            for group in groups:
                images = [batch[place] for place in group]
                parts.append(self._means(images))
        rows = torch.cat([part.cpu() for part in parts]).numpy()
        vectors = np.empty_like(rows)
        vectors[np.concatenate(groups)] = rows
        return vectors

    def _means(self, batch: Sequence[Inputs]) -> torch.Tensor:
        inputs = join_inputs(self._loaded, batch)
        try:
            features = self._features(inputs).float()
        except ValueError as error:  # crops do not fit a model with positions for one size
            shapes = {name: tuple(tensor.shape) for name, tensor in inputs.items()}
            raise ModelError(f"{self._loaded.name} does not accept {shapes}: {error}; use its image size") from None
        return features.reshape(len(batch), -1, features.shape[1]).mean(dim=1)


class _SentenceTransformer(ImageEncoder):
    """A sentence-transformers model, which prepares images itself; the inputs are pixels."""

    def __init__(self, loaded: LoadedModel, batch_size: int, central_crop: float | None, given: RoleInput) -> None:
        def prepare(image: Image.Image) -> Inputs:
            whole = image if central_crop is None else crop_centre(image, central_crop)
            return {"pixels": torch.from_numpy(np.array(whole))}

        super().__init__(loaded, batch_size, prepare)
        self._given = given

    def __call__(self, batch: Sequence[Inputs]) -> NDArray[np.float32]:
        model: Any = self._loaded.model
        with inference(model):
            vectors: torch.Tensor = model.encode(
                [Image.fromarray(inputs["pixels"].numpy()) for inputs in batch],
                prompt=self._given.prompt.before,
                batch_size=self.batch_size,
                show_progress_bar=False,
                convert_to_tensor=True,
                **({} if self._given.task is None else {"task": self._given.task}),
            )
        return vectors.float().cpu().numpy()


def make_image_encoder(loaded: LoadedModel, encoding: Encoding, given: RoleInput | None = None) -> ImageEncoder:
    """The image encoder of a loaded model, for images in a role, or with the prompt of images without one."""
    crops = encoding.ten_crops is not None
    if isinstance(loaded.model, OpenClip) and crops:
        raise InvalidOption(f"ten_crops: {loaded.name} is a model of open_clip, which crops images itself")
    if isinstance(loaded.model, PreTrainedModel | OpenClip):
        return _Transformer(loaded, loaded.model, encoding)
    if "images" not in loaded.sides:
        raise TowerMissing(f"{loaded.name} encodes texts only; leave out the images")
    if crops:
        raise InvalidOption(f"ten_crops: {loaded.name} is a sentence-transformers model, which crops images itself")
    given = given or RoleInput(Prompt(loaded.image_prompt))
    return _SentenceTransformer(loaded, encoding.batch_size, encoding.central_crop, given)


def group_by_shape(batch: Sequence[Inputs]) -> list[list[int]]:
    """Groups of places in the batch whose images have tensors of the same shapes."""
    groups: dict[tuple[torch.Size, ...], list[int]] = {}
    for place, inputs in enumerate(batch):
        groups.setdefault(tuple(tensor.shape for tensor in inputs.values()), []).append(place)
    return list(groups.values())


def join_inputs(loaded: LoadedModel, batch: Sequence[Inputs]) -> Inputs:
    """The inputs of several images as one batch, on the model's device, floating tensors in its type."""
    joined = {}
    for name in batch[0]:
        # By NumPy in this thread, as torch's threads would spin while other threads prepare images.
        arrays = [inputs[name].numpy() for inputs in batch]
        tensor = torch.from_numpy(np.concatenate(arrays))
        joined[name] = tensor.to(loaded.device, loaded.dtype if tensor.is_floating_point() else None)
    return joined


def check_image_encoder(model: Any) -> None:  # noqa: ANN401 - models with two towers share no type
    """Raise InvalidOption if an image encoder needs more than pixels, like SigLIP 2 of any resolution."""
    takes = inspect.signature(model.forward).parameters
    needs = [name for name, parameter in takes.items() if parameter.default is parameter.empty]
    needs = [name for name in needs if takes[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if "input_ids" in takes:
        raise InvalidOption(f"image_model: {type(model).__name__} reads text with the image; give an image encoder")
    if set(needs) - {"pixel_values"}:
        raise InvalidOption(
            f"image_model: {type(model).__name__} needs {', '.join(needs)}, but gets only pixel_values; give an image "
            "encoder of one resolution, such as ViT, CLIP or SigLIP"
        )
