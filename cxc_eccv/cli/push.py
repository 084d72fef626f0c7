"""``cxc-eccv push``: upload a built dataset, labels, or a metric's Space to the Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from cxc_eccv.terminal import say


def push(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="Folder of `cxc-eccv build` or of labels; for a Space, a metric such as map_at_r.")
    ],
    repo: Annotated[str, typer.Argument(help="Repository on the Hub: owner/name.")],
    repo_type: Annotated[str, typer.Option("--type", help="dataset or space.")] = "dataset",
    yes: Annotated[bool, typer.Option("--yes", help="Upload. Without it nothing is sent.")] = False,
    private: Annotated[bool | None, typer.Option(help="Visibility of a new repository. Default: the owner's.")] = None,
    framework: Annotated[
        str, typer.Option(help="evaluation_framework in eval.yaml, a name from the Hub's list.")
    ] = "cxc_eccv",
    all_tasks: Annotated[
        bool, typer.Option("--all-tasks", help="Declare every metric in eval.yaml, not only the main ones.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds of silence after which a request is repeated.")] = 120.0,
) -> None:
    """Upload a folder with its card and, for a dataset, the leaderboard's eval.yaml.

    The command lists new, changed, removed and unchanged files, and sends nothing without --yes. It uploads everything
    in one commit. Run it again to resume an upload that failed: files on the Hub are not sent again. A push keeps the
    text that people wrote in the card on the Hub, outside the marked part.

    eval.yaml declares the main metrics of each task, those of ECCV Caption first. After the upload, the command lists
    what is left to do until the Hub shows a leaderboard.

    From a folder of labels (annotate merge), it uploads the label files and the card, and no answers of people. Load
    them with `--labels owner/name`.

    It uses the token of `hf auth login` or HF_TOKEN.

    Examples:
      cxc-eccv push cxc_eccv_data org/cxc_eccv
      cxc-eccv push cxc_eccv_data org/cxc_eccv --yes
      cxc-eccv push my_labels org/my_labels --yes
      cxc-eccv push map_at_r org/map_at_r --type space --yes
    """
    if repo_type == "space" and not folder.exists() and folder.name == str(folder):
        from cxc_eccv.adapters.space import write_space

        folder = write_space(folder.name, Path(context.with_resource(tempfile.TemporaryDirectory())))
    send(folder, repo, repo_type, yes=yes, private=private, timeout=timeout, framework=framework, all_tasks=all_tasks)


def send(
    folder: Path,
    repo: str,
    repo_type: str = "dataset",
    *,
    yes: bool,
    private: bool | None,
    timeout: float = 120.0,
    **options: Any,  # noqa: ANN401 - of plan_push
) -> None:
    """Show the plan of an upload; with ``yes`` carry it out."""
    from cxc_eccv.hub.client import Access
    from cxc_eccv.hub.upload import plan_push

    access = Access(timeout=timeout)
    if not yes:
        say(access.token_line)  # first, because the Hub may not answer
    push = plan_push(folder, repo, repo_type, access=access, private=private, **options)
    say(str(push))
    if not yes:
        say("Nothing was sent. Add --yes to upload.")
        return
    done = push.carry_out()
    url = push.repository.url
    say(f"uploaded to {url}" if done.pending or push.pending else f"{url} is up to date")
    if done.next_steps:
        say(done.next_steps)
