CLAIMS = {
    "RNN: gradient at distance 50, relative to distance 1": (0, 1e-13),
    "GRU: gradient at distance 50, relative to distance 1": (0, 1e-7),
    "LSTM: gradient at distance 50, relative to distance 1": (0, 1e-7),
    "LSTM, f ≈ 0.99: gradient at distance 50, relative to distance 1": (4, 3.9),
    "attention: gradient at distance 50, relative to distance 1": (1, 0.4),
    "RNN: recalled at distance 10": (0.15, 0.1),
    "RNN: recalled at distance 19": (0.125, 0.06),
    "LSTM: recalled at distance 10": (0.15, 0.1),
    "LSTM: recalled at distance 19": (0.125, 0.06),
    "LSTM, f ≈ 0.99: recalled at distance 10": (0.25, 0.2),
    "LSTM, f ≈ 0.99: recalled at distance 19": (1, 0.15),
    "attention: recalled at distance 10": (1, 0.05),
    "attention: recalled at distance 19": (1, 0.05),
}

RELATIONS = {
    "a gradient that arrives is not enough: the LSTM knows the first word and loses one in between": lambda n: (
        n["LSTM, f ≈ 0.99: recalled at distance 10"] < n["LSTM, f ≈ 0.99: recalled at distance 19"] - 0.4
    ),
    "the forget gate decides what is left": lambda n: (
        n["LSTM: gradient at distance 50, relative to distance 1"]
        < 1e-3 * n["LSTM, f ≈ 0.99: gradient at distance 50, relative to distance 1"]
    ),
}

MUTATIONS = [
    ("] = 5.0", "] = 0.0"),
    ('if name == "attention" else', 'if name == "nobody" else'),  # positions left out
    (
        "loss = F.cross_entropy(model(ids), ids[:, 19 - distance])",
        "loss = F.cross_entropy(model(ids), ids[:, distance])",
    ),
]
