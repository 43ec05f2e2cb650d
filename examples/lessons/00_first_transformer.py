# %% [markdown]
# # 0. A first Transformer
#
# Can a program of one page learn a rule from examples alone? This one is shown random words and the same words
# backwards, is told nothing else, and has to turn round words that it has never seen. It is
# [examples/first_transformer.py](../first_transformer.py), the first program of the README, told cell by cell. What the
# pieces are is what the other lessons are about; here they are put to work.

# %%
from pathlib import Path

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.data.batch import PAD
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("00_first_transformer")

# %% [markdown]
# ## The data
#
# Words of up to eight letters, made on the fly. The words of the test never occur in training, so knowing them by heart
# does not help.

# %%
tt.speed_up()
STEPS = 500
tt.manual_seed(0)
task = SequenceTask("reverse", max_length=8)

# %% [markdown]
# ## The model
#
# An encoder reads the letters, a decoder writes the answer, letter by letter (Figure 1 of Vaswani et al. 2017; [lesson
# 15](15_the_transformer.py) goes through it box by box). Two layers each, four heads of attention, 64 numbers for each
# letter.
#
# Adam changes the weights against the gradient. Its steps grow for the first 50, since the first gradients are rough,
# and shrink to 0 at the end, so that the weights settle.

# %%
model = Transformer(task.vocabulary, d_model=64, num_heads=4, num_layers=2, dropout=0.0)
optimizer = nn.optim.Adam(model.parameters(), lr=3e-3)
schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 50, 1 - step / STEPS))

# %% [markdown]
# ## The loop
#
# Every program that trains has these lines, in PyTorch with the same names. The model sees the word and the answer so
# far (`target_in`), and is to say the next letter (`target_out`); cross-entropy is small where it gives that letter a
# high probability. `backward` finds out how the loss changes with each weight, and `step` moves each a little.

# %%
losses = []
for step in range(1, STEPS + 1):
    batch = task.training_batch(step, 64)
    logits = model(batch.source, batch.target_in)
    target = tt.asarray(batch.target_out)
    loss = F.cross_entropy(logits.reshape(-1, task.vocabulary), target.reshape(-1), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
    if step == 1 or step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}", flush=True)

lesson.number("loss of the first step", losses[0])
lesson.number("loss of the last step", losses[-1])
lesson.show("loss", visualize.curves(losses, title="Learning to turn words round", x_label="step", y_label="loss"))

# %% [markdown]
# It begins near log(29) = 3.4, which is what guessing among 29 letters and marks costs, and ends near 0.
#
# ## Does it know the rule?
#
# `generate` takes the likeliest letter, appends it to the answer so far, and asks for the next one.

# %%
unseen = task.test_sequences(300)
answers = [task.to_text(ids) for ids in model.generate(task.make_batch(unseen).source).numpy()]
expected = [task.to_text(task.answer(sequence)) for sequence in unseen]
for sequence, answer in list(zip(unseen, answers))[:3]:
    print(f"{task.to_text(sequence)} -> {answer}")

print(f"exact match: {sum(a == e for a, e in zip(answers, expected)) / len(unseen):.1%}")
lesson.number("exact match on unseen words", sum(a == e for a, e in zip(answers, expected)) / len(unseen), ".1%")

# %% [markdown]
# ## Where did it look?
#
# For each letter that it wrote, attention gives a weight to each letter that it read: a row of numbers that add up to
# 1. Nobody told it to read from right to left.

# %%
longest = max(unseen, key=len)
batch = task.make_batch([longest])
weights = model.cross_attention(batch.source, batch.target_in)[-1][0]
read, written = [*task.to_text(longest), "<end>"], [*task.to_text(task.answer(longest)), "<end>"]
Path("runs").mkdir(exist_ok=True)
visualize.attention_grid(weights, source=read, target=written).save("runs/first-attention.svg")
print("the attention is drawn in runs/first-attention.svg")
lesson.show("attention", visualize.attention_grid(weights, source=read, target=written))

# %% [markdown]
# Is the mirrored diagonal in the picture, or only in the eye? In the row of each letter, all heads taken together, the
# largest weight should lie on its mirror image, or beside it: what a letter's vector knows of its neighbours is enough.

# %%
letters = len(longest)
looked = weights.mean(axis=0).argmax(axis=-1).numpy()[:letters]
mirrored = [letters - 1 - i for i in range(letters)]
lesson.number("letters read from their mirror image, or beside it", (abs(looked - mirrored) <= 1).mean(), ".0%")

# %% [markdown]
# ## What it means
#
# The same program learns to copy (`SequenceTask("copy")`), to sort, or, with sentences in place of words, to translate.
# Nothing in the model says what the task is. What the parts do, and how anybody knows, are the lessons from here on.
#
# ## Try
#
# `python examples/lessons/00_first_transformer.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
