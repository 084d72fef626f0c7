"""Baselines without training: one ``BASELINE`` per file, named after the file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.report import Report
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Split


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of baselines; each is an option of ``cxc-eccv baseline``."""

    vectors: Path | None = None
    features: Path | None = None
    model: str | None = None
    images: Path | None = None
    central_crop: float | None = None
    seed: int | None = None
    collection: str | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A model that needs no training, named after its file; ``summary`` is a sentence for the command line.

    ``run`` takes a split and inputs, and returns a report and its run, or None; it accepts the inputs in
    ``takes`` only.
    """

    name: str
    summary: str
    run: Callable[[Split, Inputs], tuple[Report, Run | None]]
    takes: tuple[str, ...] = ()

    def __call__(self, split: Split, inputs: Inputs) -> tuple[Report, Run | None]:
        """Score the baseline; InvalidOption for an input that it does not read."""
        for field in fields(inputs):
            if getattr(inputs, field.name) is not None and field.name not in self.takes:
                option, *takes = (f"--{name.replace('_', '-')}" for name in (field.name, *self.takes))
                advice = ", ".join(takes) or "no such options"
                raise InvalidOption(f"the baseline {self.name} does not take {option}; it takes {advice}")
        return self.run(split, inputs)


@cache
def baselines() -> Mapping[str, Baseline]:
    """Every declared baseline by name."""
    return find_declared(sys.modules[__name__], "BASELINE", Baseline)


def baseline_named(name: str) -> Baseline:
    """The baseline of this name; UnknownName suggests the nearest."""
    if name not in baselines():
        raise UnknownName("baseline", name, baselines())
    return baselines()[name]
