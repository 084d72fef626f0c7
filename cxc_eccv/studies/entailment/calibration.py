"""Calibration of a judge's probabilities on judged pairs; the file of a judge that carries it, and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.sources.reading import read_object
from cxc_eccv.studies.entailment.answerer import Answerer
from cxc_eccv.studies.entailment.measures import check_threshold, fit_calibration, log_odds, measure_reliability
from cxc_eccv.writing import write_json

ENOUGH = 1_000
"""Pairs from which on isotonic regression is chosen: with fewer it follows noise."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A rising map of probabilities: Platt's ``(scale, offset)`` of log-odds, or the knots of isotonic regression.

    ``fingerprint`` is that of the judge whose answers it was fitted on; ``error_before`` their calibration error.
    """

    method: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    pairs: str
    n_pairs: int
    fingerprint: str
    error_before: float

    def __call__(self, probabilities: ArrayLike) -> NDArray[np.float64]:
        """(P,) calibrated probabilities."""
        values = np.asarray(probabilities, dtype=np.float64)
        if self.method == "isotonic":
            return np.interp(values, self.x, self.y)
        return np.asarray(1 / (1 + np.exp(-(self.x[0] * log_odds(values) + self.y[0]))))

    @property
    def facts(self) -> dict[str, Any]:
        """What a report records."""
        names = ("method", "pairs", "n_pairs", "error_before")
        return {name: getattr(self, name) for name in names}


def fit(probabilities: ArrayLike, labels: ArrayLike, *, pairs: str, fingerprint: str) -> Calibration:
    """Fit a calibration on judged pairs, which must not be those that it is measured on.

    From 1,000 pairs on it is isotonic regression, the rising function of least squares between whose steps
    probabilities are interpolated; of fewer, Platt's logistic regression on the log-odds.

    Args:
        probabilities: (N,) of a judge.
        labels: (N,) 0 or 1, of people.
        pairs: name of the pairs.
        fingerprint: that of the judge.

    Raises:
        DataError: labels other than 0 and 1, or of one kind only; probabilities that do not rise with the labels.

    References:
        Niculescu-Mizil and Caruana, Predicting Good Probabilities with Supervised Learning, ICML 2005.

    Example:
        >>> found = fit([0.1, 0.2, 0.6, 0.7] * 250, [0, 1, 0, 1] * 250, pairs="some", fingerprint="1")
        >>> found.method, found([0.0, 0.15, 0.4, 0.9]).round(6).tolist()
        ('isotonic', [0.0, 0.25, 0.5, 1.0])
    """
    values, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    error = measure_reliability(truth, values).expected_error
    if truth.all():
        raise DataError(f"all {truth.size} pairs of {pairs} are labelled 1: calibration needs pairs of both labels")
    about = (pairs, int(truth.size), fingerprint, error)
    if truth.size < ENOUGH:
        scale, offset = fit_calibration(log_odds(values), truth)
        return Calibration("platt", (scale,), (offset,), *about)
    from scipy.optimize import isotonic_regression

    distinct, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    steps = isotonic_regression(np.bincount(places, weights=truth) / counts, weights=counts).x
    inside = (steps[1:-1] == steps[:-2]) & (steps[1:-1] == steps[2:])
    kept = np.flatnonzero(np.concatenate([[True], ~inside, [True]])[: steps.size])
    if steps[0] == steps[-1]:
        raise DataError(f"calibration failed: on {pairs}, higher probabilities are not likelier to be labelled 1")
    return Calibration("isotonic", tuple(distinct[kept].tolist()), tuple(np.clip(steps[kept], 0, 1).tolist()), *about)


def write_judge(path: Path, judge: str, calibration: Calibration, measured: Mapping[str, Any]) -> Path:
    """Write the file of a judge: its name and options, its calibration, and how good it is on other pairs."""
    options = read_judge(Path(judge)) if judge.endswith(".json") else {"judge": judge}
    content = options | {"threshold": 0.5, "calibration": asdict(calibration), "measured": dict(measured)}
    return write_json(path, content)


def read_judge(path: Path) -> dict[str, Any]:
    """The name of a judge with its options, its ``threshold``, its ``calibration`` and what was ``measured``."""
    content = read_object(path, "a judge: its name in 'judge', and options such as 'question'")
    if not isinstance(content.get("judge"), str) or content["judge"].endswith(".json"):
        raise MalformedSource(path, "judge", str(content.get("judge")), "a folder, Hub id or URL#MODEL")
    if "threshold" in content:
        if not isinstance(content["threshold"], int | float):
            raise MalformedSource(path, "threshold", str(content["threshold"]), "a number from 0 to 1")
        check_threshold(content["threshold"])
    if "calibration" in content:
        try:
            known = {**content["calibration"]}
            known["x"], known["y"] = tuple(map(float, known["x"])), tuple(map(float, known["y"]))
            content["calibration"] = Calibration(**known)
            values = content["calibration"](np.linspace(0, 1, 11))
        except (TypeError, KeyError, ValueError, IndexError) as error:
            raise MalformedSource(path, "calibration", str(error), "one that entailment score wrote") from None
        if not ((values >= 0) & (values <= 1)).all() or (np.diff(values) < 0).any():
            raise MalformedSource(path, "calibration", "no rising map to 0 to 1", "one that entailment score wrote")
    return content


class FromFile(Answerer):
    """An answerer with the threshold and the calibration of its file; its answers are cached without the latter."""

    def __init__(
        self,
        inner: Answerer,
        threshold: float | None,
        calibration: Calibration | None,
        measured: Mapping[str, Any] | None,
    ) -> None:
        if calibration is not None and calibration.fingerprint != inner.fingerprint:
            raise InvalidOption(
                f"the calibration was fitted on other answers than those of {inner.name}: weights, question or "
                "software changed. Fit it again: cxc-eccv entailment score ... --calibrate-on"
            )
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
