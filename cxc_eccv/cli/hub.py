"""``cxc-eccv push``, ``submit`` and ``leaderboard``: uploads to the Hub, and results on the leaderboard."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.delivery import check_folder
from cxc_eccv.cli.shared_options import OF_ADVANCED, names
from cxc_eccv.errors import HubError, InvalidOption, UnknownName
from cxc_eccv.hub import DATASETS_ADDRESS, NAME_DATASET, choose_benchmark, find_benchmark
from cxc_eccv.terminal import fit_lines, print_shown, say, visible


def push(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(help="Folder of `cxc-eccv build`, of labels, a model or a Space; or a metric such as map_at_r."),
    ],
    repo: Annotated[str, typer.Argument(help="Repository on the Hub: owner/name.")],
    repo_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="dataset|model|space",
            help="Kind of repository. Default: dataset, or model for its folder.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Upload. Without it nothing is sent.")] = False,
    private: Annotated[
        bool | None,
        typer.Option(help="Visibility of a new repository. Default: the owner's.", rich_help_panel=OF_ADVANCED),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another edition, or more configs, splits or tasks, on the Hub.")
    ] = False,
    answers: Annotated[
        bool | None,
        typer.Option(
            "--with-answers/--without-answers", help="Whether people's answers in labels are published. Default: ask."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder to write the repository's files to; nothing is sent.")
    ] = None,
) -> None:
    """Upload a dataset, model, labels or metric to the Hub.

    Examples:
    ```sh
    cxc-eccv push cxc_eccv_data YOUR_NAME/my_data
    cxc-eccv push my_labels YOUR_NAME/my_labels --without-answers --yes
    cxc-eccv push exported/map_at_r YOUR_NAME/map_at_r --type space --yes
    ```

    The folder of a trained model goes up with its card and report, without checkpoints; `cxc-eccv train ...
    --push-to-hub --hub-model-id YOUR_NAME/my_model` does so during training. Text of the card on the Hub that the
    folder's card lacks needs --replace.

    YOUR_NAME stands for your account or organisation on the Hub. A folder is uploaded with its card and, for a dataset,
    the leaderboard's eval.yaml.

    The command lists the files, and sends nothing without --yes. It uploads everything in one commit. If an upload
    fails, run it again: files on the Hub are not sent again. A push keeps the text that people wrote in the card on the
    Hub, outside the marked part.

    A second push removes the files of the first that the folder lacks; without --yes the command lists them. It is
    refused if the Hub has another edition of the data, or more configs, splits or tasks, unless you add --replace.

    eval.yaml declares the main metrics of each task, those of ECCV Caption first. Only a plain build of the official
    data has it, without labels of your own and with the default options. After the upload, the command lists what is
    left to do until the Hub shows a leaderboard.

    From a folder of labels (annotate merge), it uploads the label files and the card. `labels.parquet` has every
    person's accepted answers, under names such as p1: the command says so and asks; --without-answers leaves them out.
    Load the labels with `--labels YOUR_NAME/my_labels`.

    In a clone, `python tools/export_metric.py map_at_r --output exported` writes the folder of a metric's Space.

    It uses the token of `hf auth login` or HF_TOKEN.
    """
    if yes and output is not None:
        raise InvalidOption("--output sends nothing; leave out --output or --yes")
    check_folder(output)
    if repo_type == "space" and not folder.exists() and folder.name == str(folder):
        from cxc_eccv.evaluate_modules.module_cards import write_space

        folder = write_space(folder.name, Path(context.with_resource(tempfile.TemporaryDirectory())))
    from cxc_eccv.hub.client import describe_token
    from cxc_eccv.hub.upload import plan_upload

    upload = plan_upload(folder, repo, repo_type, answers=answers)
    say(fit_lines(str(upload)))
    if output is not None:
        upload.write(output)
        say(f"wrote {output}/. Nothing was sent.")
        return
    if yes and upload.asks_for_answers:
        typer.confirm("Publish people's answers too? (--without-answers leaves them out)", abort=True)
        upload = plan_upload(folder, repo, repo_type, answers=True)
    try:
        changes = upload.describe_changes()
    except HubError as error:
        if yes:
            raise
        changes = f"Not compared with the files on the Hub: {error}"
    if changes:
        say(fit_lines(changes))
    if not yes:
        say(fit_lines(f"{describe_token()} Nothing was sent. Add --yes to upload."))
        return
    say(f"uploaded to {upload.send(private=private, replace=replace)}")
    if upload.next_steps:
        say(fit_lines(upload.next_steps))


def submit(
    report: Annotated[Path, typer.Argument(help="Folder of a report on the test split, or its report.json.")],
    model: Annotated[str | None, typer.Option(help="Repository of the model: owner/name.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Repository of the benchmark: owner/name. Default: that of this package's owner, if set."),
    ] = None,
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
    date: Annotated[
        str | None, typer.Option(help="Day of the run, such as 2026-05-31. Default: none, as a report has no date.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Open or update the pull request. Without it nothing is sent.")
    ] = False,
) -> None:
    r"""Check a report, and propose its results to its model's page.

    Examples:
    ```sh
    cxc-eccv submit clip --check
    cxc-eccv submit clip --model YOUR_NAME/clip --dataset OWNER_NAME/cxc_eccv
    cxc-eccv submit clip --model YOUR_NAME/clip \
      --dataset OWNER_NAME/cxc_eccv --notes zero-shot --yes
    ```

    Only reports on the official, unmodified data are accepted, from this release or an earlier one with the same
    numbers. A refusal says why. Results that the dataset's eval.yaml declares no task for are listed and left out.

    The command shows the new .eval_results/cxc_eccv.yaml and sends nothing without --yes. Run it again with other
    results to update the pull request that it opened, as long as that is open. It asks once more if the report says
    "Check this first", or is of a model with another name than the repository.

    It uses the token of `hf auth login` or HF_TOKEN. --check needs no token, no network and no other option.
    """
    if check and yes:
        raise InvalidOption("--check sends nothing; leave out --check or --yes")
    if not check and model is None:
        raise InvalidOption("name the model's repository with --model, or check the report alone with --check")
    if not check:
        dataset = choose_benchmark(dataset)
    from cxc_eccv.hub.client import describe_token
    from cxc_eccv.hub.submit import SubmitOptions, check_submission, plan_submission

    chosen = None if tasks is None else tuple(names(tasks) or ())
    options = SubmitOptions(chosen, notes=notes, source=source, date=date)
    if check or model is None or dataset is None:
        say(check_submission(report, dataset, options))
        return
    submission = plan_submission(report, model, dataset, options)
    say(str(submission))
    if not submission.files:
        return
    if not yes:
        say(f"{describe_token()} Nothing was sent. Add --yes to send it.")
        return
    questions = []
    if submission.is_of_another:
        questions.append(f"The report is of {submission.report_model}, and the repository is {submission.model}.")
    if submission.doubts:
        questions.append("The numbers are in doubt, as said above.")
    if questions:
        typer.confirm(visible(" ".join([*questions, "Submit them all the same?"])), abort=True)
    url = submission.send()
    say(f"{'updated' if submission.opened else 'opened'} pull request: {url}")


def leaderboard(
    task: Annotated[
        str, typer.Argument(help="Task that orders the models: eccv_caption, cxc or coco_5k.")
    ] = "eccv_caption",
    dataset: Annotated[
        str | None,
        typer.Option(help="Repository of the benchmark: owner/name. Default: that of this package's owner, if set."),
    ] = None,
) -> None:
    """Show published models, and results submitted to the Hub.

    Examples:
    ```sh
    cxc-eccv leaderboard
    cxc-eccv leaderboard coco_5k --dataset OWNER_NAME/cxc_eccv
    ```

    Results on the Hub are those of one benchmark. Results in open pull requests have rows of their own, with the number
    of the pull request. What cannot be read is named, and shown as it was last read.
    """
    from cxc_eccv.comparison.published import PublishedTable, published_tables
    from cxc_eccv.comparison.published_join import join_scores
    from cxc_eccv.hub.leaderboard import leaderboard_tasks
    from cxc_eccv.hub.results import read_results
    from cxc_eccv.tables import tables_to_console

    papers: dict[str, PublishedTable] = {}
    for paper in published_tables():
        papers.setdefault(paper.task, paper)
    if task not in papers:
        raise UnknownName("task with published models", task, papers)
    benchmark = dataset or find_benchmark()
    results, notes = ({}, [NAME_DATASET]) if benchmark is None else read_results(benchmark)
    main = [key for key, entry in leaderboard_tasks().items() if entry.main]
    both = [key.replace("/i2t/", "/") for key in main]
    joined = join_scores(papers[task], [*main, *both], results)
    print_shown(tables_to_console(joined.all_tables()))
    say("")
    if results or not notes:
        say(_count_models(results, [row.model for row in joined.rows if not row.published]))
    for note in notes:
        say(note)
    if benchmark is not None:
        say(f"Address: {DATASETS_ADDRESS}{benchmark}\nTo add a model: cxc-eccv submit REPORT --model YOUR_NAME/MODEL")


def _count_models(results: Mapping[str, Mapping[str, float]], shown: Collection[str]) -> str:
    """How many models have a row in the table, which rows are of pull requests, and which models have no row."""
    models = {row.partition(" ")[0] for row in shown}
    lines = [f"Models with results on the Hub: {len(models)}."]
    if any(" (pull request " in row for row in shown):
        lines.append("The owner of a model has not accepted the results of its open pull requests.")
    for row, values in results.items():
        if row not in shown:
            tasks = dict.fromkeys(key.partition("/")[0] for key in values)
            lines.append(f"Not in this table: {row}, which has results of {', '.join(tasks)}")
    return "\n".join(lines)
