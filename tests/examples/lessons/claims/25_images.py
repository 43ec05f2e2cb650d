CLAIMS = {
    "scores of a head with patches of 4 x 4": (676, 0),
    "scores of a head with pixels": (160_801, 0),
    "Transformer, 1,000 pictures: mistakes": (0.13, 0.05),
    "Transformer, 12,000 pictures: mistakes": (0.068, 0.025),
    "Transformer: weights": (40_570, 0),
    "convolutions, 1,000 pictures: mistakes": (0.01, 0.01),
    "convolutions, 12,000 pictures: mistakes": (0.004, 0.006),
    "convolutions: weights": (13_066, 0),
    "Transformer, patches and positions moved: difference": (0, 1e-4),
    "convolutions, patches moved, learned anew: mistakes": (0.035, 0.02),
    "without five patches with most ink: mistakes": (0.8, 0.07),
    "without five patches with least ink: mistakes": (0.068, 0.03),
    "without five patches with most weight of layer 0: mistakes": (0.8, 0.1),
    "without five patches with least weight of layer 0: mistakes": (0.2, 0.17),
    "without five patches with most weight of layer 1: mistakes": (0.51, 0.15),
    "without five patches with least weight of layer 1: mistakes": (0.45, 0.15),
}

RELATIONS = {
    "the Transformer is better with more pictures, and behind convolutions": lambda n: (
        n["Transformer, 1,000 pictures: mistakes"] - 0.02
        > n["Transformer, 12,000 pictures: mistakes"]
        > n["convolutions, 1,000 pictures: mistakes"] + 0.02
    ),
    "convolutions are worse with patches moved": lambda n: (
        n["convolutions, patches moved, learned anew: mistakes"] > n["convolutions, 12,000 pictures: mistakes"] + 0.01
    ),
    "the first layer's weights tell patches that matter from others, the last layer's hardly": lambda n: (
        n["without five patches with most weight of layer 0: mistakes"]
        > n["without five patches with least weight of layer 0: mistakes"] + 0.35
        and abs(
            n["without five patches with most weight of layer 1: mistakes"]
            - n["without five patches with least weight of layer 1: mistakes"]
        )
        < 0.25
    ),
}

MUTATIONS = [
    ("vit.positions[:] = vit.positions[order]", "vit.positions[:] = vit.positions"),
    ("np.argsort(-measure, axis=1)", "np.argsort(measure, axis=1)"),
    ("self.embedding(patches(images)) + self.positions", "self.embedding(patches(images))"),
    ("train(ImageClassifier(SIZE), moved, labels)", "train(ImageClassifier(SIZE), images, labels)"),
    ("images[:count], labels[:count]", "images[:1000], labels[:1000]"),
]
