"""The tasks of sentence similarity: their names, and the scored pairs of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pyarrow as pa

from cxc_eccv.errors import UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SentencePairs, read_semeval, read_sick, read_stsb

SUBTASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sts2012": ("msrpar", "msrvid", "smteuroparl", "onwn", "smtnews"),
        "sts2013": ("fnwn", "headlines", "onwn"),
        "sts2014": ("deft_forum", "deft_news", "headlines", "images", "onwn", "tweet_news"),
        "sts2015": ("answers_forums", "answers_students", "belief", "headlines", "images"),
        "sts2016": ("answer_answer", "headlines", "plagiarism", "postediting", "question_question"),
    }
)
"""Task to its subtasks, in the order of the paper's Table 1; the licence of SMT of 2013 forbids its use."""

SUPERVISED_FILES: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {"stsb": ("stsb_train", "stsb_dev", "stsb_test"), "sick": ("sick_train", "sick_trial", "sick_test")}
)
"""Task with a classifier to its files: training, development, test."""

STS_TASKS = (*SUBTASKS, *SUPERVISED_FILES)


def task_names(names: Iterable[str] | None) -> list[str]:
    """The named tasks without repeats, by default all; raises UnknownName."""
    wanted = list(dict.fromkeys(STS_TASKS if names is None else names))
    for name in wanted:
        if name not in STS_TASKS:
            raise UnknownName("STS task", name, STS_TASKS)
    return wanted


def subtask_pairs(library: Library, task: str, subtask: str) -> SentencePairs:
    """The scored pairs of a subtask of STS 2012-2016."""
    if (task, subtask) != ("sts2012", "msrvid"):
        return library.read(f"{task}_{subtask}", read_semeval)
    parts = [library.read(name, read_stsb).of("MSRvid", "2012test") for name in SUPERVISED_FILES["stsb"]]
    return SentencePairs(pa.concat_tables([part.table for part in parts]), sum(part.unscored for part in parts))


def supervised_pairs(library: Library, task: str) -> tuple[SentencePairs, SentencePairs, SentencePairs]:
    """Training, development and test pairs of the STS Benchmark or of SICK."""
    train, dev, test = (
        library.read(name, read_stsb if task == "stsb" else read_sick) for name in SUPERVISED_FILES[task]
    )
    return train, dev, test


def task_texts(library: Library, task: str) -> list[str]:
    """The distinct sentences of all subtasks or splits of a task, in the order of its files."""
    subtasks = SUBTASKS.get(task)
    parts = [subtask_pairs(library, task, name) for name in subtasks] if subtasks else supervised_pairs(library, task)
    texts: list[str] = []
    for part in parts:
        texts += part.left
        texts += part.right
    return list(dict.fromkeys(texts))
