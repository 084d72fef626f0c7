"""The bar over the steps of a command: on a terminal alone, gone at the end, and never within a message."""

import io
import sys

from cxc_eccv.terminal import has_terminal, say, show_steps


class Terminal(io.StringIO):
    def isatty(self):
        return True


def open_terminal(monkeypatch):
    """Within a test, as pytest replaces the stream after each fixture."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def run_steps():
    with show_steps(2) as begin:
        begin("reading labels")
        say("cxc-eccv: warning: a message", err=True)
        begin("ranking")


def test_terminal_shows_each_step(monkeypatch):
    terminal = open_terminal(monkeypatch)
    run_steps()
    shown = terminal.getvalue().split("\r")
    assert any(line.startswith("reading labels |") and "| 0/2 [" in line for line in shown)
    assert any(line.startswith("ranking |") and "| 1/2 [" in line for line in shown)
    assert not shown[-1].strip(), "the bar is erased"


def test_message_has_its_own_line(monkeypatch):
    terminal = open_terminal(monkeypatch)
    run_steps()
    line = next(line for line in terminal.getvalue().split("\n") if "a message" in line)
    assert line.split("\r")[-1] == "cxc-eccv: warning: a message"


def test_pipe_shows_messages_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    run_steps()
    assert sys.stderr.getvalue() == "cxc-eccv: warning: a message\n"


def test_closed_stream_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert not has_terminal()
    with show_steps(1) as begin:
        begin("ranking")


def test_bar_can_be_refused(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with show_steps(1, progress=False) as begin:
        begin("ranking")
    assert terminal.getvalue() == ""
