"""The image classifier beside PyTorch's: from the same weights the same losses, and in the end the same answers."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.data.images import digits
from tinytensor.models.image_classifier import ImageClassifier

torch = pytest.importorskip("torch")


def test_steps_of_training():
    tt.manual_seed(0)
    ours = ImageClassifier(12, channels=(4, 8)).double()
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(72, 10),
    ).double()  # fmt: skip
    theirs.load_state_dict({name: torch.from_numpy(np.array(v.numpy())) for name, v in ours.state_dict().items()})
    optimizers = nn.optim.Adam(ours.parameters(), lr=1e-2), torch.optim.Adam(theirs.parameters(), lr=1e-2)
    images, labels = digits(320, 0, 12)
    losses = []
    for i in range(0, 320, 16):
        x, y = images[i : i + 16].astype(np.float64), labels[i : i + 16]
        pair = (
            nn.functional.cross_entropy(ours(tt.asarray(x)), tt.asarray(y)),
            torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y)),
        )
        for optimizer, loss in zip(optimizers, pair):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append([loss.item() for loss in pair])
    np.testing.assert_allclose(*np.array(losses).T, rtol=1e-8)
    assert losses[-1][0] < losses[0][0]
    unseen = digits(200, 1, 12)[0].astype(np.float64)
    said = ours(tt.asarray(unseen)).detach().numpy().argmax(axis=1)
    assert (said == theirs(torch.tensor(unseen)).detach().numpy().argmax(axis=1)).all()
