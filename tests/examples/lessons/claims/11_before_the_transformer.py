CLAIMS = {
    "dot and scaled dot-product attention with scale 1: difference": (0, 1e-12),
    "general and projected queries and keys: difference": (0, 1e-11),
    "additive, here and in the library: difference": (0, 1e-12),
    "additive and concat: difference": (0, 1e-12),
    "time of additive / of dot": (502, 500),
    "memory of additive / of dot: the largest array": (64, 0),
    "bahdanau: operations by which each word is later": (12, 3),
    "luong: operations by which each word is later": (12, 3),
    "transformer: operations by which each word is later": (0, 0),
    "transformer: operations by which a layer of each tower is later": (25, 15),
    "another source: query of kind 'decoder' differs by": (0, 0),
    "another source: key of kind 'decoder' differs by": (0, 0),
    "another source: value of kind 'decoder' differs by": (0, 0),
    "another source: query of kind 'cross' differs by": (0, 0),
    "another source: key of kind 'cross' differs by": (10, 9.9),
    "another source: value of kind 'cross' differs by": (10, 9.9),
    "weights, from query and key alone: difference": (0, 1e-6),
    "context with twice the values / context": (2, 1e-5),
}

MUTATIONS = [
    ("(depth(4, 1) - depth(2, 1)) / 2", "(depth(4, 2) - depth(2, 1)) / 2"),
    ("attention(h, s, s, scale=1.0)", "attention(h, s, s)"),
    ("W_Q @ W_K.mT", "W_K @ W_Q.mT"),
    ("[[6, 5, 4, 3]]", "[[3, 4, 5, 6]]"),
    (".mT * call.scale", ".mT"),
    ("tt.concat([h[0, 5], s[0, 7]])", "tt.concat([s[0, 7], h[0, 5]])"),
]
