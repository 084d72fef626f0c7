"""Label Studio: write tasks and the configuration of their interface, and read the project's export as JSON.

References:
    Label Studio, task format and tags, https://labelstud.io/guide/task_format and https://labelstud.io/tags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import read_json, shown
from cxc_eccv.studies.asking.formats import ACCOUNT, Format, Record, join_criteria, name_answers
from cxc_eccv.studies.asking.questionnaire import ADDRESSES, Handout, ShownQuestion
from cxc_eccv.studies.asking.schemes import Details, Scheme

STEP = 1 / 8
"""Step of the slider; Label Studio accepts only values that are exact multiples of it."""

INSTRUCTIONS = "Instructions and examples"
REMARK = "Remark (optional)"
"""Texts of the page that stand here too."""

SLIDER = "without-number"
"""Class of a slider that does not show its number."""

COLUMN = "flex: 50%;"
"""Style of a column, which shrinks like the others."""

RADIO = {"choice": "single-radio", "required": "true"}
BOXES = {"choice": "multiple", "required": "true"}
"""Attributes of radio buttons, and of boxes to tick."""

QUESTION = ("questionnaire", "sheet", "pair_id", "image_id", "caption_id", "caption")
VALUES = ("choices", "number", "text")
"""Keys of a control's value, by its type."""


def render(questions: Sequence[ShownQuestion], handout: Handout) -> Mapping[str, str]:
    """The tasks, each with the name of the person if there is one, and the configuration."""
    person = {"worker": handout.worker} if handout.worker else {}
    tasks = []
    for question in questions:
        data = {**question, **person}
        tasks.append({"data": {name: _join_lines(value) for name, value in data.items()}})
    return {
        "tasks.json": json.dumps(tasks, ensure_ascii=False, indent=1) + "\n",
        "labeling_config.xml": _configuration(handout),
    }


def _join_lines(value: object) -> object:
    return "\n".join(value) if isinstance(value, list) else value


def _configuration(handout: Handout) -> str:
    """The interface: a column for each image, and one for texts, question and answers, so that nobody has to scroll."""
    view = ET.Element("View")
    scheme = handout.scheme
    ET.SubElement(view, "Style").text = f".{SLIDER} output {{ display: none; }}"  # the number of a slider
    panel = ET.SubElement(ET.SubElement(view, "Collapse"), "Panel", value=_translate(INSTRUCTIONS, handout))
    folded = ET.SubElement(panel, "View")
    ET.SubElement(folded, "Header", value=scheme.title)
    for paragraph in (*handout.texts.consent, *scheme.instructions, *handout.texts.examples):
        ET.SubElement(folded, "Header", value=paragraph, size="5")
    columns = ET.SubElement(view, "View", style="display: flex;")
    names = {part.name: ADDRESSES[part.name] if part.kind == "image" else part.name for part in scheme.shows}
    for part in scheme.shows:
        if part.kind == "image":
            left = ET.SubElement(columns, "View", style=f"{COLUMN} margin-right: 1em;")
            ET.SubElement(left, "Header", value=part.title, size="5")
            ET.SubElement(left, "Image", name=names[part.name], value=f"${names[part.name]}")
    right = ET.SubElement(columns, "View", style=COLUMN)
    for part in scheme.shows:
        if part.kind != "image":
            ET.SubElement(right, "Header", value=part.title, size="5")
            ET.SubElement(right, "Text", name=part.name, value=f"${part.name}")
    to = names[scheme.shows[0].name]
    _ask(right, scheme, to)
    ET.SubElement(right, "Header", value=_translate(REMARK, handout), size="5")
    ET.SubElement(right, "TextArea", name="remark", toName=to, maxSubmissions="1", editable="true")
    ET.indent(view)
    return ET.tostring(view, encoding="unicode") + "\n"


def _translate(text: str, handout: Handout) -> str:
    return handout.texts.page.get(text, text)


def _ask(view: ET.Element, scheme: Scheme, to: str) -> None:
    """Add the question and its controls, which belong to one of the shown parts."""
    ET.SubElement(view, "Header", value=scheme.question)
    if scheme.criteria:
        for name, label in scheme.criteria.items():
            ET.SubElement(view, "Header", value=label, size="5")
            _choices(view, {"yes": "yes", "no": "no"}, {"name": name, "toName": to, **RADIO})
    elif scheme.scale:
        _slider(view, to, scheme)
    else:
        labels = {answer.name: answer.label for answer in scheme.answers}
        _choices(view, labels, {"name": "answer", "toName": to, **RADIO})
    parts = {"answer": view}
    for details in scheme.details:
        condition = {} if details.always else _condition(details, scheme)
        parts[details.name] = group = ET.SubElement(parts[condition.get("whenTagName", "answer")], "View", condition)
        ET.SubElement(group, "Header", value=details.label, size="5")
        # Also on the choices: ticks in a view that is hidden again would be sent.
        _choices(group, details.choices, {"name": details.name, "toName": to, **BOXES, **condition})


def _choices(part: ET.Element, labels: Mapping[str, str], attributes: dict[str, str]) -> None:
    """Add radio buttons or boxes that show the labels and export the names."""
    choices = ET.SubElement(part, "Choices", attributes, showInline="false", requiredMessage="Answer every question.")
    for alias, label in labels.items():
        ET.SubElement(choices, "Choice", value=label, alias=alias)


def _slider(view: ET.Element, to: str, scheme: Scheme) -> None:
    """Add the slider, the lowest mark on its left; as in Crisscrossed Captions it shows no numbers beside marks."""
    low, high = scheme.scale or (0.0, 0.0)
    slider = ET.SubElement(view, "View", className=SLIDER) if scheme.marks else view
    bounds = {"min": f"{low:g}", "max": f"{high:g}", "step": f"{scheme.step or STEP:g}"}
    ET.SubElement(slider, "Number", bounds, name="answer", toName=to, slider="true", required="true")
    ends = {0: "Left: ", len(scheme.marks) - 1: "Right: "}
    for place, text in enumerate(scheme.marks):
        ET.SubElement(view, "Header", value=ends.get(place, "") + text, size="5", style="font-weight: normal;")


def _condition(group: Details, scheme: Scheme) -> dict[str, str]:
    """The attributes that show a group on condition; names separated by commas, which labels may contain."""
    if group.after:
        tag = next(other.name for other in scheme.details if group.after in other.choices)
        values = group.after
    else:
        tag = "answer"
        values = ",".join(answer.name for answer in scheme.answers if answer.asks)
    return {"visibleWhen": "choice-selected", "whenTagName": tag, "whenChoiceValue": values}


def read(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every annotation that was not skipped."""
    expected = (
        "the project's export as JSON (not JSON_MIN, CSV or TSV), labelled with the exported configuration and tasks"
    )
    tasks = read_json(path)
    if not isinstance(tasks, list):
        raise MalformedSource(path, "", shown(tasks), expected)
    for number, task in enumerate(tasks):
        where = f"[{number}]"
        try:
            where += f", task {task['id']!r:.60}"
            if "annotation_id" in task:
                raise MalformedSource(path, where, "a task as JSON_MIN has it", expected)
            for annotation in task["annotations"]:
                if not annotation.get("was_cancelled"):
                    _check_ids(path, where, task["data"])
                    place = f"{where}, annotation {annotation['id']!r:.60}"
                    values = _collect_values(annotation["result"], scheme)
                    yield place, _record(task["data"], annotation, values, scheme)
        except (AttributeError, LookupError, TypeError) as error:
            raise MalformedSource(path, where, repr(error), expected) from None


def _check_ids(path: Path, where: str, data: Record) -> None:
    """Refuse ids as texts, which tasks have that were not imported from the exported file."""
    for name in ("sheet", "image_id", "caption_id"):
        if isinstance(data[name], str):
            expected = (
                "a number, as in the export of a project into which tasks.json was imported; "
                "write the ids as numbers here too"
            )
            raise MalformedSource(path, f"{where}, {name}", f"the text {shown(data[name])}", expected)


def _collect_values(results: list[Record], scheme: Scheme) -> dict[str, list[object]]:
    """Control to its values."""
    values: dict[str, list[object]] = {name: [] for name in name_answers(scheme)}
    for result in results:
        values[result["from_name"]] += _values(result["value"])
    return values


def _values(value: object) -> list[object]:
    """The chosen, typed or set values of a control."""
    parts = [value[name] for name in VALUES if name in value] if isinstance(value, dict) else [value]
    return [leaf for part in parts for leaf in (part if isinstance(part, list) else [part])]


def _record(data: Record, annotation: Record, values: Mapping[str, list[object]], scheme: Scheme) -> Record:
    account = annotation["completed_by"]
    if isinstance(account, dict):
        account = account.get("email") or account.get("id")
    words = {name: _single(values[name]) for name in scheme.criteria or () if values.get(name)}
    answer = join_criteria(words) if scheme.criteria else _single(values.get("answer", []))
    # Ticks in a group that was hidden again may be sent; drop them.
    shown_groups = scheme.find_details(answer, values)
    return {
        **{name: data[name] for name in QUESTION},
        "worker": data.get("worker"),
        ACCOUNT: str(account) if type(account) is int else account,
        "answer": answer,
        "details": {group.name: values.get(group.name, []) for group in shown_groups},
        "remark": "\n".join(map(str, values.get("remark", []))),
        "seconds": annotation.get("lead_time"),
    }


def _single(values: list[object]) -> object:
    return values[0] if len(values) == 1 else values or None


FORMAT = Format(
    name="label_studio",
    exported="one project per person, with its tasks and labeling configuration; in a shared one nobody gets whole "
    "sheets. Export answers as JSON. Images at /data/local-files need a Local Storage in each project",
    ending=".json",
    by_sheet=False,
    render=render,
    read=read,
)
