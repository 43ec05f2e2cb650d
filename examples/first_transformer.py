"""A first Transformer: it learns to write words backwards, from data to picture on one page.

python examples/first_transformer.py
"""

from pathlib import Path

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.data.batch import PAD
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.scripts.command_line import no_options
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

STEPS = 500
no_options("first_transformer.py")  # a wrong argument ends it here

# The data: random letters and the same letters backwards, made on the fly. Test sequences never occur in training.
tt.manual_seed(0)
task = SequenceTask("reverse", max_length=8)

# The model: an encoder reads the letters, a decoder writes the answer, each of two layers with four heads.
model = Transformer(task.vocabulary, d_model=64, num_heads=4, num_layers=2, dropout=0.0)
optimizer = nn.optim.Adam(model.parameters(), lr=3e-3)
# The learning rate climbs for 50 steps, for the first gradients are rough, then falls to 0, so that weights settle.
schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 50, 1 - step / STEPS))

for step in range(1, STEPS + 1):
    batch = task.training_batch(step, 64)
    logits = model(batch.source, batch.target_in)  # (batch, position, letter): it sees what was written so far
    target = tt.asarray(batch.target_out)  # and is to say what comes next
    loss = F.cross_entropy(logits.reshape(-1, task.vocabulary), target.reshape(-1), ignore_index=PAD)
    optimizer.zero_grad()  # backward() adds to what is there
    loss.backward()  # the chain rule, from the loss back to every weight
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # one odd batch must not undo what was learned
    optimizer.step()
    schedule.step()
    if step == 1 or step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}", flush=True)

# Does it know the rule, or only its examples? Greedy decoding takes the most likely letter, one after the other.
unseen = task.test_sequences(300)
answers = [task.to_text(ids) for ids in model.generate(task.make_batch(unseen).source).numpy()]
expected = [task.to_text(task.answer(sequence)) for sequence in unseen]
for sequence, answer in list(zip(unseen, answers))[:3]:
    print(f"{task.to_text(sequence)} -> {answer}")

print(f"exact match: {sum(a == e for a, e in zip(answers, expected)) / len(unseen):.1%}")

# Where did it look? Row by row, the letter of the word that each letter of the answer was read from.
longest = max(unseen, key=len)
batch = task.make_batch([longest])
weights = model.cross_attention(batch.source, batch.target_in)[-1][0]  # of the last layer: (head, target, source)
read, written = [*task.to_text(longest), "<end>"], [*task.to_text(task.answer(longest)), "<end>"]
Path("runs").mkdir(exist_ok=True)
visualize.attention_grid(weights, source=read, target=written).save("runs/first-attention.svg")
print("the attention is drawn in runs/first-attention.svg")
