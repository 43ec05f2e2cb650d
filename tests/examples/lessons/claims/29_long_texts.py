CLAIMS = {
    "one distance: largest difference of a score": (0, 1e-10),
    "all distances: difference of scores": (8.3, 4),
    "distance at which ALiBi halves a weight, first head": (1.386, 0.001),
    "distance at which ALiBi halves a weight, last head": (177.4, 0.1),
    "window of 4, layers 1: words that the last position knows of": (4, 0),
    "window of 4, layers 2: words that the last position knows of": (7, 0),
    "window of 4, layers 3: words that the last position knows of": (10, 0),
    "shared keys, and copies of them: difference": (0, 1e-5),
    "numbers kept of a position, 8 heads of keys": (128, 0),
    "numbers kept of a position, 2 heads of keys": (32, 0),
    "Llama 2 70B, 64 heads of keys: GB of cache": (10.74, 0.01),
    "Llama 2 70B, 8 heads of keys: GB of cache": (1.342, 0.001),
    "4,096 words, all before: scores of a head": (8390656, 0),
    "4,096 words, window of 512: scores of a head": (1966336, 0),
}

MUTATIONS = [
    ("F.rotary_angles(place, 32,", "F.rotary_angles(place**2, 32,"),
    ("tt.repeat(w.reshape(2, 8, 64), 4, axis=0)", "tt.concat([w.reshape(2, 8, 64)] * 4)"),
    ('positions="rotary", window=4', 'positions="rotary"'),
    ("F.sliding_window_mask(4096, 512)", "F.sliding_window_mask(4096, 4096)"),
]
