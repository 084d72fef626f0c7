"""Who answers whether an image with its captions entails a sentence: a model, an endpoint, or the file of a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.studies.entailment.answerer import Announced, Kind
from cxc_eccv.studies.entailment.answering.endpoint import ENDPOINT
from cxc_eccv.studies.entailment.answering.hub_models import CLASSIFIER, TEXT_CLASSIFIER, VISION_LANGUAGE
from cxc_eccv.studies.entailment.calibration import FromFile, read_judge

KINDS = (CLASSIFIER, TEXT_CLASSIFIER, ENDPOINT, VISION_LANGUAGE)


def is_address(source: str | Path) -> bool:
    """Whether a name is the address of an endpoint."""
    return str(source).startswith(("http://", "https://"))


def is_file(source: str | Path) -> bool:
    """Whether a name is that of a file of a judge."""
    return str(source).endswith(".json")


def recognise(source: str | Path) -> Kind | None:
    """The kind of answerer that a name stands for, or None; reads its config."""
    if is_file(source):
        source = read_judge(Path(source))["judge"]
    config = {} if is_address(source) else _config_of(str(source))
    return next((kind for kind in KINDS if kind.recognise(str(source), config)), None)


def announce(
    source: str | Path,
    *,
    images: bool = False,
    device: str | None = None,
    name: str | None = None,
    **options: Any,  # noqa: ANN401 - of the kind
) -> Announced:
    """Say what a folder, Hub id or address stands for, to check options before weights are loaded.

    Args:
        source: folder or Hub id of a classifier of entailment, of a model of natural language inference, of a
            cross-encoder or of a vision-language model; ``URL#MODEL`` of an endpoint; or the ``.json`` file of a judge.
        images: whether images can be looked at.
        device: torch device; None for a GPU if there is one.
        name: name in files and reports; None for the Hub id, the folder's name or the endpoint's model.
        **options: options of its kind, such as ``question``.

    Raises:
        ModelError: the model cannot judge pairs.
        InvalidOption: its kind has no such option.
    """
    if is_file(source):
        given: dict[str, Any] = {"images": images, "device": device, **options}
        return _announce_file(Path(source), **given | ({} if name is None else {"name": name}))
    kind = recognise(source)
    if kind is None:
        _refuse(str(source))
    unknown = [option for option in options if option not in kind.takes]
    if unknown:
        takes = ", ".join(kind.takes) or "no option"
        raise InvalidOption(f"{source} is {kind.title}, which takes {takes}, not {', '.join(unknown)}")
    return kind.announce(source, images=images, device=device, name=name, **options)


def _announce_file(path: Path, **how: Any) -> Announced:  # noqa: ANN401 - as of announce
    """What the file of a judge stands for."""
    content = read_judge(path)
    judge, threshold = content.pop("judge"), content.pop("threshold", None)
    calibration, measured = content.pop("calibration", None), content.pop("measured", None)
    known = announce(judge, **content | how)
    used = known.threshold if threshold is None else threshold
    return replace(known, threshold=used, load=lambda: FromFile(known.load(), threshold, calibration, measured))


def _config_of(source: str) -> Mapping[str, Any]:
    from transformers import PreTrainedConfig

    try:
        config: Mapping[str, Any] = PreTrainedConfig.get_config_dict(source)[0]
    except Exception:  # loading reports what is wrong
        return {}
    return config


def _refuse(source: str) -> NoReturn:
    from transformers import AutoConfig

    from cxc_eccv.encoding.checkpoints import load_part

    kind = _config_of(source).get("model_type")
    if kind is None:
        load_part(AutoConfig, source)
    titles = "; ".join(each.title for each in KINDS)
    raise ModelError(f"{source} is a model of type {kind}, not a classifier of entailment. What can judge: {titles}")
