"""Files of weak positives as ``cxc-eccv mine`` writes them, of pairs that a test chooses."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cxc_eccv.sources.readers import FACTS_KEY, MINED_SCHEMA


def write_mined(path, library, split, pairs, **others):
    """The path of a file with these pairs of image id and caption id; ``others`` replace facts."""
    flickr = others.get("collection") == "flickr30k"
    content = library.split(split, "flickr30k") if flickr else library.split(split)
    model = {"name": "a model", "fingerprint": "0"}
    data = {"edition": library.edition, "content": content.fingerprint, "images": 0, "captions": 0}
    facts = {"schema": 1, "collection": "coco", "split": split, "classifier": model, "retriever": model, "rule": {}}
    images, captions = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    name = pa.DictionaryArray.from_arrays(np.zeros(len(pairs), np.int32), pa.array(["by hand"]))
    columns = {"image_id": images, "caption_id": captions, "score": np.ones(len(pairs), np.float32)}
    columns |= {"rank": np.ones(len(pairs), np.int32), "classifier": name, "retriever": name, "rule": name}
    metadata = {FACTS_KEY: json.dumps(facts | {"data": data} | others)}
    pq.write_table(pa.table(columns, schema=MINED_SCHEMA.with_metadata(metadata)), path)
    return str(path)
