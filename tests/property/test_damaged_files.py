"""A damaged run file is refused, or it holds what it held: no other number comes of it."""

import numpy as np
import pytest
import safetensors.numpy
from damaged_files import BINARY, TENSORS, TEXT, content, read, said_by_json, said_by_trec
from damages import damages
from hypothesis import given, settings

from cxc_eccv.errors import CxcEccvError
from cxc_eccv.runs import load_run

EXAMPLES = settings(max_examples=60, derandomize=True, deadline=None)
SAID = {".json": said_by_json, ".trec": said_by_trec}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture(scope="module")
def good(folder):
    """Name to bytes, by a function: Hypothesis would print a dictionary."""
    return {name: write(folder, name) for name, write in (BINARY | TENSORS | TEXT).items()}.__getitem__


def outcome(path, data):
    """What the file holds, or None where it is refused; any other error is a failure."""
    path.write_bytes(data)
    try:
        return read(path)
    except CxcEccvError as error:
        message = str(error)
    assert path.name in message
    assert message.isprintable()
    return None


@pytest.mark.parametrize("name", BINARY)
@EXAMPLES
@given(damage=damages())
def test_damage_is_refused_where_there_are_checksums(name, good, folder, damage):
    data = damage(good(name))
    expected = outcome(folder / name, good(name))
    assert expected is not None
    assert outcome(folder / name, data) in (None, expected)


@pytest.mark.parametrize("name", TEXT)
@EXAMPLES
@given(damage=damages())
def test_damaged_text_is_read_verbatim_or_refused(name, good, folder, damage):
    data = damage(good(name))
    found = outcome(folder / name, data)
    if found is not None:
        assert found == SAID[(folder / name).suffix](data.decode("utf-8"))


@EXAMPLES
@given(damage=damages())
def test_damaged_tensors_are_read_as_officially(folder, good, damage):
    path = folder / "theirs.safetensors"
    run = load_run(_written(folder / "ours.npz", good("ours.npz")))
    safetensors.numpy.save_file({"caption_ids": run.captions.ids, "caption_embeddings": run.captions.vectors}, path)
    data = damage(path.read_bytes())
    path.write_bytes(data)
    try:
        captions = load_run(path).captions
    except CxcEccvError:
        return
    theirs = safetensors.numpy.load(data)
    np.testing.assert_array_equal(captions.ids, theirs["caption_ids"])
    np.testing.assert_array_equal(captions.vectors, theirs["caption_embeddings"].astype(np.float32))


def _written(path, data):
    path.write_bytes(data)
    return path


def test_every_form_is_read_at_all(good, folder):
    for name in BINARY | TENSORS | TEXT:
        assert content(load_run(_written(folder / name, good(name))))
