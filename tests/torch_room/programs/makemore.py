"""An MLP over characters with no nn.Module: parameters in a list, batch norm by hand, p.data -= lr * p.grad."""

import numpy as np
import torch
import torch.nn.functional as F

words = ["emma", "olivia", "ava", "isabella", "sophia", "mia", "zoe", "liam", "noah", "ethan"]
chars = sorted(list(set("".join(words))))
stoi = {s: i + 1 for i, s in enumerate(chars)}
stoi["."] = 0
itos = {i: s for s, i in stoi.items()}
vocab_size, block_size = len(itos), 3
X, Y = [], []
for w in words:
    context = [0] * block_size
    for ch in w + ".":
        ix = stoi[ch]
        X.append(context)
        Y.append(ix)
        context = context[1:] + [ix]
X, Y = torch.tensor(X), torch.tensor(Y)
print(X.shape[0], Y.dtype == torch.int64)

N = torch.zeros((vocab_size, vocab_size), dtype=torch.int32)
for w in words:
    chs = ["."] + list(w) + ["."]
    for ch1, ch2 in zip(chs, chs[1:]):
        N[stoi[ch1], stoi[ch2]] += 1
P = (N + 1).float()
P /= P.sum(1, keepdim=True)
print(P[0, :4].tolist(), P.sum(1).max().item())

rng = np.random.default_rng(7)
g = torch.Generator().manual_seed(2147483647)


def made(*shape):
    t = torch.randn(shape, generator=g)
    t.data.uniform_(-0.1, 0.1)
    t.copy_(torch.from_numpy(rng.standard_normal(shape)))
    return t


C = made(vocab_size, 4)
W1 = made(12, 20) * (5 / 3) / (12**0.5)
W2 = made(20, vocab_size) * 0.1
b2 = torch.zeros(vocab_size)
bngain, bnbias = torch.ones((1, 20)), torch.zeros((1, 20))
bnstd_running = torch.ones((1, 20))
parameters = [C, W1, W2, b2, bngain, bnbias]
print(sum(p.nelement() for p in parameters))
for p in parameters:
    p.requires_grad = True
for i in range(6):
    ix = torch.from_numpy(rng.integers(0, X.shape[0], (16,)))
    assert torch.randint(0, X.shape[0], (16,), generator=g).shape == ix.shape
    emb = C[X[ix]]
    hpreact = emb.view(emb.shape[0], -1) @ W1
    bnmeani = hpreact.mean(0, keepdim=True)
    bnstdi = hpreact.std(0, keepdim=True)
    hpreact = bngain * (hpreact - bnmeani) / bnstdi + bnbias
    with torch.no_grad():
        bnstd_running = 0.9 * bnstd_running + 0.1 * bnstdi
    h = torch.tanh(hpreact)
    logits = h @ W2 + b2
    loss = F.cross_entropy(logits, Y[ix])
    for p in parameters:
        p.grad = None
    loss.backward()
    lr = 0.1 if i < 4 else 0.01
    for p in parameters:
        p.data += -lr * p.grad
    print(f"{i} {loss.item():.5f} {loss.log10().item():.5f}")
print(bnstd_running.mean().item(), (h.abs() > 0.97).float().mean().item())
print([f"{(lr * p.grad.std() / p.data.std()).item():.5f}" for p in parameters if p.ndim == 2 and p.shape[0] > 1])
