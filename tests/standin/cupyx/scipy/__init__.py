"""The part of `cupyx.scipy` that is used."""
