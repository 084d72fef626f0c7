"""The readers of STS, the STS Benchmark and SICK: their rows, and what a broken file gets."""

import pytest

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.sentence_pairs import read_semeval, read_sick, read_stsb

SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def file_of(folder, *lines, end="\n"):
    path = folder / "pairs.tsv"
    path.write_text("".join(line + end for line in lines), encoding="utf-8", newline="")
    return path


def test_rows_without_a_score_are_counted(tmp_path):
    pairs = read_semeval(file_of(tmp_path, "4.4\tA dog.\tTwo “dogs”.", "\tA cat.\tA bus.", "0\tx\ty"))
    assert (pairs.left, pairs.right, pairs.scores.tolist(), pairs.unscored) == (
        ["A dog.", "x"],
        ["Two “dogs”.", "y"],
        [4.4, 0.0],
        1,
    )


def test_separators_of_text_and_quotes_are_text(tmp_path):
    pairs = read_semeval(file_of(tmp_path, '1\t"It\'\x85s\u2028 a\tb"'))
    assert (pairs.left, pairs.right) == (["\"It'\x85s\u2028 a"], ['b"'])


def test_the_stsb_knows_the_subtask_of_a_row(tmp_path):
    rows = (
        "main-captions\tMSRvid\t2012test\t0001\t5.000\tA plane.\tAn air plane.",
        "main-news\theadlines\t2013\t0002\t1.000\tx\ty\thttp://a\thttp://b",
    )
    pairs = read_stsb(file_of(tmp_path, *rows))
    assert pairs.scores.tolist() == [5.0, 1.0]
    assert pairs.of("MSRvid", "2012test").left == ["A plane."]
    assert pairs.of("MSRvid", "2012train").left == []


def test_sick_is_read_with_either_line_ending(tmp_path):
    pairs = read_sick(file_of(tmp_path, SICK, "6\tno boy\ta group\t3.3\tNEUTRAL", end="\r\n"))
    assert (pairs.right, pairs.scores.tolist()) == (["a group"], [3.3])


@pytest.mark.parametrize(
    ("read", "lines", "place", "found"),
    [
        (read_semeval, ["1\ta"], "line 1", "2 cells"),
        (read_semeval, ["1\ta\tb", "5.1\ta\tb"], "line 2", "score '5.1'"),
        (read_semeval, ["nan\ta\tb"], "line 1", "score 'nan'"),
        (read_semeval, ["high\ta\tb"], "line 1", "score 'high'"),
        (read_semeval, ["\ta\tb"], "", "no scored pair"),
        (read_stsb, ["g\tf\ty\t1\t5\ta"], "line 1", "6 cells"),
        (read_stsb, ["g\tf\ty\t1\t-1\ta\tb"], "line 1", "score '-1'"),
        (read_sick, ["1\ta\tb\t3\tNEUTRAL"], "line 1", "columns"),
        (read_sick, [SICK, "1\ta\tb\t0.5\tNEUTRAL"], "line 2", "score '0.5'"),
        (read_sick, [SICK], "", "no scored pair"),
    ],
)
def test_broken_files(tmp_path, read, lines, place, found):
    with pytest.raises(MalformedSource) as error:
        read(file_of(tmp_path, *lines))
    assert error.value.place == place
    assert found in str(error.value)
