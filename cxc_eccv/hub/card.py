"""A card: generated text beside text that people wrote there.

A card looks like this. Writing it again replaces only the lines between the two comments, and only if nobody edited
them; in the front matter it replaces only the keys that describe the files::

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

import yaml
from huggingface_hub import RepoCard
from huggingface_hub.repocard import REGEX_YAML_BLOCK

from cxc_eccv.errors import HubConflict, HubError

CARD_FILE = "README.md"

BEGIN = "<!-- cxc_eccv: generated part begins; sha256 {} -->"
END = "<!-- cxc_eccv: generated part ends; write outside these two lines, where everything is kept -->"
BEGINS = re.compile(r"^<!-- cxc_eccv: generated part begins; sha256 ([0-9a-f]{64}) -->[ \t]*$", re.MULTILINE)
ENDS = re.compile(r"^<!-- cxc_eccv: generated part ends;.*-->[ \t]*$", re.MULTILINE)
ANY_MARK = "<!-- cxc_eccv: generated part"


def merge_card(generated: str, existing: str | None, owned: tuple[str, ...], where: str = CARD_FILE) -> str:
    r"""Put the generated card into an existing one; at its end, if that has no generated part yet.

    The keys ``owned`` of the front matter describe the files; of others the existing values stay.

    Raises:
        HubConflict: somebody edited the generated part.
        HubError: the existing front matter is not valid YAML.

    Example:
        >>> theirs = join_card("license: mit", "Read this.")
        >>> merged = merge_card(join_card("license: other\nconfigs: [a]", "# Data"), theirs, ("configs",))
        >>> merged[:56]
        '---\nlicense: mit\nconfigs:\n- a\n---\n\nRead this.\n\n<!-- cxc_'
    """
    card = read_card(generated, "the generated card")
    sections = [_mark(card.text)]
    if existing is not None:
        ours = card
        card = read_card(existing, where)
        before, after = _find_hand_written(card.text, ours.text, where)
        sections = [before.strip("\n"), *sections, after.strip("\n")]
        for key in owned:
            card.data.pop(key)
        for key, value in vars(ours.data).items():
            card.data[key] = card.data.get(key, value)
    card.text = "\n" + "\n\n".join(section for section in sections if section) + "\n"
    return str(card)


def read_card(text: str, where: str) -> RepoCard:
    """Front matter and text of a card; its line ends become those of Unix."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n")
    if not REGEX_YAML_BLOCK.match(text):
        text = f"---\n{{}}\n---\n{text}"
    try:
        return RepoCard(text)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise HubError(f"{where}: its front matter cannot be read. Correct it. {error}") from None


def join_card(matter: str, body: str) -> str:
    """Join front matter and body."""
    return f"---\n{matter.strip()}\n---\n\n{body.strip()}\n"


def _mark(body: str) -> str:
    return "\n".join([BEGIN.format(_digest(body)), body.strip("\n"), END])


def _digest(body: str) -> str:
    """Hash of the text without blanks at the ends of lines, which editors remove."""
    lines = "\n".join(line.rstrip() for line in body.strip().split("\n"))
    return hashlib.sha256(lines.encode()).hexdigest()


def _find_hand_written(their_body: str, body: str, where: str) -> tuple[str, str]:
    """The text before and after the generated part."""
    begins = list(BEGINS.finditer(their_body))
    ends = list(ENDS.finditer(their_body))
    if ANY_MARK not in their_body:
        # A generated card that was uploaded by other means is not hand-written.
        return ("", "") if _digest(their_body) == _digest(body) else (their_body, "")
    if len(begins) != 1 or len(ends) != 1 or begins[0].end() > ends[0].start():
        raise HubConflict(
            f"{where}: the two comments that mark the generated part are damaged. Restore the lines "
            f"'{BEGIN.format('...')}' and '{END}' around it, or remove both and the text between."
        )
    if _digest(their_body[begins[0].end() : ends[0].start()]) != begins[0][1]:
        raise HubConflict(
            f"{where}: somebody edited its generated part, which would be overwritten. Move the edited text above "
            "the comment where that part begins or below the one where it ends; or remove the part with both comments."
        )
    return their_body[: begins[0].start()], their_body[ends[0].end() :]
