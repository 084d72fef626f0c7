"""What a model was trained on: read from its card, metadata and text, and from its ``data_config.json``."""

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from cxc_eccv.encoding import encode_run
from cxc_eccv.encoding.encode_run import read_training_data

CARD = """---
datasets: [s2orc, embedding-data/flickr30k-captions]
---
# A model

```python
# Training data: COCO
```

## Training procedure

### Training data

| [S2ORC](https://github.com/allenai/s2orc) | 116,288,806 |
| [COCO](https://cocodataset.org/#home) Image captions | 828,395 |

## Evaluation

It was not trained on Flickr8k.
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (CARD, ["s2orc", "embedding-data/flickr30k-captions", "coco"]),
        ("---\ndatasets: laion2b\n---\n", ["laion2b"]),
        ("---\ndatasets: [coco_train]\n---\nFine-tuned on MS-COCO.", ["coco_train"]),
        ("---\ndatasets: [\n---\nTrained on Flickr 30K.", ["flickr30k"]),
        ("BLIP with a base architecture, trained on\nCOCO dataset.", ["coco"]),
        ("# Training\nOn web data.\n## Data\nMSCOCO\n# Results\n| Flickr30k | 80 |", ["coco"]),
        ("# Training\nOn web data.\n# Results\nR@1 on COCO and Flickr30k.", []),
        ("A model trained on LAION, evaluated zero-shot on COCO. It was never trained on Flickr30k.", []),
        ("```\n# Training on COCO\n```\nWe trained it on coconuts.", []),
        ("Trained on web data. Show it http://images.cocodataset.org/val2017/000000039769.jpg", []),
        ("", []),
    ],
)
def test_training_data_are_read_from_the_card(tmp_path, text, names):
    (tmp_path / "README.md").write_text(text)
    assert read_training_data(str(tmp_path)) == names


def test_training_data_are_read_from_the_data_config(tmp_path):
    (tmp_path / "data_config.json").write_text('[{"name": "coco_captions.jsonl.gz", "lines": 828395, "weight": 1}]')
    assert read_training_data(str(tmp_path)) == ["coco"]


def test_training_data_are_read_from_cached_hub_files(monkeypatch, tmp_path):
    (tmp_path / "README.md").write_text(CARD)

    def download(source, name, revision):
        assert (source, revision) == ("user/loaded", "main")
        if not (tmp_path / name).is_file():
            raise LocalEntryNotFoundError(name)
        return str(tmp_path / name)

    monkeypatch.setattr(encode_run, "try_to_load_from_cache", lambda *_, **__: "config.json")
    monkeypatch.setattr(encode_run, "hf_hub_download", download)
    assert read_training_data("user/loaded", "main")[-1] == "coco"


def test_model_in_memory_needs_no_hub(monkeypatch):
    """Without a network, every try would be waited for."""
    monkeypatch.setattr(encode_run, "hf_hub_download", lambda *_, **__: pytest.fail("asks the Hub"))
    assert read_training_data("user/in-memory") == []
