"""The conformance kit: expected values against a slow oracle, other libraries against their rules stated again."""

import json
import runpy
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cxc_eccv.errors import InvalidOption
from cxc_eccv.tables import tables_to_markdown

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import conformance.__main__ as command
from conformance import embeddings, peers
from conformance.comparison import Meaning, Peer, compare, comparison_tables, run_kit
from conformance.kit import parts
from conformance.peers import PEERS
from conformance.rules import earlier_first, recall
from conformance.values import kit_files

pytestmark = pytest.mark.thorough

SMALL = 200

TIES = {
    "positives_last": lambda items, positive: positive,
    "earlier_first": lambda items, positive: items,
    "later_first": lambda items, positive: -items,
    "positives_first": lambda items, positive: ~positive,
}
"""What sorts equal scores, ascending."""


def oracle(n_images):
    """All values by sorting every query's gallery, from the script's arrays alone."""
    kit = embeddings.make_kit(n_images)
    sides = {"i": kit["images"], "t": kit["captions"]}
    image_of = {"i": np.arange(n_images), "t": np.arange(5 * n_images) // 5}
    values = {}
    for direction, step in (("i2t", 4), ("t2i", 19)):
        queries = sides[direction[0]]
        gallery = sides[direction[-1]]
        items = np.arange(len(gallery))
        owners = image_of[direction[-1]]
        for labels, every in (("links", 1), ("topics", step)):
            for query in range(0, len(queries), every):
                owner = image_of[direction[0]][query]
                topics = kit["topics"]
                positive = owners == owner if labels == "links" else topics[owners] == topics[owner]
                for ties, key in TIES.items():
                    hits = positive[np.lexsort((key(items, positive), -(gallery @ queries[query])))]
                    for metric, value in measure(hits, int(positive.sum())).items():
                        values.setdefault((f"{labels}/{direction}/{metric}", ties), []).append(value)
    return {key: np.mean(of_queries) for key, of_queries in values.items()}


def measure(hits, r):
    """The metrics of one query from its sorted gallery, as their definitions read."""
    first = int(np.argmax(hits)) + 1
    top = [rank for rank in range(1, max(r, 10) + 1) if hits[rank - 1]]
    gains = [1 / np.log2(rank + 1) for rank in range(1, 11)]
    return {
        **{f"recall_at_{k}": float(first <= k) for k in (1, 5, 10)},
        "mrr_at_10": 1 / first if first <= 10 else 0.0,
        "r_precision": hits[:r].sum() / r,
        "map_at_r": sum(hits[:rank].mean() for rank in top if rank <= r) / r,
        "ndcg_at_10": sum(gains[rank - 1] for rank in top if rank <= 10) / sum(gains[:r]),
    }


@pytest.mark.parametrize("n_images", [SMALL, pytest.param(5_000, marks=pytest.mark.slow)])
def test_the_expected_values_are_those_of_sorted_galleries(n_images):
    expected = json.loads(kit_files()["expected.json"])
    slow = oracle(n_images)
    stated = {(key, ties): v for key, of in expected["values"][str(n_images)].items() for ties, v in of.items()}
    assert stated.keys() == slow.keys()
    assert {key.rpartition("/")[2] for key, _ in stated} == set(expected["metrics"])
    assert set(TIES) == set(expected["ties"])
    for key, value in slow.items():
        assert stated[key] == pytest.approx(value, abs=expected["tolerance"]), key


def test_scores_are_whole_numbers_and_many_tie():
    """So every library multiplies to the same scores, by dot product and by cosine."""
    for part in parts(SMALL):
        sides = part.queries.astype(np.float64), part.gallery.astype(np.float64)
        assert np.array_equal(sides[0][:, ::-1] @ sides[1][:, ::-1].T, part.scores)
        unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (part.queries, part.gallery)]
        assert np.array_equal(64 * (unit[0] @ unit[1].T), part.scores)
        assert (part.ranks.ties > 0).mean() > 0.05


def test_the_script_needs_numpy_alone(tmp_path, monkeypatch):
    path = tmp_path / "embeddings.py"
    path.write_text(kit_files()["embeddings.py"])
    monkeypatch.setattr(sys, "argv", ["embeddings.py", str(tmp_path / "kit.npz"), "40"])
    runpy.run_path(str(path), run_name="__main__")
    with np.load(tmp_path / "kit.npz") as saved:
        assert all(np.array_equal(saved[name], array) for name, array in embeddings.make_kit(40).items())
        assert saved["captions"].shape == (200, 64)


QUICK = ("eccv_caption", "ir_measures", "pytrec_eval")
"""Libraries that import and run in less than a second."""

LONG = {"ranx": pytest.mark.slow}
"""Numba compiles for half a minute."""


@pytest.mark.reference
@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(peer, id=peer.name, marks=[] if peer.name in QUICK else LONG.get(peer.name, pytest.mark.thorough))
        for peer in PEERS
    ],
)
def test_every_difference_is_explained(peer):
    if peer.version is None:
        pytest.skip(f"{peer.package} is not installed")
    rows = run_kit([peer], SMALL)
    assert {row.labels + row.direction for row in rows} == {"linksi2t", "linkst2i", "topicsi2t", "topicst2i"}
    assert [row for row in rows if row.why is None] == []
    assert any(row.why == "" for row in rows)
    assert any(row.why.startswith("ties") for row in rows)


@pytest.mark.slow
@pytest.mark.reference
def test_the_whole_kit_has_no_unexplained_difference():
    rows = run_kit(PEERS)
    assert len({row.library for row in rows}) >= 5
    assert [row for row in rows if row.why is None] == []


def fake(value, order=earlier_first, formula=None):
    """A library that prints a value of its part, whatever it is, and whose rules are these."""
    meaning = {"R@1": Meaning("recall_at_1", 1, formula, "another definition")}
    return Peer("fake", "numpy", lambda part, names: {"R@1": value(part)}, {"links": meaning}, order, "as it likes")


def test_difference_is_explained_only_by_its_exact_value():
    part = next(iter(parts(SMALL)))
    ours = part.value("recall_at_1")
    sorted_by_position = part.value("recall_at_1", earlier_first(part))
    share = recall(earlier_first(part), 1).mean()
    assert ours < sorted_by_position

    def why(value, **options):
        (row,) = compare(fake(lambda _part: value, **options), part)
        return row.why

    assert why(ours) == ""
    assert why(sorted_by_position) == "ties"
    assert why(sorted_by_position + 1 / 200) is None
    assert why(share) is None
    assert why(share, formula=recall) == "ties; another definition"
    assert why(recall(part.ranks, 1).mean(), order=lambda part, _k: part.ranks, formula=recall) == "another definition"


def test_fewer_queries_rank_the_whole_gallery():
    part = next(iter(parts(SMALL)))
    few = part.thin(50)
    assert (few.scores.shape, few.judgments.query_ids[:3].tolist()) == ((50, 1000), [0, 4, 8])
    assert few.value("recall_at_1") == (part.ranks.best[::4] == 1).mean()
    assert part.thin(200) is part


def test_tables_name_missing_packages_and_unexplained_differences():
    broken = fake(lambda _part: 0.123)
    rows = [row for part in parts(20) if part.labels == "links" for row in compare(broken, part)]
    absent = replace(broken, name="absent", package="no-such-package-anywhere")
    text = tables_to_markdown(comparison_tables([broken, absent], rows))
    assert "| R@1 | links | R@1 | 12.30 |" in text
    assert text.count("UNEXPLAINED") == 1
    assert "not installed: pip install no-such-package-anywhere" in text
    assert "2 values: 0 equal, 0 explained, 2 unexplained." in text


@pytest.mark.reference
def test_kit_command_exits_1_on_unexplained_differences(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed")
    monkeypatch.setattr(command, "run_kit", partial(run_kit, n_images=40))
    arguments = ["pytrec_eval", "--output", str(tmp_path / "kit")]
    assert status(arguments) == 0
    assert "0 unexplained" in capsys.readouterr().out
    rows = json.loads((tmp_path / "kit" / "conformance.json").read_text())
    assert {"library", "version", "metric", "value", "key", "ours", "why"} < set(rows[0])
    assert r"success\_1" in (tmp_path / "kit" / "conformance.md").read_text()
    for name, text in kit_files().items():
        assert (tmp_path / "kit" / name).read_text() == text
    (pytrec_eval,) = peers.choose(["pytrec_eval"])
    broken = replace(pytrec_eval, measure=lambda part, names: dict.fromkeys(names, 0.123))
    monkeypatch.setattr(peers, "PEERS", (broken,))
    assert status(arguments[:1]) == 1
    assert "16 unexplained" in capsys.readouterr().out


def test_what_cannot_run_is_refused(capsys):
    assert status(["rankx"]) == 2
    assert "did you mean 'ranx'?" in capsys.readouterr().err
    with pytest.raises(InvalidOption, match="at least 20 images"):
        run_kit([], 5)


def status(arguments):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    return ended.value.code or 0
