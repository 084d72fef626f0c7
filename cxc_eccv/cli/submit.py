"""``cxc-eccv submit``: propose a report's results for the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import names
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import say


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
