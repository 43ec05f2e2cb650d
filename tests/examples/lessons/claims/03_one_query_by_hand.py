CLAIMS = {
    "dictionary": (3, 0),
    "soft dictionary": (6.5164, 0.001),
    "soft dictionary, scores times 50": (3, 0.001),
    "halfway between two keys, scores times 50": (4, 0.001),
    "score of 'I'": (5, 1e-5),
    "weight of 'I'": (0.60221, 1e-4),
    "sum of the weights": (1, 1e-6),
    "difference from the library": (0, 1e-6),
    "output with values twice as large, over the output": (2, 1e-5),
    "softmax of one score": (1, 0),
    "variance of scores divided by nothing": (64, 8),
    "variance of scores divided by √dₖ": (1, 0.125),
    "variance of scores divided by dₖ": (1 / 64, 0.002),
    "largest of eight weights, scores divided by nothing": (0.87, 0.05),
    "largest of eight weights, scores divided by √dₖ": (0.36, 0.03),
    "largest of eight weights, scores divided by dₖ": (0.149, 0.01),
}

MUTATIONS = [
    ("scaled = scores / math.sqrt(3)", "scaled = scores / 3"),
    ("return F.softmax(keys @ query * scale, dim=0) @ values", "return (keys @ query * scale) @ values"),
    ('"by √dₖ": math.sqrt(d_k)', '"by √dₖ": d_k / 2'),
    ("weights = F.softmax(scaled, dim=-1)", "weights = F.softmax(scaled, dim=0)"),
    ("F.softmax(scaled[0, :1], dim=0)", "F.softmax(scaled[0, :2], dim=0)[0]"),
]
