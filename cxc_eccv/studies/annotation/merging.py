"""Turn the answers of an annotation project into labels with their card, or into ratings of two images or captions."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.judgments.evidence.source import judging_sources
from cxc_eccv.sources.readers import LabelFile, write_labels
from cxc_eccv.studies.annotation.exporting import find_words
from cxc_eccv.studies.annotation.project import CARD, LABELS, Project
from cxc_eccv.studies.annotation.project_files import Terms, add_terms, hold
from cxc_eccv.studies.annotation.proposing import ProposalFacts
from cxc_eccv.studies.annotation.proposing.strategies import strategies
from cxc_eccv.studies.asking.questions import PAIR, Pair
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.settling import RULES, describe_labels, keep_candidates, keep_last, settle
from cxc_eccv.studies.asking.sheet_quality import KnownAnswers, accept, sum_known
from cxc_eccv.terminal import code_block, code_span, markdown_table, markdown_text
from cxc_eccv.types import CROSS_MODAL
from cxc_eccv.writing import replaced_file, write_rows

if TYPE_CHECKING:
    from huggingface_hub import DatasetCardData

RATINGS = "ratings.csv"

Facts = Mapping[str, Any]
"""What a file of labels says of their origin and rule, as JSON."""

TEMPLATE = Path(__file__).parent / "templates" / "labels.md.jinja"

FIELDS = {
    "image_id": "the image's COCO id",
    "caption_id": "the caption's COCO id",
    "gain": "how well they match, from 0 to 1",
    "positive": "whether they match: true if the gain is above 0",
    "answers": "number of people with an accepted answer",
    "rating": "the mean of the accepted ratings, on the scale that people saw",
    "said": "each person's answer: an anonymous name, the answer as JSON, and its gain",
    "drawn": "the probability with which the pair was drawn; empty for a pair that a strategy chose",
    "proposals": "the models that proposed the pair, with direction and rank; empty for a randomly drawn pair",
}

COUNTS = {
    "answers": "answers about candidates",
    "answers_not_accepted": "answers on sheets that were not accepted",
    "answers_given_again": "answers replaced by a later answer of the same person",
    "pairs": "pairs asked about",
    "pairs_without_accepted_answer": "pairs without an accepted answer",
    "pairs_with_too_few_answers": "pairs with too few answers",
    "labels": "labelled pairs",
    "positives": "positives",
}
"""The counts of ``describe_labels``, in words."""


BIBTEX = re.compile(r"\s*@\w+\s*\{\s*[^\s,{}]+\s*,.*\}\s*", re.DOTALL)

ROWS_AT_ONCE = 65_536

MARK = "<!-- made by cxc-eccv annotate merge, which replaces it; remove this line to keep your changes -->\n"
"""The last line of a card."""


def merge_labels(project: Project, terms: Terms | None = None) -> LabelFile:
    """Make labels from the answers of accepted sheets, and write ``labels.parquet`` and ``README.md``.

    Terms that are left out keep their last values.
    """
    new = terms or Terms()
    if new.citation is not None and not BIBTEX.fullmatch(new.citation):
        raise InvalidOption(
            f"citation {new.citation.strip()!r:.60}: give BibTeX, such as @misc{{key, title={{...}}, year=2026}}"
        )
    if project.scheme.sides != ("image", "caption"):
        raise InvalidOption(f"scheme {project.scheme.name} makes ratings, not labels: use write_ratings")
    with hold(project.folder):
        project = project.refresh()
        first = Terms(version="1.0.0", rule=project.scheme.rule, least_answers=1)
        terms = first | project.decisions.terms | new
        accepted = find_accepted(project)
        table = settle(accepted, project.scheme, terms.rule, least_answers=terms.least_answers or 1)
        n_sheets = Counter(project.verdicts["verdict"])
        facts = {
            **_describe(project),
            **terms.to_json(),
            "sheets": dict(sorted(n_sheets.items())),
            **describe_labels(project.answers, accepted, table),
            **_describe_asking(project, accepted),
        }
        workers = list(dict.fromkeys(response.worker for response in project.responses))
        table = join_answers(table, accepted, workers, project.candidates)
        card = label_card(facts, table)
        path = project.folder / CARD
        if path.is_file() and not path.read_text(encoding="utf-8", errors="replace").rstrip().endswith(MARK.rstrip()):
            raise DataError(
                f"{path} is not a card that annotate merge replaces. Move it away, merge, and copy your changes "
                "into the new card; give the terms and the paper with --license and --citation."
            )
        labels = write_labels(project.folder / LABELS, table, facts)
        with replaced_file(path) as part:
            part.write_text(card, encoding="utf-8", newline="\n")
        _keep_terms(project, new)
        return labels


def _keep_terms(project: Project, new: Terms) -> None:
    """Add terms of the labels, unless they hold already."""
    before = project.decisions.terms
    if before | new != before:
        add_terms(project.folder, new)


def _describe(project: Project) -> Facts:
    """The facts of labels that tell where their pairs come from."""
    # Only the files of images and captions, whatever else the library has read.
    files = {name: sha for name, sha in project.library.files_used().items() if name.startswith("karpathy")}
    rounds = [each.facts for each in project.rounds]
    return {
        "name": project.name,
        "split": project.facts.split,
        "scheme": project.scheme.name,
        "data": {**asdict(project.facts.data), "files": files},
        "models": sorted(set().union(*(facts.models for facts in rounds))),
        "sources": judging_sources(project.split),
        "searched": {direction: _list_searched(rounds, direction) for direction in CROSS_MODAL},
        "rounds": [{"strategy": each.strategy, "options": each.options, "counts": each.counts} for each in rounds],
    }


def _list_searched(rounds: Sequence[ProposalFacts], direction: str) -> list[int]:
    """Ids of the queries that any round searched."""
    numbers: set[int] = set()
    for facts in rounds:
        numbers.update((facts.searched or {}).get(direction, ()))
    return sorted(numbers)


def _describe_asking(project: Project, accepted: pd.DataFrame) -> Facts:
    """The facts of labels that tell how people were asked, and how well they answered known pairs."""
    sheets = sorted(set(zip(accepted["sheet"], accepted["worker"], strict=True)))
    words = Counter(map(json.dumps, find_words(project, sheets)))
    answers = {"all": project.answers, "accepted": accepted}
    return {
        "asked": [{"sheets": number, **json.loads(text)} for text, number in words.items()],
        "accepts": project.decisions.checks.rule,
        "known_pairs": {name: asdict(sum_known(some)) for name, some in answers.items()},
    }


def write_ratings(project: Project, least_answers: int | None = None) -> Path:
    """Write the mean rating of every pair of two images or two captions, in the format of CxC's files."""
    with hold(project.folder):
        project = project.refresh()
        new = Terms(least_answers=least_answers)
        terms = Terms(least_answers=1) | project.decisions.terms | new
        accepted = find_accepted(project)
        table = settle(accepted, project.scheme, "mean", least_answers=terms.least_answers or 1)
        side = project.scheme.sides[0]
        rows = []
        files = project.split.images
        names = dict(zip(files["image_id"].to_pylist(), files["file_name"].to_pylist(), strict=True))
        for row in table.to_pylist():
            first, second = (
                names[row[name]] if side == "image" else f"COCO_val2014:sentid:{row[name]}" for name in PAIR
            )
            ratings = {f"{side}1": first, f"{side}2": second, "agg_score": row["rating"]}
            rows.append(ratings | {"sampling_method": "i2i_csim" if side == "image" else "c2c_isim"})
        written = write_rows(project.folder / RATINGS, rows)
        _keep_terms(project, new)
        return written


def find_accepted(project: Project) -> pd.DataFrame:
    """The answers of accepted sheets; DataError if there are none."""
    accepted = accept(project.answers, project.verdicts)
    if accepted.empty:
        n_sheets = len(project.verdicts)
        why = f"none of {n_sheets} answered sheets is accepted" if n_sheets else "nobody has answered yet"
        raise DataError(f"{project.folder}: {why}; import answers, or accept sheets with annotate check")
    return accepted


def label_card(facts: Facts, table: pa.Table) -> str:
    """The text of ``README.md`` for a folder with ``labels.parquet``."""
    from huggingface_hub import DatasetCard

    from cxc_eccv.builders import dataset_cards
    from cxc_eccv.sources.catalog import OFFICIAL, SAMPLE, load_catalog
    from cxc_eccv.version import __version__

    scheme = schemes()[facts["scheme"]]
    card = DatasetCard.from_template(
        _card_data(facts, table),
        str(TEMPLATE),
        facts=facts,
        **_card_tables(facts, table),
        asked="\n\n".join(map(_describe_words, facts["asked"])),
        known_pairs=_describe_known(facts["known_pairs"]),
        citation=markdown_text(scheme.citation),
        rule=RULES[facts["rule"]],
        agreement=_describe_agreement(facts["agreement"]),
        known_labels=_describe_known_labels(facts["rounds"]),
        models=", ".join(map(code_span, facts["models"])) or "No model; the pairs were drawn at random.",
        edition=code_span(facts["data"]["edition"]),
        official=facts["data"]["edition"] == OFFICIAL,
        sample=facts["data"]["edition"] == SAMPLE,
        version=markdown_text(facts["version"]),
        package=__version__,
        example=code_block(f'{dataset_cards.LOAD_HERE_CODE}split="{facts["split"]}")\nprint(dataset[0])', "python"),
        command=code_block(
            f"cxc-eccv evaluate model.npz --split {facts['split']} --labels PATH_OR_NAME "
            f"--sources {','.join([*facts['sources'], facts['name']])}",
            "sh",
        ),
        licence=markdown_text(facts["licence"]) if "licence" in facts else "",
        own_citation=code_block(str(facts["citation"]).strip(), "bibtex") if "citation" in facts else "",
        citations=dataset_cards.citations(["eccv_caption"], load_catalog()),
    )
    return f"{card.content.rstrip()}\n\n{MARK}"


def _card_tables(facts: Facts, table: pa.Table) -> dict[str, str]:
    """The tables of the card, by their name in its template."""
    positive = int(pc.sum(table["positive"]).as_py())
    overview = [facts["name"], facts["split"], table.num_rows, positive, facts["people"], str(facts["version"])]
    return {
        "overview": markdown_table(
            ["name", "split", "labelled pairs", "positives", "people who answered", "version"],
            [[markdown_text(cell) if isinstance(cell, str) else cell for cell in overview]],
        ),
        "fields": markdown_table(
            ["field", "type", "meaning"],
            [
                (f"`{field.name}`", "list" if pa.types.is_list(field.type) else str(field.type), FIELDS[field.name])
                for field in table.schema
            ],
        ),
        "counts": markdown_table(
            ["answers and pairs", "number"], [(COUNTS[name], number) for name, number in facts["counts"].items()]
        ),
    }


def _card_data(facts: Facts, table: pa.Table) -> DatasetCardData:
    """The front matter."""
    import datasets
    from huggingface_hub import DatasetCardData

    from cxc_eccv.builders import dataset_cards
    from cxc_eccv.sources.catalog import OFFICIAL

    # datasets identifies its cache of a local folder by the front matter, see builders/dataset_cards.py.
    of = "MS-COCO" if facts["data"]["edition"] == OFFICIAL else f"the edition {facts['data']['edition']}"
    content = hashlib.sha256()
    split = str(facts["split"])
    for batch in table.combine_chunks().to_batches(ROWS_AT_ONCE):
        content.update(json.dumps(batch.to_pydict()).encode())
    features = datasets.Features.from_arrow_schema(table.schema)
    sizes = {split: (table.num_rows, table.nbytes)}
    return DatasetCardData(
        pretty_name=f"{facts['name']}: matches of {of} that people verified",
        language=dataset_cards.CARD_LANGUAGE,
        license=facts.get("licence", "unknown"),
        size_categories=dataset_cards.size_category(table.num_rows),
        task_categories=["image-to-text", "text-to-image"],
        tags=["image-text-retrieval", "ms-coco"],
        configs=[{"config_name": "default", "data_files": [{"split": split, "path": "labels.parquet"}]}],
        dataset_info=[
            dataset_cards.dataset_info("default", features, sizes, description=f"sha256 {content.hexdigest()}")
        ],
    )


def _describe_words(words: Facts) -> str:
    """What people read on some sheets, as a quotation."""
    texts = [*words["instructions"], words["question"], *(f"\N{BULLET} {answer}" for answer in words["answers"])]
    quoted = "\n>\n".join(f"> {markdown_text(text)}" for text in texts)
    language = code_span(words["language"])
    return f"{words['sheets']:,} answered sheets that count had these words, in the language {language}:\n\n{quoted}"


def _describe_known(known_pairs: Facts) -> str:
    if not known_pairs["all"]["answered"]:
        return "The sheets had no known pairs."
    counts = {name: KnownAnswers(**of_sheets) for name, of_sheets in known_pairs.items()}
    return (
        f"On the sheets that count, people answered {counts['accepted']} of the known pairs correctly, and "
        f"{counts['all']} "
        "on all answered sheets (95% intervals)."
    )


def _describe_known_labels(rounds: Sequence[Facts]) -> str:
    """The sources of labels that were known when each round was proposed, and whether people judged their pairs."""
    sentences = []
    for options in (each["options"] for each in rounds):
        sources = ", ".join(map(code_span, options["sources"]))
        ask_known = options.get("ask_known", False)
        also = "positives of these sources were" if ask_known else "no pair that these sources judge was"
        sentences.append(f"Known labels: {sources}; {also} asked about{' too' * ask_known}.")
    return " ".join(dict.fromkeys(sentences))


def _describe_agreement(agreement: Facts) -> str:
    if not agreement["pairs"]:
        return "No pair was judged by several people, so their agreement is unknown."
    return (
        f"Several people judged {agreement['pairs']:,} pairs, and agree on {agreement['unanimous']:,} of them whether "
        "they are positive. Falotico and Quatto's kappa, the agreement beyond that of random answers, is "
        f"{agreement['falotico_quatto_kappa']:.2f}."
    )


SAID = pa.list_(pa.struct([("person", pa.string()), ("answer", pa.string()), ("gain", pa.float64())]))
"""The type of the column ``said``: each person's answer as JSON, and its gain."""


def join_answers(labels: pa.Table, accepted: pd.DataFrame, workers: Sequence[str], candidates: pa.Table) -> pa.Table:
    """Add ``said``, ``proposals`` and, if pairs were drawn, ``drawn`` to labels.

    People are called p1, p2 ... in the order of ``workers``. Every pair is once among the candidates.
    """
    numbers = {worker: number for number, worker in enumerate(workers, start=1)}
    answers = keep_last(keep_candidates(accepted))
    answers = answers.assign(number=answers["worker"].map(numbers)).sort_values("number", kind="stable")
    said: defaultdict[Pair, list[Facts]] = defaultdict(list)
    for row in answers.itertuples():
        said[row.image_id, row.caption_id].append({"person": f"p{row.number}", "answer": row.answer, "gain": row.gain})
    proposed = {(row["image_id"], row["caption_id"]): row for row in candidates.to_pylist()}
    pairs = [(row["image_id"], row["caption_id"]) for row in labels.select(PAIR).to_pylist()]
    lists = [proposed[pair]["proposals"] for pair in pairs]
    kind = candidates.schema.field("proposals").type
    answers_of_pairs = pa.array([said[pair] for pair in pairs], SAID)
    labels = labels.append_column(pa.field("said", SAID, nullable=False), answers_of_pairs)
    labels = labels.append_column(pa.field("proposals", kind, nullable=False), pa.array(lists, kind))
    drawing = {name for name, strategy in strategies().items() if strategy.draws}
    if not any(row["strategy"] in drawing for row in proposed.values()):
        return labels
    chances = [proposed[pair]["priority"] if proposed[pair]["strategy"] in drawing else None for pair in pairs]
    return labels.append_column("drawn", pa.array(chances, pa.float64()))
