"""Turn the answers of an annotation project into labels with their card, or into ratings of two images or captions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.judgments.evidence import judging_sources
from cxc_eccv.sources.readers import LabelFile, write_labels
from cxc_eccv.studies.annotation.card import check_citation, is_replaceable, join_answers, label_card
from cxc_eccv.studies.annotation.folder import TERMS, add_decisions, hold, read_decisions
from cxc_eccv.studies.annotation.known import PAIR
from cxc_eccv.studies.annotation.project import CARD, LABELS, Project
from cxc_eccv.studies.asking.quality import SheetQuality, accept, sum_known
from cxc_eccv.studies.asking.settling import describe_labels, settle
from cxc_eccv.types import CROSS_MODAL
from cxc_eccv.writing import replaced_file, write_rows

RATINGS = "ratings.csv"


def merge_labels(
    project: Project,
    *,
    rule: str | None = None,
    version: str | None = None,
    least_answers: int | None = None,
    licence: str | None = None,
    citation: str | None = None,
) -> LabelFile:
    """Make labels from the answers of accepted sheets, and write ``labels.parquet`` and ``README.md``.

    The project keeps the terms: those left out are as they were given last.

    Args:
        project: the project.
        rule: a rule of :func:`cxc_eccv.studies.asking.settling.settle`; at first that of the scheme.
        version: version of the labels; at first 1.0.0.
        least_answers: pairs with answers of fewer people get no label; at first 1.
        licence: licence of the labels, an id of the Hub such as ``cc-by-4.0``.
        citation: citation of the labels in BibTeX.
    """
    check_citation(citation)
    new = {"rule": rule, "version": version, "least_answers": least_answers, "licence": licence, "citation": citation}
    new = {name: term for name, term in new.items() if term is not None}
    if project.scheme.sides != ("image", "caption"):
        raise InvalidOption(f"scheme {project.scheme.name} makes ratings, not labels: use write_ratings")
    with hold(project.folder):
        now = Project.open(project.folder, project.library)
        before = read_decisions(project.folder).terms
        every = {"version": "1.0.0", "rule": project.scheme.rule, "least_answers": 1, **before, **new}
        terms = {name: every[name] for name in TERMS if name in every}
        answers, judged, accepted, table = _settle(now, terms["rule"], terms["least_answers"])
        facts = {
            **_describe(now),
            **terms,
            "sheets": dict(sorted(Counter(sheet.verdict for sheet in judged).items())),
            **describe_labels(answers, accepted, table),
            **_describe_asking(now, answers, accepted),
        }
        table = join_answers(table, accepted, list(dict.fromkeys(row["worker"] for row in now.kept)), now.candidates())
        card, path = label_card(facts, table), project.folder / CARD
        if path.is_file() and not is_replaceable(path.read_text(encoding="utf-8", errors="replace")):
            raise DataError(
                f"{path} is not a card that annotate merge replaces. Move it away, merge, and copy your changes "
                "into the new card; give the terms and the paper with --license and --citation."
            )
        labels = write_labels(project.folder / LABELS, table, facts)
        with replaced_file(path) as part:
            part.write_text(card, encoding="utf-8", newline="\n")
        if before != {**before, **new}:
            add_decisions(project.folder, {}, {}, new)
        return labels


def _describe(project: Project) -> dict[str, Any]:
    """The facts of labels that tell where their pairs come from."""
    # Only the files of images and captions, whatever else the library has read.
    files = {name: sha for name, sha in project.library.files_used().items() if name.startswith("karpathy")}
    proposals = [asked.proposal for asked in project.rounds]
    return {
        "name": project.name,
        "split": project.split,
        "scheme": project.scheme.name,
        "data": {**project.data, "files": files},
        "models": sorted({name for proposal in proposals for name in proposal["models"]}),
        "sources": judging_sources(project.library, project.split),
        "searched": {
            direction: sorted({number for proposal in proposals for number in proposal["searched"].get(direction, ())})
            for direction in CROSS_MODAL
        },
        "rounds": [{name: it[name] for name in ("strategy", "options", "counts")} for it in proposals],
    }


def _describe_asking(project: Project, answers: pa.Table, accepted: pa.Table) -> dict[str, Any]:
    """The facts of labels that tell how people were asked, and how well they answered known pairs."""
    sheets = sorted(set(zip(accepted["sheet"].to_pylist(), accepted["worker"].to_pylist(), strict=True)))
    words = Counter(map(json.dumps, project.find_words(sheets)))
    return {
        "asked": [{"sheets": number, **json.loads(text)} for text, number in words.items()],
        "accepts": read_decisions(project.folder).checks.rule,
        "known_pairs": {name: asdict(sum_known(table)) for name, table in (("all", answers), ("accepted", accepted))},
    }


def write_ratings(project: Project, *, least_answers: int | None = None) -> Path:
    """Write the mean rating of every pair of two images or two captions, in the format of CxC's files."""
    with hold(project.folder):
        new = {} if least_answers is None else {"least_answers": least_answers}
        before = read_decisions(project.folder).terms
        least_answers = {"least_answers": 1, **before, **new}["least_answers"]
        table = _settle(Project.open(project.folder, project.library), "mean", least_answers)[3]
        side = project.scheme.sides[0]
        names, rows = (f"{side}1", f"{side}2", "agg_score"), []
        files = project.library.images(project.split)
        known = dict(zip(files["image_id"].to_pylist(), files["file_name"].to_pylist(), strict=True))
        for row in table.to_pylist():
            ids = [row[name] for name in PAIR]
            shown_as = [known[number] if side == "image" else f"COCO_val2014:sentid:{number}" for number in ids]
            method = "i2i_csim" if side == "image" else "c2c_isim"
            rows.append(dict(zip(names, (*shown_as, row["rating"]), strict=True)) | {"sampling_method": method})
        written = write_rows(project.folder / RATINGS, rows)
        if before != {**before, **new}:
            add_decisions(project.folder, {}, {}, new)
        return written


def _settle(project: Project, rule: str, least_answers: int) -> tuple[pa.Table, list[SheetQuality], pa.Table, pa.Table]:
    """All answers, the verdicts on their sheets, the accepted answers, and their labels."""
    answers, judged = project.answers(), project.judge()
    accepted = accept(answers, judged)
    if not accepted.num_rows:
        why = f"none of {len(judged)} answered sheets is accepted" if judged else "nobody has answered yet"
        raise DataError(f"{project.folder}: {why}; import answers, or accept sheets with annotate check")
    return answers, judged, accepted, settle(accepted, project.scheme, rule, least_answers=least_answers)
