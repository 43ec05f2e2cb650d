import tinytensor as tt
from tinytensor.nn import functional as F


def additive_scores(h, s, W, U, v):
    return tt.tanh((h @ W.mT)[:, None] + (s @ U.mT)[None]) @ v


def found(h, memory, W_c):
    weights = F.softmax(memory @ h, dim=-1)
    return tt.tanh(W_c @ tt.concat([weights @ memory, h]))
