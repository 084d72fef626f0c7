"""The judges that commands load: ``evaluate --unjudged``, and ``encode --rerank`` for another order of the top."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.cli.choices import check_model, needs_train_extra
from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.judge import ClassifierJudge


def check_judge(name: str, images: Path | None = None, batch_size: int = 64) -> None:
    """Refuse, before torch is imported, the name of a judge, a folder of images and a batch size."""
    from cxc_eccv.sources.download import image_folder
    from cxc_eccv.studies.entailment.answering import is_address, is_file
    from cxc_eccv.studies.entailment.quality.calibration import read_judge

    if is_file(name):
        name = read_judge(Path(name))["judge"]
    if not is_address(name):
        check_model(name, images, batch_size=batch_size)
    elif images is not None:
        image_folder(images)


def load_reranker(name: str, images: Path | None, device: str | None) -> ClassifierJudge | None:
    """The judge that a name stands for, or None for models that are no judges, such as BLIP's matching head.

    InvalidOption if it reads the captions of an image, among which are those that a re-ranking must find.
    """
    check_judge(name, images)
    with needs_train_extra():
        from cxc_eccv.studies.entailment.answering import recognise

        kind = recognise(name)
    if kind is None:
        return None
    judge = load_judge(name, images, device)
    if judge.classifier.reads_captions:
        raise InvalidOption(
            f"{name} reads the captions of an image, and a re-ranking must find these: give a judge that sees the "
            "image alone, such as a vision-language model"
        )
    return judge


def load_judge(name: str, images: Path | None = None, device: str | None = None) -> ClassifierJudge:
    """Load a judge by its folder, Hub id or address; ``images`` is the folder with the image files."""
    check_judge(name, images)
    with needs_train_extra():
        from cxc_eccv.studies.entailment.judge import ClassifierJudge

        return ClassifierJudge(name, images, device=device)
