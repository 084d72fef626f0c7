"""What a terminal gets: tables that fit it with every number whole, and no character that acts on it."""

import io
import re

import pytest
from report_samples import near_run
from rich.console import Console

from cxc_eccv.builders.dataset_config import dataset_configs
from cxc_eccv.cli.encode import say_once
from cxc_eccv.comparison.published import eccv_caption_table
from cxc_eccv.judgments.evidence.source import official_sources
from cxc_eccv.registry import metrics, task, tasks
from cxc_eccv.report import Report
from cxc_eccv.report.console import render
from cxc_eccv.report.page_content import Page
from cxc_eccv.runs import save_embeddings
from cxc_eccv.sources.download import find_catalog, state
from cxc_eccv.sts import StsReport
from cxc_eccv.sts.correlations import Row
from cxc_eccv.tables import Table, tables_to_console
from cxc_eccv.terminal import print_shown, say
from cxc_eccv.types import Result
from cxc_eccv.types.provenance import Provenance

pytestmark = pytest.mark.thorough

KEYS = [*(key for key in eccv_caption_table().keys if key.count("/") == 2), "cxc/t2t/median_rank"]
WIDTHS = (60, 80, 120)
LONG = "a-very-long-name-of-a-model-" * 8 + "end"
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")
ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]")


@pytest.fixture
def embeddings(sample_library, tmp_path):
    save_embeddings(tmp_path / "model.npz", near_run(sample_library))
    return tmp_path / "model.npz"


def numbers(text):
    """Every number of a text, however its lines are laid out."""
    return sorted(NUMBER.findall(text))


def check_fits(text, width, piped):
    """No cell is cut, no line is longer than the terminal, and every number of the piped output is there, whole."""
    text, piped = (re.sub(r"\x1b\[[\d;]*m", "", one) for one in (text, piped))
    assert "…" not in text
    too_long = [line for line in text.splitlines() if len(line.rstrip()) > width]
    assert not too_long, too_long[0]
    missing = set(numbers(piped)) - set(numbers(text))
    assert not missing, f"cut or left out at {width} columns: {missing}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "EMBEDDINGS", "--data-dir", "sample"),
        ("compare", "OLD", "NEW"),
        ("compare", "OLD", "NEW", "--all-metrics"),
        ("compare", "OLD", "NEW", "--all-metrics", "--name", f"A{LONG}", "--name", f"B{LONG}"),
        ("compare", "NEW", "--published"),
        ("compare", "OLD", "NEW", "NEWER", "--published", "--name", f"A{LONG}", "--name", f"B{LONG}", "--name", "C"),
    ],
    ids=["evaluate", "compare", "all-metrics", "long-names", "published", "several-published"],
)
def test_command_tables_fit_with_whole_numbers(arguments, run, embeddings, write):
    places = {
        name.upper(): write(name, share, keys=KEYS) for name, share in (("old", 0.4), ("new", 0.6), ("newer", 0.7))
    }
    places["EMBEDDINGS"] = embeddings
    arguments = [places.get(argument, argument) for argument in arguments]
    status, piped, err = run(*arguments)
    assert (status, "…" in piped) == (0, False), err
    for width in WIDTHS:
        _, text, _ = run(*arguments, width=width)
        check_fits(text, width, piped)
    for name in (LONG,) if LONG in "".join(map(str, arguments)) else ():
        assert name in "".join(text.split())


def test_a_pipe_gets_every_row_on_one_line(run, embeddings, write):
    """Whatever the width of the terminal behind it."""
    _, out, _ = run("evaluate", embeddings, "--data-dir", "sample", "--tasks", "cxc")
    rows = [line.split() for line in out.splitlines() if " R@1 " in line]
    assert [len(row) for row in rows] == [2 + 2 * 3] * 2
    _, out, _ = run("compare", write("old", 0.4), write("new", 0.6))
    assert re.search(r"  i2t mAP@R +\d+\.\d +\d+\.\d +\+\d+\.\d +\[\+\d+\.\d, \+\d+\.\d\] +[<≤]?0\.\d+ \* ", out)


GROUPS = ("tasks", "metrics", "configs", "sources")
"""Groups of the list before the files."""


@pytest.mark.parametrize("width", [None, 60, 80])
def test_list_has_a_fitting_line_per_item(run, width):
    files = [name for name, entry in find_catalog("sample").entries.items() if state(entry, "sample") == "in mirror"]
    every = [*tasks(), *metrics(), *dataset_configs(), *official_sources(), *files]
    _, out, _ = run("list", "--data-dir", "sample", width=width)
    lines = out.splitlines()
    assert max(map(len, lines)) <= (width or 200)
    assert sorted(line.split()[0] for line in lines if line.startswith("  ")) == sorted(every)
    assert lines.count("") == 6  # one below each group, and below the count of other files
    groups = [run("list", group, "--data-dir", "sample", width=width)[1] for group in GROUPS]
    assert out.startswith("".join(group.partition("cxc-eccv list NAME")[0] for group in groups))
    n_others = len(find_catalog("sample").entries) - len(files)
    assert lines.count(f"{n_others} other files are not part of the sample edition.") == 1
    assert "not in edition" not in out


def test_list_shows_and_wraps_all_facts_of_items(run):
    _, piped, _ = run("list", "cxc")
    assert task("cxc").description in piped
    _, out, _ = run("list", "cxc", width=60)
    assert max(map(len, out.splitlines())) <= 60
    assert " ".join(out.split()) == " ".join(piped.split())
    titles = [line for line in run("list", "eccv_caption")[1].splitlines() if line[:1].isalpha()]
    assert titles == ["task eccv_caption", "config eccv_caption"]
    text = run("list", "recall_at_k")[1]
    assert "  title        R@K\n" in text
    assert "Args" not in text
    text = run("list", "karpathy_coco", "--data-dir", "sample")[1]
    entry = find_catalog("sample").entries["karpathy_coco"]
    for fact in (entry.path, entry.title, entry.licence, entry.sha256, "in mirror"):
        assert fact in text
    text = run("list", "cxc")[1]
    assert "source cxc" in text
    assert official_sources()["cxc"].description in text
    status, _, err = run("list", "recal_at_k")
    assert status == 2
    assert "did you mean 'recall_at_k'?" in err


def test_the_widest_report_there_is():
    """Four directions with intervals of whole percents and ranks of five digits, under names that are too long."""
    directions = ("i2t", "t2i", "t2t", "i2i")
    kinds = ("sts", "sis", "sits")
    rows = [Result(LONG, d, "recall_at_1", 1.0, 25_000, low=1.0, high=1.0, ties=24_999) for d in directions]
    rows += [Result(LONG, d, LONG, 111.11, 25_000, low=111.11, high=111.11) for d in directions]
    rows += [Result("cxc", kind, "bootstrap_spearman", -0.757, 25_000, low=-0.76, high=-0.75) for kind in kinds]
    report = Report(tuple(rows), {LONG: LONG})
    for width in (20, 40, *WIDTHS):
        console = Console(width=width, file=io.StringIO(), force_terminal=True, no_color=True)
        report.show(console)
        text = console.file.getvalue()
        assert "…" not in text
        assert text.count("[100.0, 100.0]") == 4
        assert text.count("[-0.760, -0.750]") == 3
        assert "24,999" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_sts_tables_fit(width):
    rows = [Row("answers-students-and-more", -0.634, -0.62, 123_750, -0.689, -0.675, 12_345), Row("mean", 1, 1, 750)]
    report = StsReport({"sts2015": rows}, Provenance())
    shown = [Console(width=width, file=io.StringIO(), force_terminal=True, no_color=True), Console(file=io.StringIO())]
    for console in shown:
        report.show(console)
    text, piped = (console.file.getvalue() for console in shown)
    check_fits(text, width, piped)
    assert "-68.9 to -67.5" in text


def test_section_titles_stay_whole_beside_shorter_names():
    """On a terminal, and in a pipe, where the first column is as wide as it must be."""
    table = Table([("",), ("value",)], (("R-Precision of all",), ("far", "1.0"), ("near", "2.0")))
    for width in (24, 1_000):
        with (console := Console(width=width)).capture() as captured:
            console.print(tables_to_console([table]))
        assert "R-Precision" in captured.get()


def test_columns_that_do_not_fit_continue_below():
    """The names of the rows are repeated before the columns that follow."""
    console = Console(width=36)
    table = Table(
        [("",), *((name,) for name in "abcd")], (("first", *["12,345.6"] * 4), ("section",), ("second", *["-1"] * 4))
    )
    with console.capture() as shown:
        console.print(tables_to_console([table]))
    lines = [line.split() for line in shown.get().splitlines() if line.strip()]
    assert [line for line in lines if line[0] in "abcd"] == [["a", "b"], ["c", "d"]]
    assert [line for line in lines if line[0] == "first"] == [["first", "12,345.6", "12,345.6"]] * 2


NAME = "clip[v1] [red]x[/red] :smile: \x1b[31mred\x07\r\n\u202eevil"
SHOWN = "clip[v1] [red]x[/red] :smile: \\x1b[31mred\\x07\\r\\n\\u202eevil"


def test_model_names_are_shown_without_control_characters(run, write):
    """Markup in a name is shown as text."""
    status, out, _ = run(
        "compare", write("old", 0.4), write("new", 0.6), "--name", NAME, "--name", "b[v2]", "--published"
    )
    assert status == 0
    assert f"b[v2] against {SHOWN}" in out
    assert not ACTING.search(out)


def test_tasks_and_reasons_of_a_report_are_texts():
    row = Result(NAME, NAME, NAME, 0.5, 2, low=0.4, high=0.6)
    console = Console(width=400)
    with console.capture() as shown:
        console.print(render(Page(Report((row,), {NAME: NAME}))))
    text = re.sub(r"\x1b\[[\d;]*m", "", shown.get())
    assert not ACTING.search(text)
    assert text.count("[31mred") == text.count("\\x1b[31mred") == 5
    assert f"Not scored: {SHOWN}: {SHOWN}" in text


@pytest.mark.parametrize(
    "arguments",
    [("evaluate", "FILE"), ("report", "FILE"), ("compare", "FILE", "FILE2")],
    ids=["error", "report", "compare"],
)
def test_messages_do_not_act_on_the_terminal(arguments, run, tmp_path):
    arguments = [argument.replace("FILE", f"{tmp_path}/no\x1b[2J\x9b\x07") for argument in arguments]
    status, out, err = run(*arguments)
    assert status == 2
    assert "no\\x1b[2J\\x9b\\x07" in out + err
    assert not ACTING.search(out + err)


def test_files_that_were_written_are_shown_as_text(run, write, tmp_path):
    _, out, _ = run("compare", write("old", 0.4), write("new", 0.6), "--output", tmp_path / "out\x1b[2J\udcff")
    assert "out\\x1b[2J\\udcff/:\n  compare.html" in out
    assert not ACTING.search(out)


def test_what_is_said_keeps_its_lines(capsys):
    say("one\ntwo\rthree\u2028four")
    say("five", err=True)
    assert capsys.readouterr() == ("one\ntwo\\rthree\\u2028four\n", "five\n")


def test_only_the_first_torchrun_process_prints(monkeypatch, capsys):
    for rank, said in (("1", ""), ("0", "done\n")):
        monkeypatch.setenv("RANK", rank)
        say_once("done")
        assert capsys.readouterr().out == said


def test_a_warning_is_a_message_too(run, embeddings, monkeypatch):
    import warnings

    from cxc_eccv import evaluation

    def warn(*_, **__):
        warnings.warn("a\x1b[2Jb", stacklevel=1)
        return Report(())

    monkeypatch.setattr(evaluation, "evaluate_request", warn)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    warnings.simplefilter("always")
    assert "cxc-eccv: warning: a\\x1b[2Jb" in run("evaluate", embeddings, "--data-dir", "sample")[2]


def test_print_shown_leaves_a_terminal_console_unchanged():
    console = Console(width=33, file=io.StringIO(), force_terminal=True)
    print_shown("x" * 10, console)
    assert console.file.getvalue() == "x" * 10 + "\n"


def test_list_of_sources_names_their_queries(run):
    out = run("list", "sources", "--data-dir", "sample", width=80)[1]
    names = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert names == list(official_sources())
    assert "…" not in out
    assert "for the queries of rated pairs" in out
