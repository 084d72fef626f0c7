"""WordNet by name: similarities, and every way in which it may be missing or damaged."""

import random
import re
import sys
import zipfile

import numpy as np
import pytest

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing
from cxc_eccv.extras import install_line
from cxc_eccv.sources.wordnet import find_synset, load_wordnet, similarity_matrix

pytest.importorskip("nltk")


def test_the_similarities_of_the_paper(wordnet):
    """Section 6.3: 0.111 and 0.167, and their mean, 0.139."""
    assert find_synset("hill.n.01").path_similarity(find_synset("grassland.n.01")) == 1 / 9
    assert find_synset("tree.n.01").path_similarity(find_synset("grass.n.01")) == 1 / 6
    assert round((1 / 9 + 1 / 6) / 2, 3) == 0.139


def test_the_matrix_equals_nltk_pair_by_pair(wordnet):
    words = random.Random(0).sample(sorted(wordnet.all_lemma_names()), 20)
    names = [wordnet.synsets(word)[0].name() for word in words]
    names += ["dog.n.01", "run.v.01", "white.a.01", "entity.n.01", "dog.n.01"]
    expected = [[find_synset(one).path_similarity(find_synset(other)) for other in names] for one in names]
    np.testing.assert_allclose(similarity_matrix(names), expected, rtol=1e-15)
    assert similarity_matrix([]).shape == (0, 0)


def test_names_that_wordnet_lacks(wordnet):
    for name in ("dog.n.99", "flibbertigibbety.n.01", "dog", "", "dog.n.one", "dog.x.01"):
        with pytest.raises(DataError, match=re.escape(f"WordNet 3.0 has no synset '{name}'")):
            find_synset(name)
    with pytest.raises(DataError, match=r"no synset 'zzz\.n\.01'"):
        find_synset("dog.n.01").path_similarity(find_synset("zzz.n.01"))
    with pytest.raises(DataError, match=r"no synset 'zzz\.n\.01'"):
        similarity_matrix(["dog.n.01", "zzz.n.01"])


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    import nltk.data

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    (tmp_path / "corpora").mkdir()
    return tmp_path / "corpora"


def test_a_missing_corpus(monkeypatch, elsewhere):
    with pytest.raises(SourceMissing, match=r"(?s)nltk\.downloader wordnet.*NLTK_DATA, which is '.*'"):
        load_wordnet()
    monkeypatch.setenv("NLTK_DATA", "/no/such/folder")
    with pytest.raises(SourceMissing, match=r"Searched: /no/such/folder\."):
        load_wordnet()
    monkeypatch.delenv("NLTK_DATA")
    with pytest.raises(SourceMissing, match="NLTK_DATA, which is not set"):
        load_wordnet()


def test_without_nltk(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "nltk"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nltk", None)
    with pytest.raises(DataError, match=re.escape(install_line("explain"))):
        load_wordnet()


def test_something_else_in_its_place(elsewhere):
    (elsewhere / "wordnet.zip").write_text("not a zip file")
    with pytest.raises(MalformedSource, match=r"wordnet\.zip: found BadZipFile.*delete it and download it again"):
        load_wordnet()
    with zipfile.ZipFile(elsewhere / "wordnet.zip", "w") as archive:
        archive.writestr("wordnet/lexnames", "00\tadj.all\t3\n")
    with pytest.raises(MalformedSource, match="download it again"):
        load_wordnet()
    (elsewhere / "wordnet.zip").unlink()
    (elsewhere / "wordnet").mkdir()
    with pytest.raises(MalformedSource, match="download it again"):
        load_wordnet()


@pytest.fixture
def rezip(wordnet, elsewhere):
    def write(old=b"", new=b""):
        path = elsewhere / "wordnet.zip"
        with zipfile.ZipFile(wordnet.root.zipfile.filename) as source, zipfile.ZipFile(path, "w") as target:
            for name in source.namelist():
                target.writestr(name, source.read(name).replace(old, new) if old else source.read(name))
        return path

    return write


@pytest.mark.parametrize(
    ("replaced", "damage", "message"),
    [
        ((), lambda data: data[:5_000_000], r"wordnet\.zip: found BadZipFile"),
        ((), lambda data: data[:5_000_000] + bytes([data[5_000_000] ^ 1]) + data[5_000_001:], "is damaged, expected W"),
        ((b"WordNet 3.0 ", b"WordNet 3.1 "), lambda data: data, r"found WordNet 3\.1, expected WordNet 3\.0"),
    ],
)
def test_a_damaged_zip_file_and_another_edition(rezip, replaced, damage, message):
    path = rezip(*replaced)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MalformedSource, match=message):
        load_wordnet()


def test_a_folder(wordnet, elsewhere):
    with zipfile.ZipFile(wordnet.root.zipfile.filename) as archive:
        archive.extractall(elsewhere)
    corpus = load_wordnet()
    assert corpus.synset("dog.n.01").definition() == wordnet.synset("dog.n.01").definition()
    for stream in corpus._data_file_map.values():
        stream.close()
