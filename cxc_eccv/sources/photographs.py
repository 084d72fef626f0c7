"""Downloads photographs into a folder; those that are there and whole are kept."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from PIL import Image
from tqdm import tqdm

from cxc_eccv.errors import DownloadFailed, InvalidOption
from cxc_eccv.sources.download import offline_reason, retrieve
from cxc_eccv.writing import locked, refuse_unwritable

DOWNLOADS_AT_ONCE = 8

MOST_FAILURES = 10
"""After so many the rest will hardly arrive: no photograph is asked for any more."""


def fetch_photographs(addresses: Mapping[str, Sequence[str]], folder: Path) -> Counter[str]:
    """Download JPEG files into a folder; return how many came from ``https`` and ``http``, and how many were kept.

    A file that is there and whole is kept, and no file is replaced. Files are written beside the folder first and
    moved to their place once they are checked, so that an interrupted download resumes where it stopped.

    Args:
        addresses: file name to addresses; each is tried if the one before does not deliver.
        folder: folder to write to.

    Raises:
        InvalidOption: downloads are off.
        DownloadFailed: some photographs did not arrive; the others are in the folder.
        WriteFailed: another process writes to the folder.
    """
    if reason := offline_reason(None):
        raise InvalidOption(f"downloads are off ({reason}). Unset the variable to download photographs.")
    refuse_unwritable(folder, addresses)
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    building = folder.resolve().with_name(f".{folder.resolve().name}.building")
    with locked(folder):
        shutil.rmtree(building, ignore_errors=True)  # what a killed process left
        for place in (folder, building):
            place.mkdir(parents=True, exist_ok=True)
        with (
            ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as threads,
            tqdm(total=len(addresses), desc="photographs", unit="image", disable=None) as bar,
        ):
            tasks = {threads.submit(_bring, folder / name, urls, building): name for name, urls in addresses.items()}
            try:
                for task in as_completed(tasks):
                    try:
                        outcomes[task.result()] += 1
                    except DownloadFailed as error:
                        failures.append(str(error))
                        if len(failures) == MOST_FAILURES:
                            break
                    bar.update()
            finally:
                threads.shutdown(cancel_futures=True)
                shutil.rmtree(building, ignore_errors=True)
    if failures:
        raise DownloadFailed(
            f"{folder} has {outcomes.total():,} of the {len(addresses):,} photographs. Run the same command again: it "
            f"downloads only those that are missing. The first error: {failures[0]}"
        )
    return outcomes


def _bring(file: Path, urls: Sequence[str], building: Path) -> str:
    """Bring a photograph; return the scheme of the address that delivered it, or ``kept``."""
    if _is_whole(file):
        return "kept"
    if file.exists() or file.is_symlink():
        raise DownloadFailed(f"{file} is there and no complete JPEG image; no file is replaced, so move it away")
    part = building / file.name
    faults = []
    for url in urls:
        try:
            retrieve(url, part)
            if not _is_whole(part):
                raise DownloadFailed("the server sent something other than a complete JPEG image")
        except DownloadFailed as error:
            part.unlink(missing_ok=True)
            faults.append(f"{url}: {error}")
        else:
            part.replace(file)
            return url.partition(":")[0]
    raise DownloadFailed("; ".join(faults))


def _is_whole(file: Path) -> bool:
    try:
        with Image.open(file, formats=["JPEG"]) as image:
            image.draft("L", (1, 1))  # decodes all bytes, but at an eighth of the size
            image.load()
    except Exception:  # Pillow's decoders raise errors of many unrelated kinds
        return False
    return True
