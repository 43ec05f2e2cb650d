CLAIMS = {
    "highest learning rate of the paper": (6.988e-4, 1e-6),
    "smoothed targets and label_smoothing: difference": (0, 1e-5),
    "lowest loss with smoothing, 6 letters": (0.421, 0.001),
    "lowest loss without, 6 letters": (0, 1e-6),
    "share of zeros after dropout": (0.1, 0.006),
    "mean after dropout": (1, 0.007),
    "mean after dropout, in evaluation": (1, 0),
    "letters right, rate 0.005, warm-up 1": (0.9, 0.15),
    "letters right, rate 0.005, warm-up 50": (0.9, 0.15),
    "letters right, rate 0.02, warm-up 1": (0.2, 0.15),
    "letters right, rate 0.02, warm-up 50": (0.62, 0.25),
    "few words, neither: letters right": (0.62, 0.15),
    "few words, neither: loss on unseen words": (1.75, 0.3),
    "few words, neither: largest logit above the mean": (7.5, 1.5),
    "few words, dropout 0.1: letters right": (0.6, 0.15),
    "few words, dropout 0.1: loss on unseen words": (1.8, 0.3),
    "few words, dropout 0.1: largest logit above the mean": (7, 1.5),
    "few words, smoothing 0.1: letters right": (0.64, 0.15),
    "few words, smoothing 0.1: loss on unseen words": (1.45, 0.2),
    "few words, smoothing 0.1: largest logit above the mean": (4.5, 0.8),
}

MUTATIONS = [
    ("0.9 * hard + 0.1 / 6", "0.9 * hard + 0.1 / 5"),
    ("        schedule.step()\n", ""),
    ("label_smoothing=label_smoothing", "label_smoothing=0.0"),
    ("batches or 150", "150"),
]
