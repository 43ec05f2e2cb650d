"""A variational autoencoder."""

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.autograd import Variable

rng = np.random.default_rng(4)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 12)
        self.fc21 = nn.Linear(12, 3)
        self.fc22 = nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 20)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, noise):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        assert eps.size() == std.size()
        eps.data.copy_(noise)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, noise):
        mu, logvar = self.encode(x.view(-1, 20))
        z = self.reparameterize(mu, logvar, noise)
        return self.decode(z), mu, logvar


model = VAE()
for p in model.parameters():
    p.data = torch.from_numpy(rng.standard_normal(p.shape)).float().mul_(0.3)
optimizer = optim.Adam(model.parameters(), lr=1e-2)
for step in range(5):
    x = Variable(torch.FloatTensor(rng.random((8, 4, 5))))
    noise = torch.FloatTensor(rng.standard_normal((8, 3)))
    recon, mu, logvar = model(x, noise)
    BCE = F.binary_cross_entropy(recon, x.view(-1, 20), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = BCE + KLD
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.4f %.4f" % (BCE.item() / len(x), KLD.item() / len(x)))
with torch.no_grad():
    sample = model.decode(torch.from_numpy(rng.standard_normal((2, 3)).astype("float32"))).cpu()
    print(sample.view(2, 4, 5)[:, 0].numpy().round(4).tolist())
