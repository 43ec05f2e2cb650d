CLAIMS = {
    "largest difference of the two": (0, 1e-5),
    "largest sum of a row, less the smallest": (0, 1e-5),
    "largest sum of a column, less the smallest": (0.94, 0.3),
    "with the bracket misplaced: largest difference": (1.3, 0.5),
    "operations for 4 tokens, token by token": (181, 60),
    "operations for 4 tokens, matrices": (8, 2),
    "sums and products, loop over matrices": (1, 0.1),
    "operations for 32 tokens, token by token": (7713, 2000),
    "operations for 32 tokens, matrices": (8, 2),
    "times faster with matrices, 32 tokens": (10_010, 9_990),
}

MUTATIONS = [
    ("scores.append((q * k).sum() / math.sqrt(len(q)))", "scores.append((q * k).sum() / len(q))"),
    ("    return F.softmax(scores, dim=-1) @ V", "    return F.softmax(scores, dim=0) @ V"),
    ("F.softmax(scores @ V, dim=-1) - weights @ V", "F.softmax(scores, dim=-1) @ V - weights @ V"),
    ("min(seconds(by_token, 1) for", "min(seconds(by_matrices, 1) for"),
]
