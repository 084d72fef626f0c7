"""Commands within this process, and reports for them; the message on a full disk, which tests of studies share too."""

import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_command
from full_disk import told
from report_samples import near_run
from scored_reports import rows as per_query_rows

from cxc_eccv.cli.app import main
from cxc_eccv.comparison.published import eccv_caption_table
from cxc_eccv.report import Report
from cxc_eccv.report.files import DIGEST, digest_of
from cxc_eccv.runs import save_embeddings
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

__all__ = ["told"]

DATA = {"edition": "official", "version": "1", "fingerprint": "f", "files": {}}
KEYS = [key for key in eccv_caption_table().keys if key.count("/") == 2]


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """What the demo leaves."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    run_command("demo", "--output", folder)
    return folder


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit status, standard output and standard error of a command; in a terminal where a width is given."""

    def command(*arguments, width=None):
        for name in ("FORCE_COLOR", "COLUMNS", "NO_COLOR"):
            monkeypatch.delenv(name, raising=False)
        if width:
            for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", str(width)), ("TERM", "xterm")):
                monkeypatch.setenv(name, value)
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return ended.value.code or 0, re.sub(r"\x1b\[[\d;]*m", "", out), err

    return command


@pytest.fixture
def write(tmp_path):
    """Write a model's report, and the values of its queries, a share of which are hits; gives the report's path."""

    def written(name, share, *, per_query=True, keys=KEYS, doubts=None, **facts):
        random = np.random.default_rng(0)
        rows = []
        tables = []
        for key in keys:
            task, direction, metric = key.split("/")
            hits = random.random(400) < share
            values = np.where(hits, 1234.0, 1.0) if metric == "median_rank" else hits.astype(float)
            value = float(np.median(values) if metric == "median_rank" else values.mean())
            rows.append(Result(task, direction, metric, value, 400))
            tables.append(per_query_rows(key, np.arange(400), values, np.arange(400) // 2))
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        facts = {"split": "test", "data": DATA} | facts
        report = Report(tuple(rows), {}, from_json(Provenance, facts), doubts=doubts or {})
        (folder / "report.json").write_text(report.to_json())
        if per_query:
            marked = pa.concat_tables(tables).replace_schema_metadata({DIGEST: digest_of(folder / "report.json")})
            pq.write_table(marked, folder / "per_query.parquet")
        return folder / "report.json"

    return written


@pytest.fixture
def evaluated(run, sample_library, tmp_path):
    """Evaluate a model that places captions near their images, with so much noise, and give its report's path."""

    def scored(name, noise, *options):
        save_embeddings(tmp_path / f"{name}.npz", near_run(sample_library, noise, width=16))
        arguments = (tmp_path / f"{name}.npz", "--data-dir", "sample", "--output", tmp_path / name, *options)
        status, _, err = run("evaluate", *arguments)
        assert status == 0, err
        return tmp_path / name / "report.json"

    return scored
