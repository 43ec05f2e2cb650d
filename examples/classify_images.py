"""Train a small convolutional network to read digits, on generated images, without a download.

    python examples/classify_images.py
    python examples/classify_images.py --epochs 2 --out runs/quick

The loop is that of first_transformer.py, only with other batches and another model. It writes into --out: digits.svg
(some images, with the network's answers), filters.svg (the weights of its first layer), found.svg (where each filter
finds its pattern), network.svg (its computation graph), model.safetensors.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import DrawingError
from tinytensor.models.data.images import SIZE, digits
from tinytensor.models.image_classifier import ImageClassifier
from tinytensor.models.scripts import command_line
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

TRAINING, HELD_OUT = (0, 1)  # with the seed, they determine the images of each
AT_ONCE = 250  # images classified at a time


def main() -> int:
    """Parse, make images, train, report."""
    arguments = parser().parse_args()
    with command_line.told(tt.DeviceError):
        tt.backend.for_device(arguments.device)
    arguments.out.mkdir(parents=True, exist_ok=True)
    tt.speed_up()
    tt.manual_seed(arguments.seed)
    images, labels = digits(arguments.images, (arguments.seed, TRAINING))
    model = ImageClassifier(SIZE).to(arguments.device)
    weights = sum(parameter.size for parameter in model.parameters())
    print(f"{len(images):,} images of {SIZE} x {SIZE} pixels, {weights:,} weights", flush=True)

    train(model, images, labels, arguments)
    accuracy = report(model, arguments)
    if accuracy < (arguments.require_accuracy or 0):
        required = arguments.require_accuracy
        print(f"classify_images.py: accuracy {accuracy:.4f} is below the required {required}", file=sys.stderr)
        return command_line.EXIT_TOO_INACCURATE
    return command_line.EXIT_OK


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="classify_images.py", description="Train a convolutional network to read digits.")
    p.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to compute")
    p.add_argument("--images", type=command_line.size, default=6000, help="how many it is trained on")
    p.add_argument("--epochs", type=command_line.positive_int, default=4, help="how often it sees each of them")
    p.add_argument("--batch-size", type=command_line.size, default=64, help="images in a batch")
    p.add_argument("--learning-rate", type=command_line.positive_float, default=2e-3, help="of the first step")
    p.add_argument("--seed", type=command_line.non_negative_int, default=0, help="weights and images follow from it")
    p.add_argument("--out", type=Path, default=Path("runs/images"), help="folder for weights and pictures")
    p.add_argument(
        "--require-accuracy", type=command_line.fraction, metavar="X", help="exit with 4 if the accuracy is below X"
    )
    return p


def train(model: ImageClassifier, images: np.ndarray, labels: np.ndarray, arguments: argparse.Namespace) -> None:
    """Go through all images in each epoch, each time in another order, and print the progress."""
    batch, steps = arguments.batch_size, arguments.epochs * -(-len(images) // arguments.batch_size)
    optimizer = nn.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    order = np.random.default_rng(arguments.seed)
    start = time.perf_counter()
    for epoch in range(1, arguments.epochs + 1):
        shuffled = order.permutation(len(images))
        losses = []
        for i in range(0, len(images), batch):
            rows = shuffled[i : i + batch]
            x, target = (tt.asarray(a[rows], device=arguments.device) for a in (images, labels))
            loss = F.cross_entropy(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        rate = epoch * len(images) / (time.perf_counter() - start)
        print(f"epoch {epoch}/{arguments.epochs}: loss {np.mean(losses):.4f}, {rate:,.0f} images/s", flush=True)
        if not np.isfinite(losses).all():
            print(f"classify_images.py: the loss is not finite in epoch {epoch}", file=sys.stderr)
            raise SystemExit(command_line.EXIT_NOT_FINITE)


def answers(model: ImageClassifier, images: np.ndarray, device: str) -> np.ndarray:
    """The digit that the network reads in each image."""
    with tt.no_grad():
        parts = [model(tt.asarray(images[i : i + AT_ONCE], device=device)) for i in range(0, len(images), AT_ONCE)]
    return np.concatenate([tt.argmax(part, axis=1).numpy() for part in parts])


def report(model: ImageClassifier, arguments: argparse.Namespace) -> float:
    """Print the accuracy on images not seen in training, write weights and pictures, and return the accuracy."""
    images, labels = digits(2000, (arguments.seed, HELD_OUT))
    said = answers(model, images, arguments.device)
    accuracy = float(np.mean(said == labels))
    print(f"accuracy on {len(images):,} images never seen in training: {accuracy:.1%}")
    nn.save(model.state_dict(), arguments.out / "model.safetensors")
    for name, picture in pictures(model, images, labels, said, arguments.device).items():
        try:
            picture.save(arguments.out / name)
            print(f"wrote {arguments.out / name}")
        except DrawingError as error:  # the run is complete without it
            print(f"skipped {arguments.out / name}: {error}")
    return accuracy


def pictures(
    model: ImageClassifier, images: np.ndarray, labels: np.ndarray, said: np.ndarray, device: str
) -> dict[str, Any]:
    """Images with the network's answers, wrong ones first; filters, and where they find their pattern; the network."""
    shown = np.argsort(said == labels, kind="stable")[:8]
    tiles = {f"{n + 1}: {labels[i]} is read as {said[i]}": images[i, 0] for n, i in enumerate(shown)}
    model.to("cpu")
    x = tt.asarray(images[:1])
    with tt.no_grad():
        found = F.relu(model[0](x)).numpy()[0]
    filters = model[0].weight.detach().numpy()[:, 0]
    with tt.record() as graph:
        F.cross_entropy(model(x), tt.asarray(labels[:1]))
    model.to(device)
    return {
        "digits.svg": visualize.matrix(tiles, title="Images never seen in training", numbers=False),
        "filters.svg": visualize.matrix(filters, title="Filters of the first layer", numbers=False),
        "found.svg": visualize.matrix(found, title=f"Where they find what they look for in a {labels[0]}"),
        "network.svg": graph,
    }


if __name__ == "__main__":
    command_line.run(main)
