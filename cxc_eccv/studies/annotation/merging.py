"""Turn the answers of an annotation project into labels with their card, or into ratings of two images or captions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.judgments.evidence import judging_sources
from cxc_eccv.sources.readers import LabelFile, write_labels
from cxc_eccv.studies.annotation.exporting import find_words
from cxc_eccv.studies.annotation.label_card import Facts, check_citation, is_replaceable, join_answers, label_card
from cxc_eccv.studies.annotation.project import CARD, LABELS, Project
from cxc_eccv.studies.annotation.project_files import Terms, add_terms, hold, read_decisions
from cxc_eccv.studies.annotation.source_labels import PAIR
from cxc_eccv.studies.asking.settling import describe_labels, settle
from cxc_eccv.studies.asking.sheet_quality import SheetQuality, accept, sum_known
from cxc_eccv.types import CROSS_MODAL
from cxc_eccv.writing import replaced_file, write_rows

RATINGS = "ratings.csv"


def merge_labels(project: Project, terms: Terms | None = None) -> LabelFile:
    """Make labels from the answers of accepted sheets, and write ``labels.parquet`` and ``README.md``.

    The project keeps the terms: those left out are as they were given last.
    """
    new = terms or Terms()
    check_citation(new.citation)
    if project.scheme.sides != ("image", "caption"):
        raise InvalidOption(f"scheme {project.scheme.name} makes ratings, not labels: use write_ratings")
    with hold(project.folder):
        now = Project.open(project.folder, project.library)
        first = Terms(version="1.0.0", rule=now.scheme.rule, least_answers=1)
        terms = first | read_decisions(project.folder).terms | new
        answers, judged, accepted, table = _settle(now, terms)
        facts = {
            **_describe(now),
            **terms.to_json(),
            "sheets": dict(sorted(Counter(sheet.verdict for sheet in judged).items())),
            **describe_labels(answers, accepted, table),
            **_describe_asking(now, answers, accepted),
        }
        workers = list(dict.fromkeys(response.worker for response in now.responses))
        table = join_answers(table, accepted, workers, now.candidates())
        card, path = label_card(facts, table), project.folder / CARD
        if path.is_file() and not is_replaceable(path.read_text(encoding="utf-8", errors="replace")):
            raise DataError(
                f"{path} is not a card that annotate merge replaces. Move it away, merge, and copy your changes "
                "into the new card; give the terms and the paper with --license and --citation."
            )
        labels = write_labels(project.folder / LABELS, table, facts)
        with replaced_file(path) as part:
            part.write_text(card, encoding="utf-8", newline="\n")
        add_terms(project.folder, new)
        return labels


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
        "models": sorted({name for facts in rounds for name in facts.models}),
        "sources": judging_sources(project.split),
        "searched": {
            direction: sorted({number for facts in rounds for number in (facts.searched or {}).get(direction, ())})
            for direction in CROSS_MODAL
        },
        "rounds": [{"strategy": each.strategy, "options": each.options, "counts": each.counts} for each in rounds],
    }


def _describe_asking(project: Project, answers: pa.Table, accepted: pa.Table) -> Facts:
    """The facts of labels that tell how people were asked, and how well they answered known pairs."""
    sheets = sorted(set(zip(accepted["sheet"].to_pylist(), accepted["worker"].to_pylist(), strict=True)))
    words = Counter(map(json.dumps, find_words(project, sheets)))
    return {
        "asked": [{"sheets": number, **json.loads(text)} for text, number in words.items()],
        "accepts": read_decisions(project.folder).checks.rule,
        "known_pairs": {name: asdict(sum_known(table)) for name, table in (("all", answers), ("accepted", accepted))},
    }


def write_ratings(project: Project, least_answers: int | None = None) -> Path:
    """Write the mean rating of every pair of two images or two captions, in the format of CxC's files."""
    with hold(project.folder):
        new = Terms(least_answers=least_answers)
        terms = Terms(least_answers=1) | read_decisions(project.folder).terms | new | Terms(rule="mean")
        table = _settle(Project.open(project.folder, project.library), terms)[3]
        side, rows = project.scheme.sides[0], []
        files = project.split.images
        names = dict(zip(files["image_id"].to_pylist(), files["file_name"].to_pylist(), strict=True))
        for row in table.to_pylist():
            first, second = (
                names[row[name]] if side == "image" else f"COCO_val2014:sentid:{row[name]}" for name in PAIR
            )
            ratings = {f"{side}1": first, f"{side}2": second, "agg_score": row["rating"]}
            rows.append(ratings | {"sampling_method": "i2i_csim" if side == "image" else "c2c_isim"})
        written = write_rows(project.folder / RATINGS, rows)
        add_terms(project.folder, new)
        return written


def _settle(project: Project, terms: Terms) -> tuple[pa.Table, list[SheetQuality], pa.Table, pa.Table]:
    """All answers, the verdicts on their sheets, the accepted answers, and their labels."""
    answers, judged = project.answers(), project.judge()
    accepted = accept(answers, judged)
    if not accepted.num_rows:
        why = f"none of {len(judged)} answered sheets is accepted" if judged else "nobody has answered yet"
        raise DataError(f"{project.folder}: {why}; import answers, or accept sheets with annotate check")
    labels = settle(accepted, project.scheme, terms.rule, least_answers=terms.least_answers or 1)
    return answers, judged, accepted, labels
