"""Sequence to sequence with attention, a word at a time, with teacher forcing and greedy decoding."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

SOS_token, EOS_token = 0, 1
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = np.random.default_rng(6)


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.0):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(batch_size, 1, dtype=torch.long, device=device).fill_(SOS_token)
        decoder_hidden = encoder_hidden
        outputs, attentions = [], []
        for i in range(5):
            output, decoder_hidden, weights = self.forward_step(decoder_input, decoder_hidden, encoder_outputs)
            outputs.append(output)
            attentions.append(weights)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                _, topi = output.topk(1)
                decoder_input = topi.squeeze(-1).detach()
        outputs = F.log_softmax(torch.cat(outputs, dim=1), dim=-1)
        return outputs, decoder_hidden, torch.cat(attentions, dim=1)

    def forward_step(self, input, hidden, encoder_outputs):
        query = hidden.permute(1, 0, 2)
        context, weights = self.attention(query, encoder_outputs)
        output, hidden = self.gru(torch.cat((self.embedding(input), context), dim=2), hidden)
        return self.out(output), hidden, weights


encoder = EncoderRNN(11, 8).to(device)
decoder = AttnDecoderRNN(8, 9).to(device)
for p in list(encoder.parameters()) + list(decoder.parameters()):
    p.data = torch.tensor(rng.standard_normal(tuple(p.shape)) * 0.4).to(p.dtype)
encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.01)
decoder_optimizer = optim.SGD(decoder.parameters(), lr=0.1, momentum=0.9)
criterion = nn.NLLLoss()
source = torch.from_numpy(rng.integers(0, 11, (3, 6)))
target = torch.from_numpy(rng.integers(0, 9, (3, 5)))
for epoch in range(4):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    encoder_outputs, encoder_hidden = encoder(source)
    outputs, _, _ = decoder(encoder_outputs, encoder_hidden, target)
    loss = criterion(outputs.view(-1, outputs.size(-1)), target.view(-1))
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    print("%.5f" % loss.item())
with torch.no_grad():
    outputs, _, attentions = decoder(*encoder(source))
    _, topi = outputs.topk(1)
    print(topi.squeeze().tolist(), attentions.sum(dim=2).mean().item())
