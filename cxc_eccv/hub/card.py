"""A card on the Hub: generated text beside text that people wrote there.

A card on the Hub looks like this. The next push replaces only the lines between the two comments, and only if nobody
edited them; in the front matter it replaces only the keys that describe the files::

    ---
    license: other          <- kept, however it was edited
    configs: ...            <- generated again
    ---

    Hand-written text.      <- kept

    <!-- cxc_eccv: generated part begins; sha256 0123... -->
    # CxC, ECCV Caption ...
    <!-- cxc_eccv: generated part ends; ... -->

    Hand-written text.      <- kept
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any

import yaml

from cxc_eccv.errors import HubConflict, HubError

CARD = "README.md"

BEGIN = "<!-- cxc_eccv: generated part begins; sha256 {} -->"
END = "<!-- cxc_eccv: generated part ends; write outside these two lines, where everything is kept -->"
BEGINS = re.compile(r"^<!-- cxc_eccv: generated part begins; sha256 ([0-9a-f]{64}) -->[ \t]*$", re.MULTILINE)
ENDS = re.compile(r"^<!-- cxc_eccv: generated part ends;.*-->[ \t]*$", re.MULTILINE)
ANY_MARK = "<!-- cxc_eccv: generated part"


def merge_card(generated: str, remote: str | None, owned: tuple[str, ...], where: str = CARD) -> str:
    """Put the generated card into the Hub's card; at its end, if it has no generated part yet.

    The keys ``owned`` of the front matter describe the files. A generated part that somebody edited raises an error.
    """
    matter, body = split_card(generated)
    if remote is None:
        return join_card(matter, _mark(body))
    their_matter, their_body = split_card(remote)
    before, after = _find_hand_written(their_body, body, where)
    sections = [before.strip("\n"), _mark(body), after.strip("\n")]
    kept = merge_matter(matter, their_matter, owned, where)
    return join_card(kept, "\n\n".join(section for section in sections if section))


def is_marked(card: str) -> bool:
    """Whether a card has a generated part, even with damaged marks."""
    return ANY_MARK in card


def _mark(body: str) -> str:
    return "\n".join([BEGIN.format(_digest(body)), body.strip("\n"), END])


def _digest(body: str) -> str:
    """Hash of the text without blanks at the ends of lines, which editors remove."""
    lines = "\n".join(line.rstrip() for line in body.strip().split("\n"))
    return hashlib.sha256(lines.encode()).hexdigest()


def _find_hand_written(their_body: str, body: str, where: str) -> tuple[str, str]:
    """The text before and after the generated part."""
    begins, ends = list(BEGINS.finditer(their_body)), list(ENDS.finditer(their_body))
    if not is_marked(their_body):
        # A generated card that was uploaded by other means is not hand-written.
        return ("", "") if _digest(their_body) == _digest(body) else (their_body, "")
    if len(begins) != 1 or len(ends) != 1 or begins[0].end() > ends[0].start():
        raise HubConflict(
            f"{where}: the two comments that mark the generated part are damaged. Restore the lines "
            f"'{BEGIN.format('...')}' and '{END}' around it, or remove both and the text between."
        )
    if _digest(their_body[begins[0].end() : ends[0].start()]) != begins[0][1]:
        raise HubConflict(
            f"{where}: somebody edited its generated part, which the push would overwrite. Move the edited text above "
            "the comment where that part begins or below the one where it ends; or remove the part with both comments."
        )
    return their_body[: begins[0].start()], their_body[ends[0].end() :]


def split_card(card: str) -> tuple[str, str]:
    """Split a card into front matter, without its fences, and body; line ends become those of Unix."""
    text = card.lstrip("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if lines[0].rstrip() == "---" and "---" in (ends := [line.rstrip() for line in lines[1:]]):
        end = ends.index("---") + 1
        return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])
    return "", text


def join_card(matter: str, body: str) -> str:
    """Join front matter and body."""
    head = "---\n" + matter.strip("\n") + "\n---\n\n" if matter.strip() else ""
    return head + body.strip("\n") + "\n"


def read_matter(matter: str, where: str) -> dict[str, Any]:
    """Read front matter; an error names ``where`` it is."""
    try:
        metadata = yaml.safe_load(matter) or {}
    except yaml.YAMLError as error:
        raise HubError(f"{where}: its front matter is not valid YAML. Correct it. {error}") from None
    if not isinstance(metadata, dict):
        raise HubError(f"{where}: its front matter is {type(metadata).__name__}, not a mapping. Correct it.")
    return metadata


def merge_matter(ours: str, theirs: str, owned: tuple[str, ...], where: str) -> str:
    """Update the front matter of the Hub's card: set the ``owned`` keys and those it lacks, drop owned keys we lack."""
    generated, kept = read_matter(ours, "the generated card"), read_matter(theirs, where)
    changed = {key: value for key, value in generated.items() if key in owned or key not in kept}
    return replace_keys(theirs, changed, where, [key for key in owned if key in kept and key not in generated])


KEY = re.compile(r"^(?P<quote>['\"]?)(?P<key>[^\s#'\"-][^:'\"]*)(?P=quote)\s*:(\s|$)")


def replace_keys(matter: str, changed: Mapping[str, Any], where: str, gone: Collection[str] = ()) -> str:
    """Change the values of some keys of front matter; all other lines, also comments, stay."""
    before = read_matter(matter, where)
    after = {key: value for key, value in {**before, **changed}.items() if key not in gone}
    if after == before:
        return matter
    blocks = _cut_blocks(matter)
    for key, value in changed.items():
        if key not in before or before[key] != value:
            # Whole-line comments in a block most likely belong to the next key.
            comments = [line for line in blocks.get(key, "").split("\n") if line.startswith("#")]
            blocks[key] = "\n".join([_dump({key: value}), *comments])
    text = "\n".join(block for key, block in blocks.items() if block and key not in gone)
    try:
        if yaml.safe_load(text) == after:
            return text
    except yaml.YAMLError:
        pass
    # Anchors, tags or a flow mapping across keys cannot be cut into lines: rewrite everything.
    return _dump(after)


def _cut_blocks(matter: str) -> dict[str, str]:
    """Lines by top-level key; comments belong to the key above, those at the top to no key."""
    lines: dict[str, list[str]] = {"": []}
    current = ""
    for line in matter.split("\n"):
        match = KEY.match(line)
        if match:
            current = match["key"].strip()
        lines.setdefault(current, []).append(line)
    return {key: "\n".join(block) for key, block in lines.items()}


def _dump(metadata: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")
