CLAIMS = {
    "greedy: words": (23, 0),
    "greedy: different words": (5, 3),
    "greedy: log-probability": (-22, 5),
    "beam of two: log-probability": (-1.17, 0.2),
    "beam of ten: log-probability": (-1.17, 0.2),
    "T = 0.5: the likeliest": (0.685, 0.001),
    "T = 0.5: the least likely": (0.007, 0.001),
    "T = 2: the likeliest": (0.379, 0.001),
    "T = 2: the least likely": (0.120, 0.001),
    "top-p 0.9: the likeliest": (0.526, 0.001),
    "top-p 0.9: the least likely": (0, 0),
    "unseen text: right": (0.82, 0.04),
    "unseen text: it rains": (0.31, 0.03),
    "unseen text: surprise of a word": (1.06, 0.08),
    "drawn: right": (0.81, 0.07),
    "drawn: it rains": (0.31, 0.07),
    "drawn: surprise of a word": (1.06, 0.1),
    "top-p 0.9: right": (0.92, 0.05),
    "top-p 0.9: it rains": (0.33, 0.08),
    "top-p 0.9: surprise of a word": (0.95, 0.1),
    "T = 0.25: right": (0.57, 0.2),
    "T = 0.25: it rains": (0.155, 0.08),
    "T = 0.25: surprise of a word": (0.98, 0.1),
    "T = 2: right": (0.22, 0.1),
    "T = 2: it rains": (0.11, 0.06),
    "T = 2: surprise of a word": (2.4, 0.4),
    "beam of two: right": (1, 0),
    "beam of two: it rains": (1, 0),
    "beam of two: surprise of a word": (0.39, 0.1),
}

RELATIONS = {
    "greedy's sentence is far less likely than that of a beam of two": lambda n: (
        n["greedy: log-probability"] + 10 < n["beam of two: log-probability"]
    ),
    "a wider beam finds no other sentence": lambda n: (
        abs(n["beam of two: log-probability"] - n["beam of ten: log-probability"]) < 1e-4
    ),
    "what is drawn surprises as the text does, a beam by less than half": lambda n: (
        abs(n["drawn: surprise of a word"] / n["unseen text: surprise of a word"] - 1) < 0.1
        and n["beam of two: surprise of a word"] * 2 < n["unseen text: surprise of a word"]
    ),
    "top-p gives more right sentences than the text has, and than either temperature": lambda n: (
        n["top-p 0.9: right"] > n["unseen text: right"] + 0.03
        and n["top-p 0.9: right"] > n["drawn: right"] + 0.04
        and n["top-p 0.9: right"] > max(n["T = 0.25: right"], n["T = 2: right"]) + 0.1
    ),
}

MUTATIONS = [
    ("draw(top_p=0.9)", "draw(top_p=1.0)"),
    ("beam=2, length_penalty=0", "beam=1, length_penalty=0"),
    ("random.random() < 0.4 else", "random.random() < 0.6 else"),
    ("random.random() < 0.6):", "random.random() < 0.3):"),
    ("random.random() < 0.98 else", "random.random() < 2 else"),
    ('"T = 2": draw(2)', '"T = 2": draw(1.2)'),
    ('"temperature": temperature, "top_p"', '"temperature": 1.0, "top_p"'),
    ("range(400)", "range(20)"),
]
