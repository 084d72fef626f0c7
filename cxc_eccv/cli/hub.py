"""``cxc-eccv push``, ``submit`` and ``leaderboard``: uploads to the Hub, and results on the leaderboard."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.delivery import check_folder
from cxc_eccv.cli.shared_options import names
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.hub import ADDRESS, BENCHMARK
from cxc_eccv.terminal import print_shown, say


def push(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="Folder of `cxc-eccv build` or of labels; for a Space, a metric such as map_at_r.")
    ],
    repo: Annotated[str, typer.Argument(help="Repository on the Hub: owner/name.")],
    repo_type: Annotated[str, typer.Option("--type", help="dataset or space.")] = "dataset",
    yes: Annotated[bool, typer.Option("--yes", help="Upload. Without it nothing is sent.")] = False,
    private: Annotated[bool | None, typer.Option(help="Visibility of a new repository. Default: the owner's.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder to write the repository's files to; nothing is sent.")
    ] = None,
) -> None:
    """Upload a dataset, model, labels or metric to the Hub.

    Examples:
    ```sh
    cxc-eccv push cxc_eccv_data org/my_data
    cxc-eccv push my_labels org/my_labels --yes
    cxc-eccv push map_at_r org/map_at_r --type space --yes
    ```

    A folder is uploaded with its card and, for a dataset, the leaderboard's eval.yaml.

    The command lists the files, and sends nothing without --yes. It uploads everything in one commit. If an upload
    fails, run it again: files on the Hub are not sent again. A push keeps the text that people wrote in the card on the
    Hub, outside the marked part.

    eval.yaml declares the main metrics of each task, those of ECCV Caption first. After the upload, the command lists
    what is left to do until the Hub shows a leaderboard.

    From a folder of labels (annotate merge), it uploads the label files and the card, and no answers of people. Load
    them with `--labels owner/name`.

    It uses the token of `hf auth login` or HF_TOKEN.
    """
    if yes and output is not None:
        raise InvalidOption("--output sends nothing; leave out --output or --yes")
    check_folder(output)
    if repo_type == "space" and not folder.exists() and folder.name == str(folder):
        from cxc_eccv.adapters.described import write_space

        folder = write_space(folder.name, Path(context.with_resource(tempfile.TemporaryDirectory())))
    from cxc_eccv.hub.client import describe_token
    from cxc_eccv.hub.upload import plan_upload

    upload = plan_upload(folder, repo, repo_type)
    say(str(upload))
    if output is not None:
        upload.write(output)
        say(f"wrote {output}/. Nothing was sent.")
        return
    if not yes:
        say(f"{describe_token()} Nothing was sent. Add --yes to upload.")
        return
    say(f"uploaded to {upload.send(private=private)}")
    if upload.next_steps:
        say(upload.next_steps)


def submit(
    report: Annotated[Path, typer.Argument(help="Folder of a report on the test split, or its report.json.")],
    model: Annotated[str | None, typer.Option(help="Repository of the model: owner/name.")] = None,
    dataset: Annotated[str, typer.Option(help="Repository of the benchmark: owner/name.")] = BENCHMARK,
    check: Annotated[bool, typer.Option("--check", help="Check the report without the Hub, then stop.")] = False,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            help="Tasks or their directions, comma-separated or repeated, as in eccv_caption,cxc/i2t. "
            "Default: all that the dataset declares."
        ),
    ] = None,
    notes: Annotated[str | None, typer.Option(help="The setting in a few words, such as zero-shot.")] = None,
    source: Annotated[str | None, typer.Option(help="Web address of logs or a paper.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Open or update the pull request. Without it nothing is sent.")
    ] = False,
) -> None:
    """Check a report, and propose its results to its model's page.

    Examples:
    ```sh
    cxc-eccv submit report/report.json --check
    cxc-eccv submit report/report.json --model org/name
    cxc-eccv submit report/report.json --model org/name --notes zero-shot --yes
    ```

    Only reports that this release computed from the official, unmodified data are accepted. A refusal says why. Results
    that the dataset's eval.yaml declares no task for are listed and left out.

    The command shows the new .eval_results/cxc_eccv.yaml and sends nothing without --yes. Run it again with other
    results to update the pull request that it opened, as long as that is open. If the report says "Check this first",
    it asks once more.

    It uses the token of `hf auth login` or HF_TOKEN. --check needs no token, no network and no other option.
    """
    if check and yes:
        raise InvalidOption("--check sends nothing; leave out --check or --yes")
    if not check and model is None:
        raise InvalidOption("name the model's repository with --model, or check the report alone with --check")
    from cxc_eccv.hub.client import describe_token
    from cxc_eccv.hub.submit import SubmitOptions, check_submission, plan_submission

    chosen = None if tasks is None else tuple(names(tasks) or ())
    options = SubmitOptions(dataset, chosen, notes=notes, source=source)
    if check or model is None:
        say(check_submission(report, options))
        return
    submission = plan_submission(report, model, options)
    say(str(submission))
    if not submission.files:
        return
    if not yes:
        say(f"{describe_token()} Nothing was sent. Add --yes to send it.")
        return
    if submission.doubts:
        typer.confirm("The numbers are in doubt, as said above. Submit them all the same?", abort=True)
    url = submission.send()
    say(f"{'updated' if submission.opened else 'opened'} pull request: {url}")


def leaderboard(
    task: Annotated[
        str, typer.Argument(help="Task that orders the models: eccv_caption, cxc or coco_5k.")
    ] = "eccv_caption",
) -> None:
    """Show published models, and results submitted to the Hub.

    Examples:
    ```sh
    cxc-eccv leaderboard
    cxc-eccv leaderboard coco_5k
    ```

    Without a network it shows the results that it read last.
    """
    from cxc_eccv.comparison.published import PublishedTable, join_scores, published_tables
    from cxc_eccv.comparison.views import joined_tables
    from cxc_eccv.hub.leaderboard import leaderboard_tasks
    from cxc_eccv.hub.results import read_results
    from cxc_eccv.tables import tables_to_console

    papers: dict[str, PublishedTable] = {}
    for paper in published_tables():
        papers.setdefault(paper.task, paper)
    if task not in papers:
        raise UnknownName("task with published models", task, papers)
    results, state = read_results()
    main = [key for key, entry in leaderboard_tasks().items() if entry.main]
    both = [key.replace("/i2t/", "/") for key in main]
    joined = join_scores(papers[task], [*main, *both], results)
    print_shown(tables_to_console(joined_tables(joined, "submitted models")))
    say(f"\n{state}\nAddress: {ADDRESS}\nTo add a model: cxc-eccv submit REPORT --model OWNER/NAME")
