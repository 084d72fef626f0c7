"""People's labels and a judge's probabilities of the same split in one table, and how good the judge's labels are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.answers import Answers, answers_of
from cxc_eccv.evaluation.settings import PairValues
from cxc_eccv.parquet import write_parquet
from cxc_eccv.sources.readers import KarpathySplit, LabelFile
from cxc_eccv.statistics import Estimate, estimate_ratio
from cxc_eccv.statistics.agreement import cohen_kappa
from cxc_eccv.studies.annotation.proposing.pool import Pairs
from cxc_eccv.terminal import code_block, code_span, markdown_table, markdown_text
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.writing import replaced_file

THRESHOLD = 0.5
TENTHS = np.array([f"{place / 10:.1f} to {(place + 1) / 10:.1f}" for place in range(10)])

FIELDS = {
    "image_id": "the image's COCO id",
    "caption_id": "the caption's COCO id",
    "positive": "people's label; empty where none has one",
    "probability": "the judge's probability that they match; empty where it gave none",
    "stratum": "the tenth of the probability",
    "drawn": "the probability with which the pair was drawn for people; empty for others",
    "judged_by": "`people`, `judge` or `both`",
}


@dataclass(frozen=True, slots=True, eq=False)
class Stratum:
    """The pairs with a probability in one tenth; means are those of all pairs among which people's were drawn."""

    name: str
    asked: int  # drawn pairs
    weight: float  # share of the pairs, estimated
    probability: float  # mean
    positive: float  # share of matches, by people


@dataclass(frozen=True, slots=True, eq=False)
class JudgeQuality:
    """How good a judge's labels are, by people's answers about drawn pairs."""

    key: str  # number for which they were drawn
    pairs: int  # drawn pairs
    among: int  # pairs among which they were drawn
    rates: Mapping[str, Estimate | str]  # or the reason that there is none
    kappa: float | None
    strata: tuple[Stratum, ...]

    @property
    def calibration_error(self) -> float:
        """The expected calibration error, in ten bins."""
        return sum(each.weight * abs(each.probability - each.positive) for each in self.strata)


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """The labels of people and a judge, and the quality of the judge's or the reason that it is unknown."""

    table: pa.Table
    quality: JudgeQuality | str


def mix(labels: LabelFile, probabilities: pa.Table, content: KarpathySplit) -> Mixed:
    """Join people's labels with a judge's probabilities; DataError if a pair occurs twice or is of another split."""
    values = PairValues(probabilities, "probability", "probabilities")
    columns = [np.asarray(probabilities[name]) for name in ("image_id", "caption_id", "probability")]
    images, captions, chances = columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2].astype(np.float64)
    Pairs(content).of_ids(images, captions, "probabilities")
    pair, people = ["image_id", "caption_id"], labels.table
    if "drawn" not in people.column_names:
        people = people.append_column("drawn", pa.nulls(people.num_rows, pa.float64()))
    judged = pa.table({"image_id": images, "caption_id": captions, "probability": chances})
    judged = judged.append_column("stratum", pa.array(TENTHS[_tenths(chances)]))
    table = people.select([*pair, "positive", "drawn"]).join(judged, pair, join_type="full outer")
    both = pc.and_(pc.is_valid(table["positive"]), pc.is_valid(table["probability"]))
    by = pc.if_else(both, "both", pc.if_else(pc.is_valid(table["positive"]), "people", "judge"))
    table = table.append_column("judged_by", by).select(list(FIELDS)).sort_by([(name, "ascending") for name in pair])
    quality: JudgeQuality | str
    try:
        answers = answers_of(labels)
        quality = measure_judge(answers, values(answers.images, answers.captions).astype(np.float64))
    except DataError as error:
        quality = str(error).removeprefix(f"{labels.path}: ")
    return Mixed(table.combine_chunks(), quality)


def write_mixed(path: Path, mixed: Mixed | None) -> None:
    """Write the table, or remove that of an earlier merge."""
    if mixed is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    with replaced_file(path) as part:
        write_parquet(mixed.table, part)


def measure_judge(answers: Answers, probabilities: FloatArray) -> JudgeQuality:
    """Measure a judge's (P,) probabilities of the drawn pairs, each weighed by 1 / its probability to be drawn."""
    truth, predicted = answers.labels, (probabilities >= THRESHOLD).astype(np.float64)
    owners, units = np.arange(truth.size), answers.units
    if units < answers.open_pairs:  # a query was drawn with all its pairs
        owners = answers.captions if answers.key.split("/")[-2] == "t2i" else answers.images
    _, first, unit = np.unique(owners, return_index=True, return_inverse=True)

    def share(part: FloatArray, whole: FloatArray) -> Estimate | str:
        values, divisors = (np.bincount(unit, column) for column in (part, whole))
        places, chances = np.arange(first.size), answers.drawn[first]
        try:
            return estimate_ratio(np.ones(units), places, values, divisors, chances).as_share
        except DataError as error:
            return str(error)

    rates = {
        "accuracy": share((truth == predicted).astype(np.float64), np.ones(truth.size)),
        "precision": share(truth * predicted, predicted),
        "recall": share(truth * predicted, truth),
    }
    weights = 1 / answers.drawn
    try:
        kappa = cohen_kappa(truth.astype(np.int64), predicted.astype(np.int64), 2, weights=weights)
    except DataError:
        kappa = None
    tenths, strata = _tenths(probabilities), []
    for place in np.unique(tenths).tolist():
        here = tenths == place
        means = [float(np.average(column[here], weights=weights[here])) for column in (probabilities, truth)]
        strata.append(Stratum(TENTHS[place], int(here.sum()), float(weights[here].sum() / weights.sum()), *means))
    return JudgeQuality(answers.key, truth.size, answers.open_pairs, rates, kappa, tuple(strata))


def _tenths(probabilities: FloatArray) -> IntArray:
    return np.asarray(np.searchsorted(np.arange(1, 10) / 10, probabilities, side="right"))


def describe_mixed(mixed: Mixed, split: str) -> str:
    """The card's section: fields, counts, and the quality of the judge's labels."""
    from cxc_eccv.builders import cards

    counts = {row["values"]: row["counts"] for row in pc.value_counts(mixed.table["judged_by"]).to_pylist()}
    ways = {"people": "people alone", "judge": "the judge alone", "both": "both"}
    counted = ", ".join(f"{counts.get(name, 0):,} by {words}" for name, words in ways.items())
    blocks = [
        f"The config `mixed` has {mixed.table.num_rows:,} pairs, judged {counted}. The judge is a model: its "
        "probabilities are not labels that anybody verified, and no evaluation counts them as positives unless asked.",
        code_block(f'{cards.LOAD_HERE}"mixed", split="{split}")\nprint(dataset[0])', "python"),
        markdown_table(["field", "meaning"], [(f"`{name}`", meaning) for name, meaning in FIELDS.items()]),
    ]
    if isinstance(mixed.quality, str):
        return "\n\n".join([*blocks, f"How good the judge is, is unknown: {markdown_text(mixed.quality)}"])
    quality = mixed.quality
    rows = [(name, rate if isinstance(rate, str) else _percent(rate)) for name, rate in quality.rates.items()]
    rows.append(("Cohen's kappa", "undefined" if quality.kappa is None else f"{quality.kappa:.3f}"))
    rows.append(("expected calibration error", f"{100 * quality.calibration_error:.1f}"))
    blocks += [
        f"People judged {quality.pairs:,} pairs that were drawn, with known probabilities, among {quality.among:,} "
        f"unlabelled pairs that can change {code_span(quality.key)}. So over these {quality.among:,}, and no others, "
        f"the judge's labels (positive from {THRESHOLD:g} on) have, in percent with 95% intervals over the draw:",
        markdown_table(["measure", "value"], rows),
        markdown_table(
            ["probability", "judged by people", "share of the pairs", "mean probability", "people say yes"],
            [
                (
                    each.name,
                    each.asked,
                    *(f"{100 * value:.1f}%" for value in (each.weight, each.probability, each.positive)),
                )
                for each in quality.strata
            ],
        ),
        "If the judge was trained or calibrated on these answers, it looks better than it is.",
    ]
    return "\n\n".join(blocks)


def _percent(rate: Estimate) -> str:
    return f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
