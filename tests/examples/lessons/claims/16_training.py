CLAIMS = {
    "highest learning rate of the paper": (6.988e-4, 1e-6),
    "smoothed targets and label_smoothing: difference": (0, 1e-5),
    "lowest loss with smoothing, 6 letters": (0.421, 0.001),
    "lowest loss without, 6 letters": (0, 1e-6),
    "share of zeros after dropout": (0.1, 0.006),
    "mean after dropout": (1, 0.007),
    "mean after dropout, in evaluation": (1, 0),
    "letters right, rate 0.005, warm-up 1: mean": (0.94, 0.04),
    "letters right, rate 0.005, warm-up 50: mean": (0.955, 0.03),
    "seeds of five with which warm-up is better, rate 0.005": (4, 1),
    "letters right, rate 0.02, warm-up 1: mean": (0.2, 0.05),
    "letters right, rate 0.02, warm-up 50: mean": (0.5, 0.15),
    "seeds of five with which warm-up is better, rate 0.02": (5, 0),
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

RELATIONS = {
    "warm-up costs nothing at the small rate": lambda n: (
        n["letters right, rate 0.005, warm-up 50: mean"] > n["letters right, rate 0.005, warm-up 1: mean"] - 0.01
    ),
    "smoothing makes the model less sure": lambda n: (
        n["few words, smoothing 0.1: largest logit above the mean"]
        < 0.75 * n["few words, neither: largest logit above the mean"]
    ),
    "smoothing makes the loss on unseen words lower, and hardly more letters right": lambda n: (
        n["few words, smoothing 0.1: loss on unseen words"] < n["few words, neither: loss on unseen words"] - 0.1
        and abs(n["few words, smoothing 0.1: letters right"] - n["few words, neither: letters right"]) < 0.1
    ),
}

MUTATIONS = [
    ("0.9 * hard + 0.1 / 6", "0.9 * hard + 0.1 / 5"),
    ("        schedule.step()\n", ""),
    ("label_smoothing=label_smoothing", "label_smoothing=0.0"),
    ("batches or 150", "150"),
]
