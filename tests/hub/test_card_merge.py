"""Merging a generated card into one with hand-written parts."""

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given

from cxc_eccv.errors import HubConflict, HubError
from cxc_eccv.hub.card import join_card, merge_card, read_card

OWNED = ("configs",)
words = st.text(st.sampled_from("abc#-: \n<>!"), max_size=60)
plain = words.filter(lambda text: not text.lstrip().startswith("---"))


def sections(text):
    """What stands before, between and after the marks."""
    before, _, rest = read_card(text, "card").text.partition("<!-- cxc_eccv: generated part begins")
    generated, _, after = rest.partition("<!-- cxc_eccv: generated part ends")
    return before.strip("\n"), generated.partition("\n")[2].strip("\n"), after.partition("\n")[2].strip("\n")


@given(before=plain, after=plain, old=plain, new=plain)
def test_hand_written_text_outlives_any_push(before, after, old, new):
    pushed = read_card(merge_card(join_card("configs: [old]", old), None, OWNED), "card")
    edited = join_card("configs: [old]", f"{before}\n\n{pushed.text.strip()}\n\n{after}")
    merged = merge_card(join_card("configs: [new]", new), edited, OWNED)
    assert sections(merged) == (before.strip(), new.strip(), after.strip()) or merged.count("generated part") == 2
    assert before.strip() in merged
    assert after.strip() in merged
    assert read_card(merged, "card").data.to_dict() == {"configs": ["new"]}
    assert merge_card(join_card("configs: [new]", new), merged, OWNED) == merged


@given(
    theirs=st.dictionaries(
        st.sampled_from(["a", "b c", "configs", "tags"]), st.lists(st.integers()) | words, max_size=4
    ),
    ours=st.dictionaries(st.sampled_from(["a", "configs", "new"]), st.lists(words) | st.integers(), max_size=3),
)
def test_only_keys_that_describe_the_files_are_replaced(theirs, ours):
    cards = [join_card(yaml.safe_dump(matter), "# Data") for matter in (ours, theirs)]
    merged = read_card(merge_card(*cards, OWNED), "card").data.to_dict()
    expected = {**ours, **theirs} | {key: ours[key] for key in OWNED if key in ours}
    if "configs" not in ours:
        expected.pop("configs", None)
    assert merged == expected


@pytest.mark.parametrize(("matter", "message"), [("a: [", "cannot be read"), ("- a", "should be a dict")])
def test_front_matter_that_cannot_be_merged_is_refused(matter, message):
    with pytest.raises(HubError, match=message):
        merge_card(join_card("configs: [x]", "# Data"), f"---\n{matter}\n---\n# Ours", OWNED)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda card: card + card, "are damaged"),
        (lambda card: card.replace("generated part begins", ""), "are damaged"),
        (lambda card: card.replace("generated part ends", ""), "are damaged"),
        (lambda card: "\n".join(reversed(card.split("\n"))), "are damaged"),
        (lambda card: card.replace("# Data", "# My data"), "somebody edited.* Move the edited text"),
    ],
    ids=["twice", "no-begin", "no-end", "reversed", "edited"],
)
def test_an_edited_generated_part_is_not_overwritten(edit, message):
    with pytest.raises(HubConflict, match=message):
        merge_card("# Data", edit(merge_card("# Data", None, OWNED)), OWNED)


def test_card_without_markers_counts_as_hand_written():
    """One that equals the generated card, but for white space, is replaced."""
    theirs = "---\nlicense: mit\n---\n# My data\n\nOld text.\n"
    merged = merge_card(join_card("configs: [x]", "# Data"), theirs, OWNED)
    assert merged.startswith("---\nlicense: mit\nconfigs:\n- x\n---\n\n# My data\n\nOld text.\n\n<!-- cxc_eccv: gen")
    generated = join_card("configs: [x]", "# Data\n\nText.")  # uploaded by other means
    assert merge_card(generated, generated.replace("\n\nT", "  \r\n\r\nT"), OWNED) == merge_card(generated, None, OWNED)
    marked = merge_card(generated, None, OWNED)
    assert merge_card(generated, marked.replace("\n", "\r\n").replace("# Data\r", "# Data  \r"), OWNED) == marked


@pytest.mark.parametrize("text", ["# Title\n\n---\n\nText\n", "---\nno end\n"])
def test_horizontal_rule_is_no_front_matter(text):
    card = read_card(text, "card")
    assert (card.data.to_dict(), card.text) == ({}, text)
