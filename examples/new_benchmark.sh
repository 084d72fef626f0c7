#!/usr/bin/env bash
# A new benchmark, made as ECCV Caption was: models propose pairs, people judge them, and the models are scored anew.
#
#     bash examples/new_benchmark.sh            # the embedded sample, offline, a minute
#
# It fills the folder new_benchmark; table/compare.html there is the page for a paper.
set -euo pipefail
mkdir new_benchmark && cd new_benchmark
export CXC_ECCV_DATA=sample CXC_ECCV_OFFLINE=1  # yours: the folder of the raw files; leave out the second

# 1. Five models that differ, as the paper's do: ridge regressions, four of which see or read only a part. Yours:
#    cxc-eccv encode --model openai/clip-vit-base-patch32 --images val2014 --output clip.npz, and four others.
python - <<'PYTHON'
import datasets, numpy as np, cxc_eccv as ce
from cxc_eccv.cli.demo import RidgeModel
from cxc_eccv.sources.download import sample_images
datasets.disable_progress_bars()
fit, test = (ce.load("captions", split=name, images=sample_images()) for name in ("train+restval", "test"))
captions = [caption for row in test["captions"] for caption in row]
colours = "red green blue yellow black white grey purple orange pink lilac".split()
for name, see, read in (
    ("whole", lambda image: image, str),
    ("grey", lambda image: image.convert("L"), str),
    ("half", lambda image: image.crop((0, 0, image.width // 2, image.height)), str),
    ("coarse", lambda image: image.resize((2, 2)), str),
    ("shapes", lambda image: image, lambda text: " ".join(word for word in text.split() if word not in colours)),
):
    texts = [[read(caption["text"]) for caption in row] for row in fit["captions"]]
    model = RidgeModel.fit([see(image) for image in fit["image"]], texts)
    images, texts = [see(image) for image in test["image"]], [read(caption["text"]) for caption in captions]
    vectors = {"image_embeddings": model.encode_images(images), "caption_embeddings": model.encode_captions(texts)}
    ids = {"image_ids": test["image_id"], "caption_ids": [caption["id"] for caption in captions]}
    np.savez(f"{name}.npz", model=name, **ids, **vectors)
PYTHON
models="whole.npz grey.npz half.npz coarse.npz shapes.npz"

# 2. Stage 1 asks about the top 5 captions of 40 images and for reasons, stage 2 about the top 5 images of 60 captions.
#    COCO's links are the old labels; --ask-known asks about them too. Yours: --people ann,ben,cleo,dora, without
#    --format, writes a page for each person.
cxc-eccv annotate propose verified $models --sources coco --ask-known --queries 40,0
cxc-eccv annotate export verified --format jsonl --images "images/{file_name}" --output stage_1
cxc-eccv annotate propose verified $models --sources coco --ask-known --queries 0,60 --without-reasons --leave-open
cxc-eccv annotate export verified --format jsonl --images "images/{file_name}" --output stage_2

# 3. People answer. Here a script does, by the sample's truth: three err on a tenth of the questions, and dora guesses.
python - <<'PYTHON'
import json, random, pathlib, cxc_eccv as ce
from cxc_eccv.sources.readers import read_positives
true = {(pair["query_id"], pair["item_id"]) for pair in ce.Library().read("truth", read_positives).to_pylist()}
for person, error_rate in {"ann": 0.1, "ben": 0.1, "cleo": 0.1, "dora": 0.5}.items():
    draws = random.Random(person)
    with open(f"{person}.jsonl", "w") as answers:
        for stage in ("stage_1", "stage_2"):
            for question in map(json.loads, pathlib.Path(stage, "questions.jsonl").open()):
                match = ((question["image_id"], question["caption_id"]) in true) != (draws.random() < error_rate)
                answers.write(json.dumps(question | {"worker": person, "answer": "yes" if match else "no"}) + "\n")
PYTHON
cxc-eccv annotate import verified ann.jsonl ben.jsonl cleo.jsonl dora.jsonl

# 4. The known pairs turn dora out. The doubtful sheets of the others pass, as if somebody had looked at them.
cxc-eccv annotate check verified --reject dora --accept ann --accept ben --accept cleo
cxc-eccv annotate merge verified --license cc-by-4.0
cxc-eccv label-quality --project verified --sources coco --sources coco,verified --queries verified --output worth

# 5. Score the models on the searched queries, by the old labels and by the new ones. Do both order them alike?
cxc-eccv evaluate $models --labels verified --tasks annotated --metrics R@1,mAP@R --sources coco --output old
cxc-eccv evaluate $models --labels verified --tasks annotated --metrics R@1,mAP@R --sources coco,verified --output new
cxc-eccv compare old/*/ new/*/ --agreement --all-metrics --output table

# 6. The labels and their card as they go to the Hub, without people's names. --yes in place of --output sends them.
cxc-eccv push verified YOUR_NAME/verified --output hub
