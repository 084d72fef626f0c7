"""A step of a project killed where it writes: a process per place, and what each leaves, for the test that reads it."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pyarrow as pa

from cxc_eccv.runs import load_run
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.annotation.merging import merge_labels
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.proposing import ProposalOptions

EVENTS = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")


def take_step(folder, step, files, library):
    """``propose``, ``import`` or ``merge``, as the command line takes it."""
    if step == "propose":
        if not (folder / "rounds.jsonl").exists() or not (folder / "rounds.jsonl").stat().st_size:
            project = Project.create(folder, library, name="ours")
            project.propose({"first": load_run(files[0])}, ProposalOptions(budget=10), size=5)
    elif step == "import":
        Project.open(folder, library).add_answers(files)
    elif step == "merge":
        merge_labels(Project.open(folder, library))


def die_at(place, folder):
    """Kill this process before its ``place``-th change of a file or folder within ``folder``, and beside it.

    Making a lock or a folder that is there changes nothing that the next change does not find as well.
    """
    seen = 0

    def look(event, arguments):
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        path = Path(str(arguments[0])) if event in EVENTS or writes else Path()
        if str(folder) in str(path) and path.suffix != ".lock" and not (event == "os.mkdir" and path.is_dir()):
            seen += 1
            if seen > place:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def run_in_child(act):
    """Exit status of a process that does it."""
    child = os.fork()
    if not child:
        act()
        os._exit(0)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    pa.set_cpu_count(1)
    before = Path(sys.argv[1])
    step = sys.argv[2]
    work = Path(sys.argv[3])
    files = list(map(Path, sys.argv[4:]))
    library = Library("sample")
    found = []
    first = work / "first" / "project"
    shutil.copytree(before, first) if before.exists() else first.parent.mkdir(parents=True)
    take_step(first, step, files, library)  # reads all that the children need, so that they need not
    while not found or found[-1]["status"]:
        place = len(found)
        folder = work / str(place) / "project"
        shutil.copytree(before, folder) if before.exists() else folder.parent.mkdir(parents=True)

        def die_on_the_way(folder=folder, place=place):
            die_at(place, folder)
            take_step(folder, step, files, library)

        def go_on(folder=folder):
            take_step(folder, step, files, library)

        status = run_in_child(die_on_the_way)
        left = folder.with_name("left")
        shutil.copytree(folder, left) if folder.exists() else left.mkdir()
        found.append({"status": status, "again": run_in_child(go_on)})
    (work / "found.json").write_text(json.dumps(found), encoding="utf-8")
