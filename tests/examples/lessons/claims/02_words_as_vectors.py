CLAIMS = {
    "one-hot times W against the look-up: largest difference": (0, 0),
    "multiplications for a word, one-hot": (42_688, 0),
    "skip-gram's products and GloVe's logarithms: correlation": (0.94, 0.03),
    "right answers, French alone": (0.1, 0.1),
    "some feminine adjective, French alone": (0.68, 0.15),
    "right answers, with translations": (0.94, 0.1),
    "some feminine adjective, with translations": (0.95, 0.1),
    "noire − noir + vert: rank of verte": (1, 0),
    "pairs of the other half in which the feminine is more feminine": (1, 0.1),
    "roi − homme + femme: rank of reine": (3, 2.5),
    "chanteur − homme + femme: rank of reine": (3, 2.5),
    "médecin − homme + femme: rank of reine": (3, 2.5),
    "projected on roi − homme: rank of reine": (360, 330),
}

RELATIONS = {
    "translations tell colours apart": lambda n: (
        n["right answers, with translations"] > 5 * n["right answers, French alone"]
    ),
}

MUTATIONS = [
    ("apart(np.log(np.maximum(counts, 1)))", "apart(counts)"),
    ("both, _ = learn(count(translated=True))", "both = alone"),
    ("return like(x, a - b + c,", "return like(x, a + b - c,"),
    ("for distance in (1, 2):", "for distance in ():"),
    ("both @ direction(both, known)", "both @ direction(both, [(she, he) for he, she in known])"),
]
