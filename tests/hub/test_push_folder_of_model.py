"""Pushing the folder of a trained model."""

import pytest

from cxc_eccv.hub.card import join_card, merge_card

GENERATED = join_card("license: unknown\nbase_model: google/bert", "# Mine\n\n## Results")


@pytest.fixture
def folder(tmp_path):
    """What training leaves, without the weight of weights."""
    texts = {
        "config.json": "{}",
        "model.safetensors": "weights",
        "report/report.json": "{}",
        "checkpoint-2/optimizer.pt": "state",
        "README.md": merge_card(GENERATED, None, ()),
    }
    for path, text in texts.items():
        (tmp_path / "model" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / path).write_text(text)
    return tmp_path / "model"


def test_model_goes_up_with_its_card(hub, client, folder):
    shown = client.command("push", folder, "org/mine").out
    assert "model org/mine: 4 files\n" in shown
    assert "left out: checkpoint-2/optimizer.pt\n" in shown
    assert "Load the model by its name, org/mine" in client.command("push", folder, "org/mine", "--yes").out
    files = hub.store.repositories["model", "org/mine"].files()
    assert set(files) - {".gitattributes"} == {"README.md", "config.json", "model.safetensors", "report/report.json"}
    assert files["README.md"] == (folder / "README.md").read_bytes()


def test_text_on_the_hub_needs_replace(hub, client, folder):
    client.command("push", folder, "org/mine", "--yes")
    client.command("push", folder, "org/mine", "--yes")
    model = hub.store.repositories["model", "org/mine"]
    card = model.files()["README.md"].decode()
    hub.store.write(model, {"README.md": (card.replace("unknown", "mit") + "\nMail us.\n").encode()})
    refused = " ".join(client.command("push", folder, "org/mine", "--yes", status=2).err.split())
    assert "its README.md says 'Mail us.'" in refused
    assert "its README.md has license: 'mit', and that of the folder 'unknown'" in refused
    local = (folder / "README.md").read_text().replace("unknown", "mit").replace("## Results", "## Scores")
    (folder / "README.md").write_text(local + "\nMail us.\n")
    client.command("push", folder, "org/mine", "--yes")
    (folder / "README.md").write_text(merge_card(GENERATED, None, ()))
    client.command("push", folder, "org/mine", "--yes", "--replace")
    assert b"Mail us." not in model.files()["README.md"]
