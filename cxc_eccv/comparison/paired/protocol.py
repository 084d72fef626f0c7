"""What two reports must share to be compared: the data, the split, and each metric's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from cxc_eccv.comparison.paired.scored_report import ScoredReport
from cxc_eccv.errors import InvalidOption

__all__ = ["check_comparable", "notes_on"]

DATA_FACTS = ("edition", "version")


def check_comparable(baseline: ScoredReport, other: ScoredReport) -> None:
    """Refuse two reports of different data, splits or protocols.

    The fingerprints of the data must be equal, or the raw files of one report must be among those of the other with
    the same hashes (a text-only model needs fewer files than one of both modalities).

    Raises:
        InvalidOption: says what differs, with both values.
    """
    data = [_data(one) for one in (baseline, other)]
    for fact in DATA_FACTS:
        _check_equal(f"the data's {fact}", baseline, other, *(one.get(fact) for one in data))
    _check_equal("the split", baseline, other, *(one.report.provenance.get("split") for one in (baseline, other)))
    if data[0]["fingerprint"] != data[1]["fingerprint"]:
        _check_files(baseline, other, *data)
    parameters = [{row.key: dict(row.parameters) for row in one.report.results} for one in (baseline, other)]
    for key in parameters[0]:
        if key in parameters[1]:
            _check_equal(f"parameters of {key}", baseline, other, *(one[key] for one in parameters))


def notes_on(baseline: ScoredReport, other: ScoredReport) -> list[str]:
    """Differences that do not stand in the way of a comparison but are worth knowing.

    They are the package's version, the similarity, which is the model's own choice, and how many of the pairs that a
    metric needs are judged, which depends on what a model retrieves.
    """
    notes = [
        f"modified data: {name}, sha256 {hashes['found']}, expected {hashes['expected']}"
        for name, hashes in (_data(baseline).get("modified") or {} | (_data(other).get("modified") or {})).items()
    ]
    for title, path in (("package version", ("package", "version")), ("similarity", ("similarity",))):
        values = [_entry(one.report.provenance, path) for one in (baseline, other)]
        if values[0] != values[1]:
            notes.append(f"{title}: {values[0]} for {baseline.name}, {values[1]} for {other.name}")
    coverage = [{row.key: row.coverage for row in one.report.results} for one in (baseline, other)]
    for key, share in coverage[0].items():
        others = coverage[1].get(key)
        if share is not None and others is not None and share != others:
            notes.append(
                f"{key}: {share:.1%} of the pairs are judged for {baseline.name}, {others:.1%} for {other.name}"
            )
    return notes


def _data(one: ScoredReport) -> Mapping[str, Any]:
    data: Mapping[str, Any] = one.report.provenance.get("data") or {}
    if not data.get("fingerprint"):
        raise InvalidOption(
            f"{one.name}: its report does not say which data it was computed from, so nothing can be compared with "
            "it. Evaluate the model again with this version."
        )
    return data


def _check_files(baseline: ScoredReport, other: ScoredReport, data: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    files = [one.get("files") or {} for one in (data, more)]
    shared = files[0].keys() & files[1].keys()
    for name in sorted(shared):
        _check_equal(f"the hash of {name}", baseline, other, *(one[name] for one in files))
    if not shared or (files[0].keys() - shared and files[1].keys() - shared):
        _refuse("the data's fingerprint", baseline, other, data["fingerprint"], more["fingerprint"])


def _check_equal(what: str, baseline: ScoredReport, other: ScoredReport, found: object, wanted: object) -> None:
    if found != wanted:
        _refuse(what, baseline, other, found, wanted)


def _refuse(what: str, baseline: ScoredReport, other: ScoredReport, found: object, wanted: object) -> NoReturn:
    raise InvalidOption(
        f"{baseline.name} and {other.name} cannot be compared: {what} is {found!r} for {baseline.name} and {wanted!r} "
        f"for {other.name}. Evaluate both on the same files with the same options."
    )


def _entry(facts: Mapping[str, Any], path: tuple[str, ...]) -> object:
    found: Any = facts
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
