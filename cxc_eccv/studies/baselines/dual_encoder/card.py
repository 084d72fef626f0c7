"""What the card of a trained dual encoder says."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from transformers import MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING, TrainerState

from cxc_eccv.report.files import REPORT_FOLDER
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.download import sample_images
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.arguments import Arguments, DataArguments
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderModel
from cxc_eccv.studies.baselines.dual_encoder.sentence_form import has_sentence_form
from cxc_eccv.studies.baselines.dual_encoder.trainer import DualEncoderTrainer, describe_collapse
from cxc_eccv.studies.trainers.caption_groups import ALL, parts_of
from cxc_eccv.studies.trainers.model_card import Trained, without_places
from cxc_eccv.studies.trainers.outcome import Selection, list_settings_that_ran
from cxc_eccv.studies.trainers.trainer import AnyModel
from cxc_eccv.studies.trainers.training_record import warn_of_training_data

DESCRIBED = {
    "t2t": "pairs of captions of an image",
    "i2t": "images with their captions",
    "t2t+i2t": "images with their captions and pairs of captions of an image",
}

LOADING = """\
from transformers import AutoModel, {processor}

model = AutoModel.from_pretrained("FOLDER"{code})
processor = {processor}.from_pretrained("FOLDER"{code})
inputs = processor(text=["A dog runs."], return_tensors="pt")
vectors = model.get_text_features(inputs["input_ids"], inputs["attention_mask"]).pooler_output
"""
LOADING_IMAGES = """\
from PIL import Image

inputs = processor(images=[Image.open("dog.jpg")], return_tensors="pt")
vectors = model.get_image_features(inputs["pixel_values"]).pooler_output
"""
LOADING_SENTENCES = """\
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER").encode(["A dog runs."])
"""
VALIDATION = "coco/val"
"""What evaluations score unless training images are held out."""

ABOUT_MODEL = "A dual encoder trained on {}, as in Crisscrossed Captions (arXiv 2004.15020)."


def describe(arguments: Arguments, library: Library, trainer: DualEncoderTrainer) -> Trained:
    """What a run with these arguments leaves: model, settings, and how to load and score it."""
    model: AnyModel = trainer.model
    selection = choose_selection(arguments, trainer.state)
    settings = list_settings_that_ran(
        arguments.identity, arguments.training, trainer.state, has_schedule=not trainer.paper_schedule
    )
    start = arguments.model
    data = arguments.data
    folder = Path(str(arguments.training.output_dir))
    has_images = arguments.has_image_tower
    has_vectors = data.image_features is not None
    towers = [start.text_model, *([start.image_model] if has_images else [])]
    started = towers if start.pretrained is None else [start.pretrained]
    without = set() if has_images else {"image_model"}
    unused = {*asdict(start)} - {"pretrained"} if start.pretrained else without
    images = sample_images() if data.images == SAMPLE else Path(data.images or ".")
    is_ours = isinstance(model, DualEncoderModel)
    is_clip = type(model.config) in MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING
    raw = ["--data-dir", data.data_dir] if data.data_dir else []
    shown = ["--images", data.images or "IMAGES"] if has_images else ["--side", "captions"]
    vectors, report = (str(folder.absolute() / name) for name in ("test.npz", REPORT_FOLDER))
    return Trained(
        kind="dual-encoder",
        about=" ".join([ABOUT_MODEL.format(DESCRIBED[arguments.mode]), *_describe_leaks(model, library, data)]),
        output=folder,
        model=folder,
        has_images=has_images or has_vectors,
        base_models=[name for name in started if name != SAMPLE and not Path(name).exists()],
        parts=data.train_on if data.pairs_file is None else (),
        settings=without_places(
            {**{name: value for name, value in settings.items() if name not in unused}, **selection.settings}
        ),
        loading=[
            LOADING.format(
                processor="AutoProcessor" if has_images else "AutoTokenizer",
                code=", trust_remote_code=True" if is_ours else "",
            ),
            *([LOADING_IMAGES] if has_images else []),
            *([LOADING_SENTENCES] if has_sentence_form(model) else []),
        ],
        # cxc-eccv encode does not join the vectors of images.
        scoring=[
            ["encode", "--model", str(folder), *shown, *raw, "--output", vectors],
            ["evaluate", vectors, *raw, "--output", report],
        ]
        if not has_vectors
        else (),
        library=library,
        outcome=[selection.describe(), *describe_collapse(trainer.state)],
        images=images if has_images else None,
        pipeline_tag="feature-extraction" if is_ours else "zero-shot-image-classification" if is_clip else None,
    )


def choose_selection(arguments: Arguments, state: TrainerState) -> Selection:
    """The weights that a run kept, and what chose them."""
    held_out = arguments.data.held_out
    data = f"{held_out:,} held-out training images" if held_out else VALIDATION
    return Selection.read(state, arguments.training, data)


def _describe_leaks(model: AnyModel, library: Library, data: DataArguments) -> list[str]:
    """Warnings that it, or the classifier that mined its weak positives, was trained on val or test data."""
    parts = parts_of(data.train_on) if data.weak_positives else []
    mined = [library.split(split, name).mined() for name, split in parts if split != ALL]
    records = [pairs.facts["classifier"].get("training_data") for pairs in mined if pairs is not None]
    cautions = [caution for record in records for caution in warn_of_training_data(record)]
    seen = warn_of_training_data(model.config.training_data, "{:,} images of {}")
    return [*seen, *(f"The classifier of its weak positives: {caution}" for caution in cautions)]
