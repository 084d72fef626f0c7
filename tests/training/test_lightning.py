"""RetrievalScores in a LightningModule, used as docs/training.md says, against ce.evaluate."""

import pytest
import pytorch_lightning as lightning
import retrieval_scores_worker as worker
import torch
from torch.utils.data import DataLoader, TensorDataset

import cxc_eccv as ce
from cxc_eccv.errors import MissingIds
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.training import RetrievalScores
from cxc_eccv.types import Embeddings

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]


class Projection(lightning.LightningModule):
    """A layer above given vectors, scored after each epoch; ``expected`` are the scores of ``ce.evaluate``."""

    def __init__(self):
        super().__init__()
        self.ids, vectors = worker.captions()
        self.vectors = torch.as_tensor(vectors)
        self.layer = torch.nn.Linear(self.vectors.shape[1], 8)
        self.scores = RetrievalScores(worker.LIBRARY, "cxc/t2t", split="test")
        self.logged = []
        self.expected = []

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def training_step(self, batch):
        return self.layer(self.vectors[batch[0]]).pow(2).mean()

    def validation_step(self, batch):
        rows = batch[0]
        self.scores.update(caption_ids=self.ids[rows.numpy()], captions=self.layer(self.vectors[rows]))

    def on_validation_epoch_end(self):
        self.log_dict(self.scores.compute())
        self.scores.reset()
        run = EmbeddingsRun(None, Embeddings(self.ids, self.layer(self.vectors)))
        self.expected.append(
            ce.evaluate(run, "cxc/t2t", data_dir=worker.LIBRARY, intervals="none", progress=False).scores
        )

    def on_train_epoch_end(self):
        self.logged.append({key: value.item() for key, value in self.trainer.callback_metrics.items()})


def train(folder, sanity_steps):
    """A module after two epochs of Lightning's Trainer."""
    torch.manual_seed(0)
    model = Projection()
    batches = DataLoader(TensorDataset(torch.arange(len(model.ids))), batch_size=7)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        num_sanity_val_steps=sanity_steps,
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, batches, batches)
    return model


def test_logged_scores_are_those_of_evaluate(tmp_path):
    model = train(tmp_path, sanity_steps=0)
    assert len(model.expected) == 2
    assert model.logged == [pytest.approx(scores, abs=1e-6) for scores in model.expected]
    assert model.expected[0] != model.expected[1]


def test_sanity_check_of_two_batches_is_refused(tmp_path):
    with pytest.raises(MissingIds, match="lacks"):
        train(tmp_path, sanity_steps=2)
