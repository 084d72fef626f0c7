"""Multi-positive targets out of the merged judgments, against a loop over the raw ratings."""

import pytest
import torch

from cxc_eccv.studies.baselines.caption_groups import caption_groups
from cxc_eccv.studies.baselines.dual_encoder.pairs import BatchPositives


@pytest.fixture(scope="module")
def groups(sample_library):
    return caption_groups(sample_library, ["coco/train", "coco/val"])


@pytest.fixture(scope="module")
def positives(sample_library, groups):
    return BatchPositives.judged(sample_library, "validation", groups)


def test_texts_match_by_image_and_by_rating(sample_library, groups, positives):
    ids = [one for group in groups for one in group.caption_ids]
    image = {one: group.image_id for group in groups for one in group.caption_ids}
    judged = {one for group in groups[60:] for one in group.caption_ids}
    similar = set()
    for row in sample_library.cxc("sts", "validation").to_pylist():
        if row["rating"] >= 3:
            similar |= {(row["left_id"], row["right_id"]), (row["right_id"], row["left_id"])}
    # Captions of the train split are judged by nothing and match themselves alone.
    rows, columns = torch.arange(290, 330), torch.arange(280, 340)
    found = positives.texts(rows, columns, offset=10)
    for i, row in enumerate(rows.tolist()):
        for j, column in enumerate(columns.tolist()):
            left, right = ids[row], ids[column]
            same = left in judged and right in judged and image[left] == image[right] and left != right
            assert found[i, j].item() == (same or (left, right) in similar or j == i + 10), (left, right)
    assert any(image[left] != image[right] for left, right in similar), "the sample rates pairs of several images"


def test_images_and_texts_match_in_both_directions(sample_library, groups, positives):
    rated = {
        (row["right_id"], row["left_id"])
        for row in sample_library.cxc("sits", "validation").to_pylist()
        if row["rating"] >= 3
    }
    images, texts = torch.arange(60, 120), torch.arange(300, 600)
    forth = positives.images_texts(images, texts, offset=0)
    ids = [one for group in groups for one in group.caption_ids]
    for i, row in enumerate(images.tolist()):
        for j, column in enumerate(texts.tolist()):
            expected = ids[column] in groups[row].caption_ids or (groups[row].image_id, ids[column]) in rated
            assert forth[i, j].item() == (expected or i == j)
    back = positives.texts_images(texts[:60], images, offset=0)
    torch.testing.assert_close(back | torch.eye(60, dtype=torch.bool), forth.T[:60] | torch.eye(60, dtype=torch.bool))


def test_without_judgments_a_pair_matches_itself_alone():
    found = BatchPositives().texts(torch.tensor([5, 9]), torch.arange(4), offset=2)
    assert found.tolist() == [[False, False, True, False], [False, False, False, True]]
