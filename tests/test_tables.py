"""Tables in every form: all texts as they are, LaTeX that a parser of ours reads back."""

import re
from dataclasses import replace

import pytest

from cxc_eccv.tables import MISSING, Cell, Table, tables_to_latex, tables_to_markdown
from cxc_eccv.terminal import latex_text, visible

NASTY = r"\input{x} a_b^2 & 50% $x$ #1 ~ {y} <b>|[v1]* `t` --- \\[1em]"
HEADER = [("", ""), ("COCO 5K", "R@1"), ("COCO 5K", "R@5"), ("", "RSUM")]
TABLE = Table(
    HEADER,
    [
        ["section"],
        [NASTY, Cell("41.7", "± 0.4", "[-40.0, 43.0]", strong=True), "-1.5", MISSING],
        ["*[v1] other", Cell("40.0"), Cell("<0.001"), "417.0"],
    ],
    f"Of {NASTY}",
    "percent",
    ["a note"],
    ["a caution."],
    data=f"test split of {NASTY}",
)
SPOKEN = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textless": "<", "textgreater": ">"}
SPOKEN |= {"textbar": "|", "textemdash": MISSING, "pm": "±", "`": "`"}


def read_latex(text):
    """The text that LaTeX sets, with groups and commands taken apart; fails on whatever acts."""
    shown = ""
    depth = 0
    place = 0
    while place < len(text):
        char = text[place]
        if char == "\\":
            command = re.compile(r"\\([a-zA-Z]+|.)").match(text, place)[1]
            place += 1 + len(command)
            if command in "{}$&#%_":
                shown += command
            else:
                shown += SPOKEN[command]
            continue
        assert char not in "&#%_^~", text
        depth += {"{": 1, "}": -1}.get(char, 0)
        assert depth >= 0
        shown += "" if char in "{}" else char
        place += 1
    assert depth == 0
    return shown.replace("$-$", "-").replace("$±$", "±")


@pytest.mark.parametrize("text", [NASTY, "ViT-B--32", "plain", "-0.5 to +0.5 ± 0.1", "a—b", "[x]", "*", "ñ 模型"])
def test_latex_reads_as_it_was(text):
    assert read_latex(latex_text(text)) == text
    assert not latex_text(text).startswith(("[", "*"))
    assert "--" not in latex_text(text)


def test_a_latex_table_is_whole():
    lines = tables_to_latex([TABLE]).splitlines()
    text = "\n".join(lines)
    assert lines[:2] == [f"% Test split of {NASTY}", r"% In the preamble: \usepackage{booktabs,graphicx}"]
    for begin, end in ((r"\begin{table*}", r"\end{table*}"), (r"\begin{tabular}{lrrr}", r"\end{tabular}")):
        assert text.count(begin) == text.count(end) == 1
    rules = [lines.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert rules == sorted(rules)
    assert r"\multicolumn{2}{c}{COCO 5K}" in text
    for line in lines[rules[0] + 1 : rules[2]]:
        if line.endswith(r"\\"):
            spans = [int(number) for number in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            assert len(re.findall(r"(?<!\\)&", line)) + sum(spans) - len(spans) == 3, line
    assert r"\textbf{41.7} {\scriptsize $\pm$ 0.4}" in text
    assert r"{\tiny {[}$-$40.0, 43.0]}" in text
    assert r"& $-$1.5 & \textemdash{} \\" in text
    caption = re.search(r"^\\caption\{(.*)\}$", text, re.MULTILINE)[1]
    assert read_latex(caption) == f"Of {NASTY}, test split of {NASTY}, percent. a note. a caution."
    names = [line.split(" & ")[0] for line in lines if r"40.0 & " in line]
    assert [read_latex(name) for name in names] == ["*[v1] other"]


def test_plain_headings_stand_in_one_line():
    text = tables_to_latex([Table([("",), ("R@1",)], [["clip", "41.7"]], "Scores")])
    assert "\\toprule\n & R@1 \\\\\n\\midrule\nclip & 41.7 \\\\\n" in text


def test_latex_labels_are_short_and_unique():
    model = "clip.npz, labels coco + cxc + eccv + mine 1.0.0"
    titles = [f"{model} against blip.npz", f"{model} against siglip.npz", "Ranks, i2t", "Ränge", "评分", "x" * 99]
    text = tables_to_latex([Table([], [], title) for title in titles])
    labels = re.findall(r"\\label\{tab:([a-z0-9-]+)\}", text)
    long = "clip-npz-labels-coco-cxc-eccv-mine-1-0-0"
    assert labels == [f"{long}-1", f"{long}-2", "ranks-i2t", "r-nge", "table", "x" * 40]


def test_cut_latex_label_ends_with_a_noun():
    title = "Image-text retrieval under the links of COCO"
    assert r"\label{tab:image-text-retrieval-under-the-links}" in tables_to_latex([Table([], [], title)])


def test_latex_caption_names_doubted_model_alone():
    tables = [replace(TABLE, doubts={NASTY: ["Positives rank\nas in a random order."]}) for _ in range(2)]
    lines = tables_to_latex(tables).splitlines()
    assert [line for line in lines if "random order" in line] == [
        f"% Check {visible(NASTY)} first: Positives rank\\nas in a random order."
    ]
    captions = [read_latex(line[9:-1]) for line in lines if line.startswith(r"\caption{")]
    assert len(captions) == 2
    assert all(f"Check {NASTY} first (see the comment above the table)." in caption for caption in captions)
    assert "random order" in tables_to_markdown(tables)


def test_markdown_keeps_its_columns():
    text = tables_to_markdown([TABLE, TABLE])
    assert text.startswith("Test split of ")
    assert text.count(r"est split of \\input") == 1
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert "| **41.7** ± 0.4 [-40.0, 43.0] | -1.5 | — |" in text
    assert "COCO 5K R@5" in lines[0]
    assert "<b>" not in text
    assert text.endswith("a note\n\na caution.\n")
