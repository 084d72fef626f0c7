"""Reports on the embedded sample, and an HTML page taken apart by the standard library."""

import itertools
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa

from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

VOID = {"meta", "img", "input", "wbr", "line", "rect", "polyline"}


def near_run(library, noise=1.0, seed=0, width=12):
    """Captions scattered around their images: many right, many wrong."""
    random = np.random.default_rng(seed)
    content = library.split("test")
    images = random.standard_normal((content.image_ids.size, width))
    place = {image: row for row, image in enumerate(content.image_ids.tolist())}
    rows = [place[image] for image in content.caption_image_ids.tolist()]
    captions = images[rows] + noise * random.standard_normal((len(rows), width))
    return EmbeddingsRun(Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions))


def sample_report(library, run=None, **options):
    """A run on the sample, and its report with per-query values."""
    run = run or near_run(library)
    return run, evaluate(run, data_dir=library, per_query=True, progress=False, **options)


def report_of_ranks(ranks, **provenance):
    """A report whose per-query table holds these best ranks: ``task/direction`` to query id to rank or None."""
    rows = [(query, *key.split("/"), "mrr", 0.5, rank) for key, best in ranks.items() for query, rank in best.items()]
    names = ["query_id", "task", "direction", "metric", "value", "best_rank"]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["best_rank"] = pa.array(columns["best_rank"], pa.int64())
    return Report((), {}, from_json(Provenance, {"split": "test", **provenance}), pa.table(columns))


class Page(HTMLParser):
    """Elements of a page in order, each with its attributes, its text and its ancestors; fails on bad nesting."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.open = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {[one['tag'] for one in self.open]}"

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": "", "within": [one["tag"] for one in self.open]}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": "", "within": []})

    def handle_endtag(self, tag):
        assert self.open[-1]["tag"] == tag, f"</{tag}> closes <{self.open[-1]['tag']}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, *tags):
        return [one for one in self.elements if one["tag"] in tags]

    def assert_sound(self):
        """One of each landmark, no level of headings left out, unique ids, and tables that say what they hold."""
        for tag in ("header", "nav", "main", "footer", "h1"):
            assert len(self.all(tag)) == 1
        levels = [int(one["tag"][1]) for one in self.all("h1", "h2", "h3", "h4")]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        ids = [one["attrs"]["id"] for one in self.elements if "id" in one["attrs"]]
        assert len(ids) == len(set(ids))
        for one in self.elements:
            wanted = one["attrs"].get("aria-labelledby", "").split()
            wanted += [one["attrs"]["href"][1:]] if one["tag"] == "a" else []
            assert set(wanted) <= set(ids)
        assert len(self.all("table")) == len(self.all("caption"))
        assert all("scope" in one["attrs"] for one in self.all("th"))
