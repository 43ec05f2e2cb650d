"""12. Generate: the likeliest letter, and with it the next one. Then all twelve together train a Transformer.

python step12_generate.py    trains it to write words backwards, and draws its graph
"""

import numpy as np
from step06_softmax import cross_entropy
from step09_transformer import Transformer
from step11_train import train

from tinytensor.course.drawing import graph_of
from tinytensor.models.data.batch import BOS, EOS, PAD
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.scripts import command_line


def generate(model, source, longest):
    """Greedy decoding: ids (batch, at most `longest`) for a source (batch, n), without BOS.

    The target begins with BOS. The likeliest id behind the last one is appended, again and again; behind EOS comes only
    PAD. It ends when all rows have ended, or after `longest` ids. The source is encoded once.
    """
    memory = model.encode(source)
    target, ended = np.full((len(source), 1), BOS), np.zeros(len(source), dtype=bool)
    while target.shape[1] <= longest and not ended.all():
        best = model.decode(target, memory, source).data[:, -1].argmax(axis=-1)
        best = np.where(ended, PAD, best)
        ended |= best == EOS
        target = np.concatenate([target, best[:, None]], axis=1)
    return target[:, 1:]


def main(steps=1000):
    """Train, say how many unseen words come out right, and draw the model."""
    task = SequenceTask("reverse", max_length=8)
    model = Transformer(task.vocabulary)
    train(model, task, steps)
    unseen = task.test_sequences(200)
    answers = [task.to_text(ids) for ids in generate(model, task.make_batch(unseen).source, 12)]
    expected = [task.to_text(task.answer(sequence)) for sequence in unseen]
    for sequence, answer in list(zip(unseen, answers))[:3]:
        print(f"{task.to_text(sequence)} -> {answer}")
    share = sum(a == e for a, e in zip(answers, expected)) / len(unseen)
    print(f"exact match: {share:.1%}")
    batch = task.make_batch(unseen[:2])
    loss = cross_entropy(model(batch.source, batch.target_in), batch.target_out, PAD)
    graph_of(loss, model.parameters, depth=1, title="Your Transformer").save("transformer.svg")
    print("your Transformer is drawn in transformer.svg")


if __name__ == "__main__":
    command_line.run(main)
