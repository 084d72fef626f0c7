"""Summary of a build: what it wrote for each config and split, and what it left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets

from cxc_eccv.builders.config import BuildOptions, DatasetConfig
from cxc_eccv.sources.edition import describe_data


@dataclass(frozen=True, slots=True)
class Provenance:
    """The data that something was built from."""

    edition: str
    data_version: str  # of the catalog
    package_version: str
    fingerprint: str  # over the sources
    sources: Mapping[str, str]  # catalog name to sha256 of every raw file read
    modified: Mapping[str, Mapping[str, str]]  # expected and found sha256 of modified files
    labels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # facts of label files


@dataclass(frozen=True, slots=True)
class Shards:
    """The files of one config and split, with sizes on disk and hashes; ``num_bytes`` is the size in memory."""

    files: tuple[str, ...]
    num_rows: int
    num_bytes: int
    sizes: tuple[int, ...]
    sha256: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """One config and split of a build; with embedded images, ``features`` include the image column."""

    config: DatasetConfig
    split: str
    features: datasets.Features
    shards: Shards
    statistics: Mapping[str, Any]
    images_found: int = 0
    images_missing: int = 0


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A config and split that was not built; ``missing`` is the whole error of a missing raw file, or empty."""

    config: str
    split: str
    reason: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """Everything that a build wrote, by config and split in the order of the card, and what it left out."""

    output: Path
    options: BuildOptions
    provenance: Provenance
    splits: tuple[SplitSummary, ...]
    not_built: tuple[NotBuilt, ...]

    def __str__(self) -> str:
        """A summary of several lines for people."""
        data = {"edition": self.provenance.edition, "modified": self.provenance.modified}
        lines = [f"{self.output}: {describe_data({'data': data})}; data version {self.provenance.data_version}"]
        lines += [
            f"  modified data: {name} has sha256 {hashes['found']}, expected {hashes['expected']}"
            for name, hashes in self.provenance.modified.items()
        ]
        for part in self.splits:
            images = part.images_found + part.images_missing
            embedded = f", {part.images_found:,} of {images:,} images" if images else ""
            lines.append(f"  {part.config.name}/{part.split}: {part.shards.num_rows:,} rows{embedded}")
        lines += [f"  left out of {'/'.join(place)}: {rule}: {n:,}" for (*place, rule), n in self.left_out.items()]
        lines += [
            f"  kept and flagged in {'/'.join(place)}: conflicting sources: {n:,}"
            for place, n in self.conflicts.items()
        ]
        reasons: dict[str, list[str]] = {}
        for skipped in self.not_built:
            reasons.setdefault(skipped.reason, []).append(f"{skipped.config}/{skipped.split}")
        lines += [f"  not built ({reason}): {', '.join(names)}" for reason, names in reasons.items()]
        return "\n".join(lines)

    @property
    def files_used(self) -> Mapping[str, str]:
        """Catalog name to sha256 of every raw file read."""
        return self.provenance.sources

    @property
    def configs(self) -> dict[str, list[SplitSummary]]:
        """Config names to their splits."""
        names = dict.fromkeys(part.config.name for part in self.splits)
        return {name: [part for part in self.splits if part.config.name == name] for name in names}

    @property
    def conflicts(self) -> dict[tuple[str, str], int]:
        """(config, split) to the number of judgments on which sources contradict each other; the rows contain them."""
        counts: Counter[tuple[str, str]] = Counter()
        for part in self.splits:
            for group in part.statistics["groups"].values():
                flags = (group["columns"][name] for name in group["columns"] if name.rpartition(".")[2] == "conflict")
                counts[part.config.name, part.split] += sum(flag["true"] for flag in flags)
        return dict(+counts)

    @property
    def left_out(self) -> dict[tuple[str, str, str], int]:
        """(config, split, rule) to the number left out, including images that were not found."""
        counts: dict[tuple[str, str, str], int] = {}
        for part in self.splits:
            place = (part.config.name, part.split)
            counts |= {(*place, rule): number for rule, number in part.statistics["left_out"].items()}
            if part.images_missing:
                counts[(*place, "images not found, null in the rows")] = part.images_missing
        return counts
