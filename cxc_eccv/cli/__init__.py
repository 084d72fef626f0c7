"""The command line: a file per command, or for two of one subject; a command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, with the commands of every study that is there."""
    from cxc_eccv.cli.app import main as run  # late: a command of a study imports this package

    run(arguments)
