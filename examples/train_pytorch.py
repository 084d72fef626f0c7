"""Train CLIP with all positives of a batch in plain PyTorch, and print its table under corrected labels.

    python examples/train_pytorch.py

``coco`` is a folder with ``train2014`` and ``val2014``. Without COCO set ``CXC_ECCV_DATA=sample`` and
``IMAGES = "sample"``.
"""

import torch
from torch.utils.data import DataLoader
from transformers import AutoModel, AutoProcessor

import cxc_eccv as ce

MODEL, IMAGES = "openai/clip-vit-base-patch32", "coco"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
model, processor = AutoModel.from_pretrained(MODEL).to(DEVICE), AutoProcessor.from_pretrained(MODEL)
pairs = ce.load("pairs", split="train", images=IMAGES)
collate = ce.MultiPositiveCollator(processor, ce.collect_positives(pairs))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for epoch in range(1):
    model.train()
    losses = []
    for batch in DataLoader(pairs, batch_size=32, shuffle=True, collate_fn=collate):
        inputs = {name: values.to(DEVICE) for name, values in batch.items()}
        positives = inputs.pop("positives")
        loss = ce.multi_positive_loss(model(**inputs).logits_per_image, positives)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.3f}")
print(ce.evaluate_model(model, images=IMAGES))
