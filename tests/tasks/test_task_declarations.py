"""A task or a part that is declared incompletely or wrongly is refused where it is made."""

from dataclasses import replace

import pytest

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.tasks.cxc import TASK
from cxc_eccv.tasks.task import NotApplicable, Part


def read_nothing(split, direction):
    raise AssertionError("declaring reads nothing")


@pytest.mark.parametrize(
    ("declare", "error", "words"),
    [
        (lambda: Part("i2t"), InvalidOption, "part i2t has no judgments; give it ranks, labels"),
        (lambda: Part("sts", rated=read_nothing), UnknownName, "unknown direction of part sts 'sts'"),
        (lambda: replace(TASK, parts=()), InvalidOption, "task cxc: parts is empty"),
        (lambda: replace(TASK, citation=""), InvalidOption, "task cxc: citation is empty"),
        (lambda: replace(TASK, metrics=()), InvalidOption, "task cxc: metrics is empty"),
        (lambda: replace(TASK, parts=TASK.parts * 2), InvalidOption, "two of its parts have one name"),
        (lambda: replace(TASK, label_sources=("eccv_",)), UnknownName, "did you mean 'eccv'"),
    ],
)
def test_incomplete_declaration_is_refused(declare, error, words):
    with pytest.raises(error, match=words):
        declare()


def test_part_name_defaults_to_its_direction():
    part = Part("i2i", ranks=read_nothing, ratings=read_nothing)
    assert (part.direction, part.offers) == ("i2i", ("ranks", "ratings"))
    assert Part("sts", direction="t2t", rated=read_nothing).offers == ("rated",)


def test_what_a_part_lacks_cannot_be_read(sample_library):
    split = sample_library.split("test")
    with pytest.raises(UnknownName, match="unknown judgments of cxc/sts 'ranks'"):
        TASK.read("ranks", split, "sts")
    with pytest.raises(UnknownName, match="unknown part of cxc 'i2x'"):
        TASK.read("ranks", split, "i2x")
    with pytest.raises(NotApplicable, match="cxc/sts lists no positives"):
        TASK.judgments(split, "sts")
