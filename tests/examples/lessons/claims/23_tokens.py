CLAIMS = {
    "unseen words that were never read": (0.046, 0.02),
    "unseen letters that were never read": (0, 0),
    "letters of a word": (5.77, 0.2),
    "how often there is the pair of merge 1": (14, 0),
    "how often there is the pair of merge 2": (14, 0),
    "how often there is the pair of merge 3": (8, 0),
    "how often there is the pair of merge 4": (6, 0),
    "how often there is the pair of merge 5": (6, 0),
    "how often there is the pair of merge 6": (5, 0),
    "pieces of cold": (1, 0),
    "pieces of colder": (2, 0),
    "pieces of slow": (5, 0),
    "tokens of an unseen word, 100 merges": (3.08, 0.2),
    "tokens of an unseen word, 600 merges": (1.77, 0.2),
    "letters and merges: the vocabulary": (637, 0),
    "as many scores of attention with letters: times": (10.6, 2.5),
    "bits for a letter, which is a token": (4.12, 0.1),
    "bits for a token of 600 merges": (8.20, 0.3),
    "bits for a letter of it": (2.51, 0.25),
    "tokens of words read a hundred times and more": (1, 0.05),
    "tokens of words read once": (3.9, 0.4),
    "tokens of words read never": (4.06, 0.4),
    "tokens with an r in them": (140, 30),
    "numbers below 1000 that are one token": (6, 5),
    "tokens of a number of three digits, at least": (2, 1),
    "tokens of a number of three digits, at most": (4, 0),
}

RELATIONS = {
    "a longer token needs more bits, and a letter of it fewer": lambda n: (
        n["bits for a token of 600 merges"] / 1.5
        > n["bits for a letter, which is a token"]
        > 1.3 * n["bits for a letter of it"]
    ),
    "rare words have more tokens, words never read some more": lambda n: (
        n["tokens of words read a hundred times and more"]
        < n["tokens of words read once"]
        < n["tokens of words read never"]
    ),
    "numbers of three digits differ in their tokens": lambda n: (
        n["tokens of a number of three digits, at least"] < n["tokens of a number of three digits, at most"]
    ),
}

MUTATIONS = [
    ("counts[pair] += times", "counts[pair] += 1"),
    ("found[-1] += piece", "found[-1] = piece"),
    ("max(sorted(counts), key=counts.get)", "min(sorted(counts), key=counts.get)"),
    ("merged(pieces, pair): times for", "pieces: times for"),
    ("for pair in merges:", "for pair in reversed(merges):"),
    ("cut(word, merges[:count])", "cut(word, merges[: count // 2])"),
    ("bits[-1] / shorter", "bits[-1]"),
    ("frequency[word] == 1]", "frequency[word] >= 9]"),
    ("word not in vocabulary", "word[1:] not in vocabulary"),
]
