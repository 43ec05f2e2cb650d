"""The output of a training run: a bar on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import Any


class Progress:
    """Shows loss, accuracies and tokens per second of a run.

    Args:
        total: the number of steps.
        start: the number of finished steps.
        every: steps between two plain lines.
    """

    def __init__(self, total: int, start: int = 0, every: int = 100) -> None:
        self.total, self.every = total, every
        self._tokens, self._since = 0, time.perf_counter()
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            layout = "{bar}| {n_fmt}/{total_fmt} {remaining}{postfix}"
            self._bar = tqdm(total=total, initial=start, bar_format=layout, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def step(self, tokens: int) -> None:
        """Count a finished step, and its target tokens."""
        self._tokens += tokens
        if self._bar is not None:
            self._bar.update(1)

    def due(self, step: int) -> bool:
        """True if figures should be shown after this step: on a bar always, as a line every few steps."""
        return self._bar is not None or step % self.every == 0 or step == self.total

    def rate(self) -> float:
        """Tokens per second since the last call."""
        now = time.perf_counter()
        rate = self._tokens / max(now - self._since, 1e-9)
        self._tokens, self._since = 0, now
        return rate

    def show(self, step: int, figures: dict[str, float], rate: float) -> None:
        """Show figures after a step, and tokens per second."""
        texts = {name: f"{value:.3f}" if name == "loss" else f"{value:.1%}" for name, value in figures.items()}
        if self._bar is not None:  # short, since all of it must fit into 80 columns
            told = ", ".join(f"{name.removesuffix(' accuracy')} {text}" for name, text in texts.items())
            self._bar.set_postfix_str(f"{told}, {rate:,.0f} tokens/s", refresh=False)
        else:
            told = ", ".join(f"{name} {text}" for name, text in texts.items())
            print(f"step {step}/{self.total}: {told}, {rate:,.0f} tokens/s", flush=True)

    def say(self, line: str) -> None:
        """Print a line without tearing the bar."""
        if self._bar is not None:
            self._bar.write(line)
        else:
            print(line, flush=True)

    def close(self) -> None:
        """Leave the bar in place, and go to a new line."""
        if self._bar is not None:
            self._bar.close()
