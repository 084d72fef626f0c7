"""How much each strategy of proposing pairs finds, before anybody is asked.

python tools/experiments/simulate_labels.py --data-dir sample --output simulated
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.delivery import COMMAND, check_folder, say_written
from cxc_eccv.cli.named_models import load_runs
from cxc_eccv.cli.shared_options import AllowModified, DataDir, names, split_name
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.terminal import print_shown

if TYPE_CHECKING:
    from cxc_eccv.runs import Run
    from cxc_eccv.sources.library import Library

ROUNDS_ALONE = ("split", "rounds", "budget", "error_rates", "answers", "rule", "price", "minutes", "images")
HIDING_ALONE = ("share", "questions")


def simulate(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="With --hide: files of the test split's captions or of both sides; or tfidf, overlap, noise, noise_1."
        ),
    ] = None,
    hide: Annotated[
        str | None, typer.Option(help="eccv: hide positives of ECCV Caption, and look for them with these models.")
    ] = None,
    strategies: Annotated[
        list[str] | None, typer.Option(help="Strategies to compare, comma-separated or repeated. Default: see above.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How often all is repeated, with other draws.")] = 10,
    split: Annotated[str, typer.Option(help="Without --hide: whose pairs are annotated, val or test.")] = "val",
    rounds: Annotated[int, typer.Option(help="Likewise: rounds of proposing, asking and training.")] = 3,
    budget: Annotated[int, typer.Option(help="Likewise: pairs of a round.")] = 180,
    error_rates: Annotated[
        list[str] | None, typer.Option(help="Likewise: how often each person errs, as 0.05,0.1,0.3.")
    ] = None,
    answers: Annotated[int, typer.Option(help="Likewise: people whose answers about a pair must be accepted.")] = 3,
    rule: Annotated[str, typer.Option(help="Likewise: how answers become a label: majority or mean.")] = "majority",
    price: Annotated[float, typer.Option(help="Likewise: dollars of a sheet of 20 questions.")] = 0.78,
    minutes: Annotated[float, typer.Option(help="Likewise: minutes that a sheet takes.")] = 13.8,
    images: Annotated[Path, typer.Option(help="Likewise: folder of the images, for the models.")] = Path("sample"),
    share: Annotated[float, typer.Option(help="With --hide: of the positives, to be hidden.")] = 0.5,
    questions: Annotated[
        list[str] | None, typer.Option(help="Likewise: after how many to count. Default: 1000,5000,10000.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for simulation.json, its tables and its chart.")] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Tell how much each strategy finds, before anybody is asked.

    Without --hide: rounds of annotation on the sample, whose generator knows which captions are true of which images.
    Simulated people err; light models are fitted anew after every round. Strategies: random, eccv, disagreement.

    With --hide eccv: half of the positives that ECCV Caption alone knows are hidden, and it is counted how many of them
    a strategy asks about. Of a file of captions alone, an image is the mean of its captions. Strategies: random, eccv,
    disagreement.

    Examples:
      python tools/experiments/simulate_labels.py --data-dir sample --output simulated
      python tools/experiments/simulate_labels.py --data-dir sample --strategies random,eccv
      --rounds 5 --error-rates 0,0,0
      python tools/experiments/simulate_labels.py --hide eccv minilm.npz tfidf overlap
    """
    from label_loop.page import check_price, simulation_tables, write_simulation

    from cxc_eccv.sources.library import Library
    from cxc_eccv.tables import tables_to_console

    check_folder(output)
    check_price(price, minutes)
    _check_simulated(context, hide, models)
    library = Library(data_dir, allow_modified=allow_modified)
    chosen: dict[str, Any] = {"seeds": seeds} | ({} if strategies is None else {"strategies": names(strategies)})
    if hide is None:
        from label_loop.sample_truth import Truth
        from label_loop.scorers import fit_anew
        from label_loop.simulation import ERROR_RATES
        from label_loop.simulation import simulate as go_through_rounds

        Truth(library, split_name(split))  # said before the images are read
        rates = _read_values("--error-rates", error_rates, float, ERROR_RATES)
        chosen |= {"split": split_name(split), "rounds": rounds, "budget": budget, "error_rates": rates}
        retrain = fit_anew(library, split_name(split), images)
        simulation = go_through_rounds(library, retrain, **chosen, answers=answers, rule=rule)
    else:
        from label_loop.simulation import search_hidden

        chosen |= {"share": share, "questions": _read_values("--questions", questions, int, (1_000, 5_000, 10_000))}
        simulation = search_hidden(_load_scorers(models or [], library), library, **chosen)
    paid = {"price": price, "minutes": minutes}
    tables = simulation_tables(simulation, **paid)
    try:
        written = [] if output is None else write_simulation(simulation, output, **paid, command=COMMAND.get())
    finally:
        print_shown(tables_to_console(tables))
    say_written(written)


def _check_simulated(context: typer.Context, hide: str | None, models: list[str] | None) -> None:
    """Models where labels are hidden, and no option that is not read."""
    if hide not in (None, "eccv"):
        raise UnknownName("labels to hide", str(hide), ["eccv"])
    if hide is None and models:
        raise InvalidOption(
            f"{models[0]}: rounds are proposed by models that are fitted to labels anew; with --hide eccv name any"
        )
    if hide is not None and not models:
        raise InvalidOption("name the models that look for hidden labels: files, or tfidf overlap")
    unread = ROUNDS_ALONE if hide is not None else HIDING_ALONE
    given = [name for name in unread if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidOption(f"{options}: not read {'with' if hide else 'without'} --hide; leave it out")


def _read_values(
    option: str, texts: list[str] | None, kind: Callable[[str], Any], default: Sequence[Any]
) -> Sequence[Any]:
    try:
        return default if texts is None else [kind(text) for text in names(texts) or []]
    except ValueError:
        raise InvalidOption(f"{option} {','.join(texts or [])}: give numbers, divided by commas") from None


def _load_scorers(models: list[str], library: Library) -> dict[str, Run]:
    """Scorers by name, and files: of one with captions alone, an image stands where its captions do."""
    from label_loop.scorers import SCORERS, place_images

    from cxc_eccv.runs import EmbeddingsRun

    content = library.split("test")
    runs = load_runs([Path(name) for name in models if name not in SCORERS], None) if set(models) - set(SCORERS) else {}
    for name, run in runs.items():
        if isinstance(run, EmbeddingsRun) and run.images is None:
            runs[name] = place_images(run, content)
    return runs | {name: SCORERS[name](content) for name in dict.fromkeys(models) if name in SCORERS}


if __name__ == "__main__":
    typer.run(simulate)
