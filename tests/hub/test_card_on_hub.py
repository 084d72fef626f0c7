"""The card on the Hub: what people wrote by hand outlives every push."""

import pytest
import yaml

from cxc_eccv.builders.dataset_cards import point_examples
from cxc_eccv.builders.folder_writing import build_folder

REPO = "org/data"


@pytest.fixture
def pushed(hub, client, built):
    client.command("push", built, REPO, "--yes")
    return hub.store.repositories["dataset", REPO]


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
    """Another build: other configs, another card."""
    folder = tmp_path_factory.mktemp("rebuilt") / "data"
    build_folder(folder, configs=["sis"], data_dir="sample", progress=False)
    return folder


def card(repository):
    return repository.files()["README.md"].decode()


def rewrite(hub, repository, edit):
    hub.store.write(repository, {"README.md": edit(card(repository)).encode()})


def test_the_generated_part_is_marked(pushed, built):
    body = point_examples((built / "README.md").read_text().split("---\n", 2)[2].strip(), REPO)
    assert body in card(pushed)
    assert card(pushed).count("<!-- cxc_eccv: generated part") == 2


def test_hand_written_sections_and_metadata_are_kept(hub, client, pushed, rebuilt):
    rewrite(
        hub,
        pushed,
        lambda text: (
            text.replace("---\n\n<!--", "---\n\nRead our paper first.\n\n<!--").replace(
                "license: other\n", "extra_gated_prompt: Be kind\nlicense: cc-by-4.0\n"
            )
            + "\n## Contact\n\nMail us.\n"
        ),
    )
    client.command("push", rebuilt, REPO, "--yes", "--replace")
    after = card(pushed)
    assert after.index("Read our paper first.") < after.index("generated part begins") < after.index("## `sis`")
    assert after.endswith("\n## Contact\n\nMail us.\n")
    assert "extra_gated_prompt: Be kind\nlicense: cc-by-4.0\n" in after
    assert [one["config_name"] for one in yaml.safe_load(after.split("---\n")[1])["configs"]] == ["sis"]
    assert not [path for path in pushed.files() if path.startswith("sts/")]
    assert "## `sts`" not in after


EXAMPLES = r"""
import re
from huggingface_hub import hf_hub_download

card = open(hf_hub_download("org/data", "README.md", repo_type="dataset")).read()
blocks = re.findall("^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)
for block in blocks:
    exec(block, {})
told = blocks
"""


def test_card_examples_load_the_dataset_by_name(client, pushed):
    answer = client.code(EXAMPLES)
    assert answer.told is not None, answer.err
    assert len(answer.told) == 3
    assert all('load_dataset("org/data", "' in block for block in answer.told)


def test_linked_terms_are_uploaded_with_the_card(pushed):
    metadata = yaml.safe_load(card(pushed).split("---\n")[1])
    assert metadata["license"] == "other"
    assert metadata["license_name"] == "terms-of-each-source"
    terms = pushed.files()[metadata["license_link"]].decode()
    assert "| [Crisscrossed Captions (CxC)](" in terms
    assert "| Crisscrossed Captions (CxC) | `sts`, `sits` |" in terms
