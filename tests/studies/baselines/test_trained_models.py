"""What a training command leaves: scores on the console, a report to compare, a card, a model that AutoModel loads."""

import json
import re
import shlex
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard
from owner_addresses import ADDRESSES, REPOSITORY, write_metadata
from transformers import pipeline

from cxc_eccv.cli.app import main
from cxc_eccv.cli.delivery import COMMAND, command_text
from cxc_eccv.errors import InvalidOption
from cxc_eccv.report.loading import find_report
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.studies.baselines.commands import _training_command
from cxc_eccv.studies.trainers.model_card import Trained, write_model_card

pytestmark = pytest.mark.thorough

PAGES = ["examples.parquet", "per_query.parquet", "report.html", "report.json", "report.md"]
COMMANDS = {
    "dual-encoder": (
        *("--data-dir", "sample", "--no-pretraining", "--text-model", "sample", "--mode", "t2t", "--use-cpu"),
        *("--per-device-train-batch-size", "32", "--max-steps", "2", "--train-on", "coco/train", "coco/restval"),
    ),
    "char-gru": (
        *("--data-dir", "sample", "--train-on", "coco/val", "--held-out", "4", "--hidden-size", "8"),
        *("--images", "30", "--cycle-epochs", "1", "--epochs", "2", "--no-coco-tokens"),
    ),
}
FOLDERS = {"dual-encoder": ".", "char-gru": "ensemble"}
SAMPLE = ("--data-dir", "sample", "--images", "sample", "--text-model", "sample", "--image-model", "sample")
OF_IMAGES = {
    "image-encoder": (
        *("dual-encoder", *SAMPLE, "--no-pretraining", "--mode", "i2t", "--use-cpu", "--max-steps", "2"),
        *("--per-device-train-batch-size", "30", "--report-on", "test"),
    ),
    "classifier": (
        *("entailment-classifier", *SAMPLE, "--visual-text-model", "sample", "--train-on", "cxc/val"),
        *("--use-cpu", "--max-steps", "2", "--held-out", "12", "--report-on", "cxc/test"),
    ),
}


def status(*words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return ended.value.code


def scores(folder):
    return json.loads((folder / "report.json").read_text())["scores"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for kind, options in COMMANDS.items():
            words = ("train", kind, *options, "--output-dir", f"{kind}/{kind}", "--report-on", "test", "--seed", "7")
            assert status(*words) == 0
    return {kind: place / kind / kind for kind in COMMANDS}


def test_the_reports_are_whole_folders_that_compare_takes(trained, tmp_path, capsys):
    for folder in trained.values():
        assert sorted(path.name for path in (folder / "report").iterdir()) == PAGES
    assert status("compare", *trained.values(), "--output", tmp_path / "compared") == 0
    out = capsys.readouterr().out
    assert "dual-encoder" in out
    assert "char-gru" in out


def test_folder_with_two_reports_is_refused(trained, tmp_path):
    folder = trained["char-gru"]
    assert find_report(folder) == find_report(folder / "report") == folder / "report" / "report.json"
    shutil.copytree(folder / "report", tmp_path / "report")
    shutil.copy(folder / "report" / "report.json", tmp_path)
    with pytest.raises(
        InvalidOption, match=r"holds both report.json and report/report.json; name one of the two files"
    ):
        find_report(tmp_path)


@pytest.mark.parametrize("kind", COMMANDS)
def test_model_card_states_how_it_was_trained(trained, kind):
    folder = trained[kind]
    card = ModelCard.load(folder / FOLDERS[kind] / "README.md")
    data = card.data.to_dict()
    assert "model-index" not in card.content  # results on the sample are none of the benchmark
    assert data["library_name"] == "transformers"
    if kind == "dual-encoder":
        assert len(pipeline(data["pipeline_tag"], model=str(folder))("a dog")[0]) > 1
    else:
        assert "pipeline_tag" not in data  # none runs it
    assert data["tags"] == ["cxc_eccv", kind, "text-retrieval"]
    assert "datasets" not in data  # the sample's drawings are not COCO
    assert f"cxc-eccv train {kind} " in card.text
    assert f"--output-dir {kind}" in card.text
    assert "| `seed` | `7` |" in card.text
    assert str(folder.parent) not in card.content


@pytest.mark.parametrize("kind", COMMANDS)
def test_commands_of_a_card_give_its_scores(trained, kind, monkeypatch):
    check_commands(trained[kind], FOLDERS[kind], monkeypatch)


@pytest.mark.parametrize("kind", COMMANDS)
def test_caption_model_is_scored_without_images(trained, kind, tmp_path):
    model = trained[kind] / FOLDERS[kind]
    assert status("evaluate", "--model", model, "--data-dir", "sample", "--output", tmp_path) == 0
    assert scores(tmp_path) == pytest.approx(scores(trained[kind] / "report"), abs=1e-6)


@pytest.mark.parametrize("command", ["evaluate", "encode"])
def test_model_of_tokens_refuses_plain_captions(trained, command, tmp_path, capsys):
    model = shutil.copytree(trained["char-gru"] / "ensemble", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    assert config["coco_tokens"] is False  # --no-coco-tokens
    (model / "config.json").write_text(json.dumps(config | {"coco_tokens": True}))
    words = (command, "--model", model, "--data-dir", "sample", "--output", tmp_path / "made.npz")
    assert status(*words) == 2
    assert "reads COCO's captions as lower-case tokens" in " ".join(capsys.readouterr().err.split())


def test_package_loads_its_models_by_their_folder(trained, warm_python):
    code = "import sys; from cxc_eccv.encoding import load_model\n"
    code += "for folder in sys.argv[1:]: print(type(load_model(folder).model).__name__)"
    command = [*warm_python, "-c", code, *(trained[kind] / FOLDERS[kind] for kind in COMMANDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["DualEncoderModel", "CharGruEnsemble"], done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:held-out pairs")  # of a run this short
@pytest.mark.parametrize("name", OF_IMAGES)
def test_image_model_card_commands_reproduce_its_scores(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert status("train", *OF_IMAGES[name], "--output-dir", f"models/{name}") == 0
    check_commands(tmp_path / "models" / name, ".", monkeypatch)


def check_commands(folder, model, monkeypatch):
    """Run every command of a card beside the model's folder."""
    text = (folder / model / "README.md").read_text()
    commands = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert commands[0].startswith("cxc-eccv train ")
    before = json.loads((folder / "report" / "report.json").read_text())
    monkeypatch.chdir(folder.parent)
    for command in commands:
        assert status(*shlex.split(command)[1:]) == 0, command
    again = folder if len(set(commands)) == 1 else folder.parent
    after = json.loads((again / "report" / "report.json").read_text())
    assert [name for name in after if name != "provenance" and after[name] != before[name]] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("default:.*belongs to an earlier run")
def test_printed_scoring_command_reproduces_the_report(tmp_path, capsys):
    folder = tmp_path / "model"
    words = ("train", "dual-encoder", *COMMANDS["dual-encoder"], "--output-dir", folder)
    assert status(*words) == 0
    out = capsys.readouterr().out
    assert not (folder / "report").exists()
    assert "model-index" not in (folder / "README.md").read_text()
    lines = [shlex.split(line) for line in out.partition("score it:\n")[2].splitlines()]
    assert [line[1] for line in lines] == ["encode", "evaluate"]
    for line in lines:
        assert status(*line[1:]) == 0
    by_hand = scores(folder / "report")
    (folder / "report").rename(tmp_path / "by_hand")
    card = folder / "README.md"
    card.write_text(card.read_text().replace("license: unknown", "license: mit").replace("---\n\n", "---\n\nMine.\n\n"))
    assert status(*words, "--report-on", "test") == 0  # trains nothing anew
    assert scores(folder / "report") == pytest.approx(by_hand, abs=1e-6)
    text = card.read_text()
    assert "Mine." in text
    assert "license: mit" in text
    assert "## Results" in text
    sentence = next(line for line in out.splitlines() if line.startswith("Trained for 2 steps; the weights are"))
    assert sentence in capsys.readouterr().out  # also of a run that trains nothing anew
    assert sentence.replace("_", r"\_") in text
    assert "| `step-kept` |" in text
    assert "`lr-scheduler-type`" not in text  # the staircase ran
    card.write_text(text.replace("## Training", "## How I trained it"))
    assert status(*words, "--report-on", "test") == 2
    told = capsys.readouterr()
    assert "R@10" in told.out
    assert "somebody edited its generated part" in told.err
    assert status(*words) == 2
    assert "report belongs to an earlier run" in capsys.readouterr().err


def test_the_character_gru_says_how_it_is_scored(tmp_path, capsys):
    assert status("train", "char-gru", *COMMANDS["char-gru"], "--output-dir", tmp_path / "gru") == 0
    assert "score it:\n  the same command with --report-on test\n" in capsys.readouterr().out


def test_a_command_keeps_no_secret_and_no_place(tmp_path):
    words = ["train", "dual-encoder", "--hub_token", "hf_a", "--hub-token=hf_b", "--output-dir", str(tmp_path / "run")]
    assert command_text(words) == "cxc-eccv train dual-encoder --output-dir run"


def test_card_command_is_torchrun_if_used(monkeypatch):
    before = COMMAND.set("cxc-eccv train char-gru --seed 1")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert _training_command("char-gru") == "cxc-eccv train char-gru --seed 1"
    monkeypatch.setenv("WORLD_SIZE", "2")
    launched = "torchrun --nproc-per-node 2 --no-python cxc-eccv train char-gru --seed 1"
    assert _training_command("char-gru") == launched
    COMMAND.reset(before)


@pytest.mark.parametrize(
    ("addresses", "installation"),
    [
        ({}, "after `pip install '.[train]'` in a clone of cxc_eccv:"),
        (ADDRESSES, f"after `pip install 'cxc_eccv[train] @ git+{REPOSITORY}'`:"),
    ],
    ids=["without", "with"],
)
def test_card_installs_from_the_owner_s_address(monkeypatch, tmp_path, addresses, installation):
    write_metadata(tmp_path / "metadata", addresses)
    monkeypatch.syspath_prepend(tmp_path / "metadata")
    trained = Trained(
        kind="dual-encoder", about="A model.", has_images=True, settings={"seed": 1}, loading="", scoring=(),
        pipeline_tag="feature-extraction", output=tmp_path, model=tmp_path, base_models=[], parts=["coco/train"],
        library=SimpleNamespace(edition=OFFICIAL)
    )  # fmt: skip
    assert installation in write_model_card(trained, "cxc-eccv train", "cxc-eccv evaluate").read_text()


def test_card_names_public_data_and_base_models(tmp_path):
    parts = ["coco/train", "coco/restval", "flickr8k/all"]
    started = ["google-bert/bert-base-uncased"]
    library = SimpleNamespace(edition=OFFICIAL)
    facts = {"output": tmp_path, "model": tmp_path, "base_models": started, "parts": parts, "library": library}
    trained = Trained(
        kind="dual-encoder", about="A model.", has_images=True, settings={"seed": 1}, loading="", scoring=(),
        pipeline_tag="feature-extraction", **facts
    )  # fmt: skip
    card = ModelCard.load(write_model_card(trained, "cxc-eccv train", "cxc-eccv evaluate"))
    data = card.data.to_dict()
    assert (data["datasets"], data["base_model"]) == (["coco", "flickr8k"], started)
    assert data["pipeline_tag"] == "feature-extraction"
    told = "Trained on `coco/train`, `coco/restval` and `flickr8k/all`, from `google-bert/bert-base-uncased`."
    assert told in card.text
