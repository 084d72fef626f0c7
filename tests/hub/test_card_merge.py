"""Merging a generated card into one with hand-written parts."""

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given

from cxc_eccv.errors import HubConflict, HubError
from cxc_eccv.hub.card import join_card, merge_card, merge_matter, read_matter, split_card

OWNED = ("configs",)
words = st.text(st.sampled_from("abc#-: \n<>!"), max_size=60)
plain = words.filter(lambda text: not text.lstrip().startswith("---"))


def with_hand_writing(text, before, after):
    """The card on the Hub after somebody wrote above and below the generated part."""
    matter, body = split_card(text)
    return join_card(matter, f"{before}\n\n{body}\n\n{after}")


def sections(text):
    """What stands before, between and after the marks."""
    body = split_card(text)[1]
    before, _, rest = body.partition("<!-- cxc_eccv: generated part begins")
    generated, _, after = rest.partition("<!-- cxc_eccv: generated part ends")
    return before.strip("\n"), generated.partition("\n")[2].strip("\n"), after.partition("\n")[2].strip("\n")


@given(before=plain, after=plain, old=plain, new=plain)
def test_hand_written_text_outlives_any_push(before, after, old, new):
    pushed = merge_card(join_card("configs: [old]", old), None, OWNED)
    edited = with_hand_writing(pushed, before, after)
    merged = merge_card(join_card("configs: [new]", new), edited, OWNED)
    assert sections(merged) == (before.strip("\n"), new.strip("\n"), after.strip("\n"))
    assert yaml.safe_load(split_card(merged)[0]) == {"configs": ["new"]}
    assert merge_card(join_card("configs: [new]", new), merged, OWNED) == merged


@given(
    theirs=st.dictionaries(
        st.sampled_from(["a", "b c", "configs", "tags"]), st.lists(st.integers()) | words, max_size=4
    ),
    ours=st.dictionaries(st.sampled_from(["a", "configs", "new"]), st.lists(words) | st.integers(), max_size=3),
)
def test_metadata_is_ours_where_it_describes_the_files_and_theirs_elsewhere(theirs, ours):
    found = merge_matter(yaml.safe_dump(ours), yaml.safe_dump(theirs, sort_keys=False), OWNED, "README.md")
    expected = {**ours, **theirs} | {key: ours[key] for key in OWNED if key in ours}
    if "configs" not in ours:
        expected.pop("configs", None)
    assert read_matter(found, "found") == expected


def test_lines_of_other_keys_keep_their_form():
    theirs = "# top\nlicense:   mit   # chosen by us\ntags: [b, a]\nconfigs:\n- old\n# about languages\nlanguage: [en]"
    found = merge_matter("configs: [x]\nlicense: apache-2.0\nnew: 1", theirs, OWNED, "README.md")
    assert found == (
        "# top\nlicense:   mit   # chosen by us\ntags: [b, a]\nconfigs:\n- x\n# about languages\nlanguage: [en]\nnew: 1"
    )


@pytest.mark.parametrize(
    "theirs",
    ["{a: 1, configs: [x]}", "base: &b [1]\na: *b\nconfigs: *b", '"a": |\n  text\n  configs: no\nconfigs: [y]'],
    ids=["flow", "anchors", "block-scalar"],
)
def test_unusual_yaml_is_merged_by_meaning(theirs):
    found = read_matter(merge_matter("configs: [x, z]", theirs, OWNED, "README.md"), "found")
    assert found == yaml.safe_load(theirs) | {"configs": ["x", "z"]}


@pytest.mark.parametrize(("matter", "message"), [("a: [", "not valid YAML"), ("- a", "list, not a mapping")])
def test_front_matter_that_cannot_be_merged_is_refused(matter, message):
    with pytest.raises(HubError, match=message):
        merge_card(join_card("configs: [x]", "# Data"), f"---\n{matter}\n---\n# Ours", OWNED)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda card: card + card, "are damaged"),
        (lambda card: card.replace("generated part begins", ""), "are damaged"),
        (lambda card: card.replace("generated part ends", ""), "are damaged"),
        (lambda card: card.replace("# Data", "# My data"), "somebody edited.* Move the edited text"),
    ],
    ids=["twice", "no-begin", "no-end", "edited"],
)
def test_a_generated_part_that_somebody_changed_is_not_overwritten(edit, message):
    with pytest.raises(HubConflict, match=message):
        merge_card("# Data", edit(merge_card("# Data", None, OWNED)), OWNED)


def test_a_card_without_marks_is_hand_writing_unless_it_is_the_generated_one():
    theirs = "---\nlicense: mit\n---\n# My data\n\nOld text.\n"
    merged = merge_card(join_card("configs: [x]", "# Data"), theirs, OWNED)
    assert merged.startswith("---\nlicense: mit\nconfigs:\n- x\n---\n\n# My data\n\nOld text.\n\n<!-- cxc_eccv: gen")
    generated = join_card("configs: [x]", "# Data\n\nText.")  # uploaded by other means
    assert merge_card(generated, generated.replace("\n\nT", "  \r\n\r\nT"), OWNED) == merge_card(generated, None, OWNED)
    marked = merge_card(generated, None, OWNED)
    assert merge_card(generated, marked.replace("\n", "\r\n").replace("# Data\r", "# Data  \r"), OWNED) == marked


def test_a_rule_in_the_text_is_no_front_matter():
    assert split_card("# Title\n\n---\n\nText\n") == ("", "# Title\n\n---\n\nText\n")
    assert split_card("---\nno end\n") == ("", "---\nno end\n")
