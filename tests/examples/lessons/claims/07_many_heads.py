CLAIMS = {
    "list and stack: largest difference": (0, 1e-6),
    "list and module: largest difference": (0, 1e-6),
    "time of the list / of the stack": (10.5, 9.5),
    "numbers of a position before W^O": (96, 0),
    "numbers of a position behind W^O": (64, 0),
    "numbers that head 1 alone reaches, before W^O": (24, 0),
    "numbers that head 1 alone reaches, behind W^O": (64, 0),
    "parameters": (4 * 512 * 512 + 4 * 512, 0),
    "operations of 8 heads / operations of 1": (1.0006, 0.0005),
    "neighbours found, 1 × 32 dimensions": (0.56, 0.12),
    "neighbours found, 2 × 16 dimensions": (1, 0.02),
}

MUTATIONS = [
    ("attention(Q, K, V).permute(1, 0, 2).reshape", "attention(Q, K, V).reshape"),
    ("nn.MultiheadAttention(32, num_heads, ", "nn.MultiheadAttention(32, 1, "),
    ("W[:, i * d_k : (i + 1) * d_k]", "W[:, :d_k]"),
    ("*(0 * z for z in heads[1:])", "*heads[1:]"),
    ("layer = nn.MultiheadAttention(512, h)", "layer = nn.MultiheadAttention(64 * h, h)"),
]
