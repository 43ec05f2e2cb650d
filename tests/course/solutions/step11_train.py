"""11. Train: predict, compare, walk back, step."""

from step04_broadcast import backward
from step06_softmax import cross_entropy
from step10_adam import Adam

WARM_UP = 50


def pace(step, steps):
    """The share of the learning rate that step 0, 1, ... of `steps` gets.

    It climbs by equal amounts to 1 in step WARM_UP - 1, for the first gradients are rough; and it falls on a straight
    line, from 1 at step 0 to 0 at step `steps`, so that weights settle. The smaller of the two counts.
    """
    return min((step + 1) / WARM_UP, 1 - step / steps)


def train_step(model, optimizer, batch):
    """One step, and its loss as a float: `.data.item()`.

    `batch` has arrays of ids: `source` and `target_in` for the model, and `target_out`, what it is to say.
    """
    loss = cross_entropy(model(batch.source, batch.target_in), batch.target_out, model.pad)
    optimizer.zero_grad()
    backward(loss)
    optimizer.step()
    return loss.data.item()


def train(model, task, steps, lr=5e-3, batch_size=64):
    """Train on batches of a task; the list of all losses."""
    optimizer, losses = Adam(model.parameters, lr), []
    for step in range(steps):
        optimizer.lr = lr * pace(step, steps)
        losses.append(train_step(model, optimizer, task.training_batch(step, batch_size)))
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.3f}", flush=True)
    return losses
