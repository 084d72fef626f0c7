"""A judge by its file: a name, options of its kind, and perhaps a calibration of its probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from cxc_eccv.studies.entailment.answerer import Announced, Answerer
from cxc_eccv.studies.entailment.quality.calibration import Calibration, read_judge, refuse_another_judge


class FromFile(Answerer):
    """An answerer with the threshold and the calibration of its file; its answers are cached without the latter."""

    def __init__(
        self,
        inner: Answerer,
        threshold: float | None,
        calibration: Calibration | None,
        measured: Mapping[str, Any] | None,
    ) -> None:
        refuse_another_judge(calibration, inner.name, inner.fingerprint)
        self.inner, self.name, self.fingerprint = inner, inner.name, inner.fingerprint
        self.threshold = inner.threshold if threshold is None else threshold
        self.has_visual, self.reads_captions = inner.has_visual, inner.reads_captions
        self.pairs_at_once = inner.pairs_at_once
        self.training_data, self.source, self.commit = inner.training_data, inner.source, inner.commit
        self._calibration, self.calibrated = calibration, None
        if calibration is not None:
            self.calibrated = {**calibration.facts, "measured": measured}

    def calibrate(self, probabilities: ArrayLike) -> NDArray[Any]:
        """The calibrated probabilities."""
        return super().calibrate(probabilities) if self._calibration is None else self._calibration(probabilities)

    def score_and_count(self, *pairs: Any, **options: Any) -> tuple[NDArray[Any], int]:  # noqa: ANN401 - as of Answerer
        """The answers before calibration."""
        return self.inner.score_and_count(*pairs, **options)


def announce_file(path: Path, announce: Callable[..., Announced], **how: Any) -> Announced:  # noqa: ANN401 - as of announce
    """What the file of a judge stands for."""
    content = read_judge(path)
    judge, threshold = content.pop("judge"), content.pop("threshold", None)
    calibration, measured = content.pop("calibration", None), content.pop("measured", None)
    known = announce(judge, **content | how)
    used = known.threshold if threshold is None else threshold
    return replace(known, threshold=used, load=lambda: FromFile(known.load(), threshold, calibration, measured))
