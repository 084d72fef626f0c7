"""A generated card put into the Hub's one: the generated part is marked, everything outside it is kept.

On the Hub a card looks like this. Only the lines between the two comments are replaced by the next push, and only if
nobody has edited them; in the front matter only the keys that describe the files are::

    ---
    license: other          <- kept, however it was edited
    configs: ...            <- generated anew
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

from cxc_eccv.errors import HubConflict
from cxc_eccv.hub import front_matter

__all__ = ["is_marked", "merge_card"]

BEGIN = "<!-- cxc_eccv: generated part begins; sha256 {} -->"
END = "<!-- cxc_eccv: generated part ends; write outside these two lines, where everything is kept -->"
BEGINS = re.compile(r"^<!-- cxc_eccv: generated part begins; sha256 ([0-9a-f]{64}) -->[ \t]*$", re.MULTILINE)
ENDS = re.compile(r"^<!-- cxc_eccv: generated part ends;.*-->[ \t]*$", re.MULTILINE)
ANY_MARK = "<!-- cxc_eccv: generated part"


def merge_card(generated: str, remote: str | None, owned: tuple[str, ...], where: str = "README.md") -> str:
    r"""Put the generated card into the Hub's one.

    Args:
        generated: the new card, front matter and all, without marks.
        remote: the Hub's card; None where there is none.
        owned: keys of the front matter that describe the files.
        where: which card, for messages.

    Returns:
        The Hub's card with the generated part replaced; with the generated part below it where it has none yet.

    Raises:
        HubConflict: somebody edited the generated part, or damaged its marks.
        HubError: the Hub's front matter is not a YAML mapping.

    Example:
        >>> first = merge_card("---\na: 1\n---\n# Data", None, ("a",))
        >>> edited = first.replace("---\n\n<!--", "---\n\nBy hand.\n\n<!--")
        >>> second = merge_card("---\na: 2\n---\n# Better data", edited, ("a",))
        >>> "By hand." in second, "a: 2" in second, "# Better data" in second, "# Data" in second
        (True, True, True, False)
    """
    matter, body = front_matter.split(generated)
    if remote is None:
        return front_matter.join(matter, _mark(body))
    their_matter, their_body = front_matter.split(remote)
    before, after = _find_hand_written(their_body, body, where)
    sections = [before.strip("\n"), _mark(body), after.strip("\n")]
    kept = front_matter.merge(matter, their_matter, owned, where)
    return front_matter.join(kept, "\n\n".join(section for section in sections if section))


def is_marked(card: str) -> bool:
    """Whether a card has a generated part, or what is left of its marks.

    Example:
        >>> is_marked("# Data"), is_marked(merge_card("# Data", None, ()))
        (False, True)
    """
    return ANY_MARK in card


def _mark(body: str) -> str:
    return "\n".join([BEGIN.format(_digest(body)), body.strip("\n"), END])


def _digest(body: str) -> str:
    """Of the text as it is read: blank ends of lines do not count, since editors remove them."""
    lines = "\n".join(line.rstrip() for line in body.strip().split("\n"))
    return hashlib.sha256(lines.encode()).hexdigest()


def _find_hand_written(their_body: str, body: str, where: str) -> tuple[str, str]:
    """What stands before and after the generated part."""
    begins, ends = list(BEGINS.finditer(their_body)), list(ENDS.finditer(their_body))
    if not is_marked(their_body):
        # A card that was uploaded by other means is no hand-writing.
        return ("", "") if _digest(their_body) == _digest(body) else (their_body, "")
    if len(begins) != 1 or len(ends) != 1 or begins[0].end() > ends[0].start():
        raise HubConflict(
            f"{where}: the two comments that mark the generated part are damaged. Restore the lines "
            f"'{BEGIN.format('...')}' and '{END}' around it, or remove the generated part with both."
        )
    if _digest(their_body[begins[0].end() : ends[0].start()]) != begins[0][1]:
        raise HubConflict(
            f"{where}: its generated part was edited by hand, and would be overwritten. Move what you wrote above the "
            "comment where it begins, or below the one where it ends; or remove the generated part with both comments."
        )
    return their_body[: begins[0].start()], their_body[ends[0].end() :]
