"""Bad input on the command line: one message, exit status 2, no traceback, no report."""

import pytest
from spoilt_runs import Good

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def good(sample_library):
    return Good.of(sample_library)


def test_rankings_of_two_files_and_a_named_direction(good, run, tmp_path):
    lines = {
        direction: [
            f"{query} Q0 {item} {rank} {-rank} run"
            for query, items in lists.items()
            for rank, item in enumerate(items, 1)
        ]
        for direction, lists in good.rankings().items()
    }
    paths = [tmp_path / "run_i2t.trec", tmp_path / "run_t2i.trec"]
    for path, direction in zip(paths, lines, strict=True):
        path.write_text("\n".join(lines[direction]))
    status, out, _ = run("evaluate", *paths, "--data-dir", "sample")
    assert (status, "ECCV Caption" in out) == (0, True)
    nameless = paths[1].rename(tmp_path / "run.trec")
    status, _, error = run("evaluate", nameless, "--data-dir", "sample")
    assert status == 2
    assert "--direction i2t" in error
    status, out, _ = run("evaluate", nameless, "--direction", "t2i", "--data-dir", "sample")
    assert (status, "t2i" in out) == (0, True)
    both = (paths[0].rename(tmp_path / "other.trec"), nameless)
    status, _, error = run("evaluate", *both, "--direction", "i2t", "--data-dir", "sample")
    assert (status, "name a folder for their reports with --output" in error) == (2, True)
    status, _, error = run("evaluate", *both, *["--direction", "i2t"] * 3, "--data-dir", "sample")
    assert (status, "2 files and 3 directions: give one, or one for each file" in error) == (2, True)
    status, out, _ = run("evaluate", *both, "--direction", "i2t", "--direction", "t2i", "--data-dir", "sample")
    assert (status, "the run has no i2t rankings" in " ".join(out.split())) == (0, False)
