"""Every --help there is: of commands, of tools and examples."""

import re
import runpy
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from cxc_eccv.cli.app import app, main

ROOT = Path(__file__).parents[2]
HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
SCRIPTS = sorted(
    path
    for folder in ("tools", "examples", "loading_scripts")
    for path in (ROOT / folder).rglob("*.py")
    if "ArgumentParser(" in path.read_text(encoding="utf-8")
)


def commands(group, *prefix):
    for name, command in group.commands.items():
        yield (*prefix, name)
        if hasattr(command, "commands"):
            yield from commands(command, *prefix, name)


COMMANDS = [(), *commands(typer.main.get_command(app))]
GROUPS = {("annotate",), ("train",), ("entailment",), ("rate-failures",)}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_begins_with_examples_as_typed(command, helped):
    if command[:1] == ("train",) and len(command) > 1 and not HAS_TRAIN:
        pytest.skip("the train extra is not installed")
    text = helped(main, "cxc-eccv", *command)
    assert " ".join(["cxc-eccv", *command]) in text
    for line in text.splitlines():
        assert len(line) <= 80 or line.strip().startswith("--"), line  # an option of Trainer is as long as it is
    if not command or command in GROUPS:
        return
    found = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    assert found.help.split("\n\n")[1].startswith("Examples:")  # what it does is one sentence
    typed = found.help.partition("Examples:\n```sh\n")[2].partition("\n```")[0].splitlines()
    assert {line.strip() for line in typed} <= {line.strip() for line in text.splitlines()}
    assert 1 <= sum(" ".join(["cxc-eccv", *command]) in line for line in typed) <= 3


@pytest.mark.skipif(version("rich") < "15", reason="rich before 15 draws a wider column of names")
def test_main_help_fits_a_screen_in_groups(helped):
    lines = helped(main, "cxc-eccv").splitlines()
    groups = [line.split("─ ")[1].split(" ─")[0] for line in lines if line.startswith("╭")]
    assert groups == ["Score", "Data", "Publish", "Extend labels", "Research"]
    assert len(lines) <= 40
    assert all(line[2] != " " for line in lines if line.startswith("│"))  # one line for each command


def test_main_help_begins_with_two_lines_that_run(helped, tmp_path, monkeypatch):
    lines = [line.strip() for line in helped(main, "cxc-eccv").partition("╭")[0].splitlines()]
    typed = [line for line in lines if line.startswith("cxc-eccv ")]
    assert len(typed) == 2
    monkeypatch.chdir(tmp_path)
    for line in typed:
        with pytest.raises(SystemExit) as ended:
            main(line.split()[1:])
        assert not ended.value.code


@pytest.mark.parametrize("command", [each for each in COMMANDS if each[:1] != ("train",)], ids=" ".join)
def test_help_shows_no_type_of_python(command, helped):
    assert not re.findall(r"<(?:list|str|bool|int|float|path)\b", helped(main, "cxc-eccv", *command))


@pytest.mark.skipif(not HAS_TRAIN, reason="the train extra is not installed")
@pytest.mark.parametrize("command", COMMANDS[1:], ids=" ".join)
def test_reference_page_has_every_option_of_help(command, helped):
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    if command in GROUPS:
        return
    section = page.partition(f"\n## `{' '.join(command)}`\n")[2].partition("\n## ")[0]
    shared = page.partition("\n## Options of every command\n")[2].partition("\n## ")[0]
    text = helped(main, "cxc-eccv", *command).partition("Options ─" if command[0] != "train" else "options:\n")[2]
    options = set(re.findall(r"^(?:│ \*? *|  )(--[a-z][a-z0-9-]+)", text, re.MULTILINE)) - {"--help"}
    assert [option for option in sorted(options) if f"`{option}`" not in section + shared] == []


def test_evaluate_names_the_command_behind_labels(helped):
    text = " ".join(re.sub("[│`]", " ", helped(main, "cxc-eccv", "evaluate")).split())
    assert "a file that cxc-eccv annotate merge wrote" in text
    assert "rankings only; not with --allow-missing" in text


def test_evaluate_begins_with_eight_options(helped):
    first = helped(main, "cxc-eccv", "evaluate").partition("─ Options ─")[2].partition("╰")[0]
    names = [line.split()[1] for line in first.splitlines() if line.startswith("│ --")]
    assert " ".join(names) == "--model --images --output --name --limit --tasks --metrics --split --help"


@pytest.mark.parametrize("command", [(), ("evaluate",)], ids=" ".join)
def test_h_is_short_for_help(command, helped, run):
    status, out, _ = run(*command, "-h")
    assert (status, out) == (0, helped(main, "cxc-eccv", *command))


def test_the_options_are_few():
    found = [typer.main.get_command(app)]
    for group in found:
        found += getattr(group, "commands", {}).values()
    commands = [command for command in found if not hasattr(command, "commands")]
    options = [one for command in commands for one in command.params if one.param_type_name == "option"]
    assert len(options) <= 280


def test_only_commands_reading_raw_files_have_data_dir(helped):
    assert "--data-dir" in helped(main, "cxc-eccv", "evaluate")
    assert "--data-dir" not in helped(main, "cxc-eccv", "report")


@pytest.mark.thorough
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_tool_and_example(path, helped, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    text = helped(lambda: runpy.run_path(str(path), run_name="__main__"), path)
    assert text.startswith("usage: ")
