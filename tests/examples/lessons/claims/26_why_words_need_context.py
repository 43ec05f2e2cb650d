CLAIMS = {
    "own vector: right": (0.5, 1e-6),
    "mean: right": (0.74, 0.06),
    "chosen weights: right": (1, 0.02),
    "weight of cheese for the mouse": (0.75, 0.23),
}

RELATIONS = {
    "each reader is better than the one before it": lambda n: (
        n["own vector: right"] + 0.15 < n["mean: right"] < n["chosen weights: right"] - 0.15
    ),
}

MUTATIONS = [
    ("vectors @ vectors[:, 0, :, None], dim=1)", "vectors @ vectors[:, 1, :, None], dim=1)"),
    ("vectors @ vectors[:, 0, :, None], dim=1)", "vectors @ vectors[:, 0, :, None], dim=2)"),
    ('"mean": lambda _: tt.ones((4, 1)) / 4', '"mean": chosen'),
    ("tt.eye(4)[:, :1]", "tt.ones((4, 1))"),
    ("HINTS[noun].split()[:2]", "HINTS[noun].split()[:3]"),
    ("range(300)", "range(2)"),
    ('crane": "lake nest', 'crane": "ball nest'),
]
