CLAIMS = {
    "formula and nn.PositionalEncoding: difference": (0, 1e-6),
    "PE(pos + 3) and M PE(pos): largest difference": (0, 1e-12),
    "positions that look 3 further on, W^Q times 1": (1, 0),
    "their weight on that, W^Q times 1": (0.04, 0.01),
    "positions that look 3 further on, W^Q times 10": (1, 0),
    "their weight on that, W^Q times 10": (0.61, 0.03),
    "differences along a diagonal of PE PEᵀ": (0, 1e-12),
    "first column at position 355": (-3.01e-5, 2e-6),
    "smallest distance of two of 1,000 rows": (3.71, 0.05),
    "a letter's vector changes when the word is turned, sinusoidal": (1.5, 1),
    "a letter's vector changes when the word is turned, None": (0, 1e-5),
    "right by guessing the order": (0.0213, 0.0002),
    "words turned round, positions: sinusoidal": (1, 0.1),
    "right letters in any order, positions: sinusoidal": (1, 0.1),
    "words turned round, positions: learned": (1, 0.1),
    "right letters in any order, positions: learned": (1, 0.1),
    "words turned round, positions: none": (0.025, 0.06),
    "right letters in any order, positions: none": (0.9, 0.1),
}

RELATIONS = {
    "without positions no more is right than by guessing, of which the letters are known": lambda n: (
        n["words turned round, positions: none"] < 0.1 < n["right letters in any order, positions: none"]
    ),
}

MUTATIONS = [
    ("[[c, s], [-s, c]]", "[[c, -s], [s, c]]"),
    ("dropout=0.0, positions=positions)", "dropout=0.0)"),
    ("dropout=0.0, positions=positions)", "dropout=0.0, positions=None)"),
    ("(-tt.arange(0, d_model, 2, dtype=tt.float64) / d_model)", "(-tt.arange(0, d_model, 2, dtype=tt.float64) / 64)"),
    ("scores = (times * PE @ M.T) @ PE.T", "scores = times * PE @ PE.T"),
]
