"""Downloads photographs into a folder; those that are there and whole are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from PIL import Image
from tqdm import tqdm

from cxc_eccv.errors import DownloadFailed, InvalidOption
from cxc_eccv.sources.download import offline_reason, retrieve
from cxc_eccv.writing import locked, refuse_unwritable

AT_ONCE = 8

MOST_FAILURES = 10
"""After so many the rest will hardly arrive: no photograph is asked for any more."""


def fetch_photographs(addresses: Mapping[str, str], folder: Path) -> tuple[int, int]:
    """Download JPEG files, file name to address, into a folder; return how many were downloaded and how many kept.

    A file that is there and whole is kept. Any other is written under another name first and moved to its place once it
    is checked, so that an interrupted download resumes where it stopped.

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
    with locked(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with (
            ThreadPoolExecutor(AT_ONCE) as threads,
            tqdm(total=len(addresses), desc="photographs", unit="image", disable=None) as bar,
        ):
            tasks = {threads.submit(_bring, folder / name, url): url for name, url in addresses.items()}
            try:
                for task in as_completed(tasks):
                    try:
                        outcomes[task.result()] += 1
                    except DownloadFailed as error:
                        failures.append(f"{tasks[task]}: {error}")
                        if len(failures) == MOST_FAILURES:
                            break
                    bar.update()
            finally:
                threads.shutdown(cancel_futures=True)
    if failures:
        raise DownloadFailed(
            f"{folder} has {outcomes.total():,} of the {len(addresses):,} photographs. Run the same command again: it "
            f"downloads only those that are missing. The first error: {failures[0]}"
        )
    return outcomes["downloaded"], outcomes["kept"]


def _bring(file: Path, url: str) -> str:
    if _is_whole(file):
        return "kept"
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    retrieve(url, part)
    if not _is_whole(part):
        part.unlink()
        raise DownloadFailed("the server sent something other than a complete JPEG image")
    part.replace(file)
    return "downloaded"


def _is_whole(file: Path) -> bool:
    try:
        with Image.open(file, formats=["JPEG"]) as image:
            image.draft("L", (1, 1))  # decodes all bytes, but at an eighth of the size
            image.load()
    except Exception:  # Pillow's decoders raise errors of many unrelated kinds
        return False
    return True
