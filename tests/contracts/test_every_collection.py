"""What holds for every collection of images and captions: in the package, and in a copy with one more."""

import pickle

import numpy as np
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.sources.catalog import SPLITS, load_catalog
from cxc_eccv.sources.collections.collection import collections, find_collection


def check_splits(library, collection):
    """Every split has distinct ids of its own, and captions of its own images."""
    seen = {"images": np.empty(0, np.int64), "captions": np.empty(0, np.int64)}
    for name in library.read_splits(collection):
        split = library.split(name, collection=collection.name)
        assert (split.name, split.collection) == (name, collection)
        assert set(split.caption_image_ids) <= set(split.image_ids)
        assert split.owners_of(split.caption_ids).tolist() == split.caption_image_ids.tolist()
        assert len(split.fingerprint) == 64
        for side, ids in (("images", split.image_ids), ("captions", split.caption_ids)):
            seen[side] = np.concatenate([seen[side], ids])
            assert np.unique(seen[side]).size == seen[side].size


@pytest.mark.parametrize("name", collections())
def test_collection_says_what_it_is(name):
    collection = find_collection(name)
    assert (collection.name, bool(collection.title), bool(collection.photographs)) == (name, True, True)
    assert set(collection.splits.values()) <= set(SPLITS)
    for file in (*collection.files, *collection.labels):
        assert load_catalog().entry(file).title


@pytest.mark.parametrize("name", collections())
def test_collection_travels_to_another_process(name):
    collection = find_collection(name)
    assert pickle.loads(pickle.dumps(collection)).files == collection.files


def test_one_collection_is_the_default():
    assert [name for name, collection in collections().items() if collection.is_default] == ["coco"]


@pytest.mark.parametrize("name", collections())
def test_splits_of_the_sample_are_apart(name, sample_library):
    collection = find_collection(name)
    if sample_library.has_collection(collection):
        check_splits(sample_library, collection)
    else:
        with pytest.raises(DataError, match=load_catalog().entry((*collection.labels, *collection.files)[0]).path):
            sample_library.split("test", collection=name)


@pytest.mark.parametrize("name", collections())
def test_real_splits_are_apart(name, real_library):
    if real_library.has_collection(find_collection(name)):
        check_splits(real_library, find_collection(name))
