CLAIMS = {
    "a·b, a sum of products": (32, 1e-12),
    "a·b, a row times a column": (32, 1e-12),
    "|a|": (3.741657, 1e-6),
    "|b|": (8.774964, 1e-6),
    "the angle in degrees": (12.933154, 1e-6),
    "|a| |b| cos θ": (32, 1e-9),
    "how far p reaches along q": (2.667892, 1e-5),
    "that, times |q|": (11, 1e-5),
    "p·q": (11, 1e-5),
    "largest dot product": (6, 1e-5),
    "smallest dot product": (-6, 1e-5),
    "the angle where it is smallest, over π": (1, 0.003),
    "dot product at 2 π": (6, 1e-5),
    "query · near": (2.6, 1e-5),
    "cosine of query and near": (0.965615, 1e-5),
    "query · long": (6, 1e-5),
    "cosine of query and long": (0.650791, 1e-5),
}

MUTATIONS = [
    ("length_b**2 - side**2", "length_b**2 + side**2"),
    ("turns[products.argmin()]", "turns[products.argmax()]"),
    ("shadow = (p @ unit).item()", "shadow = (p @ q).item()"),
    ("F.cosine_similarity(table, query, dim=1)", "table @ query"),
]
