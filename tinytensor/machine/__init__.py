"""The machine that computes: its cores, what makes it faster, files on its disk, and what is to be installed."""
