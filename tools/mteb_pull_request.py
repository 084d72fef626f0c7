"""Makes the files of mteb's pull request in a clone of mteb: the tasks, their import, and their statistics.

    python tools/mteb_pull_request.py cxc_eccv_mteb --dataset YOUR_NAME/cxc_eccv_mteb --revision COMMIT --mteb ../mteb

The folder is what ``cxc-eccv build --layout mteb --images val2014`` wrote, and COMMIT the commit of the dataset on the
Hub that it was pushed as. The clone needs mteb's dependencies only. A second call replaces the files of the first.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from pathlib import Path

MODULE = "cxc_eccv_caption_retrieval"
TASK_FOLDER = Path("mteb/tasks/retrieval/eng")
TASKS_FILE = "mteb_tasks.py"
TASK_CLASS = re.compile(r"^class ((?:ECCV|CxC)\w+)\(", re.MULTILINE)
COMMIT = re.compile(r"[0-9a-f]{40}")
DATASET = re.compile(r"[\w.-]+/[\w.-]+")


def main() -> None:
    """Make the files, and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what cxc-eccv build --layout mteb wrote")
    parser.add_argument("--dataset", required=True, help="its repository on the Hub")
    parser.add_argument("--revision", required=True, help="its commit there, 40 hexadecimal digits")
    parser.add_argument("--mteb", type=Path, required=True, help="clone of mteb")
    options = parser.parse_args()
    if not (options.folder / TASKS_FILE).is_file():
        parser.error(f"{options.folder} has no {TASKS_FILE}; name a folder that cxc-eccv build --layout mteb wrote")
    if not (options.mteb / TASK_FOLDER / "__init__.py").is_file():
        parser.error(f"{options.mteb} is no clone of mteb: it has no {TASK_FOLDER}/__init__.py")
    if not DATASET.fullmatch(options.dataset):
        parser.error(f"--dataset is {options.dataset!r}, expected a repository on the Hub: YOUR_NAME/cxc_eccv_mteb")
    if not COMMIT.fullmatch(options.revision):
        parser.error(f"--revision is {options.revision!r}, expected a commit of 40 hexadecimal digits; main would move")
    for path in make_files(options.folder, options.mteb, options.dataset, options.revision):
        print(path)


def make_files(folder: Path, clone: Path, dataset: str, revision: str) -> list[Path]:
    """Write all files into the clone; statistics first, because they fail where photographs are missing."""
    text = (folder / TASKS_FILE).read_text(encoding="utf-8")
    names = TASK_CLASS.findall(text)
    statistics = write_statistics(folder, clone, names)
    module = clone / TASK_FOLDER / f"{MODULE}.py"
    module.write_text(pin_dataset(text, dataset, revision), encoding="utf-8")
    listing = clone / TASK_FOLDER / "__init__.py"
    listing.write_text(add_import(listing.read_text(encoding="utf-8"), names), encoding="utf-8")
    return [module, listing, *statistics]


def pin_dataset(text: str, dataset: str, revision: str) -> str:
    """The tasks that read a commit of the dataset on the Hub in place of the folder around them."""
    text = re.sub(r"^_PATH = .*$", f'_PATH = "{dataset}"', text, flags=re.MULTILINE)
    text = re.sub(r"^_REVISION = .*$", f'_REVISION = "{revision}"', text, flags=re.MULTILINE)
    text = text.replace("def task_specific_scores(\n", "def task_specific_scores(  # noqa: PLR6301\n")  # as mteb's own
    return text.replace("from pathlib import Path\n\n", "")


def add_import(listing: str, names: list[str]) -> str:
    """The list of mteb's tasks with ours, in alphabetical order; unchanged if they are there."""
    if f"from .{MODULE} import" in listing:
        return listing
    added = "".join(f"    {name},\n" for name in sorted(names))
    before = next(found for found in re.finditer(r"^from \.(\w+) import", listing, re.MULTILINE) if found[1] > MODULE)
    listing = f"{listing[: before.start()]}from .{MODULE} import (\n{added})\n{listing[before.start() :]}"
    for name in names:
        listed = listing.index("__all__")
        entries = re.finditer(r'^    "(\w+)",$', listing[listed:], re.MULTILINE)
        following = next(entry for entry in entries if not entry[1].isupper() and entry[1] > name)
        place = listed + following.start()
        listing = f'{listing[:place]}    "{name}",\n{listing[place:]}'
    return listing


def write_statistics(folder: Path, clone: Path, names: list[str]) -> list[Path]:
    """Compute the statistics of each task from the folder, where the clone's own code keeps them."""
    sys.path.insert(0, str(clone.resolve()))
    import mteb  # type: ignore[import-untyped,unused-ignore]

    if not Path(mteb.__file__).is_relative_to(clone.resolve()):
        raise RuntimeError(f"mteb was imported from {mteb.__file__} before the clone {clone}")
    tasks = runpy.run_path(str(folder.resolve() / TASKS_FILE))
    written = []
    for name in names:
        task = tasks[name]()
        task.calculate_descriptive_statistics(overwrite_results=True)
        written.append(task.metadata.descriptive_stat_path)
    return written


if __name__ == "__main__":
    main()
