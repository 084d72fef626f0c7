"""Concepts of images, from COCO's annotations, from its category sets and from Visual Genome."""

import itertools
import json

import numpy as np
import pytest

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.metrics.concept_agreement import concept_agreement
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.reading import read_json
from cxc_eccv.studies.explain.concepts import load_concepts, synsets_of_categories
from cxc_eccv.types.concept_pairs import ConceptPairs

CATEGORIES = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}, {"id": 34, "name": "frisbee"}]


@pytest.fixture(scope="module")
def ids(sample_library):
    return sample_library.split().image_ids.tolist()


def image(number, width=200, height=100):
    return {"id": number, "width": width, "height": height}


def box(number, category, *sides, **more):
    return {"id": 1, "image_id": number, "category_id": category, "bbox": list(sides), **more}


@pytest.fixture
def load(tmp_path):
    """Concepts of the sample's test split, from a COCO file of our own; its text may be changed before."""

    def read(images, annotations, categories=CATEGORIES, change=lambda text: text):
        path = tmp_path / "instances.json"
        records = [record | {"id": number} for number, record in enumerate(annotations)]
        text = json.dumps({"images": images, "annotations": records, "categories": categories})
        path.write_text(change(text))
        library = Library("sample")
        found = load_concepts(library.split(), annotations=path)
        assert "instances" in library.files_used()
        return found

    return read


def listed(shown):
    return {concept: areas.tolist() for concept, areas in shown.items()}


def names_of(found):
    return {number: set(shown) for number, shown in found.images.items()}


class TestCoco:
    def test_areas_are_shares_of_the_image(self, load, ids):
        found = load([image(ids[0])], [box(ids[0], 18, 0, 0, 20, 50), box(ids[0], 18, 10, 10, 100, 10)])
        assert listed(found.images[ids[0]]) == {"dog.n.01": [0.05, 0.05]}
        assert (found.source, found.counted, found.n_images) == ("COCO instances", True, len(ids))
        assert found.boxes[ids[0]][1] == ("dog.n.01", "dog", 0.05, 0.1, 0.5, pytest.approx(0.1))

    def test_a_crowd_is_one_instance(self, load, ids):
        annotations = [box(ids[0], 1, 0, 0, 20, 100), box(ids[0], 1, 0, 0, 100, 100, iscrowd=1)]
        found = load([image(ids[0])], annotations)
        assert listed(found.images[ids[0]]) == {"person.n.01": [0.1, 0.5]}
        assert found.groups == 1

    def test_a_box_ends_at_the_edge(self, load, ids):
        found = load([image(ids[0])], [box(ids[0], 18, 150, -50, 100, 100), box(ids[0], 1, -5, -5, 500, 500)])
        assert listed(found.images[ids[0]]) == {"dog.n.01": [0.125], "person.n.01": [1.0]}
        assert found.boxes[ids[0]][0][2:] == (0.75, 0.0, 0.25, 0.5)

    @pytest.mark.parametrize("sides", [(5, 5, 0, 9), (5, 5, 9, 0), (200, 0, 9, 9), (0, -9, 9, 9), (1e8, 0, 1, 1)])
    def test_box_without_area_is_counted_not_used(self, load, ids, sides):
        found = load([image(ids[0])], [box(ids[0], 18, *sides), box(ids[0], 1, 0, 0, 9, 9)])
        assert set(found.images[ids[0]]) == {"person.n.01"}
        assert found.left_out == {"box without an area inside the image": 1}

    def test_image_with_only_omitted_boxes_is_unknown(self, load, ids):
        """An image without annotations is known to show nothing."""
        found = load([image(n) for n in ids[:3]], [box(ids[0], 18, 5, 5, 0, 9), box(ids[2], 18, 5, 5, 9, 9)])
        assert names_of(found) == {ids[1]: set(), ids[2]: {"dog.n.01"}}
        assert set(found.boxes) == {ids[1], ids[2]}

    def test_copied_annotation_is_no_second_instance(self, load, ids):
        dogs = [box(ids[0], 18, 0, 0, 20, 50), box(ids[0], 18, 10, 10, 100, 10)]
        others = [box(ids[0], 18, 0, 0, 20, 50, iscrowd=1), box(ids[0], 1, 0, 0, 20, 50)]
        found = load([image(ids[0])], [*dogs, *dogs, *others])
        assert {name: areas.size for name, areas in found.images[ids[0]].items()} == {"dog.n.01": 3, "person.n.01": 1}
        assert found.left_out == {"annotation with the same image, category and box as another one": 2}
        with pytest.raises(MalformedSource, match=r"annotations\[1\]: found id 0 a second time"):
            load([image(ids[0])], dogs, change=lambda text: text.replace('"id": 1, "image_id"', '"id": 0, "image_id"'))

    @pytest.mark.parametrize("annotations", [[], [(5, 5, 0, 9)]])
    def test_a_file_that_names_no_concept_is_refused(self, load, ids, annotations):
        message = rf"lists 1 of the images of test, but none .* \({len(annotations)} annotations"
        with pytest.raises(DataError, match=message):
            load([image(ids[0])], [box(ids[0], 18, *sides) for sides in annotations])

    def test_images_that_nobody_annotated_are_no_keys(self, load, ids):
        found = load([image(ids[0]), image(ids[1]), image(999)], [box(ids[0], 18, 5, 5, 9, 9), box(999, 1, 0, 0, 9, 9)])
        assert names_of(found) == {ids[0]: {"dog.n.01"}, ids[1]: set()}
        assert found.of([ids[1], ids[0]]) == [found.images[ids[1]], found.images[ids[0]]]
        known = "2 of the 60 images of test are annotated"
        with pytest.raises(DataError, match=rf"2 of the images have no .* image {ids[2]}\..*{known}"):
            found.of([ids[0], ids[2], ids[3], ids[2]])

    def test_a_file_of_other_images(self, load, genome):
        with pytest.raises(DataError, match="COCO instances annotates none of the 60 images of test"):
            load([image(999)], [box(999, 1, 0, 0, 9, 9)])
        with pytest.raises(DataError, match="Visual Genome annotates none of the 60 images of test"):
            genome({5: []})

    def test_category_sets_count_nothing(self, load, ids):
        record = {"id": 1, "image_id": ids[0], "category_id": 18}
        found = load([{"id": ids[0]}, {"id": ids[1]}], [record, record | {"category_id": 1}])
        assert (found.source, found.counted, found.boxes) == ("COCO categories", False, {})
        assert listed(found.images[ids[0]]) == {"dog.n.01": [], "person.n.01": []}

    def test_a_slow_loop_agrees_on_the_sample(self, sample_library):
        synsets = {name: entry.synset for name, entry in synsets_of_categories().items()}
        for split in ("validation", "test"):
            found = load_concepts(sample_library.split(split))
            file = read_json(sample_library.split(split)._category_files()[0])
            names = {category["id"]: category["name"] for category in file["categories"]}
            sizes = {one["id"]: one["width"] * one["height"] for one in file["images"]}
            images = set(sample_library.split(split).image_ids.tolist())
            assert list(found.images) == [number for number in sizes if number in images]
            expected = {number: {} for number in found.images}
            for record in file["annotations"]:
                if record["image_id"] in expected:
                    area = record["bbox"][2] * record["bbox"][3] / sizes[record["image_id"]]
                    concept = synsets[names[record["category_id"]]]
                    expected[record["image_id"]].setdefault(concept, []).append(area)
            assert {number: listed(shown) for number, shown in found.images.items()} == expected

    @pytest.mark.parametrize(
        ("annotation", "parts"),
        [
            ({"width": 0}, ["images[0].width"]),
            ({"height": -3}, ["images[0].height"]),
            ({"height": 2.5}, ["images[0].height"]),
            ({"bbox": [1, 2, 3]}, ["annotations[1].bbox", "[1, 2, 3]", "four finite numbers"]),
            ({"bbox": [1, 2, 3, "4"]}, ["annotations[1].bbox", "four finite numbers"]),
            ({"bbox": [1, 2, 3, True]}, ["annotations[1].bbox", "four finite numbers"]),
            ({"bbox": [1, 2, 3, 1e300]}, ["annotations[1].bbox", "four finite numbers"]),
            ({"bbox": None}, ["annotations[1].bbox", "None", "four finite numbers"]),
            ({"bbox": [9, 9, -3, 4]}, ["annotations[1].bbox", "[9, 9, -3, 4]", "width and height of 0 or more"]),
            ({"bbox": [9, 9, 3, -4]}, ["annotations[1].bbox", "width and height of 0 or more"]),
            ({"bbox": [1, 2, 3, float("nan")]}, ["NaN", "finite numbers"]),
            ({"bbox": [1, 2, 3, float("inf")]}, ["Infinity", "finite numbers"]),
            ({"iscrowd": 2}, ["annotations[1].iscrowd", "2", "0 or 1"]),
            ({"category_id": 7}, ["annotations[1]", "unlisted category_id 7"]),
            ({"image_id": 7}, ["annotations[1]", "unlisted image_id 7"]),
        ],
    )
    def test_bad_images_and_annotations(self, load, ids, annotation, parts):
        shown = image(ids[0])
        good = box(ids[0], 18, 0, 0, 9, 9)
        if annotation.keys() <= shown.keys():
            shown |= annotation
        with pytest.raises(MalformedSource) as refused:
            load([shown], [good, good | annotation])
        assert all(part in str(refused.value) for part in parts), refused.value

    def test_overflowing_and_missing_boxes_and_a_cut_file(self, load, ids):
        good = box(ids[0], 18, 0, 0, 9, 9)
        bare = {name: value for name, value in good.items() if name != "bbox"}
        with pytest.raises(MalformedSource, match=r"annotations\[1\].*'bbox'"):
            load([image(ids[0])], [good, bare])
        with pytest.raises(MalformedSource, match="four finite numbers"):
            load([image(ids[0])], [good], change=lambda text: text.replace("[0, 0, 9, 9]", "[0, 0, 9, 1e999]"))
        with pytest.raises(MalformedSource, match="found no JSON"):
            load([image(ids[0])], [good], change=lambda text: text[:-30])

    def test_unknown_names_and_files(self, load, ids, tmp_path):
        with pytest.raises(UnknownName, match="unknown COCO category 'aeroplane'; did you mean 'airplane'"):
            load([image(ids[0])], [box(ids[0], 5, 0, 0, 9, 9)], [{"id": 5, "name": "aeroplane"}])
        with pytest.raises(SourceMissing, match=r"nowhere\.json is not a file"):
            load_concepts(Library("sample").split("test"), annotations=tmp_path / "nowhere.json")


class TestRealCoco:
    def test_category_sets_of_the_split(self, real_library):
        found = load_concepts(real_library.split())
        assert (found.source, len(found.images)) == ("COCO categories", 5_000)
        assert sum(not shown for shown in found.images.values()) == 48

    @pytest.mark.parametrize(
        ("split", "annotated", "boxes", "groups"), [("test", 33, 320, 5), ("validation", 30, 262, 3)]
    )
    def test_full_annotations_of_63_images(self, real_library, split, annotated, boxes, groups):
        path = real_library.path("instances_subset")
        found = load_concepts(real_library.split(split), annotations=path)
        sets = load_concepts(real_library.split(split))
        assert (len(found.images), sum(map(len, found.boxes.values())), found.groups) == (annotated, boxes, groups)
        assert not found.left_out
        # Concepts agree however they are told, so that CA and NCS are the same from category sets alone.
        images = [number for number, shown in found.images.items() if shown]
        full = found.of(images)
        plain = sets.of(images)
        assert [set(shown) for shown in full] == [set(shown) for shown in plain]
        pairs = [ConceptPairs(np.array(images), shown, shown[1:] + shown[:1]) for shown in (full, plain)]
        np.testing.assert_array_equal(*map(concept_agreement, pairs))
        areas = np.concatenate([areas for shown in full for areas in shown.values()])
        assert ((areas > 0) & (areas <= 1)).all()


class TestTables:
    def test_the_categories_of_coco_and_of_the_sample(self, real_library, sample_library):
        entries = list(synsets_of_categories().values())
        file = read_json(real_library.path("instances_subset"))["categories"]
        assert [(entry.category_id, entry.category) for entry in entries[:80]] == [(c["id"], c["name"]) for c in file]
        assert len({entry.synset for entry in entries[:80]}) == 80
        sets = sample_library.split().categories()
        assert [entry.category for entry in entries[80:]] == list(sets.category_names)
        assert [entry.category_id for entry in entries[80:]] == sets.category_ids.tolist()

    def test_every_synset_is_in_wordnet_with_reasons(self, wordnet):
        for entry in synsets_of_categories().values():
            synset = wordnet.synset(entry.synset)
            assert (synset.name(), synset.pos()) == (entry.synset, "n")
            fitting = [synset.name() for synset in wordnet.synsets(entry.category.replace(" ", "_"), "n")]
            assert entry.reason or fitting == [entry.synset], entry
            for name in entry.reason.replace(";", " ").replace(",", " ").split():
                if ".n." in name:
                    assert wordnet.synset(name).name() == name


GENOME_IMAGES = [
    {"image_id": 1, "width": 200, "height": 100, "coco_id": None, "flickr_id": None, "url": "u"},
    {"image_id": 2, "width": 200, "height": 100, "coco_id": -1, "flickr_id": None, "url": "u"},
    {"image_id": 3, "width": 200, "height": 100, "coco_id": "first", "flickr_id": 5, "url": "u"},
    {"image_id": 4, "width": 500, "height": 500, "coco_id": "second", "flickr_id": 6, "url": "u"},
    {"image_id": 5, "width": 500, "height": 500, "coco_id": 777, "flickr_id": 6, "url": "u"},
]


NUMBERS = itertools.count()


def thing(synsets, names, x=0, y=0, w=20, h=50, **more):
    return {"object_id": next(NUMBERS), "synsets": synsets, "names": names, "x": x, "y": y, "w": w, "h": h, **more}


@pytest.fixture
def genome(tmp_path, ids, wordnet):
    def read(objects, images=GENOME_IMAGES, id_name="image_id"):
        coco = {"first": ids[0], "second": ids[1]}
        records = [{key: coco.get(value, value) for key, value in record.items()} for record in images]
        contents = {
            "objects.json": [{id_name: number, "objects": things} for number, things in objects.items()],
            "image_data.json": [
                {id_name if key == "image_id" else key: value for key, value in record.items()} for record in records
            ],
        }
        for name, content in contents.items():
            (tmp_path / name).write_text(json.dumps(content))
        return load_concepts(Library("sample").split("test"), "visual-genome", tmp_path)

    return read


class TestVisualGenome:
    def test_the_intersection_with_a_split(self, genome, ids):
        tree, other = (thing(["tree.n.01"], ["trees"], merged_object_ids=[9]) for _ in range(2))
        found = genome({1: [tree], 2: [tree], 3: [tree, other, tree], 4: [], 5: [tree]})
        assert found.left_out == {"object with the id of another object of its image": 1}
        shown = {number: listed(concepts) for number, concepts in found.images.items()}
        assert shown == {ids[0]: {"tree.n.01": [0.05, 0.05]}, ids[1]: {}}
        assert (found.source, found.counted, found.n_images, found.groups) == ("Visual Genome", True, len(ids), 0)
        assert found.boxes[ids[0]][0][:2] == ("tree.n.01", "trees")

    @pytest.mark.parametrize("release", ["1.0", "1.2", "1.4"])
    def test_every_release(self, genome, ids, release):
        dog = thing(["dog.n.01"], ["dog"])
        if release == "1.0":
            dog["id"] = dog.pop("object_id")
        if release == "1.4":
            dog["merged_object_ids"] = []
        found = genome({3: [dog]}, id_name="id" if release == "1.0" else "image_id")
        assert set(found.images[ids[0]]) == {"dog.n.01"}

    def test_the_first_of_several_synsets_and_none(self, genome, ids):
        objects = [
            thing(["woman.n.01", "shirt.n.01"], ["woman's shirt"]),
            thing([], ["lamp post"]),
            {key: value for key, value in thing([], ["wall"]).items() if key != "synsets"},
            thing(["flibbertigibbet.n.09"], ["what"]),
            thing(["couch.n.01"], []),
        ]
        found = genome({3: objects, 4: [thing([], ["lamp post"])]})
        assert {number: list(shown) for number, shown in found.images.items()} == {ids[0]: ["woman.n.01", "sofa.n.01"]}
        assert found.left_out == {"object without a synset": 3, "object with a synset that WordNet 3.0 lacks": 1}
        with pytest.raises(DataError, match=f"Visual Genome: 1 of the images have no .* image {ids[1]}"):
            found.of([ids[1]])

    def test_boxes_beyond_the_image(self, genome, ids):
        sky = ["sky.n.01"]
        objects = [thing(sky, ["sky"], **own) for own in ({"y": -904}, {"x": -10}, {"w": 0}, {"x": 9, "w": -5})]
        found = genome({3: objects})
        assert listed(found.images[ids[0]]) == {"sky.n.01": [0.025]}
        assert found.left_out == {"box without an area inside the image": 2, "box of negative width or height": 1}

    def test_first_of_two_images_with_coco_id_counts(self, genome, ids):
        again = {"width": 9, "height": 9}
        images = [*GENOME_IMAGES[:4], GENOME_IMAGES[4] | {"coco_id": "first"}]
        images += [again | {"image_id": 6, "coco_id": 777}, again | {"image_id": 7, "coco_id": 777}]
        dog, other = (thing(["dog.n.01"], ["dog"]) for _ in range(2))
        found = genome({5: [thing(["cat.n.01"], ["cat"])], 3: [dog, other], 6: [dog], 7: [dog]}, images)
        assert listed(found.images[ids[0]]) == {"cat.n.01": [pytest.approx(0.004)]}
        assert found.left_out == {"object of a second image of Visual Genome with the same COCO id": 2}

    @pytest.mark.parametrize(
        ("objects", "images", "parts"),
        [
            ({9: []}, GENOME_IMAGES, ["objects.json, [0]", "image 9", "image_data.json lists"]),
            ({3: None}, GENOME_IMAGES, ["[0].objects", "a list"]),
            ({3: [None]}, GENOME_IMAGES, ["[0].objects[0]", "an object"]),
            ({3: [{"x": 1, "y": 1, "w": 1}]}, GENOME_IMAGES, ["[0].objects[0]", "a key 'h'"]),
            ({3: [thing(["a.n.01"], ["a"], w=float("nan"))]}, GENOME_IMAGES, ["[0]", "valid JSON"]),
            ({3: [thing(["a.n.01"], ["a"], w=None)]}, GENOME_IMAGES, ["[0].objects[0]", "four finite numbers"]),
            ({3: [thing("a.n.01", ["a"])]}, GENOME_IMAGES, ["[0].objects[0].synsets", "a list of texts"]),
            ({3: [thing(["a.n.01"], [7])]}, GENOME_IMAGES, ["[0].objects[0].names", "a list of texts"]),
            ({}, [GENOME_IMAGES[0], GENOME_IMAGES[0]], ["image_data.json, [1]", "image 1 a second time"]),
            ({}, [{"image_id": 1, "width": 5, "height": 5}], ["image_data.json, [0]", "a key 'coco_id'"]),
            ({}, [GENOME_IMAGES[4] | {"coco_id": -2}], ["image_data.json, [0].coco_id", "-2"]),
            ({}, [GENOME_IMAGES[4] | {"width": 0}], ["image_data.json, [0].width", "0"]),
            ({}, [{"coco_id": 3}], ["image_data.json, [0]", "a key 'image_id'"]),
        ],
    )
    def test_bad_files(self, genome, objects, images, parts):
        with pytest.raises(MalformedSource) as refused:
            genome(objects, images)
        assert all(part in str(refused.value) for part in parts), refused.value

    def test_an_image_twice_and_no_files(self, genome, tmp_path):
        genome({3: [thing(["dog.n.01"], ["dog"])]})
        (tmp_path / "objects.json").write_text('[{"image_id": 3, "objects": []}, {"image_id": 3, "objects": []}]')
        for folder, error, message in (
            (tmp_path, MalformedSource, "image 3 a second time"),
            (None, SourceMissing, r"visual_genome/objects\.json\) is not part of the embedded sample"),
        ):
            with pytest.raises(error, match=message):
                load_concepts(Library("sample").split("test"), "visual-genome", folder)
