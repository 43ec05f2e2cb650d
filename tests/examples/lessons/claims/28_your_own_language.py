CLAIMS = {
    "30 sentences: right sentences": (0.005, 0.025),
    "30 sentences: verb": (0.78, 0.15),
    "30 sentences: adjective": (0.25, 0.1),
    "30 sentences: noun": (0.36, 0.12),
    "30 sentences: other": (0.96, 0.09),
    "100 sentences: right sentences": (0.27, 0.12),
    "100 sentences: verb": (0.97, 0.05),
    "100 sentences: adjective": (0.46, 0.1),
    "100 sentences: noun": (0.8, 0.09),
    "100 sentences: other": (0.99, 0.04),
    "300 sentences: right sentences": (0.89, 0.08),
    "300 sentences: verb": (0.995, 0.015),
    "300 sentences: adjective": (0.91, 0.08),
    "300 sentences: noun": (0.985, 0.02),
    "300 sentences: other": (1, 0.02),
    "1,000 sentences: right sentences": (1, 0.02),
    "1,000 sentences: verb": (1, 0.01),
    "1,000 sentences: adjective": (1, 0.02),
    "1,000 sentences: noun": (1, 0.01),
    "1,000 sentences: other": (1, 0.01),
    "no positions: right sentences": (0.25, 0.07),
    "no positions: right words in a wrong order": (0.39, 0.1),
    "looks at its own word: the best head of each kind, least": (1, 0.25),
    "verb first with both signs, least of four seeds": (1, 0.03),
    "verb first with the better sign, least of four seeds": (0.9, 0.3),
    "verb first with the worse sign, least of four seeds": (0, 0.4),
    "verb first with ? alone, before": (0.1, 0.5),
    "verb first with ? alone, after": (1, 0.05),
}

RELATIONS = {
    "adjectives come last, after nouns and verbs": lambda n: all(
        n[f"{size} sentences: adjective"] + 0.03 < min(n[f"{size} sentences: noun"], n[f"{size} sentences: verb"])
        for size in (30, 100, 300)
    ),
    "without positions no more is right than can be guessed": lambda n: (
        n["no positions: right sentences"] < 0.34 + 0.03
        and n["no positions: right words in a wrong order"] > n["no positions: right sentences"]
    ),
    "one sign is enough, and one is not; with more text it is": lambda n: (
        n["verb first with the better sign, least of four seeds"]
        > n["verb first with the worse sign, least of four seeds"] + 0.3
        and n["verb first with ? alone, after"] > n["verb first with ? alone, before"] + 0.3
    ),
}

MUTATIONS = [
    ("positions=None))", 'positions="sinusoidal"))'),
    ("return [[TARGET[i] for i in row if i > 2]", "return [[TARGET[i] for i in row[::-1] if i > 2]"),
    ('ending = OWN[words[place + 1]][-1] if KIND[word] == "adjective" else ""', 'ending = ""'),
    ('(["do"], "?")', '([], "?")'),
    ("if i < 100 and", "if i < 0 and"),
    ("looked == places[:, :, None]", "looked == places[:, :, None] + 1"),
    ("train(text[:size])", "train(text)"),
    ("        loss.backward()\n", ""),
]
