"""Checkpoints of model, optimizer and scheduler; ModuleList, Sequential, Parameter, lazy layers; schedules of rates."""

import io
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.optim import lr_scheduler

rng = np.random.default_rng(8)


class LayerNorm(nn.Module):
    "As in the Annotated Transformer."

    def __init__(self, features, eps=1e-6):
        super(LayerNorm, self).__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.head = nn.Sequential(LayerNorm(6), nn.LazyLinear(5), nn.ReLU(inplace=True), nn.LazyLinear(3))
        self.scale = nn.Parameter(torch.Tensor([2.0]))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.head(x) * self.scale


model = Model()
model(torch.zeros(2, 6))
print([(name, tuple(p.size())) for name, p in model.named_parameters()])
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
    with torch.no_grad():
        p.copy_(torch.as_tensor(rng.standard_normal(p.shape), dtype=p.dtype))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
scheduler = lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda step: min((step + 1) ** -0.5, (step + 1) * 0.5))
x, y = torch.from_numpy(rng.standard_normal((10, 6)).astype("f")), torch.from_numpy(rng.integers(0, 3, 10)).long()
criterion = nn.CrossEntropyLoss(reduction="mean", label_smoothing=0.1)


def steps(n):
    for _ in range(n):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        print(round(loss.item(), 5), round(optimizer.param_groups[0]["lr"], 6), model.calls.item())


steps(3)
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
checkpoint = {
    "model": model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "iter_num": 3,
    "config": {"lr": 0.01, "name": "a"},
}
torch.save(checkpoint, path)
steps(2)
loaded = torch.load(path, map_location="cpu", weights_only=True)
print(loaded["iter_num"], loaded["config"], list(loaded["model"].keys()))
model.load_state_dict(loaded["model"])
optimizer.load_state_dict(loaded["optimizer"])
steps(2)
params = [nn.Parameter(torch.zeros(2))]
for make in (
    lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.5),
    lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=5),
    lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=6),
    lambda o: lr_scheduler.ExponentialLR(o, gamma=0.9),
    lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5),
    lambda o: lr_scheduler.MultiStepLR(o, [2, 4]),
):
    opt = torch.optim.AdamW(params, lr=0.1)
    sched = make(opt)
    rates = []
    for _ in range(5):
        opt.step()
        sched.step(1.0) if isinstance(sched, lr_scheduler.ReduceLROnPlateau) else sched.step()
        rates.append(round(opt.param_groups[0]["lr"], 5))
    print(type(sched).__name__, rates)


class Momentum(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "m" not in state:
                    state["m"] = torch.zeros_like(p.data)
                state["m"].mul_(0.9).add_(p.grad.data, alpha=0.1)
                p.data.addcdiv_(state["m"], p.grad.abs().sqrt().add_(1e-8), value=-group["lr"])


w = nn.Parameter(torch.tensor([1.0, -2.0]))
opt = Momentum([w], lr=0.1)
for _ in range(3):
    opt.zero_grad()
    (w**2).sum().backward()
    opt.step()
print(w.data.tolist(), isinstance(opt, torch.optim.Optimizer), isinstance(optimizer, torch.optim.Optimizer))
buffer = io.BytesIO()
torch.save({"w": w.data}, buffer)
buffer.seek(0)
print(torch.load(buffer)["w"].tolist())
