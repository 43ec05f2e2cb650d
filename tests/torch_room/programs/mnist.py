"""A convolutional net on pictures, with argparse, loaders, a scheduler and a saved state."""

import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.fc1 = nn.Linear(8 * 4 * 4, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = self.conv1(x)
        x = F.relu(x, inplace=True)
        x = self.conv2(x)
        x = F.relu(x)
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = self.fc1(x)
        x = F.relu(x)
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(
                "Epoch {} [{}/{}] loss {:.5f}".format(
                    epoch, batch_idx * len(data), len(train_loader.dataset), loss.item()
                )
            )


def test(model, device, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(
        "test loss {:.4f}, accuracy {}/{}".format(
            test_loss / len(test_loader.dataset), correct, len(test_loader.dataset)
        )
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--no-accel", action="store_true")
    parser.add_argument("--log-interval", type=int, default=2)
    args = parser.parse_args()
    use_accel = not args.no_accel and torch.accelerator.is_available()
    torch.manual_seed(1)
    device = torch.accelerator.current_accelerator() if use_accel else torch.device("cpu")
    kwargs = {"batch_size": args.batch_size}
    if use_accel:
        kwargs.update({"num_workers": 1, "pin_memory": True, "shuffle": True})
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 10, 40)
    images = rng.standard_normal((40, 1, 12, 12)).astype(np.float32) + labels[:, None, None, None] * 0.1
    dataset = TensorDataset(torch.from_numpy(images.astype(np.float32)), torch.from_numpy(labels))
    train_set, test_set = random_split(dataset, [32, 8], generator=torch.Generator().manual_seed(0))
    train_set.indices, test_set.indices = list(range(32)), list(range(32, 40))
    train_loader = DataLoader(train_set, **kwargs)
    test_loader = DataLoader(test_set, **kwargs)
    model = Net().to(device)
    for p in model.parameters():
        p.data = torch.from_numpy(rng.standard_normal(p.shape).astype(np.float32) * 0.2)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 4):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
        print("lr", scheduler.get_last_lr()[0])
    path = os.path.join(tempfile.mkdtemp(), "mnist_cnn.pt")
    torch.save(model.state_dict(), path)
    again = Net()
    print(again.load_state_dict(torch.load(path, map_location=device, weights_only=True)))
    test(again, device, test_loader)


if __name__ == "__main__":
    main()
