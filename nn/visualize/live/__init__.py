"""A trained model in a page: its recorded program, and a small interpreter for it in JavaScript."""

from .page import LivePage, live
