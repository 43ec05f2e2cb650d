"""The elements that pictures are made of, their colours, and the width of text: `tinytensor.pages.svg`."""

from tinytensor.pages.svg import *  # noqa: F403
