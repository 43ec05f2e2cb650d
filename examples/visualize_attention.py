"""Draw the attention of a model trained by train_copy_task.py: every view of it, its mask, positions and loss.

    python examples/train_copy_task.py --task reverse --out runs/reverse
    python examples/visualize_attention.py --run runs/reverse --out runs/reverse/attention

It writes into --out: lines.svg (the figure of the paper), grid.svg (a heat map for each layer and head), steps.svg
(one query in numbers, from the projections on), explorer.html (choose layer, head and token; one file that needs no
network), mask.svg, positions.svg, loss.svg.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.data.sequences import LETTERS
from tinytensor.models.scripts import command_line, copy_task
from tinytensor.models.training.run_folder import entries
from tinytensor.nn import visualize


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="visualize_attention.py", description="Draw a model's attention.", trains=False)
    p.add_argument("--run", type=Path, default=Path("runs/copy-task"), help="the folder of a run of train_copy_task.py")
    p.add_argument("--sequence", help="letters to look at; default: an unseen test sequence")
    p.add_argument("--out", type=Path, help="folder for the pictures; default: attention in the folder of the run")
    p.add_argument("--layer", type=command_line.non_negative_int, help="the layer of lines and steps; default: last")
    p.add_argument("--head", type=command_line.non_negative_int, default=0, help="the head of steps")
    p.add_argument("--token", type=command_line.non_negative_int, default=0, help="the query of steps, by its place")
    return p


def main() -> int:
    arguments = parser().parse_args()
    if not arguments.run.is_dir():
        hint = "train a model first: python examples/train_copy_task.py"
        raise command_line.UsageError(f"no run in {arguments.run}; {hint}")
    model, task = copy_task.load(arguments.run)
    sequence = letters(arguments.sequence, task) if arguments.sequence else max(task.test_sequences(20), key=len)
    answer = copy_task.generate(model, task, [sequence])[0]
    batch = task.make_batch([sequence])
    layers = [layer.multihead_attn for layer in model.transformer.decoder.layers]
    read: list[Any] = []  # for each layer, the input of its queries, and the input of its keys and values
    hooks = [layer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[:2])) for layer in layers]
    with tt.no_grad(), nn.record_attention() as attention:
        model(batch.source, batch.target_in)
    for hook in hooks:
        hook.remove()
    source = [*task.to_text(sequence), "<end>"]
    target = ["<begin>", *task.to_text(task.answer(sequence))]
    print(f"{task.name}: {task.to_text(sequence)} -> {task.to_text(answer)}")

    layer = len(layers) - 1 if arguments.layer is None else arguments.layer
    named: dict[str, Any] = {"source": source, "target": target}
    losses = entries(arguments.run, "step")
    with command_line.told(ValueError, IndexError):
        pictures: dict[str, Any] = {
            "lines.svg": visualize.attention_lines(attention.cross, **named, layer=layer),
            "grid.svg": visualize.attention_grid(attention.cross, **named),
            "steps.svg": visualize.attention_steps(
                attention.cross[layer],
                x=read[layer],
                weights=layers[layer],
                head=arguments.head,
                token=arguments.token,
                **named,
            ),
            "explorer.html": visualize.attention_explorer(attention, **named, title=f"Attention: {task.name}"),
            "mask.svg": visualize.attention_mask(nn.functional.causal_mask(len(target)), source=target, target=target),
            "positions.svg": visualize.positional_encoding(model.positions),
            "loss.svg": visualize.loss_curve(
                [entry["loss"] for entry in losses], steps=[entry["step"] for entry in losses], log=True
            ),
        }
    out = arguments.out or arguments.run / "attention"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            picture.save(out / name)
            print(f"wrote {out / name}")
    except OSError as error:
        raise command_line.UsageError(f"cannot write to {out}: {error.strerror or error}") from None
    return command_line.EXIT_OK


def letters(text: str, task: copy_task.SequenceTask) -> list[int]:
    """The ids of a sequence. Raises UsageError if it is too long or has other letters than the task."""
    if len(text) > task.max_length or not set(text) <= set(LETTERS):
        raise command_line.UsageError(
            f"--sequence {text!r}: expected at most {task.max_length} letters from {LETTERS[0]} to {LETTERS[-1]}"
        )
    return task.to_ids(text)


if __name__ == "__main__":
    command_line.run(main)
