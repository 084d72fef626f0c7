"""``cxc-eccv push``: a dataset, labels or a Space to the Hub; ``cxc-eccv submit``: a report to the leaderboard."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from cxc_eccv.cli.choices import names
from cxc_eccv.errors import InvalidOption
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
        from cxc_eccv.adapters.described import write_space

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


def submit(
    report: Annotated[Path, typer.Argument(help="Folder of a report on the test split, or its report.json.")],
    model: Annotated[str | None, typer.Option(help="Repository of the model: owner/name.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Repository of the released dataset, the benchmark `cxc-eccv push` made: owner/name."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the report without the Hub, then stop.")] = False,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            help="Tasks or their directions, comma-separated or repeated, as in eccv_caption,cxc/i2t. "
            "Default: all that the dataset declares."
        ),
    ] = None,
    date: Annotated[str | None, typer.Option(help="Date of the report, as in 2026-11-20. Default: today.")] = None,
    notes: Annotated[str | None, typer.Option(help="The setting in a few words, such as zero-shot.")] = None,
    source: Annotated[str | None, typer.Option(help="Web address of logs or a paper.")] = None,
    model_index: Annotated[bool, typer.Option("--model-index", help="Write model-index into the card, too.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Open or update the pull request. Without it nothing is sent.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds of silence after which a request is repeated.")] = 120.0,
) -> None:
    """Check a report strictly, and propose its results to the repository of its model.

    Only reports that this release computed from the official, unmodified data are accepted. A refusal says why. Results
    that the dataset's eval.yaml declares no task for are listed and left out.

    The command shows the change of .eval_results/cxc_eccv.yaml and sends nothing without --yes. Run it again with other
    results to update the pull request that it opened, as long as that is open.

    It uses the token of `hf auth login` or HF_TOKEN. --check needs no token, no network and no other option.

    Examples:
      cxc-eccv submit report/report.json --check
      cxc-eccv submit report/report.json --model org/name --dataset org/cxc_eccv
      cxc-eccv submit report/report.json --model org/name --dataset org/cxc_eccv
        --tasks eccv_caption,cxc/i2t --notes zero-shot --yes
    """
    if check and yes:
        raise InvalidOption("--check sends nothing; leave out --check or --yes")
    if not check and (model is None or dataset is None):
        raise InvalidOption("name the repositories with --model and --dataset, or check the report alone with --check")
    from cxc_eccv.hub.client import Access
    from cxc_eccv.hub.submit import SubmitOptions, check_submission, plan_submission

    options = SubmitOptions(
        dataset, None if tasks is None else tuple(names(tasks) or ()), date, notes, source, model_index
    )
    access = Access(timeout=timeout)
    if check or model is None:
        say(check_submission(report, options, access.token))
        return
    if not yes:
        say(access.token_line)  # first, because the Hub may not answer
    submission = plan_submission(report, model, options, access=access)
    say(str(submission))
    if not submission.pending:
        return
    if not yes:
        say("Nothing was sent. Add --yes to send it.")
        return
    url, done = submission.propose(lambda: plan_submission(report, model, options, access=access))
    say(f"{url} has these results already" if done == "nothing" else f"{done} pull request: {url}")
