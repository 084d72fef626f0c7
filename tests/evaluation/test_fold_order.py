"""COCO 1K cuts its folds in the order of a file of ids, which must name the captions of the split and no others."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.tasks import coco_1k


@pytest.mark.parametrize("spoil", [lambda ids: ids[:-1], lambda ids: np.append(ids[:-1], 99_999), lambda ids: ids])
def test_the_order_names_every_caption_once(spoil):
    ids = np.arange(coco_1k.CAPTIONS)
    table = pa.table({"caption_id": ids, "image_id": ids // 5})
    library = SimpleNamespace(captions=lambda _: table, fold_order=lambda: spoil(ids))
    if spoil(ids) is ids:
        assert coco_1k._fold_orders(library, "test")[1].size == coco_1k.IMAGES
        return
    with pytest.raises(
        DataError, match=r"captions of coco_test_ids, .*, are not the 25,000 captions of the test split"
    ):
        coco_1k._fold_orders(library, "test")
