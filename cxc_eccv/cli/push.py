"""``cxc-eccv push``: a built dataset, or a metric's Space, to the Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.terminal import say


def push(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="Folder of `cxc-eccv build`, or with labels; for a Space a metric, as map_at_r.")
    ],
    repo: Annotated[str, typer.Argument(help="Repository on the Hub: owner/name.")],
    repo_type: Annotated[str, typer.Option("--type", help="dataset or space.")] = "dataset",
    yes: Annotated[bool, typer.Option("--yes", help="Upload. Without it nothing is sent.")] = False,
    private: Annotated[bool | None, typer.Option(help="Visibility of a new repository. Default: the owner's.")] = None,
    framework: Annotated[
        str, typer.Option(help="evaluation_framework of eval.yaml, a name from the Hub's list.")
    ] = "cxc_eccv",
    all_tasks: Annotated[
        bool, typer.Option("--all-tasks", help="Declare every metric in eval.yaml, not the main ones alone.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds of silence after which the Hub is asked again.")] = 120.0,
) -> None:
    """Upload a folder with its card and, for a dataset, the leaderboard's eval.yaml.

    Shows what is new, changed, removed and unchanged, and sends nothing without --yes. One commit holds everything;
    what the Hub has is not sent again, so an upload that failed goes on when the command is repeated. What is written
    by hand in the card on the Hub, outside the marked part, is kept; its examples load the dataset by its name.

    Of each task, eval.yaml declares the main metrics, those of ECCV Caption first. What is left to do by hand until the
    Hub shows a leaderboard is listed after the upload.

    Of a folder with labels, as of annotate merge, the label files and the card are sent, and nothing of what people
    answered. `--labels owner/name` loads them.

    The token is that of `hf auth login` or HF_TOKEN.

    Examples:
      cxc-eccv push cxc_eccv_data org/cxc_eccv
      cxc-eccv push cxc_eccv_data org/cxc_eccv --yes
      cxc-eccv push my_labels org/my_labels --yes
      cxc-eccv push map_at_r org/map_at_r --type space --yes
    """
    from cxc_eccv.hub.client import Access
    from cxc_eccv.hub.upload import plan_push

    if repo_type == "space" and not folder.exists() and folder.name == str(folder):
        from cxc_eccv.adapters.space import write_space

        folder = write_space(folder.name, Path(context.with_resource(tempfile.TemporaryDirectory())))
    access = Access(timeout=timeout)
    if not yes:
        say(access.told)  # before the Hub is asked, which may be out of reach
    push = plan_push(folder, repo, repo_type, access=access, private=private, framework=framework, all_tasks=all_tasks)
    say(str(push))
    if not yes:
        say("Nothing was sent. Add --yes to upload.")
        return
    done = push.carry_out()
    url = push.repository.url
    say(f"uploaded to {url}" if done.pending or push.pending else f"{url} is up to date")
    if done.next_steps:
        say(done.next_steps)
