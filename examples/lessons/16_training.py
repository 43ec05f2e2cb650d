# %% [markdown]
# # 16. Training
#
# The paper trains with three helpers: a learning rate that warms up (section 5.3), dropout, and label smoothing (5.4).
# Articles list the references and go on. What does each do, in numbers? And does it help a model as small as the ones
# here? Not all of them do.

# %%
import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.data.batch import PAD
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("16_training")

# %% [markdown]
# ## Warm-up
#
# "We varied the learning rate over the course of training" (equation 3):
#
# $$rate = d_{model}^{-0.5} \cdot \min(step^{-0.5}, \; step \cdot warmup^{-1.5})$$
#
# It goes up in a straight line for so many steps, then down as 1/√step. Three of them, for d_model = 512; the paper's
# is the one with 4000:


# %%
tt.speed_up()
tt.manual_seed(0)


def rate(warm_up, d_model=512):
    return lambda step: d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warm_up**-1.5)


rates = {f"{warm_up} steps of warm-up": rate(warm_up) for warm_up in (1000, 4000, 8000)}
lesson.number("highest learning rate of the paper", rate(4000)(3999), ".2e")
lesson.show("warm_up", visualize.learning_rate_schedule(rates, 20_000, title="The learning rate of equation 3"))

# %% [markdown]
# ## Label smoothing
#
# A target is a distribution, 1 for the right word and 0 for all others. No finite logits give that, so training never
# stops pushing them apart. Smoothing spreads ε = 0.1 of the target evenly over all words (Szegedy et al. 2016):

# %%
letters = tt.asarray([2, 0, 1, 5])
hard = tt.one_hot(letters, 6).float()
smooth = 0.9 * hard + 0.1 / 6
targets = {"hard": hard, "smoothed": smooth}
lesson.show("targets", visualize.matrix(targets, rows="cabf", columns="abcdef", title="Targets"))
logits = tt.random.randn(4, 6)
by_hand = -(smooth * F.log_softmax(logits, dim=-1)).sum(axis=-1).mean()
library = F.cross_entropy(logits, letters, label_smoothing=0.1)
lesson.number("smoothed targets and label_smoothing: difference", abs(by_hand - library), ".0e")

# %% [markdown]
# The best that can be said now is the smoothed target itself, and its loss is not 0. Whoever compares losses with and
# without smoothing compares two scales:

# %%
lesson.number("lowest loss with smoothing, 6 letters", F.cross_entropy(tt.log(smooth), letters, label_smoothing=0.1))
lesson.number("lowest loss without, 6 letters", F.cross_entropy(1000 * hard, letters))

# %% [markdown]
# ## Dropout
#
# Each number becomes 0 with probability 0.1 and is divided by 0.9 otherwise, so that the mean stays. In evaluation
# nothing happens; `model.eval()` says so to every layer (Srivastava et al. 2014):

# %%
dropout = nn.Dropout(0.1)
dropped = dropout(tt.ones(100_000))
lesson.number("share of zeros after dropout", (dropped == 0).float().mean(), ".3f")
lesson.number("mean after dropout", dropped.mean(), ".3f")
lesson.number("mean after dropout, in evaluation", dropout.eval()(tt.ones(100_000)).mean(), ".3f")

# %% [markdown]
# ## With and without
#
# A small Transformer learns to copy up to six letters, 150 steps for each trial. The measure is the same for all: the
# plain loss and the letters that are right, on words that it has never seen.

# %%
task = SequenceTask("copy", max_length=6)
unseen = task.make_batch(task.test_sequences(300))


def predict(model, batch):
    target = tt.asarray(batch.target_out).reshape(-1)
    return model(batch.source, batch.target_in).reshape(-1, task.vocabulary)[target != PAD], target[target != PAD]


def trial(lr, warm_up=1, batches=None, dropout=0.0, label_smoothing=0.0, seed=0):
    tt.manual_seed(seed)
    model = Transformer(task.vocabulary, d_model=32, num_heads=4, num_layers=2, d_ff=128, dropout=dropout)
    optimizer = nn.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98), eps=1e-9)
    schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / warm_up))
    losses = []
    for step in range(150):
        logits, target = predict(model, task.training_batch(step % (batches or 150), 32))
        loss = F.cross_entropy(logits, target, label_smoothing=label_smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    with tt.no_grad():
        logits, target = predict(model.eval(), unseen)
    right = (logits.argmax(axis=-1) == target).float().mean()
    return losses, right, F.cross_entropy(logits, target), (logits.max(axis=-1) - logits.mean(axis=-1)).mean()


# %% [markdown]
# One trial is one throw of the dice: the random weights. So each is done with five seeds.

# %%
curves = {}
for lr in (0.005, 0.02):
    right = {}
    for warm_up in (1, 50):
        name = f"rate {lr}, warm-up {warm_up}"
        trials = [trial(lr, warm_up, seed=seed) for seed in range(5)]
        curves[name], right[warm_up] = trials[0][0], [found.item() for _, found, *_ in trials]
        print(f"{name}:", " ".join(f"{found:.1%}" for found in right[warm_up]))
        lesson.number(f"letters right, {name}: mean", sum(right[warm_up]) / 5, ".1%")
    better = sum(with_it > without for without, with_it in zip(right[1], right[50]))
    lesson.number(f"seeds of five with which warm-up is better, rate {lr}", better, ".0f")
lesson.show("losses", visualize.curves(curves, title="Learning to copy", x_label="step", y_label="loss"))

# %% [markdown]
# Warm-up lets one take a rate that is too high for random weights. Without it, 0.02 throws the model where it does not
# come back from, with every seed. At 0.005 both learn. Warm-up is a little better with most seeds, and the steps in
# which it was slow cost nothing that shows. But seeds differ by as much, so one trial could have told either story.
#
# Dropout and smoothing are against learning by heart. So four batches, 128 words, again and again:

# %%
helpers = {"neither": {}, "dropout 0.1": {"dropout": 0.1}, "smoothing 0.1": {"label_smoothing": 0.1}}
for name, helper in helpers.items():
    _, right, loss, largest = trial(0.005, 50, batches=4, **helper)
    lesson.number(f"few words, {name}: letters right", right, ".1%")
    lesson.number(f"few words, {name}: loss on unseen words", loss)
    lesson.number(f"few words, {name}: largest logit above the mean", largest)

# %% [markdown]
# Smoothing does what it says: the largest logit is little more than half as far above the others, and on unseen words
# the model is less surely wrong, so that its plain loss is lower. (With enough data the paper finds the opposite for
# the loss, "this hurts perplexity, as the model learns to be more unsure".) Not many more letters are right, if any.
# And dropout, at this size, helps nothing that could be told from chance: 150 steps are too few to learn by heart and
# too few to need it. It earns its place in long training of large models.
#
# ## What it means
#
# | | what it does, held exactly | what it did here |
# |---|---|---|
# | warm-up | small steps while weights are random | a rate four times as high learns at all, with every seed |
# | smoothing | the best loss is above 0, logits stay small | lower loss with few words, hardly more right |
# | dropout | a tenth of the numbers is 0, the mean stays | nothing |
#
# `cross_entropy` with `label_smoothing` is in [losses.py](../../nn/functional/losses.py), dropout in
# [dropout.py](../../nn/functional/dropout.py), equation 3 in
# [schedules.py](../../models/training/schedules.py); [train_translation.py](../train_translation.py) uses all three.
#
# ## Try
#
# Ten times the steps in `trial`: does dropout help then? Then the exercises:
# `python examples/lessons/16_training.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
