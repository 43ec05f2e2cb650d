"""A Dataset, a Sampler and a collate function of one's own, with weights, joined sets and fractions."""

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler
from torch.utils.data import SubsetRandomSampler, WeightedRandomSampler, random_split


class Words(Dataset):
    def __init__(self, count, start=0):
        self.rows = [torch.arange(start + i, start + i + i % 4 + 1) for i in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        return {"ids": self.rows[idx], "length": len(self.rows[idx])}


class ByLength(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(sorted(range(len(self.data_source)), key=lambda i: self.data_source[i]["length"]))

    def __len__(self):
        return len(self.data_source)


def collate(batch):
    ids = pad_sequence([item["ids"] for item in batch], batch_first=True, padding_value=-1)
    return ids, torch.tensor([item["length"] for item in batch])


words = ConcatDataset([Words(6), Words(5, start=100)])
loader = DataLoader(words, batch_size=4, sampler=ByLength(words), collate_fn=collate, num_workers=0, drop_last=False)
for ids, lengths in loader:
    mask = ids.ne(-1)
    print(ids.size(), ids.tolist(), mask.sum(dim=1).equal(lengths))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(5).view(5, 1))


print(loader.batch_size, [batch.tolist() for batch in DataLoader(Stream(), batch_size=2)])
a, b = random_split(words, [0.8, 0.2])
print(len(a), len(b), sorted([*a.indices, *b.indices]) == list(range(11)))
print(sorted(SubsetRandomSampler([3, 5, 8])), set(WeightedRandomSampler([0.0, 1.0, 0.0], 7)), len(loader))
many = DataLoader(words, batch_size=2, sampler=RandomSampler(words, replacement=True, num_samples=int(1e10)),
                  collate_fn=collate, pin_memory=torch.cuda.is_available())
print(len(next(iter(many))[1]))
