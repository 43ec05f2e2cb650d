"""A character RNN, one letter at a time, with hand-written updates of p.data."""

import torch
import torch.nn as nn
import numpy as np

rng = np.random.default_rng(0)
text = "the quick brown fox jumps over the lazy dog"
letters = sorted(set(text))
n_letters = len(letters)


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super(RNN, self).__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(input_size + hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(combined))
        output = self.softmax(self.i2o(combined))
        return output, hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


def lineToTensor(line):
    tensor = torch.zeros(len(line), 1, n_letters)
    for li, letter in enumerate(line):
        tensor[li][0][letters.index(letter)] = 1
    return tensor


rnn = RNN(n_letters, 16, n_letters)
for p in rnn.parameters():
    p.data.copy_(torch.from_numpy(rng.standard_normal(p.size()).astype(np.float32) * 0.3))
criterion = nn.NLLLoss()
learning_rate = 0.05
for epoch in range(3):
    hidden = rnn.initHidden()
    rnn.zero_grad()
    line = lineToTensor(text[:-1])
    target = torch.LongTensor([letters.index(c) for c in text[1:]])
    target.unsqueeze_(-1)
    loss = torch.Tensor([0])
    for i in range(line.size(0)):
        output, hidden = rnn(line[i], hidden)
        loss += criterion(output, target[i])
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    print(epoch, loss.item() / line.size(0))
topv, topi = output.data.topk(3)
print(topv[0].tolist(), [letters[i] for i in topi[0].tolist()])
