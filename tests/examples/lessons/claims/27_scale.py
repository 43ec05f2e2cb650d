CLAIMS = {
    "entropy of a word": (1.7112, 1e-4),
    "operations of forward / 2 N D": (1.05, 0.02),
    "exponent of parameters": (0.61, 0.08),
    "exponent of parameters, entropy left in": (0.085, 0.02),
    "exponent of text": (0.64, 0.1),
    "exponent of text, perfect memory": (0.6125, 0.003),
    "excess / that of a perfect memory, most text": (5.1, 0.8),
    "a": (0.75, 0.15),
    "b": (0.93, 0.15),
    "the law misses a run by": (0.065, 0.06),
    "best size, predicted": (34_000, 14_000),
    "excess, best of the fifteen": (0.15, 0.02),
    "excess, predicted": (0.058, 0.012),
    "excess, found": (0.068, 0.01),
    "twice the budget: times the parameters": (1.47, 0.1),
}

RELATIONS = {
    "with the entropy left in the line is far flatter": lambda n: (
        4 * n["exponent of parameters, entropy left in"] < n["exponent of parameters"]
    ),
    "model and perfect memory have about the same slope": lambda n: (
        abs(n["exponent of text"] - n["exponent of text, perfect memory"]) < 0.13
    ),
    "the two pictures are flatter than the law's exponents": lambda n: (
        n["exponent of parameters"] < n["a"] and n["exponent of text"] < n["b"]
    ),
    "the large model is worse than foretold, by less than a third": lambda n: (
        n["excess, predicted"] < n["excess, found"] < 1.34 * n["excess, predicted"]
    ),
    "and less than two thirds of the best small one": lambda n: (
        3 * n["excess, found"] < 2 * n["excess, best of the fifteen"]
    ),
}

MUTATIONS = [
    ("round(tokens / BATCH / 3)", "round(tokens / BATCH / 30)"),
    (".mean(axis=1) - entropy", ".mean(axis=1) - 0 * entropy"),
    ("(2, BATCH), p=p)", "(2, BATCH))"),
    ("(1 - frequency[:, None]) ** (text / 3)", "(1 - frequency[:, None]) ** (text / 9)"),
    ("fit[2] - fit[3] * (log_d", "fit[2] - 0.5 * (log_d"),
    ("budget = 9 * 2.7e10", "budget = 3 * 2.7e10"),
]
