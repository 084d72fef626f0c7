"""``cxc-eccv submit``: a report to the leaderboard, as a pull request to its model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.terminal import say


def submit(
    report: Annotated[Path, typer.Argument(help="report.json of `cxc-eccv evaluate` on the test split.")],
    model: Annotated[str, typer.Option(help="Repository of the model: owner/name.")],
    dataset: Annotated[
        str, typer.Option(help="Repository of the released dataset, the benchmark `cxc-eccv push` made: owner/name.")
    ],
    date: Annotated[
        str | None, typer.Option(help="When the report was computed, as 2026-11-20. Default: today.")
    ] = None,
    notes: Annotated[str | None, typer.Option(help="The setting in a few words, as zero-shot.")] = None,
    source: Annotated[str | None, typer.Option(help="Address of logs or a paper.")] = None,
    model_index: Annotated[bool, typer.Option("--model-index", help="Write model-index into the card too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Open the pull request. Without it nothing is sent.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds of silence after which the Hub is asked again.")] = 120.0,
) -> None:
    """Check a report strictly, and propose its results to the model they are about.

    Only reports of the official data, unmodified, by this release are accepted; any other is refused with the reason.
    Shows the change of .eval_results/cxc_eccv.yaml, and sends nothing without --yes.

    The token is that of `hf auth login` or HF_TOKEN.

    Examples:
      cxc-eccv submit report/report.json --model org/name --dataset org/cxc_eccv
      cxc-eccv submit report/report.json --model org/name --dataset org/cxc_eccv --notes zero-shot --yes
    """
    from cxc_eccv.hub.client import Access
    from cxc_eccv.hub.submit import SubmitOptions, plan_submission

    options = SubmitOptions(dataset, date, notes, source, model_index)
    access = Access(timeout=timeout)
    if not yes:
        say(access.told)  # before the Hub is asked, which may be out of reach
    submission = plan_submission(report, model, options, access=access)
    say(str(submission))
    if not submission.pending:
        return
    if not yes:
        say("Nothing was sent. Add --yes to open the pull request.")
        return
    url = submission.open_pull_request(lambda: plan_submission(report, model, options, access=access))
    say(f"pull request: {url}")
