"""Runs the split jobs of a build, one after the other or in several processes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from tqdm import tqdm

from cxc_eccv.builders.split_build import Outcome, SplitJob, build_split, run_job
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.library import Library

__all__ = ["run_jobs"]


def run_jobs(
    jobs: list[SplitJob], library: Library, num_proc: int, progress: bool
) -> tuple[list[Outcome], dict[str, str]]:
    """What came of every config and split, and catalog name to sha256 of every raw file read.

    Args:
        jobs: one per split.
        library: the raw sources; other processes open their own.
        num_proc: processes.
        progress: show a bar.

    Raises:
        InvalidOption: another process died.
    """
    total = sum(len(job.configs) for job in jobs)
    with tqdm(total=total, desc="build", unit="config", disable=not progress) as bar:
        run = _run_here if num_proc == 1 or len(jobs) < 2 else _run_in_processes
        return run(jobs, library, num_proc, bar)


def _run_here(
    jobs: list[SplitJob], library: Library, _num_proc: int, bar: tqdm[Any]
) -> tuple[list[Outcome], dict[str, str]]:
    outcomes = []
    for job in jobs:
        for outcome in build_split(job, library):
            outcomes.append(outcome)
            bar.update()
    return outcomes, library.files_used()


def _run_in_processes(
    jobs: list[SplitJob], library: Library, num_proc: int, bar: tqdm[Any]
) -> tuple[list[Outcome], dict[str, str]]:
    # Not forked: a forked child may inherit a lock that a thread of Arrow holds.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(num_proc, len(jobs)), mp_context=context) as pool:
        futures = [pool.submit(run_job, job) for job in jobs]
        try:
            for future in as_completed(futures):
                bar.update(len(future.result()[0]))
        except BrokenProcessPool:
            raise InvalidOption(
                f"num_proc={num_proc}: a process died. Either memory ran out, or a script calls build_folder outside "
                'of `if __name__ == "__main__":`. One process (num_proc=1) needs neither.'
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    files = library.files_used()
    for future in futures:
        files |= future.result()[1]
    return [outcome for future in futures for outcome in future.result()[0]], files
