"""Turn the answers of an annotation project into labels with their card, or into ratings of two images or captions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.sources.readers import LabelFile, write_labels
from cxc_eccv.studies.annotation.card import check_terms, is_replaceable, join_answers, label_card
from cxc_eccv.studies.annotation.folder import hold
from cxc_eccv.studies.annotation.known import PAIR
from cxc_eccv.studies.annotation.project import CARD, LABELS, Project
from cxc_eccv.studies.asking.quality import SheetQuality, accept
from cxc_eccv.studies.asking.settling import describe_labels, settle
from cxc_eccv.writing import replaced_file, write_rows

RATINGS = "ratings.csv"


def merge_labels(
    project: Project,
    *,
    rule: str | None = None,
    version: str = "1.0.0",
    least_answers: int = 1,
    licence: str | None = None,
    citation: str | None = None,
) -> LabelFile:
    """Make labels from the answers of accepted sheets, and write ``labels.parquet`` and ``README.md``.

    Args:
        project: the project.
        rule: a rule of :func:`cxc_eccv.studies.asking.settling.settle`.
        version: version of the labels.
        least_answers: pairs with answers of fewer people get no label.
        licence: licence of the labels, an id of the Hub such as ``cc-by-4.0``.
        citation: citation of the labels in BibTeX.
    """
    terms = check_terms(licence, citation)
    if project.scheme.sides != ("image", "caption"):
        raise InvalidOption(f"scheme {project.scheme.name} makes ratings, not labels: use write_ratings")
    with hold(project.folder):
        now = Project.open(project.folder, project.library)
        answers, judged, accepted, table = _settle(now, rule, least_answers)
        facts = {
            **_describe(now),
            "version": version,
            "rule": rule or project.scheme.rule,
            "least_answers": least_answers,
            "sheets": dict(sorted(Counter(sheet.verdict for sheet in judged).items())),
            **describe_labels(answers, accepted, table),
            **terms,
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
        "rounds": [{name: it[name] for name in ("strategy", "options", "counts")} for it in proposals],
    }


def write_ratings(project: Project, *, least_answers: int = 1) -> Path:
    """Write the mean rating of every pair of two images or two captions, in the format of CxC's files."""
    with hold(project.folder):
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
        return write_rows(project.folder / RATINGS, rows)


def _settle(
    project: Project, rule: str | None, least_answers: int
) -> tuple[pa.Table, list[SheetQuality], pa.Table, pa.Table]:
    """All answers, the verdicts on their sheets, the accepted answers, and their labels."""
    answers, judged = project.answers(), project.judge()
    accepted = accept(answers, judged)
    if not accepted.num_rows:
        why = f"none of {len(judged)} answered sheets is accepted" if judged else "nobody has answered yet"
        raise DataError(f"{project.folder}: {why}; import answers, or accept sheets with annotate check")
    return answers, judged, accepted, settle(accepted, project.scheme, rule, least_answers=least_answers)
