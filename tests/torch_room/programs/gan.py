"""A GAN, with detach, in-place activations and labels that are filled."""

import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(5)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(4, 16),
            nn.BatchNorm1d(16),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(16, 16),
            nn.ReLU(True),
            nn.Linear(16, 2),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, x):
        return self.main(x).view(-1, 1).squeeze(1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Linear") != -1:
        m.weight.data.normal_(0.0, 0.02)
        m.bias.data.fill_(0)
        m.weight.data.copy_(torch.from_numpy(rng.standard_normal(m.weight.shape)) * 0.3)
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)
        nn.init.ones_(m.weight.data)


netG, netD = Generator().to(device), Discriminator().to(device)
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=0.01, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=0.01, betas=(0.5, 0.999))
batch_size = 12
label = torch.FloatTensor(batch_size, 1).squeeze()
for i in range(5):
    netD.zero_grad()
    real = torch.tensor(rng.standard_normal((batch_size, 2)) + 2, dtype=torch.float32, device=device)
    label = torch.full((batch_size,), 1.0, dtype=real.dtype, device=device)
    errD_real = criterion(netD(real), label)
    errD_real.backward()
    noise = torch.from_numpy(rng.standard_normal((batch_size, 4))).type(torch.FloatTensor).to(device)
    fake = netG(noise)
    label.fill_(0)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    D_G_z1 = output.mean().item()
    optimizerD.step()
    netG.zero_grad()
    label.data.fill_(1)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    print("[%d] Loss_D: %.4f Loss_G: %.4f D(G(z)): %.4f" % (i, (errD_real + errD_fake).item(), errG.item(), D_G_z1))
