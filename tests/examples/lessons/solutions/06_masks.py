import math

import tinytensor as tt
from tinytensor.nn import functional as F


def causal_weights(scores):
    future = tt.triu(tt.ones(scores.shape, dtype=tt.bool), k=1)
    return F.softmax(scores.masked_fill(future, -math.inf), dim=-1)


def shifted(ids, begin, end):
    return tt.concat([tt.asarray([begin]), ids]), tt.concat([ids, tt.asarray([end])])
